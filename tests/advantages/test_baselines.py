"""Baselines: definitions, unbiasedness by enumeration, and what a baseline may not see."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.baselines import js_shrinkage, krpo, opo, pvpo, remax, rloo
from trl_grpo_ext.errors import ConfigError


finite = st.floats(-100, 100, allow_nan=False)
maybe_missing = st.none() | finite


def table(*groups):
    return torch.tensor([[math.nan if r is None else r for r in g] for g in groups], dtype=torch.float64)


def bernoulli_gradient(estimator, probabilities, size):
    """E[mean_i A_i * d log p(a_i)] of the first prompt, over all outcomes of a batch; the logit is the parameter."""
    gradient = 0.0
    for outcome in itertools.product((0.0, 1.0), repeat=len(probabilities) * size):
        rewards = torch.tensor(outcome, dtype=torch.float64).view(len(probabilities), size)
        p = torch.tensor(probabilities, dtype=torch.float64).view(-1, 1)
        weight = torch.where(rewards == 1, p, 1 - p).prod()
        gradient += (weight * (estimator(rewards)[0] * (rewards[0] - p[0])).mean()).item()
    return gradient


def test_rloo_is_unbiased():
    assert bernoulli_gradient(rloo, [0.3], 4) == pytest.approx(0.3 * 0.7, rel=1e-12)


def test_js_shrinkage_is_unbiased():
    assert bernoulli_gradient(js_shrinkage, [0.3, 0.6, 0.9], 3) == pytest.approx(0.3 * 0.7, rel=1e-12)


def test_a_baseline_with_the_own_reward_would_be_seen_to_be_biased():
    biased = bernoulli_gradient(lambda rewards: rewards - rewards.mean(dim=1, keepdim=True), [0.3], 4)
    assert biased == pytest.approx(0.75 * 0.3 * 0.7, rel=1e-12)


def test_remax_by_hand():
    assert estimate("remax", [[1.0, 0.0, None], [0.5, 0.5, 0.5]], extra={"greedy_reward": [0.25, 1.0]}) == [
        [0.75, -0.25, 0.0],
        [-0.5, -0.5, -0.5],
    ]


def test_remax_without_a_greedy_reward_gives_zero():
    assert estimate("remax", [[1.0, 0.0], [1.0, 0.0]], extra={"greedy_reward": [None, 1.0]}) == [[0, 0], [0, -1]]


def test_remax_serves_a_single_completion():
    assert estimate("remax", [[None, 1.0]], extra={"greedy_reward": [0.25]}) == [[0.0, 0.75]]


def test_pvpo_by_hand():
    ref_rewards = [[1.0, 0.0, None], [None, None, None]]
    assert estimate("pvpo", [[1.0, None], [1.0, 0.0]], extra={"ref_rewards": ref_rewards}) == [[0.5, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("estimator", [remax, pvpo])
def test_outside_baselines_ignore_the_rest_of_the_group(estimator):
    outside = torch.tensor([0.3], dtype=torch.float64)
    outside = outside if estimator is remax else outside.unsqueeze(1)
    first, second = (estimator(table([0.7, other]), outside)[0, 0] for other in (0.0, 9.0))
    assert first == second == pytest.approx(0.4)


def test_opo_by_hand():
    # b = (1 * 10 + 0 * 30) / 40
    assert estimate("opo", [[1.0, 0.0, None]], extra={"lengths": [[10, 30, 99]]}) == [[0.75, -0.25, 0.0]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(finite, st.integers(1, 500)), min_size=2, max_size=8))
def test_opo_advantages_weighted_by_length_sum_to_zero(group):
    rewards, lengths = (torch.tensor([column], dtype=torch.float64) for column in zip(*group, strict=True))
    assert (opo(rewards, lengths) * lengths).sum().item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("length", [0, 7])
def test_opo_with_equal_lengths_is_dr_grpo(length):
    rewards = table([1.0, 0.2, None, 0.4])
    got = opo(rewards, torch.full_like(rewards, length))
    torch.testing.assert_close(got, table(estimate("dr_grpo", rewards)[0].tolist()), rtol=0, atol=1e-15)


def test_opo_on_a_constant_group_is_exactly_zero():
    assert not opo(table([0.1] * 3), table([3, 5, 11])).any()


def kalman(group, process_var, meas_var, x, p):
    advantages = []
    for reward in group:
        if reward is None:
            advantages.append(0.0)
            continue
        p += process_var
        gain = p / (p + meas_var)
        x += gain * (reward - x)
        p *= 1 - gain
        advantages.append((reward - x) / (math.sqrt(p) + 1e-8))
    return advantages


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(maybe_missing, min_size=5, max_size=5), min_size=1, max_size=3))
def test_krpo_is_the_filter_run_completion_by_completion(groups):
    got = krpo(table(*groups), process_var=1e-3, meas_var=0.5, init_mean=0.2, init_var=2.0)
    expected = table(*(kalman(group, 1e-3, 0.5, 0.2, 2.0) for group in groups))
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_krpo_depends_on_the_order():
    first, second = krpo(table([1.0, 0.0])), krpo(table([0.0, 1.0])).flip(1)
    assert (first - second).abs().max() > 0.1


def test_krpo_keeps_its_digits_when_the_measurement_is_nearly_exact():
    # x = r * 1 / (1 + 1e-20) leaves r * 1e-20 and P = 1e-20; 1 - K would be 0 in float64.
    got = krpo(table([3.0]), process_var=0.0, meas_var=1e-20, eps=0.0)
    assert got.item() == pytest.approx(3e-20 / 1e-10, rel=1e-12)


@pytest.mark.parametrize(
    "params",
    [{"meas_var": 0.0}, {"process_var": -1.0}, {"init_var": 0.0, "process_var": 0.0}],
    ids=lambda params: next(iter(params)),
)
def test_krpo_refuses_impossible_variances(params):
    with pytest.raises(ConfigError, match="meas_var"):
        estimate("krpo", [[1.0, 0.0]], params=params)


def shrinkage_by_definition(groups):
    """Eqs. of the docstring in exact rational arithmetic, for groups without unscorable completions."""
    groups = [[Fraction(r) for r in group] for group in groups]
    means = [sum(group) / len(group) for group in groups]
    noises = [
        sum((r - m) ** 2 for r in group) / (len(group) - 1) / len(group)
        for group, m in zip(groups, means, strict=True)
    ]
    advantages = []
    for g, group in enumerate(groups):
        others = [k for k in range(len(groups)) if k != g]
        v = sum(noises[k] for k in others) / len(others)
        t = sum(means[k] for k in others) / len(others)
        s = sum((means[k] - t) ** 2 for k in others) / len(others)
        lam = Fraction(len(others), len(groups)) * v / (v + s) if v else 0
        leave_one_out = [(sum(group) - r) / (len(group) - 1) for r in group]
        advantages.append([float(r - (1 - lam) * b - lam * t) for r, b in zip(group, leave_one_out, strict=True)])
    return advantages


@pytest.mark.parametrize(
    "groups",
    [
        [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
        [[0.5, 0.25], [1.0, 0.75], [0.0, 0.125], [0.375, 0.25]],
        [[0.1, 0.1, 0.1], [0.9, 0.3, 0.2], [0.2, 0.6, 0.3]],
        [[0.1, 0.1], [0.1, 0.1], [0.4, 0.4]],
    ],
    ids=["two", "four", "one constant", "all constant"],
)
def test_js_shrinkage_by_definition(groups):
    got = js_shrinkage(table(*groups))
    torch.testing.assert_close(got, table(*shrinkage_by_definition(groups)), rtol=1e-12, atol=1e-15)


def test_js_shrinkage_of_an_outlier_prompt_keeps_the_digits_of_the_others():
    groups = [[1e9, 1e9 + 1, 1e9], [3e-6, 1e-6, 2e-6], [1e-6, 1e-6, 3e-6], [2e-6, 5e-6, 1e-6]]
    got = js_shrinkage(table(*groups))[0]
    torch.testing.assert_close(got, table(shrinkage_by_definition(groups)[0])[0], rtol=1e-9, atol=0)


def test_js_shrinkage_baseline_does_not_see_the_own_reward():
    rewards = table([1.0, 0.0, 0.5], [0.0, 0.0, 1.0], [0.3, 0.2, 0.9])
    changed = rewards.clone()
    changed[1, 2] = 7.0
    baseline, after = ((r - js_shrinkage(r))[1, 2].item() for r in (rewards, changed))
    assert after == pytest.approx(baseline, rel=1e-12)
    assert (changed - js_shrinkage(changed))[1, 0].item() != pytest.approx((rewards - js_shrinkage(rewards))[1, 0])


@pytest.mark.parametrize("lone", [[None, 3.0, None], [None, None, None]])
def test_js_shrinkage_leaves_out_groups_without_two_scorable_completions(lone):
    live = [[1.0, 0.0, 0.5], [0.0, None, 1.0], [0.3, 0.2, 0.9]]
    got = js_shrinkage(table(live[0], lone, *live[1:]))
    torch.testing.assert_close(got[[0, 2, 3]], js_shrinkage(table(*live)), rtol=1e-12, atol=0)
    assert not got[1].any()


def test_js_shrinkage_of_one_prompt_is_rloo():
    rewards = table([1.0, 0.0, None, 0.25])
    assert torch.equal(js_shrinkage(rewards), rloo(rewards))
