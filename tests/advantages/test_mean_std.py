"""The estimators against hand-computed groups, the golden records and their properties."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import estimate, list_advantages
from trl_grpo_ext.errors import ConfigError, DataError


GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "advantages_golden.jsonl").read_text().splitlines()
]
finite = st.floats(-1e3, 1e3, allow_nan=False)


@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["id"])
def test_golden_record(record):
    got = torch.tensor(estimate(record["variant"], record["rewards"], params=record["params"]), dtype=torch.float64)
    expected = torch.tensor(record["expected"], dtype=torch.float64)
    scale = expected.abs().max().item()
    if scale == 0:
        assert torch.equal(got, expected)
    else:
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-9 * scale)


def test_grpo_by_hand():
    # mean 0.5, Bessel-corrected variance (4 * 0.25) / 3 = 1/3
    expected = 0.5 / (math.sqrt(1 / 3) + 1e-4)
    assert estimate("grpo", [[1.0, 0.0, 1.0, 0.0]]) == [pytest.approx([expected, -expected, expected, -expected])]


def test_unscorable_completion_takes_no_part():
    assert estimate("dr_grpo", [[1.0, None, 0.0]]) == [[0.5, 0.0, -0.5]]


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo"])
@pytest.mark.parametrize("group", [[None, None, None], [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_group_without_signal_is_exactly_zero(name, group):
    assert estimate(name, [group]) == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo"])
@given(value=st.floats(-1e6, 1e6, allow_nan=False, width=32), size=st.integers(2, 16))
def test_constant_group_is_exactly_zero_in_float32(name, value, size):
    rewards = torch.full((1, size), value, dtype=torch.float32)
    assert torch.equal(estimate(name, rewards), torch.zeros(1, size))


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo"])
@given(group=st.lists(finite, min_size=2, max_size=8), shift=finite)
def test_shift_and_permutation(name, group, shift):
    base = torch.tensor(estimate(name, [group]), dtype=torch.float64)
    # Where the spread is lost in the rounding of the shifted values there is nothing to compare.
    if max(group) - min(group) > 1e-6:
        shifted = torch.tensor(estimate(name, [[reward + shift for reward in group]]), dtype=torch.float64)
        torch.testing.assert_close(shifted, base, rtol=1e-4, atol=1e-6)
    assert estimate(name, [group[::-1]])[0] == pytest.approx(base.flip(1)[0].tolist(), rel=1e-9, abs=1e-9)
    assert base.sum().item() == pytest.approx(0.0, abs=1e-6)


@given(group=st.lists(finite, min_size=2, max_size=8))
def test_rloo_is_the_leave_one_out_mean(group):
    for i, advantage in enumerate(estimate("rloo", [group])[0]):
        others = [reward for j, reward in enumerate(group) if j != i]
        assert advantage == pytest.approx(group[i] - sum(others) / len(others), rel=1e-9, abs=1e-9)


def test_tensor_keeps_dtype_and_shape():
    result = estimate("grpo", torch.tensor([[1.0, 0.0]], dtype=torch.float32))
    assert result.dtype == torch.float32
    assert result.shape == (1, 2)


def test_unknown_name_and_parameter_name_the_nearest():
    with pytest.raises(ConfigError, match="'dr_grpo'"):
        estimate("drgrpo", [[1.0, 0.0]])
    with pytest.raises(ConfigError, match="did you mean 'ddof'"):
        estimate("grpo", [[1.0, 0.0]], params={"dof": 0})


@pytest.mark.parametrize("rewards", [[[1.0], [1.0, 2.0]], [[math.inf, 0.0]]], ids=["ragged", "infinite"])
def test_bad_rewards_are_refused(rewards):
    with pytest.raises(DataError):
        estimate("grpo", rewards)


def test_every_listed_name_can_be_used():
    for name in list_advantages():
        assert len(estimate(name, [[1.0, 0.0, 0.0]])[0]) == 3
