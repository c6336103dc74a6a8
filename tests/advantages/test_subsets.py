"""Subsets: the chosen completions against brute force, and the advantages against GRPO on what is kept."""

import itertools
import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.subsets import gfpo, pods
from trl_grpo_ext.errors import ConfigError


rewards_or_none = st.none() | st.floats(-10, 10, allow_nan=False).map(lambda value: round(value, 3))
groups = st.lists(rewards_or_none, min_size=2, max_size=8)


def row(values):
    return torch.tensor([[math.nan if value is None else value for value in values]], dtype=torch.float64)


def grpo_on(group, kept):
    only_kept = [value if keep else None for value, keep in zip(group, kept, strict=True)]
    return row(estimate("grpo", [only_kept])[0])


@settings(max_examples=60, deadline=None)
@given(groups, st.integers(1, 6))
def test_pods_keeps_a_subset_of_largest_variance(group, m):
    values = [value for value in group if value is not None]
    advantages, kept = pods(row(group), m=m)
    chosen = [value for value, keep in zip(group, kept[0].tolist(), strict=True) if keep]
    assert None not in chosen
    assert len(chosen) == min(m, len(values))
    if len(values) > m:
        best = max(statistics.pvariance(subset) for subset in itertools.combinations(values, m))
        assert statistics.pvariance(chosen) == pytest.approx(best, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(advantages, grpo_on(group, kept[0].tolist()))


def test_pods_by_hand():
    # Variance of {0, 1, 9, 10} beats every other four.
    advantages, kept = pods(row([5.0, 0.0, None, 9.0, 1.0, 10.0, 4.0]))
    assert kept.tolist() == [[False, True, False, True, True, True, False]]
    assert advantages[0, [0, 2, 6]].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_pods_choice_survives_scale_and_shift(scale, shift):
    base = row([0.1, 0.25, 0.9, 0.4, 1.0, 0.35, 0.3])
    for m in range(1, 7):
        assert torch.equal(pods((base + shift) * scale, m=m)[1], pods(base, m=m)[1])


def test_pods_prefers_the_high_end_of_splits_that_tie():
    assert pods(row([0.0, 0.3, 0.7, 1.0]), m=3)[1].tolist() == [[True, False, True, True]]
    assert pods(row([0.3, 0.1, 0.2]), m=1)[1].tolist() == [[True, False, False]]


def test_pods_groups_of_different_sizes_share_a_table():
    batch = torch.cat([row([0.0, 1.0, 0.4, 0.6, 0.1]), row([None, 1.0, None, 0.6, 0.1]), row([None] * 5)])
    _, kept = pods(batch, m=2)
    assert kept.tolist() == [
        [True, True, False, False, False],
        [False, True, False, False, True],
        [False, False, False, False, False],
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(rewards_or_none, st.integers(1, 6)), min_size=2, max_size=8),
    st.integers(1, 9),
    st.sampled_from(["length", "efficiency"]),
)
def test_gfpo_by_definition(pairs, k, metric):
    group, lengths = (list(column) for column in zip(*pairs, strict=True))
    scorable = [i for i, value in enumerate(group) if value is not None]
    # sorted() is stable, as the choice among equals has to be.
    cost = (lambda i: lengths[i]) if metric == "length" else (lambda i: -group[i] / lengths[i])
    best = sorted(scorable, key=cost)[:k]
    advantages, kept = gfpo(row(group), row(lengths), k=k, metric=metric)
    assert kept.tolist() == [[i in best for i in range(len(group))]]
    torch.testing.assert_close(advantages, grpo_on(group, kept[0].tolist()))


def test_gfpo_by_hand():
    advantages, kept = gfpo(row([1.0, 0.0, 1.0, 0.0]), row([10, 20, 99, 30]), k=2, ddof=0, eps=0.5)
    assert kept.tolist() == [[True, True, False, False]]
    assert advantages.tolist() == [[0.5, -0.5, 0.0, 0.0]]


def test_gfpo_is_exactly_zero_where_the_kept_are_equal():
    advantages, _ = gfpo(row([0.1, 0.1, 0.1, 5.0]), row([1, 2, 3, 4]), k=3)
    assert advantages.tolist() == [[0.0, 0.0, 0.0, 0.0]]


def test_gfpo_efficiency_takes_empty_completions():
    advantages, kept = gfpo(row([0.0, 1.0, 2.0]), row([0, 1, 4]), k=2, metric="efficiency")
    assert kept.tolist() == [[False, True, True]]
    assert advantages.isfinite().all()


def test_gfpo_refuses_an_unknown_metric():
    with pytest.raises(ConfigError, match="'length' or 'efficiency'"):
        estimate("gfpo", [[1.0, 0.0]], extra={"lengths": [[1, 2]]}, params={"metric": "entropy"})


@pytest.mark.parametrize(("name", "param"), [("pods", "m"), ("gfpo", "k")])
@pytest.mark.parametrize("value", [0, -3, 2.5])
def test_impossible_sizes_are_refused(name, param, value):
    extra = {"lengths": [[1, 2]]} if name == "gfpo" else None
    with pytest.raises(ConfigError, match=f"{param} is {value}"):
        estimate(name, [[1.0, 0.0]], extra=extra, params={param: value})


@pytest.mark.parametrize("name", ["pods", "gfpo"])
@pytest.mark.parametrize("group", [[None] * 3, [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_group_without_signal_is_exactly_zero(name, group):
    extra = {"lengths": [[3, 2, 1]]} if name == "gfpo" else None
    assert estimate(name, [group], extra=extra) == [[0.0, 0.0, 0.0]]
