"""Several rewards: by hand, against the definition, and what normalising before adding promises."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.advantages import estimate


component = st.one_of(st.none(), st.integers(0, 4).map(float))
batches = st.integers(1, 4).flatmap(
    lambda size: st.lists(
        st.lists(st.tuples(component, component).map(list), min_size=size, max_size=size), min_size=1, max_size=3
    )
)


def summed_scores(group, weights, eps):
    """MO-GRPO of one group with loops."""
    sums = [0.0] * len(group)
    for k, weight in enumerate(weights):
        known = [values[k] for values in group if values[k] is not None]
        if len(set(known)) < 2:
            continue
        mean, std = statistics.fmean(known), statistics.stdev(known)
        for i, values in enumerate(group):
            sums[i] += weight * (values[k] - mean) / (std + eps) if values[k] is not None else 0.0
    return sums


def flatten(nested):
    return [value for group in nested for value in group]


def test_mo_grpo_by_hand():
    # z = +-1/sqrt(2) for each component; the components disagree on the second pair.
    got = estimate("mo_grpo", [[[1.0, 100.0], [0.0, 50.0]], [[1.0, 50.0], [0.0, 100.0]]], params={"eps": 0.0})
    assert flatten(got) == pytest.approx([math.sqrt(2), -math.sqrt(2), 0.0, 0.0])


@settings(max_examples=40)
@given(components=batches)
def test_mo_grpo_is_the_weighted_sum_of_scores(components):
    got = estimate("mo_grpo", components, extra={"weights": [1.0, -0.5]})
    expected = [summed_scores(group, [1.0, -0.5], 1e-4) for group in components]
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-9)


@settings(max_examples=40)
@given(components=batches)
def test_gdpo_whitens_over_the_batch(components):
    sums, places = [], []
    for g, group in enumerate(components):
        scorable = [i for i, values in enumerate(group) if values != [None, None]]
        if len(scorable) > 1:
            scores = summed_scores(group, [1.0, 2.0], 1e-4)
            places += [(g, i) for i in scorable]
            sums += [scores[i] for i in scorable]
    expected = [[0.0] * len(group) for group in components]
    if any(abs(value) > 1e-9 for value in sums):
        mean, std = statistics.fmean(sums), statistics.stdev(sums)
        for (g, i), value in zip(places, sums, strict=True):
            expected[g][i] = (value - mean) / (std + 1e-4)
    got = estimate("gdpo", components, extra={"weights": [1.0, 2.0]})
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-9)


def test_one_component_is_grpo():
    rewards = [[1.0, 0.0, 0.0], [0.5, None, 0.2]]
    components = [[[reward] for reward in group] for group in rewards]
    assert flatten(estimate("mo_grpo", components)) == pytest.approx(flatten(estimate("grpo", rewards)))


@pytest.mark.parametrize("name", ["mo_grpo", "gdpo"])
def test_scale_and_shift_of_a_component_do_not_matter(name):
    generator = torch.Generator().manual_seed(0)
    components = torch.rand(3, 5, 2, generator=generator, dtype=torch.float64)
    moved = components * torch.tensor([1e6, 1e-3]) + torch.tensor([5.0, -7.0])
    got = estimate(name, components, params={"eps": 0.0})
    torch.testing.assert_close(estimate(name, moved, params={"eps": 0.0}), got, rtol=1e-8, atol=1e-8)


def test_gdpo_has_the_size_that_was_asked_for():
    generator = torch.Generator().manual_seed(0)
    components = torch.rand(4, 6, 3, generator=generator, dtype=torch.float64)
    for weights in ([1.0, 1.0, 1.0], [10.0, 0.0, 3.0]):
        got = estimate("gdpo", components, params={"eps": 0.0}, extra={"weights": torch.tensor(weights)})
        assert got.std().item() == pytest.approx(1.0)
        assert got.mean().item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["mo_grpo", "gdpo"])
def test_constant_groups_are_exactly_zero_beside_live_ones(name):
    # The scores of the live group do not add up to exactly 0 in floats.
    components = [[[0.1, 0.7]] * 7, [[i**1.3, 0.3] for i in range(7)], [None] * 6 + [[0.1, 5.0]]]
    constant, live, lone = estimate(name, components, params={"eps": 0.0})
    assert constant == [0.0] * 7
    assert lone == [0.0] * 7
    assert all(live[i] < live[i + 1] for i in range(6))


@pytest.mark.parametrize("name", ["mo_grpo", "gdpo"])
def test_missing_component_counts_nothing(name):
    # The completion without the first reward is judged by the second alone, as the others are not moved by it.
    components = [[[1.0, 0.0], [0.0, 0.0], [None, 0.0]]]
    got = estimate(name, components)[0]
    assert got[2] == pytest.approx(0.0, abs=1e-12)
    assert got[0] == pytest.approx(-got[1])
    assert got[0] > 0
