"""Token-level advantages against the definition, and the signs and zeros they promise."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.advantages import estimate
from trl_grpo_ext.errors import ConfigError


reward = st.one_of(st.none(), st.sampled_from([0.0, 1.0]))
TAKES_ENTROPIES = ("entropy_adv", "rl_zvp", "gtpo")


@st.composite
def batches(draw):
    """Rewards and one number in (0, 3) for each token."""
    size = draw(st.integers(1, 5))
    rewards = draw(st.lists(st.lists(reward, min_size=size, max_size=size), min_size=1, max_size=3))
    token = st.integers(1, 300).map(lambda hundredths: hundredths / 100)
    tokens = [[draw(st.lists(token, min_size=1, max_size=4)) for _ in group] for group in rewards]
    return rewards, tokens


def flatten(nested):
    return [value for group in nested for completion in group for value in completion]


def scores(rewards):
    return estimate("grpo", rewards)


@settings(max_examples=40)
@given(batch=batches(), handle_zero_tail=st.booleans())
def test_otb_is_the_weighted_mean_of_those_still_running(batch, handle_zero_tail):
    rewards, tokens = batch
    logp = [[[-value for value in completion] for completion in group] for group in tokens]
    squares = [[[math.exp(-value) ** 2 + 0.01 for value in completion] for completion in group] for group in tokens]
    expected = []
    for group, logps, pi_sq in zip(rewards, logp, squares, strict=True):
        scorable = [i for i, r in enumerate(group) if r is not None]

        def weight(i, t, logps=logps, pi_sq=pi_sq):
            return sum(1 - 2 * math.exp(logps[i][u]) + pi_sq[i][u] for u in range(t + 1))

        def advantage(i, t, group=group, logps=logps, scorable=scorable, weight=weight):
            running = [k for k in scorable if len(logps[k]) > t]
            if len(scorable) < 2 or i not in scorable:
                return 0.0
            if handle_zero_tail and len(running) == 1:
                return group[i]
            total = sum(weight(k, t) for k in running)
            return group[i] - sum(group[k] * weight(k, t) for k in running) / (total + 1e-8)

        expected.append([[advantage(i, t) for t in range(len(logps[i]))] for i in range(len(group))])
    params = {"handle_zero_tail": handle_zero_tail}
    got = estimate("otb", rewards, params=params, extra={"logp": logp, "sum_pi_sq": squares})
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-9)


def test_otb_of_certain_tokens_divides_nothing():
    extra = {"logp": [[[0.0], [0.0]]], "sum_pi_sq": [[[1.0], [1.0]]]}
    assert estimate("otb", [[1.0, 0.0]], params={"eps": 0.0}, extra=extra) == [[[1.0], [0.0]]]


@settings(max_examples=40)
@given(batch=batches(), kappa=st.floats(1.01, 5))
def test_entropy_bonus_is_capped_and_never_changes_the_sign(batch, kappa):
    rewards, entropies = batch
    got = estimate("entropy_adv", rewards, params={"kappa": kappa}, extra={"entropies": entropies})
    for z_group, advantages, group in zip(scores(rewards), got, entropies, strict=True):
        for z, values, tokens in zip(z_group, advantages, group, strict=True):
            assert values == pytest.approx([z + min(0.4 * h, abs(z) / kappa) for h in tokens], abs=1e-12)
            assert all(value * z > 0 or value == z == 0 for value in values)


def test_entropy_a_rounding_error_below_zero_leaves_constant_groups_alone():
    assert estimate("entropy_adv", [[0.1] * 3], extra={"entropies": [[[-1e-9, 1.0]] * 3]}) == [[[0.0, 0.0]] * 3]


def test_rl_zvp_by_hand():
    rewards = [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, None]]
    extra = {"entropies": [[[1.0, 3.0], [2.0]]] * 4}
    right, wrong, live, lone = estimate("rl_zvp", rewards, params={"alpha": 0.5}, extra=extra)
    assert right == [[0.5, 1.5], [1.0]]
    assert wrong == [[-1.0, 0.0], [0.0]]
    z = scores(rewards)[2]
    assert live == [[z[0]] * 2, [z[1]]]
    assert lone == [[0.0, 0.0], [0.0]]


@settings(max_examples=40)
@given(batch=batches(), eps=st.sampled_from([0.0, 0.1]))
def test_gtpo_is_standardised_over_the_tokens_of_each_outcome(batch, eps):
    rewards, entropies = batch
    expected = []
    for group, tokens in zip(rewards, entropies, strict=True):
        advantages = [[0.0] * len(completion) for completion in tokens]
        scorable = [i for i, r in enumerate(group) if r is not None]
        for outcome in (1.0, 0.0) if len(scorable) > 1 else ():
            members = [i for i in scorable if group[i] == outcome]
            amount = {
                (i, t): h if outcome else 1 / (h + 1e-8) for i in members for t, h in enumerate(tokens[i])
            }  # fmt: skip
            sign = 1 if outcome else -1
            q = {}
            for i, t in amount:
                here = [amount[k, t] for k in members if (k, t) in amount]
                q[i, t] = sign * (1.0 + 0.1 * len(here) * amount[i, t] / sum(here))
            mean = sum(q.values()) / max(len(q), 1)
            std = math.sqrt(sum((value - mean) ** 2 for value in q.values()) / max(len(q), 1))
            for (i, t), value in q.items():
                advantages[i][t] = (value - mean) / (std + eps) if std > 1e-12 else 0.0
        expected.append(advantages)
    got = estimate("gtpo", rewards, params={"eps": eps}, extra={"entropies": entropies})
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-6)


@pytest.mark.parametrize("outcome", [1.0, 0.0])
@pytest.mark.parametrize("entropy", [0.1, 0.3, 0.0])
def test_gtpo_equal_entropies_are_exactly_zero(outcome, entropy):
    # Different numbers of completions are running at the four positions.
    entropies = [[[entropy] * length for length in (4, 3, 3, 1, 2, 3)]]
    got = estimate("gtpo", [[outcome] * 6], params={"h_eps": 0.0}, extra={"entropies": entropies})
    assert not any(flatten(got))


def test_gtpo_signs():
    # Right: the more open of two gains. Wrong: the more certain of two loses.
    got = estimate("gtpo", [[1.0, 1.0, 0.0, 0.0]], extra={"entropies": [[[2.0], [1.0], [2.0], [1.0]]]})
    assert flatten(got) == pytest.approx([1.0, -1.0, 1.0, -1.0])


def test_gtpo_without_weight_is_zero():
    got = estimate("gtpo", [[1.0, 1.0]], params={"alpha2": 0.0}, extra={"entropies": [[[2.0], [1.0]]]})
    assert flatten(got) == [0.0, 0.0]


@settings(max_examples=30)
@given(batch=batches())
def test_hicra_raises_planning_tokens(batch):
    rewards, tokens = batch
    mask = [[[value > 1.5 for value in completion] for completion in group] for group in tokens]
    got = estimate("hicra", rewards, params={"alpha": 0.3}, extra={"planning_mask": mask})
    expected = [
        [[z + 0.3 * abs(z) * marked for marked in completion] for z, completion in zip(z_group, group, strict=True)]
        for z_group, group in zip(scores(rewards), mask, strict=True)
    ]
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-12)


@settings(max_examples=30)
@given(batch=batches(), negative_only=st.booleans())
def test_rlsd_reweights_by_the_clipped_ratio(batch, negative_only):
    rewards, tokens = batch
    logp = [[[-value for value in completion] for completion in group] for group in tokens]
    teacher = [[[-1.2] * len(completion) for completion in group] for group in tokens]
    params = {"lam": 0.25, "clip_range": 0.5, "negative_only": negative_only}
    got = estimate("rlsd", rewards, params=params, extra={"logp": logp, "teacher_logp": teacher})

    def weight(z, own):
        if negative_only and z >= 0:
            return 1.0
        return 0.75 + 0.25 * min(max(math.exp(math.copysign(1, z) * (-1.2 - own)), 0.5), 1.5)

    expected = [
        [[z * weight(z, own) for own in completion] for z, completion in zip(z_group, group, strict=True)]
        for z_group, group in zip(scores(rewards), logp, strict=True)
    ]
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-12)


def test_rlsd_is_finite_for_impossible_tokens():
    extra = {"logp": [[[-1e6], [-1e6]]], "teacher_logp": [[[0.0], [0.0]]]}
    got = estimate("rlsd", [[1.0, 0.0]], extra=extra)
    z = scores([[1.0, 0.0]])[0]
    assert flatten(got) == pytest.approx([z[0] * 1.1, z[1] * 0.9])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("entropy_adv", {"kappa": 0.0}),
        ("entropy_adv", {"alpha": -1.0}),
        ("gtpo", {"h_eps": -1.0}),
        ("rlsd", {"lam": 1.5}),
        ("rlsd", {"clip_range": -0.1}),
    ],
)
def test_what_makes_no_sense_is_refused(name, params):
    names = ("logp", "teacher_logp") if name == "rlsd" else ("entropies",)
    with pytest.raises(ConfigError, match=f"{name}: {next(iter(params))}"):
        estimate(name, [[1.0, 0.0]], params=params, extra={key: [[[0.5], [0.5]]] for key in names})


@pytest.mark.parametrize("name", TAKES_ENTROPIES)
def test_completions_without_tokens(name):
    assert estimate(name, torch.eye(2), extra={"entropies": torch.zeros(2, 2, 0)}).shape == (2, 2, 0)


@pytest.mark.parametrize("name", [*TAKES_ENTROPIES, "hicra", "otb", "rlsd"])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_order_of_completions_does_not_matter(name, scale):
    generator = torch.Generator().manual_seed(3)
    rewards = torch.rand(2, 5, generator=generator, dtype=torch.float64) * scale
    rewards[0, 2] = math.nan
    tokens = torch.rand(2, 5, 6, generator=generator, dtype=torch.float64) + 0.1
    tokens[:, ::2, 4:] = math.nan
    inputs = {"hicra": ["planning_mask"], "otb": ["logp", "sum_pi_sq"], "rlsd": ["logp", "teacher_logp"]}
    extra = {key: -tokens if "logp" in key else tokens for key in inputs.get(name, ["entropies"])}
    got = estimate(name, rewards, extra=extra)
    order = torch.tensor([3, 0, 4, 2, 1])
    permuted = estimate(name, rewards[:, order], extra={key: value[:, order] for key, value in extra.items()})
    torch.testing.assert_close(permuted, got[:, order], rtol=1e-9, atol=1e-9 * got.abs().max().item())
    assert got.abs().max() > 0
