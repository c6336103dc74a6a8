"""Every entry of the catalogue against its golden records, in float64 and in float32."""

import json
import math
from pathlib import Path

import pytest
import torch

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages import ADVANTAGES
from trl_grpo_ext.advantages.tables import to_table


GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "advantages_golden.jsonl").read_text().splitlines()
]
DIMS = {"multi": 3, "step": 3}
# Estimators that move constant groups by design. Every other one must return exactly 0 for them.
MOVES_CONSTANT_GROUPS = {
    *("remax", "krpo", "js_shrinkage", "gopo_rank", "max_at_k", "asymre", "psr", "nsr", "w_reinforce", "ngrpo"),
    *("unlikeliness", "pvpo", "spo", "dcpo_sas", "rl_zvp", "gtpo", "reinforce_pp", "reinforce_pp_baseline"),
    *("reinforce_pp_kl", "canon", "pkpo", "otb", "gigpo"),
}


def flatten(nested):
    if isinstance(nested, list):
        return [value for inner in nested for value in flatten(inner)]
    return [math.nan if nested is None else nested]


def check(got, record, tolerance):
    got, expected = (torch.tensor(flatten(values), dtype=torch.float64) for values in (got, record["expected"]))
    scale = expected.nan_to_num().abs().max().item()
    if scale == 0:
        rewards = torch.tensor(flatten(record["rewards"]), dtype=torch.float64)
        scale = rewards.nan_to_num().abs().max().item()
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * scale, equal_nan=True)


@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["id"])
def test_golden_record(record):
    got = estimate(record["variant"], record["rewards"], params=record["params"], extra=record["extra"])
    check(got, record, 1e-9)
    if not any(value for value in flatten(record["expected"])) and record["variant"] not in MOVES_CONSTANT_GROUPS:
        assert not any(flatten(got)), "a group without signal must give exactly 0"


@pytest.mark.parametrize(
    "record",
    # Rounding the log-probabilities to float32 alone moves these by more than the tolerance.
    [record for record in GOLDEN if not (record["kind"] == "kl" and record["case"] == "tiny_1e-6")],
    ids=lambda record: record["id"],
)
def test_golden_record_in_float32(record):
    rewards = to_table(record["rewards"], "rewards", DIMS.get(record["kind"], 2)).float()
    extra = {name: to_table(value, name).float() for name, value in record["extra"].items()}
    got = estimate(record["variant"], rewards, params=record["params"], extra=extra)
    assert got.dtype == torch.float32
    if got.dim() == 3:
        got = [
            [values[: len(expected)] for values, expected in zip(group, lengths, strict=True)]
            for group, lengths in zip(got.tolist(), record["expected"], strict=True)
        ]
    else:
        got = got.tolist()
    check(got, record, 2e-5)


def test_every_entry_has_records():
    assert {record["variant"] for record in GOLDEN} == set(ADVANTAGES.names())
