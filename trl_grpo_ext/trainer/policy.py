"""What the policy says about the tokens that it sampled: one forward pass without gradient."""

import inspect
from typing import TYPE_CHECKING, Any

import torch


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


# Keys of a scored batch that TRL passes on to the model for images and the like.
MULTIMODAL_KEYS = (
    *("pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles"),
    *("image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids"),
)


def loss_mask(output: dict[str, Any]) -> torch.Tensor:
    """Which completion tokens count in the loss, shape (B, T), boolean: those that the policy wrote."""
    mask = output["completion_mask"]
    return (mask * output["tool_mask"] if "tool_mask" in output else mask).bool()


def token_logps_and_entropies(
    trainer: "GroupRelativeTrainer", output: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Log-probability and entropy of each completion token under the current policy.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer whose model is asked.
        output (`dict`):
            A scored batch of this process.

    Returns:
        `tuple[torch.Tensor, torch.Tensor]`: two tensors of shape (B, T), at the sampling temperature.
    """
    with torch.no_grad():
        logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
            torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1),
            output["completion_ids"].size(1),
            batch_size=_rows_at_a_time(trainer),
            compute_entropy=True,
            **{key: output[key] for key in MULTIMODAL_KEYS if key in output},
        )
    return logps, entropies


def sum_of_squared_probabilities(trainer: "GroupRelativeTrainer", output: dict[str, Any]) -> torch.Tensor:
    """
    Sum over the vocabulary of the squared probability, for each completion token, shape (B, T).

    Needs the whole distribution, which TRL's fused head does not return: a pass of its own, with logits, over
    `per_device_train_batch_size` rows at a time.
    """
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    keep = output["completion_ids"].size(1)
    model: Any = trainer.model
    forward = inspect.signature(trainer.accelerator.unwrap_model(model).forward).parameters
    options = {"logits_to_keep": keep + 1} if "logits_to_keep" in forward else {}
    sums = []
    with torch.no_grad(), trainer.accelerator.autocast():
        for rows, row_mask in zip(
            ids.split(_rows_at_a_time(trainer)), mask.split(_rows_at_a_time(trainer)), strict=True
        ):
            logits = model(input_ids=rows, attention_mask=row_mask, **options).logits[:, -(keep + 1) : -1]
            sums.append((logits.float() / trainer.temperature).softmax(dim=-1).square().sum(dim=-1))
    return torch.cat(sums)


def _rows_at_a_time(trainer: "GroupRelativeTrainer") -> int:
    args = trainer.args
    return args.per_device_train_batch_size if trainer.is_training else args.per_device_eval_batch_size
