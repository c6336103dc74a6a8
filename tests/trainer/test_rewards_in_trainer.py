"""Rewards by name and by specification inside the trainer."""

import pytest
import torch
from datasets import Dataset

from tests.trainer.runs import arguments
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.errors import ConfigError, DataError


def build(model, rows, out, reward_funcs, **overrides) -> GroupRelativeTrainer:
    return GroupRelativeTrainer(
        model=model,
        reward_funcs=reward_funcs,
        args=GroupRelativeConfig(**arguments(out, **overrides)),
        train_dataset=Dataset.from_list(rows),
    )


def half(completions, **kwargs):
    return [0.5] * len(completions)


def by_length(completions, **kwargs):
    return [float(len(completion[0]["content"]) % 2) for completion in completions]


@pytest.mark.tiny
def test_names_train_and_log(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, ["math", "format"], max_steps=1)
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rewards/math_reward/unscored_frac"] == 0.0
    assert logged["reward"] == 0.0  # an untrained model is never right
    assert logged["frac_reward_zero_std"] == 1.0


@pytest.mark.tiny
def test_gate_multiplies_and_its_advantages_are_logged(tiny_model, arithmetic_rows, tmp_path):
    name = f"{__name__}.by_length"
    overrides = {"advantage": "dr_grpo", "per_device_train_batch_size": 16}
    trainer = build(tiny_model, arithmetic_rows, tmp_path, [half, {"name": name, "mode": "gate"}], **overrides)
    trainer.model.train()
    trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    rewards = trainer._reward_matrix.prod(dim=1)
    assert 0 < rewards.count_nonzero() < rewards.numel()
    expected = (rewards.view(-1, 4) - rewards.view(-1, 4).mean(dim=1, keepdim=True)).flatten()
    torch.testing.assert_close(torch.tensor(list(trainer._logs["advantages"])), expected)
    assert trainer._metrics["train"]["reward"][-1] == pytest.approx(rewards.mean().item())


@pytest.mark.tiny
def test_constant_groups_have_zero_advantage_and_are_counted(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, [lambda completions, **kwargs: [0.1] * len(completions)])
    trainer.model.train()
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    assert inputs["advantages"].eq(0.0).all()
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [1.0]


@pytest.mark.tiny
def test_control_permutes_the_rewards_of_the_batch(tiny_model, arithmetic_rows, tmp_path):
    matrices = {}
    for shuffled in (False, True):
        overrides = {"shuffle_rewards": shuffled, "per_device_train_batch_size": 16}
        trainer = build(tiny_model, arithmetic_rows, tmp_path, [by_length], **overrides)
        trainer.model.train()
        trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
        matrices[shuffled] = trainer._reward_matrix.flatten()
    assert not torch.equal(matrices[False], matrices[True])
    assert torch.equal(matrices[False].sort().values, matrices[True].sort().values)


@pytest.mark.tiny
def test_weights_come_from_one_place(tiny_model, arithmetic_rows, tmp_path):
    specs = [{"name": "math", "weight": 2.0}, half]
    assert build(tiny_model, arithmetic_rows, tmp_path, specs).reward_weights.tolist() == [2.0, 1.0]
    trainer = build(tiny_model, arithmetic_rows, tmp_path, ["math", half], reward_weights=[1.0, 0.25])
    assert trainer.composition.weights == [1.0, 0.25]
    with pytest.raises(ConfigError, match="weights are given twice"):
        build(tiny_model, arithmetic_rows, tmp_path, specs, reward_weights=[1.0, 1.0])


@pytest.mark.tiny
def test_refusals(tiny_model, arithmetic_rows, tmp_path):
    from trl import GRPOConfig

    with pytest.raises(ConfigError, match="did you mean 'math'"):
        build(tiny_model, arithmetic_rows, tmp_path, ["maths"])
    with pytest.raises(ConfigError, match="expected a GroupRelativeConfig"):
        GroupRelativeTrainer(tiny_model, "math", GRPOConfig(**arguments(tmp_path)))


@pytest.mark.tiny
def test_reward_works_in_a_stock_trainer(tiny_model, arithmetic_rows, tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    from trl_grpo_ext.rewards import math_reward

    trainer = GRPOTrainer(
        model=tiny_model,
        reward_funcs=math_reward,
        args=GRPOConfig(**arguments(tmp_path, max_steps=1)),
        train_dataset=Dataset.from_list(arithmetic_rows),
    )
    trainer.train()
    assert trainer.state.log_history[0]["rewards/math_reward/mean"] == 0.0


def minus_infinity(completions, **kwargs):
    return [-float("inf"), *[0.0] * (len(completions) - 1)]


@pytest.mark.tiny
def test_an_infinite_reward_is_named_before_it_reaches_the_weights(tiny_model, arithmetic_rows, tmp_path):
    with pytest.raises(DataError, match="minus_infinity returned an infinite reward"):
        build(tiny_model, arithmetic_rows, tmp_path, [half, minus_infinity]).train()
    clipped = {"name": f"{__name__}.minus_infinity", "clip": [-1, 1]}
    trainer = build(tiny_model, arithmetic_rows, tmp_path, [clipped], max_steps=1)
    trainer.train()
    assert trainer.state.global_step == 1


def not_a_number(rewards):
    return rewards / rewards.new_zeros(1)


@pytest.mark.tiny
def test_a_broken_estimator_is_named(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, [half], advantage=f"{__name__}.not_a_number")
    with pytest.raises(DataError, match=r"gave .* it must be a finite torch.float32"):
        trainer.train()


@pytest.mark.tiny
def test_recent_completions_are_spread_over_the_batch(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, [half], max_steps=1)
    trainer.train()
    recent = trainer.recent_completions(3)
    assert len(recent) == 3
    assert recent[0]["rewards"] == {"half": 0.5}
    assert {row["prompt"][0]["content"] for row in recent} > {recent[0]["prompt"][0]["content"]}
