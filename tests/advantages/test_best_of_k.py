"""Best-of-k estimators against sums over all subsets, enumerated policies and their properties."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages import FAMILIES
from trl_grpo_ext.errors import ConfigError


GRADED = [0.3, -0.7, 1.9, 0.3, None, 1.2, 0.0]
TIED = [1.0, 0.0, 1.0, 1.0, 0.0, None, 0.0]
score = st.floats(-10.0, 10.0, allow_nan=False)
group_of_six = st.lists(score | st.none(), min_size=6, max_size=6)


def mean_maximum(rewards, k):
    sets = list(itertools.combinations(rewards, k))
    return sum(max(chosen) for chosen in sets) / len(sets)


def by_definition(group, k, baseline):
    known = [i for i, reward in enumerate(group) if reward is not None]
    n, result = len(known), [0.0] * len(group)
    if n < max(2, k + (baseline == "loo")):
        return result
    for i in known:
        maxima = [max(group[j] for j in chosen) for chosen in itertools.combinations(known, k) if i in chosen]
        result[i] = sum(maxima) / math.comb(n, k)
        if baseline != "none":
            others = [group[j] for j in known if j != i]
            result[i] -= k / n * mean_maximum(others, k if baseline == "loo" else k - 1)
    return result


def choices(size):
    """All (k, baseline) that a group of this size allows."""
    return [
        *((k, "none") for k in range(1, size + 1)),
        *((k, "loo") for k in range(1, size)),
        *((k, "loo_minus_one") for k in range(2, size + 1)),
    ]


@pytest.mark.parametrize("group", [GRADED, TIED], ids=["graded", "tied"])
@pytest.mark.parametrize(("k", "baseline"), choices(7))
def test_pkpo_is_the_sum_over_subsets(group, k, baseline):
    got = estimate("pkpo", [group], params={"k": k, "baseline": baseline})[0]
    assert got == pytest.approx(by_definition(group, k, baseline), rel=1e-12, abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(group=group_of_six, choice=st.sampled_from(choices(6)))
def test_pkpo_is_the_sum_over_subsets_of_any_group(group, choice):
    k, baseline = choice
    got = estimate("pkpo", [group, GRADED[:6]], params={"k": k, "baseline": baseline})
    assert got[0] == pytest.approx(by_definition(group, k, baseline), rel=1e-9, abs=1e-12)
    assert got[1] == pytest.approx(by_definition(GRADED[:6], k, baseline), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("k", range(2, 7))
def test_loo_minus_one_is_what_the_sets_gain(k):
    known = [reward for reward in GRADED if reward is not None]
    got = estimate("pkpo", [known], params={"k": k})[0]
    for i, advantage in enumerate(got):
        others = [j for j in range(len(known)) if j != i]
        gains = []
        for rest in itertools.combinations(others, k - 1):
            without = max(known[j] for j in rest)
            gains.append(max(known[i], without) - without)
        assert advantage == pytest.approx(sum(gains) / math.comb(len(known), k), abs=1e-14)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("k", "baseline"), choices(4))
def test_pkpo_follows_the_gradient_of_pass_at_k(p, k, baseline):
    n = 4
    outcomes = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n)), dtype=torch.float64)
    score = outcomes / p - (1 - outcomes) / (1 - p)
    weight = torch.where(outcomes == 1, p, 1 - p).prod(dim=1)
    advantages = estimate("pkpo", outcomes, params={"k": k, "baseline": baseline})
    gradient = (weight * (advantages * score).sum(dim=1)).sum().item()
    assert gradient == pytest.approx(k * (1 - p) ** (k - 1))


@pytest.mark.parametrize("baseline", ["loo", "loo_minus_one"])
def test_the_baseline_does_not_see_the_own_reward(baseline):
    params = {"k": 3}
    group = [0.3, 0.9, 0.1, 0.7, 0.5]
    baselines = []
    for own in (-2.0, 0.4, 5.0):
        changed = [own, *group[1:]]
        with_baseline = estimate("pkpo", [changed], params={**params, "baseline": baseline})[0][0]
        baselines.append(estimate("pkpo", [changed], params={**params, "baseline": "none"})[0][0] - with_baseline)
    assert baselines == pytest.approx([baselines[0]] * 3, rel=1e-12)


@pytest.mark.parametrize("baseline", ["loo", "loo_minus_one"])
def test_an_offset_of_the_rewards_costs_no_precision(baseline):
    group = torch.tensor([[0.0, 1.0, 0.5, 0.25, 1.0, 0.75]], dtype=torch.float64)
    params = {"k": 3, "baseline": baseline}
    assert torch.equal(estimate("pkpo", group + 1e6, params=params), estimate("pkpo", group, params=params))


def test_max_at_k_is_pkpo_without_a_baseline():
    for k in range(1, 8):
        got = estimate("max_at_k", [GRADED], params={"k": k})[0]
        assert got == pytest.approx(by_definition(GRADED, k, "none"), rel=1e-12, abs=1e-14)


def test_max_at_k_between_mean_and_maximum():
    group = [0.5, 2.0, -1.0, 0.0]
    assert estimate("max_at_k", [group], params={"k": 1})[0] == pytest.approx([reward / 4 for reward in group])
    assert estimate("max_at_k", [group], params={"k": 4})[0] == [2.0] * 4
    assert estimate("max_at_k", [[0.1] * 4], params={"k": 2})[0] == [0.05] * 4  # moves constant groups, all alike


@pytest.mark.parametrize("k", range(1, 6))
@pytest.mark.parametrize("right", range(6))
def test_passk_training_averages_the_standardised_sets(k, right):
    group = [1.0] * right + [0.0] * (5 - right)
    got = estimate("passk_training", [[*group, None]], params={"k": k, "eps": 0.01})[0]
    sets = list(itertools.combinations(range(5), k))
    passes = [max(group[i] for i in chosen) for chosen in sets]
    rho = sum(passes) / len(sets)
    expected = []
    for i in range(5):
        held = [passed for passed, chosen in zip(passes, sets, strict=True) if i in chosen]
        expected.append((sum(held) / len(held) - rho) / (math.sqrt(rho * (1 - rho)) + 0.01))
    assert got == pytest.approx([*expected, 0.0], abs=1e-14)


def test_passk_training_is_zero_where_every_set_holds_a_right_answer():
    assert estimate("passk_training", [[1.0, 1.0, 0.0, 0.0, 0.0, 1.0]], params={"k": 4, "eps": 0.0})[0] == [0.0] * 6
    # Too few scorable completions for a set.
    assert estimate("passk_training", [[1.0, 0.0, None, None, None, 0.0]], params={"k": 4})[0] == [0.0] * 6


def test_passk_training_counts_graded_rewards_above_one_half():
    graded = estimate("passk_training", [[0.9, 0.2, 0.5, 0.0]], params={"k": 2})
    assert graded == estimate("passk_training", [[1.0, 0.0, 0.0, 0.0]], params={"k": 2})
    assert estimate("passk_training", [[0.3, 0.2, 0.5, 0.0]], params={"k": 2, "eps": 0.0})[0] == [0.0] * 4


@settings(max_examples=30, deadline=None)
@given(right=st.integers(1, 31), k=st.integers(1, 32))
def test_passk_training_sums_to_zero(right, k):
    group = [1.0] * right + [0.0] * (32 - right)
    assert sum(estimate("passk_training", [group], params={"k": k})[0]) == pytest.approx(0.0, abs=1e-9)


def test_best_minus_second_by_hand():
    group = [0.5, 2.0, None, 1.25]
    std = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64).std().item()
    plain = {"normalize": False}
    assert estimate("best_minus_second", [group], params=plain)[0] == [0.0, 0.75, 0.0, 0.0]
    assert estimate("best_minus_second", [group])[0] == pytest.approx([0.0, 0.75 / (std + 1e-6), 0.0, 0.0])
    assert estimate("best_minus_second", [[1.0, 1.0, 0.0]])[0] == [0.0, 0.0, 0.0]
    assert estimate("best_minus_second", [[3.0]])[0] == [0.0]


@settings(max_examples=30, deadline=None)
@given(group=st.lists(score, min_size=2, max_size=7))
def test_best_minus_second_is_pkpo_of_the_whole_group(group):
    whole = estimate("pkpo", [group], params={"k": len(group)})[0]
    got = estimate("best_minus_second", [group], params={"normalize": False})[0]
    assert got == pytest.approx(whole, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["passk_training", "pkpo", "best_minus_second"])
@pytest.mark.parametrize("value", [0.1, 0.7, 1e6])
def test_constant_groups_are_exactly_zero(name, value):
    assert estimate(name, [[value] * 7, [value] * 6 + [None]]) == [[0.0] * 7] * 2


@pytest.mark.parametrize("name", FAMILIES["best_of_k"])
@settings(max_examples=25, deadline=None)
@given(group=group_of_six, order=st.permutations(range(6)))
def test_follows_a_permutation_and_treats_equals_alike(name, group, order):
    got = estimate(name, [group])[0]
    assert all(math.isfinite(advantage) for advantage in got)
    permuted = estimate(name, [[group[i] for i in order]])[0]
    assert permuted == pytest.approx([got[i] for i in order], rel=1e-12, abs=1e-12)
    for i, j in itertools.combinations(range(6), 2):
        if group[i] == group[j]:
            assert got[i] == got[j]


@pytest.mark.parametrize("name", ["passk_training", "max_at_k", "pkpo"])
def test_large_groups_stay_within_the_range_of_floats(name):
    group = torch.zeros(1, 1200, dtype=torch.float64)
    group[0, :3] = 1.0  # C(1200, 600) is above 1e308
    got = estimate(name, group, params={"k": 600})
    assert got.isfinite().all()
    assert got[0, 0] > got[0, -1]


@pytest.mark.parametrize("name", ["passk_training", "max_at_k", "pkpo"])
@pytest.mark.parametrize("k", [0, -1, 5, 2.5])
def test_k_must_fit_the_group(name, k):
    with pytest.raises(ConfigError, match="from 1 to 4"):
        estimate(name, [[1.0, 0.0, 0.0, 0.0]], params={"k": k})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"k": 4, "baseline": "loo"}, "below the group size"),
        ({"k": 1}, "at least 2"),
        ({"k": 2, "baseline": "mean"}, "baseline is 'mean'"),
    ],
)
def test_pkpo_refuses_what_its_baseline_cannot_do(params, message):
    with pytest.raises(ConfigError, match=message):
        estimate("pkpo", [[1.0, 0.0, 0.0, 0.0]], params=params)
