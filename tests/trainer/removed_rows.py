"""The loss of a window with removed rows, against the stock loss of the kept rows alone; also run as two processes."""

import json
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.nn.functional import pad
from trl import GRPOTrainer

from tests.trainer.runs import arguments
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer


LOSS_TYPES = ["grpo", "dr_grpo", "dapo", "cispo", "vespo", "sapo", "luspo"]


def judge_that_fails(completions, prompts, **kwargs):
    """0/1 by length; cannot judge completions of some lengths, so that some rows of most groups are unscored."""
    lengths = [len(completion[0]["content"]) for completion in completions]
    return [None if length % 3 == 0 else float(length % 2) for length in lengths]


def always_one(completions, **kwargs):
    return [1.0] * len(completions)


def build(model: str, rows: list[dict], output_dir, eval_dataset=None, **overrides) -> GroupRelativeTrainer:
    overrides = {"max_unscored_frac": 1.0, "max_completion_length": 16, **overrides}
    return GroupRelativeTrainer(
        model=model,
        reward_funcs=[{"name": "tests.trainer.removed_rows.judge_that_fails", "required": True}, always_one],
        args=GroupRelativeConfig(**arguments(output_dir, **overrides)),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(eval_dataset) if eval_dataset else None,
    )


def gradients(trainer, losses) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of the losses of the micro-batches and its gradient, both averaged over processes as DDP does."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    model.zero_grad()
    total = sum(losses)
    total.backward()
    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
    return trainer.accelerator.reduce(total.detach(), "mean"), trainer.accelerator.reduce(flat, "mean")


def compare(trainer) -> dict:
    """Score one generation batch; return the window's loss, and that of all kept rows as one batch of a stock run."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    batch = next(iter(trainer.get_train_dataloader()))
    trainer._prepare_inputs(batch)
    micro_batches = trainer._buffered_inputs
    model = trainer.accelerator.unwrap_model(trainer.model)
    loss, gradient = gradients(trainer, [trainer._compute_loss(model, inputs) for inputs in micro_batches])

    kept = gather_object([row for inputs in micro_batches for row in kept_rows(inputs)])
    reference = stack(kept)
    # One process and one micro-batch hold everything: the stock denominators are then the right ones.
    processes = trainer.accelerator.num_processes
    reference["num_items_in_batch"] = reference["completion_mask"].sum() * processes
    trainer.current_gradient_accumulation_steps = 1
    steps, trainer.args.steps_per_generation = trainer.args.steps_per_generation, 1
    # TRL's own loss where it has the KL estimator, and ours, which has no row to leave out here, where it has not.
    stock = GRPOTrainer if trainer.args.kl_estimator == "k3" else GroupRelativeTrainer
    expected_loss, expected_gradient = gradients(trainer, [stock._compute_loss(trainer, model, reference)])
    trainer.args.steps_per_generation = steps
    return {
        "rows": sum(inputs["completion_ids"].size(0) for inputs in micro_batches) * processes,
        "kept": len(kept),
        "loss": loss,
        "expected_loss": expected_loss,
        "gradient": gradient,
        "expected_gradient": expected_gradient,
        "logged_advantages": list(trainer._logs["advantages"]),
    }


ROW_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "ref_per_token_logps", "advantages")


def kept_rows(inputs: dict) -> list[dict]:
    kept = inputs["row_kept"].nonzero().flatten() if "row_kept" in inputs else range(inputs["advantages"].size(0))
    return [{key: inputs[key][i] for key in ROW_KEYS if key in inputs} for i in kept]


def stack(rows: list[dict]) -> dict:
    return {key: stack_padded([row[key] for row in rows], left=key.startswith("prompt")) for key in rows[0]}


def stack_padded(tensors: list[torch.Tensor], left: bool) -> torch.Tensor:
    if tensors[0].dim() == 0:
        return torch.stack(tensors)
    width = max(tensor.size(0) for tensor in tensors)
    missing = [width - tensor.size(0) for tensor in tensors]
    return torch.stack([pad(tensor, (n, 0) if left else (0, n)) for tensor, n in zip(tensors, missing, strict=True)])


def main() -> None:
    request = json.loads(sys.argv[1])
    results = {}
    for loss_type in LOSS_TYPES:
        trainer = build(request["model"], request["rows"], request["out"], loss_type=loss_type)
        results[loss_type] = compare(trainer)
    if trainer.accelerator.is_main_process:
        torch.save(results, Path(request["out"]) / "result.pt")
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
