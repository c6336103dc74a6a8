"""Risk-sensitive estimators against their formulas, their limits and extreme rewards."""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages import FAMILIES
from trl_grpo_ext.errors import ConfigError


LN2 = math.log(2)
score = st.floats(-5.0, 5.0, allow_nan=False)
group = st.lists(score, min_size=2, max_size=8)
group_with_gaps = st.lists(st.floats(-1e9, 1e9, allow_nan=False) | st.none(), min_size=5, max_size=5)


def run(name, rewards, **params):
    return estimate(name, [rewards], params=params)[0]


def divergence(weights):
    """KL of a distribution from uniform, without its terms of weight 0."""
    total = sum(weights)
    return sum(w / total * math.log(len(weights) * w / total) for w in weights if w > 0)


def weights_of(advantages):
    """Solve w_i / mean(w_j, j != i) = a_i + 1 for the weights, which sum to 1."""
    n = len(advantages)
    return [(a + 1) / (n + a) for a in advantages]


@settings(max_examples=50, deadline=None)
@given(rewards=group, beta=st.sampled_from([-3.0, -0.5, 0.5, 2.0]))
def test_rs_grpo_is_its_formula(rewards, beta):
    exponentials = [math.exp(beta * reward) for reward in rewards]
    mean = sum(exponentials) / len(rewards)
    got = run("rs_grpo", rewards, beta=beta)
    assert got == pytest.approx([(e / mean - 1) / beta for e in exponentials], rel=1e-9, abs=1e-12)
    assert sum(got) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("beta", [0.0, 1e-12, -1e-12, 1e-9])
def test_rs_grpo_without_sensitivity_is_dr_grpo(beta):
    rewards = [0.2, 1.7, -0.4, 0.9]
    assert run("rs_grpo", rewards, beta=beta) == pytest.approx(run("dr_grpo", rewards), rel=1e-8)


@settings(max_examples=50, deadline=None)
@given(rewards=group, beta=st.sampled_from([-2.0, 0.7, 2.0]))
def test_entropic_is_its_formula(rewards, beta):
    exponentials = [math.exp(beta * reward) for reward in rewards]
    expected = []
    for i, own in enumerate(exponentials):
        others = exponentials[:i] + exponentials[i + 1 :]
        expected.append(own / (sum(others) / len(others)) - 1)
    assert run("entropic", rewards, beta=beta) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_entropic_keeps_its_precision_where_one_completion_is_far_ahead():
    # Against the sum of all, the others' weights of exp(-80) are below the last digit.
    got = run("entropic", [40.0, 0.0, -1.0, 0.5])
    others = (1 + math.exp(-2.0) + math.exp(1.0)) / 3
    assert got[0] == pytest.approx(math.exp(80.0) / others - 1, rel=1e-12)
    assert got[1:] == pytest.approx([-1.0] * 3)


def test_entropic_compares_with_a_mean_that_does_not_hold_the_own_reward():
    rewards, beta = [0.3, 0.9, 0.1, 0.7], 1.5
    for i in range(4):
        moved = list(rewards)
        moved[i] += 0.4
        ratio = (run("entropic", moved, beta=beta)[i] + 1) / (run("entropic", rewards, beta=beta)[i] + 1)
        assert ratio == pytest.approx(math.exp(0.4 * beta), rel=1e-12)


@pytest.mark.parametrize("target_kl", [0.01, 0.3, LN2, 1.3])
@settings(max_examples=25, deadline=None)
@given(rewards=st.lists(st.integers(-1000, 1000), min_size=5, max_size=12, unique=True))
def test_adaptive_reaches_its_divergence(target_kl, rewards):
    got = run("entropic", [reward / 100 for reward in rewards], adaptive=True, target_kl=target_kl)
    assert divergence(weights_of(got)) == pytest.approx(target_kl, rel=1e-10)


def exact_adaptive(rewards, target_kl):
    """Advantages by bisection in 50 digits."""
    with mpmath.workdps(50):
        values = [mpmath.mpf(reward) for reward in rewards]
        best, n = max(values), len(values)
        low, high = mpmath.mpf(0), mpmath.mpf(10) ** 6
        for _ in range(170):
            b = (low + high) / 2
            weights = [mpmath.exp(b * (value - best)) for value in values]
            total = sum(weights)
            reached = sum(w / total * mpmath.log(n * w / total) for w in weights if w > 0)
            low, high = (b, high) if reached < target_kl else (low, b)
        return [float(w * (n - 1) / (total - w) - 1) for w in weights]


@pytest.mark.parametrize("target_kl", [0.05, LN2])
@pytest.mark.parametrize(
    "rewards",
    [
        [0.9897, 1.668, 1.083, 1.7339],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.001, 0.002, 5.0, 4.999, 4.99],
        [1.0, 0.9999, 0.35, 0.1],  # a staircase: for a wide range of b the two best share the weight
        [-300.0, 0.0, -0.1, -1e-3, -2.0],
    ],
)
def test_adaptive_is_accurate(rewards, target_kl):
    expected = exact_adaptive(rewards, target_kl)
    assert run("entropic", rewards, adaptive=True, target_kl=target_kl) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", [1e6, 1e-4])
def test_adaptive_does_not_depend_on_scale_or_offset(scale):
    rewards = [0.3, 1.4, -0.2, 0.9, 1.1]
    expected = run("entropic", rewards, adaptive=True)
    got = run("entropic", [reward * scale + 3 * scale for reward in rewards], adaptive=True)
    assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("right", "advantage"), [(2, 2.0), (3, 0.5)])
