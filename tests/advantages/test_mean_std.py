"""The mean and standard-deviation family against hand-computed groups, its definitions and its properties."""

import itertools
import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages import FAMILIES
from trl_grpo_ext.errors import ConfigError


NAMES = FAMILIES["mean_std"]
SHIFT_INVARIANT = ["grpo", "dr_grpo", "ppo_lite", "gpg", "dgae"]
finite = st.floats(-1e3, 1e3, allow_nan=False)
share = st.floats(0.0, 1.0, allow_nan=False)
groups = st.lists(st.lists(share | st.none(), min_size=4, max_size=4), min_size=1, max_size=4)


def run(name, group, **params):
    return estimate(name, [group], params=params)[0]


def test_grpo_by_hand():
    # mean 0.5, Bessel-corrected variance (4 * 0.25) / 3 = 1/3
    expected = 0.5 / (math.sqrt(1 / 3) + 1e-4)
    assert run("grpo", [1.0, 0.0, 1.0, 0.0]) == pytest.approx([expected, -expected, expected, -expected])


def test_unscorable_completion_takes_no_part():
    assert run("dr_grpo", [1.0, None, 0.0]) == [0.5, 0.0, -0.5]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group", [[None, None, None], [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_group_without_signal_is_exactly_zero(name, group):
    assert run(name, group) == [0.0, 0.0, 0.0]
    assert estimate(name, [group, [1.0, 0.0, 0.4]])[0] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(value=st.floats(-1e6, 1e6, allow_nan=False, width=32), size=st.integers(2, 16))
def test_constant_group_is_exactly_zero_in_float32(name, value, size):
    rewards = torch.full((1, size), value, dtype=torch.float32)
    assert torch.equal(estimate(name, rewards), torch.zeros(1, size))


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
@settings(max_examples=25, deadline=None)
@given(group=st.lists(finite, min_size=2, max_size=8), shift=finite)
def test_shift_of_the_rewards_changes_nothing(name, group, shift):
    base = torch.tensor(run(name, group), dtype=torch.float64)
    # Where the spread is lost in the rounding of the shifted values there is nothing to compare.
    if max(group) - min(group) > 1e-6:
        shifted = torch.tensor(run(name, [reward + shift for reward in group]), dtype=torch.float64)
        torch.testing.assert_close(shifted, base, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(table=groups)
def test_sums_to_zero_is_finite_and_follows_a_permutation(name, table):
    got = torch.tensor(estimate(name, table), dtype=torch.float64)
    assert got.isfinite().all()
    assert got.sum(dim=1).tolist() == pytest.approx([0.0] * len(table), abs=1e-9 * (1 + got.abs().max().item()))
    order = [2, 0, 3, 1]
    permuted = torch.tensor(estimate(name, [[group[i] for i in order] for group in table]), dtype=torch.float64)
    torch.testing.assert_close(permuted, got[:, order], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["grpo", "ppo_lite", "maxrl", "mapo", "dgae"])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_without_eps_the_scale_of_the_rewards_does_not_matter(name, scale):
    table = torch.tensor([[0.2, 0.9, 0.4, 0.7], [0.1, 0.3, 0.8, 0.6]], dtype=torch.float64)
    params = {"eps": 0.0}
    scaled = dict(params, success_threshold=0.5 * scale) if name == "mapo" else params
    torch.testing.assert_close(
        estimate(name, table * scale, params=scaled), estimate(name, table, params=params), rtol=1e-9, atol=0
    )


def test_ppo_lite_divides_by_the_spread_of_all_rewards():
    rewards = [[1.0, 0.0], [3.0, 2.0], [None, 6.0]]
    std = torch.tensor([1.0, 0.0, 3.0, 2.0, 6.0], dtype=torch.float64).std().item()
    expected = 0.5 / (std + 1e-4)
    assert estimate("ppo_lite", rewards) == [
        pytest.approx([expected, -expected]),
        pytest.approx([expected, -expected]),
        [0.0, 0.0],
    ]


def test_gpg_makes_up_for_groups_without_a_signal():
    rewards = [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [None, 1.0]]  # one live group of three, the last counts nowhere
    assert estimate("gpg", rewards)[0] == pytest.approx([1.5, -1.5])
    assert estimate("gpg", rewards, params={"f_norm": 3.0})[0] == pytest.approx([0.5, -0.5])
    # 6 completions, 3 of them with a reward
    assert estimate("gpg", rewards, params={"alpha_mode": "verl_nonzero_scores"})[0] == pytest.approx([1.0, -1.0])


def test_maxrl_by_hand():
    assert run("maxrl", [1.0, 0.0, 0.0, 0.0], eps=0.0) == pytest.approx([3.0, -1.0, -1.0, -1.0])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("n", [2, 4, 6])
def test_maxrl_follows_the_truncated_log_likelihood(p, n):
    outcomes = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n)), dtype=torch.float64)
    advantages = estimate("maxrl", outcomes, params={"eps": 0.0})
    score = outcomes / p - (1 - outcomes) / (1 - p)
    weight = torch.where(outcomes == 1, p, 1 - p).prod(dim=1)
    gradient = (weight * (advantages * score).mean(dim=1)).sum().item()
    assert gradient == pytest.approx(sum((1 - p) ** (k - 1) for k in range(1, n)))


