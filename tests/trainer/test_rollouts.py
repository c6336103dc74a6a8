"""Rollouts beside those that are trained on: right rewards, and no trace in the metrics or the random numbers."""

import pytest
import torch
from datasets import Dataset

from tests.trainer.runs import arguments
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.trainer.history import prompt_key
from trl_grpo_ext.trainer.rollouts import _first_rows


def sum_reward(completion_ids, log_metric=None, **kwargs):
    if log_metric is not None:
        log_metric("calls", 1.0)
    return [float(sum(ids) % 7) for ids in completion_ids]


def build(tiny_model, rows, out, **overrides):
    return GroupRelativeTrainer(
        model=tiny_model,
        reward_funcs=sum_reward,
        args=GroupRelativeConfig(**arguments(out, **overrides)),
        train_dataset=Dataset.from_list(rows),
    )


@pytest.mark.tiny
def test_remax_compares_with_the_greedy_completion(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="remax")
    batch = [arithmetic_rows[i // 4] for i in range(8)]
    torch.manual_seed(0)
    output = trainer._generate_and_score_completions(batch)
    rewards = trainer._reward_matrix[:, 0].view(2, 4)
    greedy = []
    for row in (arithmetic_rows[0], arithmetic_rows[1]):
        prompt = trainer.processing_class.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        answer = trainer.model.generate(**prompt, do_sample=False, max_new_tokens=8)
        greedy.append(float(answer[0, prompt["input_ids"].size(1) :].sum() % 7))
    expected = rewards - torch.tensor(greedy).unsqueeze(1)
    torch.testing.assert_close(output["advantages"], expected.flatten())
    # The sampled completions and the metrics are those of a run without the greedy ones.
    other = build(tiny_model, arithmetic_rows, tmp_path, advantage="dr_grpo")
    torch.manual_seed(0)
    assert torch.equal(other._generate_and_score_completions(batch)["completion_ids"], output["completion_ids"])
    assert set(other._metrics["train"]) == set(trainer._metrics["train"])
    for name, values in other._metrics["train"].items():
        assert trainer._metrics["train"][name] == pytest.approx(values), name


@pytest.mark.tiny
def test_pvpo_compares_with_the_first_policy(tiny_model, arithmetic_rows, tmp_path):
    rows = arithmetic_rows[:5]
    trainer = build(tiny_model, rows, tmp_path, advantage="pvpo", max_steps=2, learning_rate=1e-2)
    trainer.train()
    reference = trainer._scorer.reference
    assert set(reference) == {prompt_key(row["prompt"]) for row in rows}
    assert all(len(rewards) == 4 for rewards in reference.values())
    trainer.model.train()
    output = trainer._generate_and_score_completions([rows[0]] * 4)
    baseline = sum(reference[prompt_key(rows[0]["prompt"])]) / 4
    torch.testing.assert_close(output["advantages"], trainer._reward_matrix[:, 0] - baseline)
    assert trainer._scorer.reference is reference, "sampled once"


@pytest.mark.tiny
def test_pvpo_takes_a_column(tiny_model, arithmetic_rows, tmp_path):
    rows = [{**row, "ref_rewards": [1.0, 3.0]} for row in arithmetic_rows]
    trainer = build(tiny_model, rows, tmp_path, advantage="pvpo")
    output = trainer._generate_and_score_completions([rows[i // 4] for i in range(8)])
    torch.testing.assert_close(output["advantages"], trainer._reward_matrix[:, 0] - 2.0)
    assert not trainer._scorer.remembers


@pytest.mark.tiny
def test_unjudged_greedy_completion_takes_its_group_out(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="remax")
    judge = trainer.judge
    trainer.judge = lambda *args: torch.tensor([float("nan"), *judge(*args)[1:].tolist()])
    output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    assert output["row_kept"].tolist() == [False] * 4 + [True] * 4
    assert output["advantages"][:4].tolist() == [0.0] * 4


@pytest.mark.tiny
def test_rollouts_of_its_own_do_not_mix_with_rollout_func(tiny_model, arithmetic_rows, tmp_path):
    with pytest.raises(ConfigError, match="does not work with rollout_func"):
        GroupRelativeTrainer(
            model=tiny_model,
            reward_funcs=sum_reward,
            args=GroupRelativeConfig(**arguments(tmp_path, advantage="remax")),
            train_dataset=Dataset.from_list(arithmetic_rows),
            rollout_func=lambda prompts, trainer: {},
        )


def test_each_process_knows_the_first_row_of_the_groups_it_holds():
    assert _first_rows(0, rows=6, group_size=4) == {0: 0, 1: 4}
    assert _first_rows(1, rows=6, group_size=4) == {1: 0, 2: 2}
