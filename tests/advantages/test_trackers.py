"""Histories: by hand, against the estimator they feed, and through a checkpoint."""

import json
import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.advantages.history import dcpo_sas
from trl_grpo_ext.advantages.trackers import MomentTracker, PassRateAnchor, SuccessTracker
from trl_grpo_ext.errors import ConfigError


NAN = math.nan
TRACKERS = [SuccessTracker, MomentTracker, PassRateAnchor]


def table(rows):
    return torch.tensor(rows, dtype=torch.float64)


def update(tracker, keys, rewards):
    drift = (table([0.03] * len(keys)),) if isinstance(tracker, SuccessTracker) else ()
    tracker.update(keys, rewards, *drift)


def batches(count, seed=0):
    """Batches of three groups of four with repeated prompts, missing rewards and a group without any."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(count):
        rewards = torch.rand(3, 4, generator=generator, dtype=torch.float64)
        rewards[torch.rand(3, 4, generator=generator) < 0.3] = NAN
        rewards[step % 3] = NAN
        yield ["a", "b" if step % 2 else "a", "c"], rewards


def values(tracker):
    return {name: value.tolist() for name, value in tracker.inputs(["a", "b", "c", "unseen"]).items()}


@pytest.mark.parametrize("kind", TRACKERS)
def test_continues_from_a_checkpoint_as_if_it_had_not_stopped(kind):
    whole, first, second = kind(), kind(), kind()
    for step, (keys, rewards) in enumerate(batches(12)):
        update(whole, keys, rewards)
        if step < 6:
            update(first, keys, rewards)
            continue
        if step == 6:
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        update(second, keys, rewards)
    assert values(second) == values(whole)
    assert second.state_dict() == whole.state_dict()


@pytest.mark.parametrize("kind", TRACKERS)
def test_a_checkpoint_is_not_changed_by_what_follows(kind):
    tracker = kind()
    for keys, rewards in batches(3):
        update(tracker, keys, rewards)
    state = tracker.state_dict()
    before = json.dumps(state)
    for keys, rewards in batches(3, seed=1):
        update(tracker, keys, rewards)
    assert json.dumps(state) == before


@pytest.mark.parametrize("kind", TRACKERS)
def test_missing_rewards_do_not_poison_the_state(kind):
    tracker = kind()
    for keys, rewards in batches(6):
        update(tracker, keys, rewards)
    before = values(tracker)
    update(tracker, ["a", "b"], table([[NAN] * 4, [NAN] * 4]))
    assert values(tracker) == before
    assert all(math.isfinite(value) for column in before.values() for value in torch.tensor(column).flatten())


@pytest.mark.parametrize("kind", TRACKERS)
def test_order_of_the_groups_of_a_batch_does_not_matter(kind):
    forwards, backwards = kind(), kind()
    keys, rewards = ["a", "b", "a", "a"], table([[0.1, 0.7], [0.0, 1.0], [0.3, NAN], [0.9, 0.2]])
    for tracker, order in ((forwards, [0, 1, 2, 3]), (backwards, [3, 2, 1, 0])):
        for _ in range(3):
            update(tracker, [keys[i] for i in order], rewards[order])
    for name, value in values(forwards).items():
        assert value == pytest.approx(values(backwards)[name], rel=1e-12)
    if kind is not PassRateAnchor:
        assert backwards.state_dict() == forwards.state_dict()


@pytest.mark.parametrize("kind", [SuccessTracker, MomentTracker])
def test_every_group_needs_a_key(kind):
    with pytest.raises(ValueError, match="zip"):
        update(kind(), ["a"], table([[1.0, 0.0], [1.0, 0.0]]))


def test_success_tracker_by_hand():
    tracker = SuccessTracker()
    assert values(tracker)["alpha"] == [4.0] * 4, "8 visits' worth of 1/2"
    # Drift of half a half-life: rho = 2^-0.5 = 0.707, clipped to 0.875; r is the mean of the scorable rewards.
    tracker.update(["a"], table([[1.0, 1.0, NAN, 0.0]]), table([0.03]))
    inputs = tracker.inputs(["a", "b"])
    assert inputs["alpha"].tolist() == pytest.approx([0.875 * 4 + 2 / 3, 4.0])
    assert inputs["beta"].tolist() == pytest.approx([0.875 * 4 + 1 / 3, 4.0])


@pytest.mark.parametrize(
    ("drift", "rho"),
    [(0.0, 0.96), (NAN, 0.96), (-1.0, 0.96), (0.003, 0.96), (0.006, 2**-0.1), (0.06, 0.875), (math.inf, 0.875)],
)
def test_success_tracker_forgets_with_the_drift(drift, rho):
    tracker = SuccessTracker()
    tracker.update(["a"], table([[1.0]]), table([drift]))
    assert tracker.inputs(["a"])["alpha"].item() == pytest.approx(rho * 4 + 1)


def test_success_tracker_folds_the_groups_of_a_prompt_into_one_visit():
    tracker, pooled = SuccessTracker(), SuccessTracker()
    tracker.update(["a", "a", "a"], table([[1.0, 1.0], [0.0, NAN], [NAN, NAN]]), table([0.002, 0.008, 9.0]))
    pooled.update(["a"], table([[1.0, 1.0, 0.0]]), table([0.005]))
    for name, value in pooled.inputs(["a"]).items():
        assert tracker.inputs(["a"])[name].item() == pytest.approx(value.item())


def test_success_tracker_remembers_at_most_25_visits():
    tracker = SuccessTracker()
    for _ in range(500):
        tracker.update(["a"], table([[1.0] * 16]), table([0.0]))
    inputs = tracker.inputs(["a"])
    assert (inputs["alpha"] + inputs["beta"]).item() == pytest.approx(25.0, abs=1e-3)


@pytest.mark.parametrize("params", [{"rho_min": 1.0}, {"rho_min": 0.97}, {"rho_max": 1.0}, {"half_life": 0.0}])
def test_success_tracker_refuses_what_makes_no_sense(params):
    with pytest.raises(ConfigError):
        SuccessTracker(**params)


@pytest.mark.parametrize("ddof", [0, 1])
def test_moments_are_those_the_estimator_uses(ddof):
    tracker = MomentTracker()
    keys = ["a", "b", "c"]
    for seed in range(4):
        rewards = torch.rand(3, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        before, advantages = tracker.inputs(keys), dcpo_sas(rewards, **tracker.inputs(keys), ddof=ddof)
        tracker.update(keys, rewards, ddof=ddof)
        after = tracker.inputs(keys)
        assert after["times"].tolist() == [seed + 1] * 3
        # The estimator's own z_cum is that of the statistics the tracker holds afterwards.
        now = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, correction=ddof, keepdim=True)
        cumulative = (rewards - after["old_mean"].unsqueeze(1)) / after["old_std"].unsqueeze(1)
        share = 1 / (before["times"].unsqueeze(1) + 1)
        mixes = cumulative * share + now * (1 - share), now * share + cumulative * (1 - share)
        smaller = torch.where(mixes[0].abs() <= mixes[1].abs(), *mixes)
        torch.testing.assert_close(advantages, smaller, rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(visits=st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=6))
def test_moments_of_equal_groups_are_those_of_all_rewards(visits):
    tracker = MomentTracker()
    for visit in visits:
        tracker.update(["a"], table([visit]), ddof=0)
    moments = tracker.inputs(["a"])
    everything = [reward for visit in visits for reward in visit]
    assert moments["old_mean"].item() == pytest.approx(statistics.fmean(everything), abs=1e-12)
    assert moments["old_std"].item() == pytest.approx(statistics.pstdev(everything), rel=1e-6, abs=1e-6)


def test_moments_skip_groups_without_a_deviation():
    tracker = MomentTracker()
    tracker.update(["a", "b"], table([[1.0, NAN, NAN], [1.0, 0.0, NAN]]))
    moments = tracker.inputs(["a", "b"])
    assert moments["times"].tolist() == [0, 1]
    assert moments["old_mean"].tolist() == [0.0, 0.5]
    assert moments["old_std"].tolist() == [0.0, pytest.approx(math.sqrt(0.5))]


def test_anchor_by_hand():
    tracker = PassRateAnchor(eta=0.5)
    assert math.isnan(tracker.inputs([])["anchor"].item())
    seen = []
    for rate in (0.2, 0.6, 1.0, 0.0):
        tracker.update(["a"], table([[rate, NAN, rate]]))
        seen.append(tracker.inputs([])["anchor"].item())
    # sigma of nothing before the first, 0 of one rate, then of (0.2, 0.6) and (0.2, 0.6, 1.0).
    third = 0.2 + 0.5 * 0.2 * 0.8
    fourth = third + 0.5 * statistics.pstdev([0.2, 0.6, 1.0]) * (0.0 - third)
    assert seen == pytest.approx([0.2, 0.2, third, fourth])


def test_anchor_forgets_batches_beyond_its_memory():
    short, fresh = PassRateAnchor(memory=2), PassRateAnchor(memory=2)
    for rate in (0.9, 0.5, 0.5):
        short.update(["a"], table([[rate]]))
    still = short.inputs([])["anchor"].item()
    short.update(["a"], table([[0.0]]))
    assert short.inputs([])["anchor"].item() == still, "the last two rates were equal"
    assert len(short.state_dict()["pass_rates"]) == 2
    assert fresh.state_dict() == {"anchor": None, "pass_rates": []}


def test_anchor_weighs_completions_not_groups():
    tracker = PassRateAnchor()
    tracker.update(["a", "b"], table([[1.0, NAN, NAN], [0.0, 0.0, 0.0]]))
    assert tracker.inputs(["a"])["anchor"].item() == 0.25
    assert tracker.inputs(["a"])["anchor"].dim() == 0


@pytest.mark.parametrize("params", [{"eta": 0.0}, {"eta": 1.5}, {"memory": 1}])
def test_anchor_refuses_what_makes_no_sense(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        PassRateAnchor(**params)
