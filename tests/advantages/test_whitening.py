"""REINFORCE++ against token-by-token definitions and its properties."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.errors import ConfigError


REWARDS = [[1.0, 0.25, None, 0.5], [0.0, 0.75, 0.5, 1.0], [None, None, 2.0, None]]
LENGTHS = [[3, 5, 2, 1], [4, 1, 1, 6], [2, 2, 3, 4]]
TOKEN_KL = [
    [[0.1, -0.2, 0.3], [0.0, 0.1, 0.2, -0.1, 0.4], [0.5, 0.6], [0.7]],
    [[0.2, 0.2, -0.3, 0.1], [0.4], [-0.1], [0.1, 0.2, 0.3, -0.4, 0.5, 0.6]],
    [[0.1, 0.2], [0.3, 0.4], [0.5, -0.6, 0.7], [0.1, 0.1, 0.1, 0.1]],
]
score = st.floats(-10.0, 10.0, allow_nan=False)


def scorable(rewards):
    return [(i, j) for i, group in enumerate(rewards) for j, reward in enumerate(group) if reward is not None]


def scale_of(values, var_mode, eps):
    if var_mode == "inside":
        return math.sqrt(values.var(correction=1).item() + eps)
    if var_mode == "outside":
        return values.std(correction=0).item() + eps
    return math.sqrt(max(values.var(correction=0).item(), eps))


def whitened(values_by_place, repeats, var_mode, eps):
    """Write each value as often as it counts, and whiten the list."""
    places = list(values_by_place)
    listed = torch.tensor([values_by_place[p] for p in places for _ in range(repeats[p])], dtype=torch.float64)
    scale = scale_of(listed, var_mode, eps)
    return {place: (values_by_place[place] - listed.mean().item()) / scale for place in places}


def filled(by_place, shape=(3, 4)):
    return [[by_place.get((i, j), 0.0) for j in range(shape[1])] for i in range(shape[0])]


@pytest.mark.parametrize("weighting", ["token", "sequence"])
@pytest.mark.parametrize(("var_mode", "eps"), [("clamp", 1e-8), ("clamp", 2.0), ("inside", 0.1), ("outside", 0.1)])
def test_reinforce_pp_whitens_all_tokens(weighting, var_mode, eps):
    places = scorable(REWARDS)
    repeats = {(i, j): LENGTHS[i][j] if weighting == "token" else 1 for i, j in places}
    expected = whitened({(i, j): REWARDS[i][j] for i, j in places}, repeats, var_mode, eps)
    params = {"weighting": weighting, "var_mode": var_mode, "eps": eps}
    got = estimate("reinforce_pp", REWARDS, params=params, extra={"lengths": LENGTHS})
    assert got == [pytest.approx(row, rel=1e-12, abs=1e-15) for row in filled(expected)]
    assert got[2][2] != 0.0  # the only scorable completion of its group


@pytest.mark.parametrize("weighting", ["token", "sequence"])
@pytest.mark.parametrize(("var_mode", "eps"), [("clamp", 1e-8), ("inside", 0.1), ("outside", 0.1)])
def test_reinforce_pp_baseline_centres_the_groups_first(weighting, var_mode, eps):
    centred = {}
    for i in (0, 1):
        known = [reward for reward in REWARDS[i] if reward is not None]
        mean = sum(known) / len(known)
        centred.update({(i, j): reward - mean for j, reward in enumerate(REWARDS[i]) if reward is not None})
    repeats = {(i, j): LENGTHS[i][j] if weighting == "token" else 1 for i, j in centred}
    expected = whitened(centred, repeats, var_mode, eps)
    params = {"weighting": weighting, "var_mode": var_mode, "eps": eps}
    got = estimate("reinforce_pp_baseline", REWARDS, params=params, extra={"lengths": LENGTHS})
    assert got == [pytest.approx(row, rel=1e-12, abs=1e-15) for row in filled(expected)]


@pytest.mark.parametrize(("var_mode", "eps"), [("clamp", 1e-8), ("inside", 0.1), ("outside", 0.1)])
def test_reinforce_pp_kl_puts_the_kl_still_to_come_into_the_return(var_mode, eps):
    returns = {
        (i, j, t): REWARDS[i][j] - 0.3 * sum(TOKEN_KL[i][j][t:])
        for i, j in scorable(REWARDS)
        for t in range(len(TOKEN_KL[i][j]))
    }
    expected = whitened(returns, dict.fromkeys(returns, 1), var_mode, eps)
    params = {"kl_coef": 0.3, "var_mode": var_mode, "eps": eps}
    got = estimate("reinforce_pp_kl", REWARDS, params=params, extra={"token_kl": TOKEN_KL})
    for i, group in enumerate(TOKEN_KL):
        for j, tokens in enumerate(group):
            row = [expected.get((i, j, t), 0.0) for t in range(len(tokens))]
            assert got[i][j] == pytest.approx(row, rel=1e-12, abs=1e-14)


def test_without_a_coefficient_the_kl_does_not_matter():
    plain = estimate("reinforce_pp", REWARDS, extra={"lengths": LENGTHS})
    got = estimate("reinforce_pp_kl", REWARDS, params={"kl_coef": 0.0}, extra={"token_kl": TOKEN_KL})
    for i, j in scorable(REWARDS):
        assert got[i][j] == pytest.approx([plain[i][j]] * LENGTHS[i][j], rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(table=st.lists(st.lists(score, min_size=3, max_size=3), min_size=2, max_size=4), shift=score)
def test_batch_has_mean_zero_and_a_shift_changes_nothing(table, shift):
    rewards = torch.tensor(table, dtype=torch.float64)
    lengths = torch.arange(1.0, rewards.numel() + 1, dtype=torch.float64).view_as(rewards)
    for name in ("reinforce_pp", "reinforce_pp_baseline"):
        got = estimate(name, rewards, extra={"lengths": lengths})
        assert (got * lengths).sum().item() == pytest.approx(0.0, abs=1e-8)
        if rewards.max() - rewards.min() > 1e-3:
            shifted = estimate(name, rewards + shift, extra={"lengths": lengths})
            torch.testing.assert_close(shifted, got, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_without_eps_the_scale_of_the_rewards_does_not_matter(scale):
    rewards = torch.tensor([[0.2, 0.9, 0.4], [0.1, 0.3, 0.8]], dtype=torch.float64)
    lengths = torch.tensor([[3, 5, 2], [4, 1, 1]])
    for name in ("reinforce_pp", "reinforce_pp_baseline"):
        for var_mode in ("clamp", "inside", "outside"):
            params = {"var_mode": var_mode, "eps": 0.0}
            base = estimate(name, rewards, params=params, extra={"lengths": lengths})
            scaled = estimate(name, rewards * scale, params=params, extra={"lengths": lengths})
            torch.testing.assert_close(scaled, base, rtol=1e-12, atol=0)


@pytest.mark.parametrize("weighting", ["token", "sequence"])
@pytest.mark.parametrize("var_mode", ["clamp", "inside", "outside"])
@pytest.mark.parametrize("eps", [0.0, 1e-20])
@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline"])
def test_constant_batch_is_exactly_zero(name, weighting, var_mode, eps):
    params = {"weighting": weighting, "var_mode": var_mode, "eps": eps}
    # The computed mean of these is not 0.3.
    got = estimate(name, [[0.3, 0.3, 0.3], [None, 0.3, 0.3]], params=params, extra={"lengths": [[3, 7, 9], [4, 5, 6]]})
    assert got == [[0.0] * 3] * 2


@pytest.mark.parametrize("var_mode", ["clamp", "inside", "outside"])
def test_constant_returns_are_exactly_zero(var_mode):
    params = {"var_mode": var_mode, "eps": 0.0}
    got = estimate("reinforce_pp_kl", [[0.1, 0.1]], params=params, extra={"token_kl": [[[0.0] * 3, [0.0] * 4]]})
    assert got == [[[0.0] * 3, [0.0] * 4]]


def test_baseline_moves_constant_groups_by_token_weighting_only():
    rewards, lengths = [[0.1] * 3, [1.0, 0.0, 0.0]], [[5, 5, 5], [9, 1, 1]]
    by_token = estimate("reinforce_pp_baseline", rewards, extra={"lengths": lengths})
    by_sequence = estimate(
        "reinforce_pp_baseline", rewards, params={"weighting": "sequence"}, extra={"lengths": lengths}
    )
    assert by_token[0][0] < -0.1
    assert by_sequence[0] == [0.0] * 3


def test_groups_of_one_do_not_count_for_the_baseline():
    lengths = [[2, 3], [4, 5]]
    alone = estimate("reinforce_pp_baseline", [[1.0, 0.0], [None, None]], extra={"lengths": lengths})
    beside = estimate("reinforce_pp_baseline", [[1.0, 0.0], [None, 7.0]], extra={"lengths": lengths})
    assert beside == alone


@pytest.mark.parametrize("lengths", [[[0, 0], [0, 0]], [[1, 0], [0, 0]], [[1, 0], [3, 0]]])
@pytest.mark.parametrize("var_mode", ["clamp", "inside", "outside"])
@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline"])
def test_empty_completions_leave_the_result_finite(name, var_mode, lengths):
    params = {"var_mode": var_mode, "eps": 0.0}
    got = torch.tensor(estimate(name, [[1.0, 0.0], [0.5, 0.25]], params=params, extra={"lengths": lengths}))
    assert got.isfinite().all()


def test_unknown_modes_are_refused():
    extra = {"lengths": [[1, 2]]}
    with pytest.raises(ConfigError, match="weighting is 'tokens'"):
        estimate("reinforce_pp", [[1.0, 0.0]], params={"weighting": "tokens"}, extra=extra)
    with pytest.raises(ConfigError, match="var_mode is 'floor'"):
        estimate("reinforce_pp_baseline", [[1.0, 0.0]], params={"var_mode": "floor"}, extra=extra)
