"""The rewards in TRL's own trainer, and by the path its command line takes."""

import importlib

import pytest


REWARDS = ["math_reward", "format_reward", "length_reward", "language_reward"]


@pytest.fixture
def train(tiny_model, tmp_path):
    """Take two steps with rewards on rows; return what was logged."""

    def train(reward_funcs, rows):
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        args = GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=8,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
        )
        trainer = GRPOTrainer(tiny_model, reward_funcs, args=args, train_dataset=Dataset.from_list(rows))
        trainer.train()
        return trainer.state.log_history

    return train


@pytest.mark.tiny
def test_stock_trainer(train, arithmetic_rows):
    module = importlib.import_module("trl_grpo_ext.rewards")  # what `trl grpo --reward_funcs` does with a dotted path
    logged = {key for entry in train([getattr(module, name) for name in REWARDS], arithmetic_rows) for key in entry}
    assert {f"rewards/{name}/mean" for name in REWARDS} <= logged
    assert {"math_reward/timeout_frac", "math_reward/seconds"} <= logged


@pytest.mark.tiny
@pytest.mark.sandbox
def test_programs_in_the_stock_trainer(train):
    from trl_grpo_ext.tasks import build_task

    module = importlib.import_module("trl_grpo_ext.rewards")

    def written(prompts, completions, answer, **columns):
        """Judges what a better model might have written: half of the batch is right."""
        texts = [f"```py\n{program}\n```" if i % 2 else "no" for i, program in enumerate(answer)]
        return module.code_reward(prompts=prompts, completions=texts, **columns)

    rewards = [module.code_reward, module.code_fraction_reward, written]
    steps = [entry for entry in train(rewards, build_task("tiny_programs").rows("rl", 8, seed=0)) if "reward" in entry]
    assert len(steps) == 2
    for step in steps:
        assert step["rewards/written/mean"] == 0.5
        assert step["rewards/code_reward/mean"] == step["rewards/code_fraction_reward/mean"] == 0.0
        assert step["code_reward/infra_frac"] == 0.0
        assert step["code_fraction_reward/no_answer_frac"] == 1.0