@pytest.mark.parametrize("group", [[-1.0, 1.0], [-3.0, 1.0]], ids=["mean 0", "mean below 0"])
def test_no_division_by_a_mean_that_is_not_positive(group):
    assert run("maxrl", group) == [0.0, 0.0]
    assert run("maxrl", group, eps=2.0) == [0.0, 0.0]
    # p = 1/2 leaves the other term whole, p = 0 nothing of it.
    assert run("mapo", group) == pytest.approx([-1.0, 1.0])
    assert run("mapo", group, success_threshold=5.0) == [0.0, 0.0]


def test_treerpo_norm_weighs_by_the_pass_rate():
    assert run("treerpo_norm", [1.0, 0.0, 0.0, 0.0]) == pytest.approx([4.0, -4 / 3, -4 / 3, -4 / 3])
    # Means that are no pass rate of a live group.
    assert run("treerpo_norm", [2.0, 0.0]) == run("treerpo_norm", [2.0, 1.0]) == [0.0, 0.0]
    assert run("treerpo_norm", [-1.0, 0.0]) == [0.0, 0.0]


def test_mapo_mixes_by_certainty():
    # p = 1/4: lam = 1/4, s_pop = sqrt(3)/4
    right, wrong = 0.75 * math.sqrt(3) + 0.25 * 3, -0.75 / math.sqrt(3) - 0.25
    assert run("mapo", [0.0, 1.0, 0.0, 0.0]) == pytest.approx([wrong, right, wrong, wrong])
    assert run("mapo", [1.0, 0.0, 0.0, 1.0]) == pytest.approx(run("grpo", [1.0, 0.0, 0.0, 1.0], ddof=0, eps=0.0))


def test_mapo_takes_correctness_from_outside():
    graded = [0.1, 0.2, 0.3, 0.4]
    got = estimate("mapo", [graded], extra={"correct": [[True, True, False, False]]})[0]
    assert got == pytest.approx(run("grpo", graded, ddof=0, eps=0.0))
    # Where nothing is said, the threshold decides.
    unknown = estimate("mapo", [graded], extra={"correct": [[None, None, True, None]]})[0]
    assert unknown == pytest.approx(run("mapo", graded, success_threshold=0.35))
    # What is said of a completion without a reward does not count.
    unscorable = estimate("mapo", [[*graded, None]], extra={"correct": [[True, True, False, False, True]]})[0]
    assert unscorable == pytest.approx([*got, 0.0])


