"""Step-level advantages against the definition, written out with loops."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.advantages import estimate
from trl_grpo_ext.advantages.steps import step_to_token
from trl_grpo_ext.errors import ConfigError


groups = st.integers(1, 4).flatmap(
    lambda size: st.lists(
        st.lists(
            st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=1, max_size=4)), min_size=size, max_size=size
        ),
        min_size=1,
        max_size=3,
    )
)


def z(values, ddof=0, eps=0.0):
    """Standardised values; 0 where all are equal."""
    if len(set(values)) < 2:
        return [0.0] * len(values)
    mean = statistics.fmean(values)
    std = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - ddof))
    return [(value - mean) / (std + eps) for value in values]


def flatten(nested):
    return [value for group in nested for completion in group for value in completion]


def test_process_grpo_by_hand():
    # Steps 1, 0 | 1, 0: standardised +-1 with ddof 0. Return-to-go of the first completion: 1 - 1, -1.
    got = estimate("process_grpo", [[[1.0, 0.0], [1.0, 0.0]]], params={"ddof": 0, "eps": 0.0})
    assert got == [[[0.0, -1.0], [0.0, -1.0]]]


@settings(max_examples=40)
@given(rewards=groups)
def test_process_grpo_is_the_sum_of_the_standardised_rewards_to_come(rewards):
    expected = []
    for group in rewards:
        scorable = [completion for completion in group if completion is not None]
        scores = iter(z([reward for completion in scorable for reward in completion], ddof=1, eps=1e-4))
        by_step = [[next(scores) for _ in completion] if completion is not None else [] for completion in group]
        live = len(scorable) > 1
        expected.append([[live * sum(steps[t:]) for t in range(len(steps))] for steps in by_step])
    got = estimate("process_grpo", rewards)
    assert [list(map(len, group)) for group in got] == [list(map(len, group)) for group in expected]
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-9)


def test_process_grpo_of_equal_steps_is_exactly_zero():
    assert estimate("process_grpo", [[[0.1, 0.1, 0.1], [0.1], [0.1, 0.1]]]) == [[[0.0] * 3, [0.0], [0.0] * 2]]


@settings(max_examples=40)
@given(rewards=groups, seed=st.integers(0, 99), fnorm=st.sampled_from(["std", "none"]))
def test_gigpo_is_episode_plus_step_advantage(rewards, seed, fnorm):
    generator = torch.Generator().manual_seed(seed)
    anchors = [
        [[f"s{torch.randint(2, (), generator=generator)}" for _ in completion or ()] for completion in group]
        for group in rewards
    ]

    def normalise(values):
        if fnorm == "std":
            return z(values, ddof=1, eps=1e-6)
        return [value - statistics.fmean(values) for value in values] if len(set(values)) > 1 else [0.0] * len(values)

    expected = []
    for group, states in zip(rewards, anchors, strict=True):
        scorable = [i for i, completion in enumerate(group) if completion is not None]
        episode = dict(zip(scorable, normalise([sum(group[i]) for i in scorable]), strict=True))
        returns = {
            (i, t): sum(0.5 ** (u - t) * group[i][u] for u in range(t, len(group[i])))
            for i in scorable
            for t in range(len(group[i]))
        }
        step = {}
        for state in ("s0", "s1"):
            here = [(i, t) for i, t in returns if states[i][t] == state]
            step |= dict(zip(here, normalise([returns[place] for place in here]), strict=True))
        expected.append(
            [[episode[i] + 0.7 * step[i, t] for t in range(len(c))] if c else [] for i, c in enumerate(group)]
        )
    params = {"gamma": 0.5, "omega": 0.7, "fnorm": fnorm}
    got = estimate("gigpo", rewards, params=params, extra={"anchors": anchors})
    assert flatten(got) == pytest.approx(flatten(expected), abs=1e-9)


def test_gigpo_state_seen_once_adds_nothing():
    rewards = [[[1.0, 2.0], [0.0, 5.0]]]
    unseen = estimate("gigpo", rewards, params={"eps": 0.0}, extra={"anchors": [[["a", "b"], ["c", "d"]]]})
    assert [completion[0] for completion in unseen[0]] == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])
    assert all(first == second for first, second in unseen[0])


def test_gigpo_equal_futures_are_exactly_zero_without_eps():
    # Both completions end 0.1, 0.7 from state "b" on, at different positions; only "a" tells them apart.
    rewards = [[[0.3, 0.1, 0.7], [0.1, 0.7]]]
    anchors = [[["a", "b", "c"], ["b", "c"]]]
    params = {"fnorm": "std", "eps": 0.0, "omega": 1.0}
    by_episode = estimate("gigpo", rewards, params=params | {"omega": 0.0}, extra={"anchors": anchors})
    assert estimate("gigpo", rewards, params=params, extra={"anchors": anchors}) == by_episode


def test_gigpo_states_of_other_prompts_do_not_count():
    alone = estimate("gigpo", [[[1.0], [0.0]]], extra={"anchors": [[["a"], ["a"]]]})
    both = estimate("gigpo", [[[1.0], [0.0]], [[9.0], [5.0]]], extra={"anchors": [[["a"], ["a"]], [["a"], ["a"]]]})
    assert both[0] == alone[0]


@pytest.mark.parametrize("params", [{"fnorm": "max"}, {"gamma": 1.5}])
def test_gigpo_refuses_what_makes_no_sense(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        estimate("gigpo", [[[1.0], [0.0]]], params=params, extra={"anchors": [[["a"], ["a"]]]})


@pytest.mark.parametrize("name", ["process_grpo", "gigpo"])
def test_nothing_scorable(name):
    extra = {"anchors": [[[], []]]} if name == "gigpo" else {}
    assert estimate(name, [[None, None]], extra=extra) == [[[], []]]


def test_tokens_take_the_value_of_their_step():
    nan = math.nan
    values = torch.tensor([[[1.0, 2.0, 3.0], [5.0, nan, nan], [0.0, 0.0, 0.0]]], dtype=torch.float64)
    ends = torch.tensor([[[2.0, 3.0, 5.0], [1.0, nan, nan], [nan, nan, nan]]], dtype=torch.float64)
    expected = [[1.0, 1.0, 2.0, 3.0, 3.0, 3.0], [5.0] * 6, [0.0] * 6]
    assert step_to_token(values, ends, 6).tolist() == [expected]


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=4), width=st.integers(1, 8))
def test_tokens_by_definition(lengths, width):
    ends = torch.tensor(lengths, dtype=torch.float64).cumsum(0)
    values = torch.arange(1.0, len(lengths) + 1, dtype=torch.float64)
    expected = [next((v for v, end in zip(values, ends, strict=True) if t < end), values[-1]) for t in range(width)]
    got = step_to_token(values.view(1, 1, -1), ends.view(1, 1, -1), width)
    assert got[0, 0].tolist() == [value.item() for value in expected]