def test_adaptive_gives_the_best_all_weight_where_ties_keep_the_target_out_of_reach(right, advantage):
    rewards = [1.0] * right + [0.0] * (4 - right)
    assert run("entropic", rewards, adaptive=True) == pytest.approx(
        [advantage] * right + [-1.0] * (4 - right), rel=1e-13
    )


@pytest.mark.parametrize("gap", [1e-5, 1e-3, 0.1])
def test_adaptive_goes_to_the_limit_if_two_of_four_share_the_best(gap):
    rewards = [1.0, 1.0, 1.0 - gap, 0.0]
    assert run("entropic", rewards, adaptive=True) == pytest.approx(run("entropic", rewards, beta=1e6), rel=1e-12)


def test_adaptive_stops_at_beta_max():
    rewards = [1e-7, 0.0, 0.5e-7, 0.2e-7]
    expected = run("entropic", rewards, beta=1e6)
    assert run("entropic", rewards, adaptive=True) == pytest.approx(expected, rel=1e-12)
    assert run("entropic", [1.0, 0.2, 0.5, 0.0], adaptive=True, beta_max=0.5) == pytest.approx(
        run("entropic", [1.0, 0.2, 0.5, 0.0], beta=0.5), rel=1e-12
    )


def test_adaptive_leaves_out_groups_too_small_for_the_target():
    # log 2 is only reached in the limit by two completions, and log 3 is above it.
    got = estimate("entropic", [[1.0, 0.0, None, None], [1.0, 0.0, 0.2, None]], params={"adaptive": True})
    assert got[0] == [0.0] * 4
    assert divergence(weights_of(got[1][:3])) == pytest.approx(LN2)
    assert run("entropic", [1.0, 0.0, None, None], adaptive=True, target_kl=LN2 * (1 - 1e-14)) == [0.0] * 4


def test_opmd_by_hand_and_in_its_limits():
    baseline = 2.0 * math.log((math.exp(0.5) + math.exp(0.0) + math.exp(-1.0)) / 3)
    assert run("opmd", [1.0, 0.0, -2.0], tau=2.0) == pytest.approx([1 - baseline, -baseline, -2 - baseline])
    rewards = [0.2, 1.7, -0.4, 0.9]
    assert run("opmd", rewards, tau=1e9) == pytest.approx(run("dr_grpo", rewards), rel=1e-8)
    assert run("opmd", rewards, tau=1e-9) == pytest.approx([reward - 1.7 for reward in rewards], abs=1e-8)


@pytest.mark.parametrize("value", [0.1, 0.7, 1e6])
def test_asymre_moves_constant_groups_by_the_shift_alone(value):
    assert run("asymre", [value] * 3) == [0.1] * 3
    assert run("asymre", [1.0, None, 0.0], baseline_shift=0.25) == [0.25, 0.0, -0.75]
    assert run("asymre", [None, value, None]) == [0.0] * 3


@pytest.mark.parametrize("name", ["rs_grpo", "entropic", "opmd"])
@pytest.mark.parametrize("value", [0.1, 0.7, 1e6])
def test_constant_groups_are_exactly_zero(name, value):
    assert estimate(name, [[value] * 7, [value] * 6 + [None]]) == [[0.0] * 7] * 2


@pytest.mark.parametrize("name", FAMILIES["risk"])
@settings(max_examples=25, deadline=None)
@given(rewards=group_with_gaps, order=st.permutations(range(5)))
def test_is_finite_and_follows_a_permutation(name, rewards, order):
    got = run(name, rewards)
    assert all(math.isfinite(advantage) for advantage in got)
    permuted = run(name, [rewards[i] for i in order])
    assert permuted == pytest.approx([got[i] for i in order], rel=1e-9, abs=1e-6)
    if name == "entropic":
        assert all(math.isfinite(advantage) for advantage in run(name, rewards, adaptive=True))


@pytest.mark.parametrize("name", ["rs_grpo", "entropic", "opmd"])
def test_a_shift_of_the_rewards_changes_nothing(name):
    rewards = torch.tensor([[0.25, 1.5, -0.5, 0.75]], dtype=torch.float64)
    assert torch.equal(estimate(name, rewards + 1024), estimate(name, rewards))


def test_unbounded_advantage_ends_at_the_largest_float32():
    rewards = torch.tensor([[1e6, 0.0, 0.0, 0.0]], dtype=torch.float32)
    got = estimate("entropic", rewards)
    assert got.tolist() == [[torch.finfo(torch.float32).max, -1.0, -1.0, -1.0]]


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("rs_grpo", {"beta": math.inf}, "beta=inf is not"),
        ("entropic", {"beta": 0.0}, "beta is 0"),
        ("entropic", {"beta": math.nan}, "beta=nan is not"),
        ("entropic", {"adaptive": True, "target_kl": 0.0}, "target_kl is 0.0"),
        ("entropic", {"adaptive": True, "target_kl": 1.4}, "target_kl is 1.4"),
        ("entropic", {"adaptive": True, "beta_max": 0.0}, "beta_max is 0.0"),
        ("opmd", {"tau": 0.0}, "tau is 0.0"),
        ("opmd", {"tau": -1.0}, "tau is -1.0"),
        ("asymre", {"baseline_shift": math.nan}, "baseline_shift=nan is not"),
    ],
)
def test_parameters_without_a_meaning_are_refused(name, params, message):
    with pytest.raises(ConfigError, match=message):
        run(name, [1.0, 0.0, 0.0, 0.5], **params)


def test_adaptive_needs_groups_of_four():
    with pytest.raises(ConfigError, match="at least 4"):
        run("entropic", [1.0, 0.0, 0.5], adaptive=True)
