"""Advantages with a history: by hand, and what they promise of first visits, constant groups and scale."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.advantages import estimate
from trl_grpo_ext.advantages.history import add_visit, dcpo_sas, group_moments, ha_dw, spo


def table(rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_spo_by_hand():
    # Distances from the baselines 0.5, 0.25 and 0.75 are 0.5, -0.25 and -0.25: mean 0, variance (ddof 1) 0.1875.
    got = spo(table([[1.0], [0.0], [0.5]]), table([1.0, 1.0, 6.0]), table([1.0, 3.0, 2.0]), eps=0.0)
    torch.testing.assert_close(got, table([[0.5], [-0.25], [-0.25]]) / math.sqrt(0.1875))


def test_spo_compares_prompts_not_completions_of_a_prompt():
    constant = spo(table([[1.0, 1.0], [1.0, 1.0]]), table([9.0, 1.0]), table([1.0, 9.0]))
    assert (constant[0] < 0).all(), "a success that was expected is worth less than the batch average"
    assert (constant[1] > 0).all()


@pytest.mark.parametrize("rewards", [[[0.1] * 3, [0.1] * 3], [[0.1, math.nan, math.nan], [math.nan] * 3]])
def test_spo_without_differences_is_exactly_zero(rewards):
    got = estimate("spo", table(rewards), extra={"alpha": table([0.7, 0.7]), "beta": table([0.2, 0.2])})
    assert torch.equal(got, torch.zeros(2, 3, dtype=torch.float64))


def test_spo_of_an_empty_tracker_is_finite():
    assert spo(table([[1.0, 0.0]]), table([0.0]), table([0.0])).isfinite().all()


def test_dcpo_first_visit_is_the_z_score_whatever_the_state_says():
    rewards = table([[1.0, 0.0, 0.0, 1.0, 1.0]])
    expected = (rewards - rewards.mean()) / rewards.std()
    torch.testing.assert_close(dcpo_sas(rewards, table([0.0]), table([1e9]), table([1e9])), expected)


def test_dcpo_by_hand():
    # m = 0.5, s = 0.5 (ddof 0); history M = 0, S = 0, t = 3: M' = 1/8, S'^2 = (0.25 + 3/4 * 0.25) / 4 = 7/64.
    now, cumulative = table([1.0, -1.0]), (table([1.0, 0.0]) - 1 / 8) / (math.sqrt(7) / 8)
    mixes = torch.stack([cumulative / 4 + now * 3 / 4, now / 4 + cumulative * 3 / 4])
    expected = torch.where(mixes[0].abs() < mixes[1].abs(), mixes[0], mixes[1])
    got = dcpo_sas(table([[1.0, 0.0]]), table([3.0]), table([0.0]), table([0.0]), ddof=0)
    torch.testing.assert_close(got[0], expected)


def test_dcpo_all_right_moves_up_after_failures():
    got = dcpo_sas(table([[1.0, 1.0]]), table([2.0]), table([0.25]), table([0.4]))
    assert (got > 0).all()


# The deviation of seven floats 0.011 is computed as more than 0.
@pytest.mark.parametrize("value", [0.011, 0.1, 1e6 + 0.1, 1e-6])
def test_dcpo_prompt_that_never_changes_is_exactly_zero(value):
    mean, std = 0.0, 0.0
    for times in range(7):
        group = table([[value] * 7])
        got = dcpo_sas(group, table([times]), table([mean]), table([std]))
        assert torch.equal(got, torch.zeros_like(group))
        moments = group_moments(group, ddof=1)
        mean, std = add_visit(times, mean, std, *(moment.item() for moment in moments))
        assert (mean, std) == (value, 0.0)


@settings(max_examples=30)
@given(visits=st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=1, max_size=5))
def test_add_visit_is_the_mean_and_deviation_of_all_rewards(visits):
    mean, std = 0.0, 0.0
    for times, visit in enumerate(visits):
        moments = group_moments(table([visit]), ddof=0)
        mean, std = add_visit(times, mean, std, *(moment.item() for moment in moments))
    everything = table(visits).flatten()
    assert mean == pytest.approx(everything.mean().item(), abs=1e-12)
    assert std == pytest.approx(everything.std(correction=0).item(), rel=1e-6, abs=1e-6)


def test_ha_dw_by_hand():
    # The centred rewards of a hard prompt (mean 0.25, anchor 0.5): successes e^0.25 times, failures e^-0.25 times.
    got = ha_dw(table([[1.0, 0.0, 0.0, 0.0]]), table(0.5), lambda_scale=2.0, normalize=False)
    up, down = 2 * math.exp(0.25), 2 * math.exp(-0.25)
    torch.testing.assert_close(got, table([[0.75 * up, -0.25 * down, -0.25 * down, -0.25 * down]]))


@pytest.mark.parametrize("anchor", [0.5, math.nan])
def test_ha_dw_at_the_anchor_or_without_one_only_scales(anchor):
    rewards = table([[1.0, 0.0, 1.0, 0.0]])
    expected = estimate("grpo", rewards, params={"eps": 1e-8}) * 1.3
    torch.testing.assert_close(ha_dw(rewards, table(anchor)), expected)


@pytest.mark.parametrize("normalize", [True, False])
def test_ha_dw_is_finite_and_zero_in_constant_groups_at_any_scale(normalize):
    rewards = table([[1e6, -1e6, 0.0], [0.1] * 3, [math.nan, 2.0, math.nan], [math.nan] * 3])
    got = estimate("ha_dw", rewards, params={"normalize": normalize}, extra={"anchor": table(0.3)})
    assert got.isfinite().all()
    assert got[0].count_nonzero() > 0
    assert torch.equal(got[1:], torch.zeros(3, 3, dtype=torch.float64))


def test_lone_completions_stay_out():
    rewards = table([[math.nan, 1.0], [1.0, 0.0]])
    state = {"times": table([4.0, 4.0]), "old_mean": table([0.5, 0.5]), "old_std": table([0.5, 0.5])}
    got = estimate("dcpo_sas", rewards, extra=state)
    assert torch.equal(got[0], table([0.0, 0.0]))
    assert got[1].abs().min() > 0
