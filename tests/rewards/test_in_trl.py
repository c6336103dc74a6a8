"""The rewards in TRL's own trainer, and by the path its command line takes."""

import importlib

import pytest


REWARDS = ["math_reward", "format_reward", "length_reward", "language_reward"]


@pytest.mark.tiny
def test_stock_trainer(tiny_model, arithmetic_rows, tmp_path):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    module = importlib.import_module("trl_grpo_ext.rewards")  # what `trl grpo --reward_funcs` does with a dotted path
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
    trainer = GRPOTrainer(
        model=tiny_model,
        reward_funcs=[getattr(module, name) for name in REWARDS],
        args=args,
        train_dataset=Dataset.from_list(arithmetic_rows),
    )
    trainer.train()
    logged = {key for entry in trainer.state.log_history for key in entry}
    assert {f"rewards/{name}/mean" for name in REWARDS} <= logged
    assert {"math_reward/timeout_frac", "math_reward/seconds"} <= logged
