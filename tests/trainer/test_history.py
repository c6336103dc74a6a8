"""What estimators remember survives in the checkpoint, and training goes on as if it had not stopped."""

import json

import pytest
import torch
from datasets import Dataset

from tests.trainer.runs import arguments, history, weights
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.trainer.history import STATE_FILE, prompt_key


def half_reward(completion_ids, **kwargs):
    return [float(sum(ids) % 2) for ids in completion_ids]


def build(tiny_model, rows, out, **overrides):
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "learning_rate": 1e-2, **overrides}
    return GroupRelativeTrainer(
        model=tiny_model,
        reward_funcs=half_reward,
        args=GroupRelativeConfig(**arguments(out, **settings)),
        # Few prompts, so that each is seen again, within one epoch: TRL's resume is exact only up to the end of it.
        train_dataset=Dataset.from_list(rows[:3] * 8),
    )


@pytest.mark.tiny
@pytest.mark.parametrize("advantage", ["spo", "dcpo_sas", "ha_dw", "pvpo"])
def test_resumed_run_is_the_uninterrupted_one(tiny_model, arithmetic_rows, tmp_path, advantage):
    whole = build(tiny_model, arithmetic_rows, tmp_path / "whole", advantage=advantage)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    saved = json.loads((checkpoint / STATE_FILE).read_text())
    assert saved["advantage"] == advantage
    resumed = build(tiny_model, arithmetic_rows, tmp_path / "resumed", advantage=advantage)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert resumed._scorer.state_dict() == whole._scorer.state_dict()
    assert resumed._scorer.state_dict() != saved["state"] or advantage == "pvpo"
    for expected, got in zip(history(whole)[2:], history(resumed)[2:], strict=True):
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-7)
    for name, expected in weights(whole).items():
        torch.testing.assert_close(weights(resumed)[name], expected, rtol=1e-5, atol=1e-7, msg=name)


@pytest.mark.tiny
def test_a_checkpoint_without_the_history_is_refused(tiny_model, arithmetic_rows, tmp_path):
    build(tiny_model, arithmetic_rows, tmp_path, advantage="grpo", max_steps=2).train()
    assert not (tmp_path / "checkpoint-2" / STATE_FILE).exists()
    with pytest.raises(ConfigError, match=r"'spo' remembers earlier batches.*is missing"):
        build(tiny_model, arithmetic_rows, tmp_path, advantage="spo").train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-2")
        )


@pytest.mark.tiny
def test_another_estimators_history_is_refused(tiny_model, arithmetic_rows, tmp_path):
    build(tiny_model, arithmetic_rows, tmp_path, advantage="dcpo_sas", max_steps=2).train()
    with pytest.raises(ConfigError, match="state of advantage 'dcpo_sas', not of 'spo'"):
        build(tiny_model, arithmetic_rows, tmp_path, advantage="spo").train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-2")
        )
    (tmp_path / "checkpoint-2" / STATE_FILE).write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        build(tiny_model, arithmetic_rows, tmp_path, advantage="dcpo_sas").train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-2")
        )


@pytest.mark.tiny
def test_the_drift_clock_runs_with_the_policy(tiny_model, arithmetic_rows, tmp_path):
    moving = build(tiny_model, arithmetic_rows, tmp_path / "a", advantage="spo")
    moving.train()
    still = build(tiny_model, arithmetic_rows, tmp_path / "b", advantage="spo", learning_rate=0.0)
    still.train()
    assert moving._scorer.history.clock.reading > 1e-4
    assert still._scorer.history.clock.reading == 0.0


@pytest.mark.tiny
def test_evaluation_leaves_the_history_alone(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="dcpo_sas")
    trainer.model.eval()
    trainer._generate_and_score_completions([arithmetic_rows[0]] * 4)
    assert trainer._scorer.state_dict()["history"] == {"tracker": {"moments": {}}}


def test_prompt_key_ignores_the_order_of_fields():
    a = [{"role": "user", "content": "1+1"}]
    b = [{"content": "1+1", "role": "user"}]
    assert prompt_key(a) == prompt_key(b) != prompt_key([{"role": "user", "content": "1+2"}])
