"""Length rewards by hand."""

import math

import pytest
import torch

from trl_grpo_ext.advantages import estimate
from trl_grpo_ext.errors import ConfigError


def shape(name, rewards, lengths, **params):
    return estimate(f"shape/{name}", [rewards], params=params, extra={"lengths": [lengths]})[0]


def test_kimi_length_by_hand():
    # Shortest 10, longest 30; wrong ones get no bonus for being short.
    assert shape("kimi_length", [1.0, 0.0, 1.0, 0.0], [10, 10, 20, 30]) == [0.5, 0.0, 0.0, -0.5]


def test_kimi_length_leaves_unscorable_completions_out_of_the_range():
    assert shape("kimi_length", [1.0, 1.0, None], [10, 20, 1000]) == [0.5, -0.5, None]


@pytest.mark.parametrize("lengths", [[7, 7, 99], [7, 3, 5]])
def test_kimi_length_without_a_range_is_exactly_zero(lengths):
    rewards = [1.0, 0.0, None] if lengths[0] == lengths[1] else [1.0, None, None]
    got = shape("kimi_length", rewards, lengths)
    assert [value for value in got if value is not None] == [0.0] * (3 - rewards.count(None))


def test_dapo_overlong_by_hand():
    got = shape("dapo_overlong", [1.0] * 5 + [None], [80, 90, 100, 101, 0, 5], max_len=100, cache_len=20)
    assert got == [1.0, 0.5, 0.0, 0.0, 1.0, None]


def test_dapo_overlong_defaults_are_the_papers():
    got = shape("dapo_overlong", [0.0] * 3, [16384, 16384 + 1024, 20480])
    assert got == [0.0, -0.25, -1.0]


@pytest.mark.parametrize("cache_len", [0, -1, 101])
def test_dapo_overlong_refuses_a_cache_that_does_not_fit(cache_len):
    with pytest.raises(ConfigError, match=f"cache_len is {cache_len}"):
        shape("dapo_overlong", [1.0], [5], max_len=100, cache_len=cache_len)


def test_shorterbetter_by_hand():
    got = shape("shorterbetter", [1.0, 1.0, 0.0, None], [10, 14, 8, 1], alpha=2.0, beta=0.5)
    assert got == [2.0, 0.0, -1.0, None]


def test_shorterbetter_without_a_right_one_aims_at_the_mean():
    assert shape("shorterbetter", [0.0, 0.0, None], [10, 20, 999], beta=0.1) == pytest.approx([-0.5, -0.5, None])


def test_efficient_reasoning_by_hand():
    # Right lengths 10 and 30: mu 20, sd 10 with divisor n.
    got = shape("efficient_reasoning", [1.0, 1.0, 0.0, None], [10, 30, 1000, 1], alpha=0.4)
    sigmoid = 1 / (1 + math.exp(-1))
    assert got == pytest.approx([1 - 0.4 * (1 - sigmoid), 1 - 0.4 * sigmoid, 0.0, None])


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("rewards", [[1.0, 0.0], [1.0, 1.0]])
def test_efficient_reasoning_without_a_spread_is_half_way(rewards, ddof):
    got = shape("efficient_reasoning", rewards, [33, 33], alpha=0.4, ddof=ddof)
    assert got == pytest.approx([0.8 * reward for reward in rewards])


@pytest.mark.parametrize("name", ["kimi_length", "dapo_overlong", "shorterbetter", "efficient_reasoning"])
def test_nothing_scorable_stays_so(name):
    assert shape(name, [None, None], [3, 4]) == [None, None]


@pytest.mark.parametrize("name", ["kimi_length", "shorterbetter", "efficient_reasoning"])
def test_longer_is_never_better_among_right_ones(name):
    lengths = torch.arange(1, 9).view(1, 8)
    got = estimate(f"shape/{name}", torch.ones(1, 8), extra={"lengths": lengths})
    assert (got.diff() < 0).all()
