"""Selectors: which groups and completions are kept, at the edges of each rule."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.selection import dapo_dynamic, pass_rate_window, pods_mask
from trl_grpo_ext.advantages.subsets import pods
from trl_grpo_ext.errors import ConfigError


graded = st.none() | st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])
groups = st.lists(graded, min_size=2, max_size=8)


def row(values):
    return torch.tensor([[math.nan if value is None else value for value in values]], dtype=torch.float64)


@settings(max_examples=50, deadline=None)
@given(groups)
def test_dapo_dynamic_keeps_scorable_completions_of_groups_that_differ(group):
    values = {value for value in group if value is not None}
    expected = [value is not None and len(values) > 1 for value in group]
    assert dapo_dynamic(row(group)).tolist() == [expected]


@settings(max_examples=50, deadline=None)
@given(groups)
def test_dapo_dynamic_keeps_exactly_the_groups_that_grpo_moves(group):
    assert dapo_dynamic(row(group)).any() == torch.tensor(estimate("grpo", [group])).any()


def test_selectors_give_ones_and_zeros_through_estimate():
    rewards = [[1.0, 0.0, None], [1.0, 1.0, 1.0]]
    assert estimate("select/dapo_dynamic", rewards) == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert estimate("select/pass_rate_window", rewards) == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert estimate("select/pods_mask", rewards, params={"m": 2})[0] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("group", "exclusive", "inclusive"),
    [
        ([1.0, 0.0, 0.0, 0.0, 0.0], False, True),
        ([1.0, 1.0, 0.0, 0.0, 0.0], True, True),
        ([1.0, 1.0, 1.0, 1.0, 0.0], False, True),
        ([1.0, 1.0, 1.0, 1.0, 1.0], False, False),
        ([0.0, 0.0, 0.0, 0.0, 0.0], False, False),
    ],
)
def test_pass_rate_window_at_its_bounds(group, exclusive, inclusive):
    for expected, flag in ((exclusive, False), (inclusive, True)):
        assert pass_rate_window(row(group), low=0.2, high=0.8, inclusive=flag).tolist() == [[expected] * 5]


@pytest.mark.parametrize("size", range(1, 17))
@pytest.mark.parametrize("value", [0.1, 0.95, 0.7])
def test_pass_rate_window_sees_a_constant_group_at_a_bound_as_at_the_bound(size, value):
    group = row([value] * size)
    for low, high in ((value, 2.0), (-1.0, value)):
        assert not pass_rate_window(group, low=low, high=high).any()
        assert pass_rate_window(group, low=low, high=high, inclusive=True).all()


def test_pass_rate_window_leaves_unscorable_completions_out_of_the_mean():
    # 1 of 2 scorable, not 1 of 8.
    assert pass_rate_window(row([1.0, 0.0] + [None] * 6), low=0.2, high=0.8).tolist() == [[True] * 2 + [False] * 6]
    assert not pass_rate_window(row([None] * 4)).any()


@pytest.mark.parametrize("params", [{"low": 0.9, "high": 0.1}, {"low": 0.5, "high": 0.5}], ids=["crossed", "empty"])
def test_pass_rate_window_refuses_an_empty_window(params):
    with pytest.raises(ConfigError, match="low must be below high"):
        estimate("select/pass_rate_window", [[1.0, 0.0]], params=params)


@settings(max_examples=30, deadline=None)
@given(groups, st.integers(1, 8))
def test_pods_mask_is_the_choice_of_pods(group, m):
    assert torch.equal(pods_mask(row(group), m=m), pods(row(group), m=m)[1])
    assert pods_mask(row(group), m=m).sum() == min(m, sum(value is not None for value in group))


def test_pods_mask_refuses_an_impossible_size():
    with pytest.raises(ConfigError, match="m is 0"):
        estimate("select/pods_mask", [[1.0, 0.0]], params={"m": 0})
