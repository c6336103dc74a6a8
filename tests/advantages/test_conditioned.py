"""Advantages conditioned on a property of each completion: by hand, by definition, and where it is missing."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate
from trl_grpo_ext.advantages.conditioned import canon, edge_eda, stratified, unlikeliness
from trl_grpo_ext.errors import ConfigError


# Few distinct values in both columns, so that ties are common.
reward = st.none() | st.sampled_from([0.0, 0.1, 0.5, 1.0, -0.5])
groups = st.lists(st.tuples(reward, st.sampled_from([0.5, 1.0, 1.5, 2.0])), min_size=1, max_size=8)


def row(values):
    return torch.tensor([[math.nan if value is None else value for value in values]], dtype=torch.float64)


def columns(group):
    rewards, properties = zip(*group, strict=True)
    return list(rewards), list(properties)


def standardised(value, values, eps):
    if len(set(values)) < 2:
        return 0.0
    return (value - statistics.mean(values)) / (statistics.stdev(values) + eps)


def check(got, expected):
    torch.testing.assert_close(got.nan_to_num(), row(expected), rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(groups)
def test_edge_eda_by_definition(group):
    scorable = [(r, h) for r, h in group if r is not None]
    mean_entropy = statistics.mean(h for _, h in scorable) if scorable else 0.0
    expected = [
        0.0 if r is None else standardised(r, [v for v, _ in scorable], 1e-4) * mean_entropy / h for r, h in group
    ]
    check(edge_eda(*map(row, columns(group))), expected)


@pytest.mark.parametrize("entropy", [0.0, 5e-324])
def test_edge_eda_without_a_usable_entropy_is_zero(entropy):
    got = estimate("edge_eda", [[1.0, 0.0, 0.0]], extra={"seq_entropy": [[entropy, 1.0, 2.0]]})[0]
    assert got[0] == 0
    assert got[1] == pytest.approx(2 * got[2])
    assert got[1] < 0


@settings(max_examples=40, deadline=None)
@given(groups, st.sampled_from([0.0, 0.25, 1.0]))
def test_unlikeliness_by_definition(group, beta):
    scorable = [(r, logp) for r, logp in group if r is not None]

    def shaped(r, logp):
        return r * (1 - beta * sum(other < logp for _, other in scorable) / len(scorable))

    values = [shaped(*pair) for pair in scorable]
    expected = [0.0 if r is None else standardised(shaped(r, logp), values, 1e-6) for r, logp in group]
    check(unlikeliness(*map(row, columns(group)), beta_rank=beta), expected)


def test_unlikeliness_makes_all_right_groups_live():
    extra = {"seq_logp": [[-3.0, -1.0, -2.0], [-3.0, -1.0, -2.0], [-2.0, -2.0, -2.0]]}
    right, wrong, alike = estimate("unlikeliness", [[1.0] * 3, [0.0] * 3, [0.1] * 3], extra=extra)
    assert right[0] > right[2] > right[1]
    assert wrong == alike == [0.0, 0.0, 0.0]


def test_unlikeliness_counts_order_only():
    rewards = row([1.0, 1.0, 0.0, 1.0])
    logp = row([-40.0, -1.0, -7.0, -7.5])
    assert torch.equal(unlikeliness(rewards, logp), unlikeliness(rewards, -1 / logp.exp()))


@pytest.mark.parametrize("beta", [-0.1, 1.1])
def test_unlikeliness_refuses_a_share_outside_of_the_unit_interval(beta):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        estimate("unlikeliness", [[1.0, 0.0]], extra={"seq_logp": [[-1, -2]]}, params={"beta_rank": beta})


@settings(max_examples=40, deadline=None)
@given(groups, st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.8, 1.0, 1.2]))
def test_canon_by_definition(group, mu, alpha):
    expected = [0.0] * len(group)
    scorable = sorted((i for i, (r, _) in enumerate(group) if r is not None), key=lambda i: group[i][1])
    if len(scorable) > 1:
        low, high = scorable[: (len(scorable) + 1) // 2], scorable[(len(scorable) + 1) // 2 :]
        mean_low, mean_high = (statistics.mean(group[i][0] for i in half) for half in (low, high))
        for i in scorable:
            r = group[i][0]
            inter = alpha * r - mean_low if i in high else r - alpha * mean_high
            expected[i] = mu * inter + (1 - mu) * (r - (mean_high if i in high else mean_low))
    check(canon(*map(row, columns(group)), mu=mu, alpha=alpha), expected)


def test_canon_by_hand():
    # High half 1, 0 (mean 0.5), low half 0.25, 0.75, 0.5 (mean 0.5).
    rewards, metric = [[1.0, 0.25, 0.0, 0.75, 0.5]], [[9, 1, 8, 2, 3]]
    assert estimate("canon", rewards, extra={"metric": metric}) == [[0.5, -0.25, -0.5, 0.25, 0.0]]
    assert estimate("canon", rewards, extra={"metric": metric}, params={"mu": 1.0, "alpha": 2.0}) == [
        [1.5, -0.75, -0.5, -0.25, -0.5]
    ]


def test_canon_with_equal_halves_is_dr_grpo():
    rewards = row([1.0, 0.0, 0.3, None, 0.7])
    got = canon(rewards, row([4.0, 3.0, 2.0, 9.0, 1.0]))
    torch.testing.assert_close(got, estimate("dr_grpo", rewards))


@pytest.mark.parametrize("params", [{}, {"mu": 0.0, "alpha": 1.2}], ids=["alpha 1", "mu 0"])
def test_canon_on_a_constant_group_is_exactly_zero(params):
    assert estimate("canon", [[0.1] * 5], extra={"metric": [[1, 2, 3, 4, 5]]}, params=params) == [[0.0] * 5]


def test_canon_moves_constant_groups_if_alpha_tips_the_scale():
    got = estimate("canon", [[1.0] * 4], extra={"metric": [[1, 2, 3, 4]]}, params={"alpha": 1.2})[0]
    assert got == pytest.approx([-0.1, -0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("canon", "metric", [3, 2, 1]),
        ("stratified", "strata", ["a", "a", "b"]),
        ("edge_eda", "seq_entropy", [1, 2, 3]),
    ],
)
def test_a_completion_without_the_input_takes_no_part(name, key, values):
    with_it = estimate(name, [[0.0, 0.3, 0.7]], extra={key: [values]})
    assert estimate(name, [[1.0, 0.0, 0.3, 0.7]], extra={key: [[None, *values]]}) == [[0.0, *with_it[0]]]


@settings(max_examples=40, deadline=None)
@given(groups, st.sampled_from([0.0, 0.3, 1.0]))
def test_stratified_by_definition(group, alpha):
    scorable = [(r, stratum) for r, stratum in group if r is not None]
    expected = [
        0.0
        if r is None
        else alpha * standardised(r, [v for v, other in scorable if other == stratum], 1e-8)
        + (1 - alpha) * standardised(r, [v for v, _ in scorable], 1e-8)
        for r, stratum in group
    ]
    check(stratified(*map(row, columns(group)), alpha=alpha), expected)


def test_stratified_takes_names_and_missing_strata():
    got = estimate("stratified", [[1.0, 0.0, 0.0, 5.0, 9.0]], extra={"strata": [["a", "b", "a", None, None]]})[0]
    assert got == pytest.approx([math.sqrt(0.5), 0.0, -math.sqrt(0.5), 0.0, 0.0])


def test_stratified_constant_stratum_is_exactly_zero_beside_a_live_one():
    got = estimate("stratified", [[0.1, 0.1, 0.1, 1.0, 0.0]], extra={"strata": [[0, 0, 0, 1, 1]]})[0]
    assert got[:3] == [0.0, 0.0, 0.0]
    assert got[3] > 0


@pytest.mark.parametrize(
    ("name", "inputs", "param"),
    [("canon", "metric", "mu"), ("stratified", "strata", "alpha")],
    ids=["canon", "strata"],
)
@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_weights_outside_of_the_unit_interval_are_refused(name, inputs, param, value):
    with pytest.raises(ConfigError, match=f"{param} is {value}"):
        estimate(name, [[1.0, 0.0]], extra={inputs: [[1, 2]]}, params={param: value})


@pytest.mark.parametrize(
    ("name", "inputs"), [("edge_eda", "seq_entropy"), ("canon", "metric"), ("stratified", "strata")]
)
@pytest.mark.parametrize("group", [[None] * 3, [None, 1.0, None], [0.1] * 3], ids=["none", "one", "constant"])
def test_group_without_signal_is_exactly_zero(name, inputs, group):
    assert estimate(name, [group], extra={inputs: [[1.0, 2.0, 2.0]]}) == [[0.0, 0.0, 0.0]]
