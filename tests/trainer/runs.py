"""Short training runs of the stock trainer and of ours, for comparison; also started as two processes."""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer


def parity_reward(completions, **kwargs):
    """0/1 by the number of characters: about half of any group, and the same in every process."""
    return [float(len(completion[0]["content"]) % 2) for completion in completions]


def arguments(output_dir, **overrides) -> dict:
    defaults = {
        "output_dir": str(output_dir),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "max_completion_length": 8,
        "max_steps": 3,
        "learning_rate": 1e-3,
        "beta": 0.04,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "disable_tqdm": True,
        "seed": 3,
    }
    return {**defaults, **overrides}


def train(ours: bool, model: str, rows: list[dict], reward_funcs, output_dir, **overrides):
    config_class, trainer_class = (GroupRelativeConfig, GroupRelativeTrainer) if ours else (GRPOConfig, GRPOTrainer)
    trainer = trainer_class(
        model=model,
        reward_funcs=reward_funcs,
        args=config_class(**arguments(output_dir, **overrides)),
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()
    return trainer


def history(trainer) -> list[dict]:
    """Losses and gradient norms by step."""
    return [
        {key: entry[key] for key in ("loss", "grad_norm", "reward", "reward_std", "kl") if key in entry}
        for entry in trainer.state.log_history
        if "loss" in entry
    ]


def weights(trainer) -> dict[str, torch.Tensor]:
    return {
        name: tensor.detach().clone()
        for name, tensor in trainer.accelerator.unwrap_model(trainer.model).named_parameters()
    }


def main() -> None:
    """Two-process entry point: arguments as JSON in `sys.argv[1]`; rank 0 writes both runs to a file."""
    request = json.loads(sys.argv[1])
    rows = request["rows"]
    result = {}
    for ours in (False, True):
        trainer = train(ours, request["model"], rows, parity_reward, request["out"], **request["overrides"])
        result["ours" if ours else "stock"] = {"history": history(trainer), "weights": weights(trainer)}
    if trainer.accelerator.is_main_process:
        torch.save(result, Path(request["out"]) / "result.pt")
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
