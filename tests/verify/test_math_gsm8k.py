"""Every reference of GSM8K is itself, however it is written; with `GSM8K_FOLDER` the whole of it, else the sample."""

import json
import os
from pathlib import Path

import pytest

from trl_grpo_ext.verify import verify_math_batch
from trl_grpo_ext.verify.math import check_golds


FOLDER = os.environ.get("GSM8K_FOLDER")  # holds train.jsonl and test.jsonl as the dataset has them
FILES = (
    [Path(FOLDER) / "train.jsonl", Path(FOLDER) / "test.jsonl"]
    if FOLDER
    else [Path(__file__).parents[1] / "cases" / "gsm8k_200.jsonl"]
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_gold_is_itself_and_not_its_successor(file):
    golds = [json.loads(line)["answer"] for line in file.read_text(encoding="utf-8").splitlines()]
    numbers = [gold.rpartition("####")[2].strip() for gold in golds]
    assert len(golds) >= 200
    assert all(verdict.value == 1.0 for verdict in check_golds(golds))
    for written in (golds, [f"#### {number}" for number in numbers], [f"\\boxed{{{number}}}" for number in numbers]):
        wrong = [gold for gold, verdict in zip(golds, verify_math_batch(golds, written), strict=True) if not verdict]
        assert not wrong
    successors = [f"\\boxed{{{float(number.replace(',', '')) + 1:.0f}}}" for number in numbers]
    paid = [gold for gold, verdict in zip(golds, verify_math_batch(golds, successors), strict=True) if verdict]
    assert not paid
