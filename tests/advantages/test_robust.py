"""Order statistics: medians, quantiles and ranks by definition, ties and what is dropped."""

import math
import statistics
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.robust import gopo_rank, mc_grpo, qae
from trl_grpo_ext.errors import ConfigError


# Few distinct values, so that ties are common.
graded = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, -2.0])
groups = st.lists(st.none() | graded, min_size=2, max_size=9)


def row(values):
    return torch.tensor([[math.nan if value is None else value for value in values]], dtype=torch.float64)


def scorable(group):
    return [value for value in group if value is not None]


@settings(max_examples=50, deadline=None)
@given(groups, st.booleans())
def test_mc_grpo_by_definition(group, rescale):
    values = scorable(group)
    expected = [0.0] * len(group)
    if len(set(values)) > 1:
        median = statistics.median_low(values)
        deviation = statistics.median_low(abs(value - median) for value in values)
        factor = len(values) / sum(value != median for value in values) if rescale else 1
        expected = [0.0 if v is None else (v - median) / (deviation + 1e-3) * factor for v in group]
    advantages, _ = mc_grpo(row(group), rescale=rescale)
    torch.testing.assert_close(advantages.nan_to_num(), row(expected), rtol=1e-12, atol=0)


@settings(max_examples=50, deadline=None)
@given(groups)
def test_mc_grpo_drops_one_completion_at_the_median_of_an_odd_group(group):
    values = scorable(group)
    _, kept = mc_grpo(row(group))
    dropped = (~kept[0]).nonzero().flatten().tolist()
    if len(values) < 3 or len(values) % 2 == 0:
        assert dropped == []
    else:
        assert dropped == [group.index(statistics.median_low(values))]


def test_mc_grpo_by_hand():
    advantages, kept = mc_grpo(row([3.0, 0.0, 1.0, 1.0, 5.0]), eps=1.0)
    assert advantages.tolist() == [[1.0, -0.5, 0.0, 0.0, 2.0]]
    assert kept.tolist() == [[True, True, False, True, True]]


def test_mc_grpo_advantages_do_not_follow_an_outlier():
    near, far = (mc_grpo(row([0.0, 1.0, 2.0, 3.0, top]))[0][0, :4] for top in (4.0, 1e6))
    assert torch.equal(near, far)


def test_mc_grpo_refuses_eps_zero():
    with pytest.raises(ConfigError, match="eps is 0"):
        estimate("mc_grpo", [[1.0, 0.0, 0.0]], params={"eps": 0.0})


def quantile_by_definition(values, level):
    return min(x for x in values if Fraction(sum(v <= x for v in values), len(values)) >= level)


@settings(max_examples=50, deadline=None)
@given(groups, st.sampled_from([Fraction(k, 20) for k in range(1, 21)]))
def test_qae_by_definition(group, level):
    values = scorable(group)
    got = qae(row(group), quantile=float(level))
    if len(set(values)) < 2:
        assert not got.any()
        return
    scale = statistics.stdev(values) + 1e-6
    baseline = quantile_by_definition(values, level)
    expected = row([0.0 if value is None else (value - baseline) / scale for value in group])
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-15)


def test_qae_quantile_at_a_step_that_floats_round_past():
    assert math.ceil(0.28 * 25) == 8
    assert (qae(row([float(r) for r in range(25)]), quantile=0.28) == 0).nonzero().tolist() == [[0, 6]]


def test_qae_linear_interpolates():
    # Position 0.4 * 3 = 1.2 between the second and the third.
    got = qae(row([0.0, 1.0, None, 2.0, 10.0]), method="linear", ddof=0, eps=0.0)
    scale = statistics.pstdev([0.0, 1.0, 2.0, 10.0])
    torch.testing.assert_close(got, row([-1.2 / scale, -0.2 / scale, 0.0, 0.8 / scale, 8.8 / scale]))


@pytest.mark.parametrize(("successes", "moved"), [(1, 1.0), (3, 1.0), (4, 0.0)])
def test_qae_is_a_gate_for_binary_rewards(successes, moved):
    group = [1.0] * successes + [0.0] * (5 - successes)
    advantages = qae(row(group))[0]
    assert [reward for reward, advantage in zip(group, advantages, strict=True) if advantage] == [
        reward for reward in group if reward == moved
    ]


@pytest.mark.parametrize("params", [{"quantile": 1.5}, {"quantile": -0.1}, {"method": "nearest"}], ids=str)
def test_qae_refuses_what_is_no_quantile(params):
    with pytest.raises(ConfigError, match="it must be"):
        estimate("qae", [[1.0, 0.0]], params=params)


def test_gopo_rank_by_hand():
    assert estimate("gopo_rank", [[0.2, None, 0.9, 0.5]]) == [[-2.0, 0.0, 2.0, 0.0]]


def test_gopo_rank_breaks_ties_by_position():
    assert gopo_rank(row([0.1, 0.1, 0.1])).tolist() == [[2.0, 0.0, -2.0]]


@settings(max_examples=50, deadline=None)
@given(groups)
def test_gopo_rank_with_average_ties_is_the_mean_over_orders_of_equal_rewards(group):
    forward = gopo_rank(row(group))
    backward = gopo_rank(row(group[::-1])).flip(1)
    got = gopo_rank(row(group), ties="average")
    torch.testing.assert_close(got, (forward + backward) / 2, rtol=0, atol=1e-12)
    if len(set(scorable(group))) == 1:
        assert not got.any()


@pytest.mark.parametrize("ties", ["stable", "average"])
@settings(max_examples=20, deadline=None)
@given(group=groups)
def test_gopo_rank_sums_to_zero_and_ignores_increasing_maps(ties, group):
    got = gopo_rank(row(group), ties=ties)
    assert got.sum().item() == pytest.approx(0.0, abs=1e-12)
    assert torch.equal(gopo_rank(row(group).exp() * 7 - 3, ties=ties), got)


def test_gopo_rank_refuses_unknown_ties():
    with pytest.raises(ConfigError, match="'stable' or 'average'"):
        estimate("gopo_rank", [[1.0, 0.0]], params={"ties": "first"})


@pytest.mark.parametrize("name", ["mc_grpo", "qae"])
@pytest.mark.parametrize("group", [[None] * 3, [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_group_without_signal_is_exactly_zero(name, group):
    assert estimate(name, [group]) == [[0.0, 0.0, 0.0]]
