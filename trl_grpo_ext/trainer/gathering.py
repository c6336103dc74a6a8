"""Groups may straddle processes: values of all processes, group by group."""

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object


def grouped(accelerator: Accelerator, local: torch.Tensor, group_size: int) -> torch.Tensor:
    """
    Gather one value (or one row of values, padded with NaN) for each completion.

    Args:
        accelerator ([`~accelerate.Accelerator`]):
            Connects the processes.
        local (`torch.Tensor` of shape `(B,)` or `(B, T)`):
            Values of this process; T may differ between processes.
        group_size (`int`):
            G.

    Returns:
        `torch.Tensor` of shape (N, G) or (N, G, T), T being the largest of all processes.
    """
    if local.dim() == 2:
        # Accelerate's padding leaves a tensor alone on one process and pads with any number, NaN included.
        local = accelerator.pad_across_processes(local, dim=1, pad_index=torch.nan)
    gathered = accelerator.gather(local.contiguous())
    return gathered.view(-1, group_size, *gathered.shape[1:])


def grouped_objects(local: Sequence[Any], group_size: int) -> list[list[Any]]:
    """Gather one Python object for each completion: N lists of G."""
    gathered = gather_object(list(local))
    return [gathered[start : start + group_size] for start in range(0, len(gathered), group_size)]
