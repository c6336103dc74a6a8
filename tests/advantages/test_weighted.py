"""Weights by sign and by difficulty: by hand, by definition, and at all-right and all-wrong groups."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.weighted import grpo_lead, ngrpo, nsr, psr, w_reinforce
from trl_grpo_ext.errors import ConfigError


binary = st.lists(st.none() | st.sampled_from([0.0, 1.0]), min_size=1, max_size=8)
graded = st.lists(st.none() | st.sampled_from([0.0, 0.1, 0.5, 1.0, -0.5]), min_size=1, max_size=8)


def row(values):
    return torch.tensor([[math.nan if value is None else value for value in values]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("psr", [1.0, 0.0, 0.0]), ("nsr", [0.0, -1.0, 0.0]), ("w_reinforce", [0.1, -1.0, 0.0])],
)
def test_signs_by_hand(name, expected):
    assert estimate(name, [[1.0, 0.0, None]]) == [expected]


@settings(max_examples=30, deadline=None)
@given(binary, st.floats(0, 2))
def test_w_reinforce_is_weighted_psr_plus_nsr(group, weight):
    rewards = row(group)
    got = w_reinforce(rewards, positive_weight=weight)
    assert torch.equal(got, weight * psr(rewards) + nsr(rewards))
    assert got.tolist() == [[{None: 0.0, 1.0: weight, 0.0: -1.0}[reward] for reward in group]]


def test_w_reinforce_refuses_to_punish_right_answers():
    with pytest.raises(ConfigError, match=r"positive_weight is -0\.1"):
        estimate("w_reinforce", [[1.0, 0.0]], params={"positive_weight": -0.1})


@pytest.mark.parametrize("name", ["psr", "nsr", "w_reinforce"])
def test_signs_serve_a_single_completion_whatever_the_batch(name):
    alone = estimate(name, [[0.0, None]])
    assert estimate(name, [[0.0, None], [1.0, 1.0]])[0] == alone[0]


def lead_weight(share):
    return 0.4 + 1.1 / (1 + math.exp(10 * (share - 0.75)))


@settings(max_examples=50, deadline=None)
@given(graded)
def test_grpo_lead_by_definition(group):
    values = [value for value in group if value is not None]
    got = grpo_lead(row(group)).nan_to_num()
    if len(set(values)) < 2:
        assert not got.any()
        return
    mean, scale = statistics.mean(values), statistics.stdev(values) + 1e-6
    rho = sum(value > 0 for value in values) / len(values)
    expected = [0.0 if v is None else (v - mean) / scale * lead_weight(rho if v > mean else 1 - rho) for v in group]
    torch.testing.assert_close(got, row(expected), rtol=1e-9, atol=1e-12)


def test_grpo_lead_weights_a_success_more_where_it_is_rare():
    rare, common = (estimate("grpo_lead", [[1.0] * n + [0.0] * (8 - n)])[0] for n in (1, 7))
    plain_rare, plain_common = (estimate("grpo", [[1.0] * n + [0.0] * (8 - n)])[0] for n in (1, 7))
    assert rare[0] / plain_rare[0] > 1.4
    assert common[0] / plain_common[0] < 0.7
    assert common[-1] / plain_common[-1] > 1.4


def test_grpo_lead_does_not_overflow_for_a_steep_step():
    got = torch.tensor(estimate("grpo_lead", [[1.0, 0.0, 0.0]], params={"k": 1e6}))
    assert got.isfinite().all()
    # rho = 1/3 < rho0 for the success, 1 - rho = 2/3 < rho0 for the failures: both get the full weight B.
    assert (got / torch.tensor(estimate("grpo", [[1.0, 0.0, 0.0]], params={"eps": 1e-6}))).tolist()[
        0
    ] == pytest.approx([1.5] * 3)


@settings(max_examples=50, deadline=None)
@given(graded)
def test_ngrpo_by_definition(group):
    values = [value for value in group if value is not None]
    augmented = [*values, 1.0]
    got = ngrpo(row(group))
    if len(set(augmented)) < 2:
        assert not got.any()
        return
    mean, scale = statistics.mean(augmented), statistics.stdev(augmented) + 1e-6
    expected = [0.0 if value is None else (value - mean) / scale for value in group]
    torch.testing.assert_close(got, row(expected), rtol=1e-9, atol=1e-12)


def test_ngrpo_pushes_all_wrong_groups_down_and_leaves_all_right_ones():
    wrong, right = estimate("ngrpo", [[0.0] * 4, [1.0] * 4])
    # Mean 1/5 and sample variance (4 * 1/25 + 16/25) / 4 = 1/5 of [0, 0, 0, 0, 1].
    assert wrong == pytest.approx([-0.2 / (math.sqrt(0.2) + 1e-6)] * 4)
    assert right == [0.0] * 4


@pytest.mark.parametrize("value", [0.1, 0.7, 1e6])
def test_group_at_the_highest_reward_is_exactly_zero(value):
    assert estimate("ngrpo", [[value] * 3], params={"max_reward": value}) == [[0.0] * 3]


@pytest.mark.parametrize("group", [[None] * 3, [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_grpo_lead_without_signal_is_exactly_zero(group):
    assert estimate("grpo_lead", [group]) == [[0.0, 0.0, 0.0]]