@settings(max_examples=50, deadline=None)
@given(group=st.lists(finite, min_size=2, max_size=9))
def test_dgae_gives_every_live_group_the_same_weight(group):
    total = sum(abs(advantage) for advantage in run("dgae", group))
    assert total == (pytest.approx(len(group)) if max(group) > min(group) else 0.0)


def beta_parameters(q):
    mean, variance = q.mean(), q.var()
    c = mean * (1 - mean) / variance - 1
    return (1 + c * mean / 3).clamp(min=1), (1 + c * (1 - mean) / 3).clamp(min=1)


def test_bnpo_divides_by_the_beta_density():
    rewards = torch.tensor([[0.1, 0.5, 0.2], [0.9, 0.4, 0.4], [0.6, 0.2, 0.1], [0.5, 0.7, 0.6]], dtype=torch.float64)
    q = rewards.mean(dim=1, keepdim=True)
    density = torch.distributions.Beta(*beta_parameters(q)).log_prob(q).exp()
    assert density.min() > 0.5
    torch.testing.assert_close(estimate("bnpo", rewards), (rewards - q) / density, rtol=1e-12, atol=0)


def test_bnpo_with_a_wide_spread_of_pass_rates_is_dr_grpo():
    rewards = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert estimate("bnpo", rewards) == estimate("dr_grpo", rewards)


@pytest.mark.parametrize(
    "rewards",
    [[[0.25, 0.75]], [[0.25, 0.75], [0.75, 0.25]], [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], [[0.25, 0.75], [None, 0.1]]],
    ids=["one prompt", "equal means", "means equal but for rounding", "one prompt that counts"],
)
def test_bnpo_without_spread_is_dr_grpo(rewards):
    assert estimate("bnpo", rewards)[0] == estimate("dr_grpo", rewards)[0]


@pytest.mark.parametrize(("centre", "spread"), [(0.3, 0.05), (0.3, 1e-3), (0.4, 1e-7), (2e-6, 1e-6), (1 - 1e-4, 3e-5)])
def test_bnpo_is_accurate_for_concentrated_pass_rates(centre, spread):
    rewards = torch.tensor([[centre - spread, centre], [centre, centre + spread]], dtype=torch.float64)
    got = estimate("bnpo", rewards)
    with mpmath.workdps(60):
        table = [[mpmath.mpf(value) for value in row] for row in rewards.tolist()]
        q = [sum(row) / 2 for row in table]
        mean = sum(q) / 2
        c = mean * (1 - mean) / sum((x - mean) ** 2 for x in q) - 1
        a, b = 1 + c * mean / 3, 1 + c * (1 - mean) / 3
        for i, row in enumerate(table):
            density = q[i] ** (a - 1) * (1 - q[i]) ** (b - 1) / mpmath.beta(a, b)
            # How far the rounding of the spread to float64 moves the result is not the formula's fault.
            conditioning = 1e-13 + 1e-15 * centre / spread
            for j, reward in enumerate(row):
                assert abs(got[i, j].item() / float((reward - q[i]) / density) - 1) < conditioning


def test_bnpo_weight_is_bounded():
    rewards = torch.tensor([[0.5, 0.5, 0.5, 0.48]] * 8 + [[1.0, 1.0, 1.0, 1.2]], dtype=torch.float64)
    rewards[:8] += torch.arange(8, dtype=torch.float64).unsqueeze(1) * 1e-3
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    torch.testing.assert_close(estimate("bnpo", rewards)[8], centred[8] * 1e6, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        estimate("bnpo", rewards, params={"max_weight": 2.0})[8], centred[8] * 2, rtol=1e-9, atol=0
    )


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("gpg", {"f_norm": 0.0}),
        ("gpg", {"alpha_mode": "samples"}),
        ("bnpo", {"min_value": 1.0}),
        ("bnpo", {"max_weight": 0.0}),
        ("bnpo", {"max_weight": math.inf}),
    ],
)
def test_parameters_without_a_meaning_are_refused(name, params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        estimate(name, [[1.0, 0.0]], params=params)
