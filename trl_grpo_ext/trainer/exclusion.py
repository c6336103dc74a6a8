"""Rows that could not be scored leave the gradient and every denominator of the loss."""

from typing import Any

import torch


# Loss types whose denominator counts rows of a micro-batch, and the one that takes a mean over micro-batches. The
# remaining ones divide by `num_items_in_batch`, a count of tokens.
ROW_MEAN_LOSSES = ("grpo", "sapo", "dr_grpo", "luspo")
MICRO_BATCH_MEAN_LOSSES = ("bnpo",)


def mask_rows(output: dict[str, Any], kept: torch.Tensor) -> torch.Tensor:
    """
    Take rows out of the loss of a scored batch, in place.

    The mask goes into `tool_mask`, which TRL applies to the loss alone: in `completion_mask` it would also change what
    the model attends to, and with it the log-probabilities.

    Args:
        output (`dict`):
            What `_generate_and_score_completions` returned on this process.
        kept (`torch.Tensor` of shape `(B,)`):
            Boolean; `False` for rows to take out.

    Returns:
        `torch.Tensor`: number of completion tokens of this process that still count, a scalar.
    """
    completion_mask = output["completion_mask"]  # (B, T)
    keep = kept.unsqueeze(1).to(completion_mask.dtype).expand_as(completion_mask)
    output["tool_mask"] = keep * output["tool_mask"] if "tool_mask" in output else keep.clone()
    output["row_kept"] = kept
    return (completion_mask * output["tool_mask"]).sum()


def loss_weights(kept_rows: torch.Tensor, rows: int, window: int, loss_type: str) -> list[float]:
    """
    Factor by which the policy and KL terms of each micro-batch are multiplied so that removed rows do not count.

    TRL divides a row-mean loss by all rows of the accumulation window over all processes. The right divisor is the
    number of rows kept there: the factor is their ratio, one for each window.

    Args:
        kept_rows (`torch.Tensor` of shape `(P, S)`):
            Rows kept, for each of P processes and S micro-batches.
        rows (`int`):
            Rows in a micro-batch.
        window (`int`):
            Micro-batches in an accumulation window.
        loss_type (`str`):
            TRL's `loss_type`.

    Returns:
        `list[float]` of length S; 0 for a window of which nothing is left.
    """
    if loss_type in ROW_MEAN_LOSSES:
        counts, full = kept_rows.sum(dim=0), rows * kept_rows.size(0)
    elif loss_type in MICRO_BATCH_MEAN_LOSSES:
        counts, full = (kept_rows > 0).sum(dim=0), kept_rows.size(0)
    else:
        return [1.0] * kept_rows.size(1)
    weights: list[float] = []
    for part in counts.split(window):
        kept = part.sum().item()
        weights += [full * len(part) / kept if kept else 0.0] * len(part)
    return weights
