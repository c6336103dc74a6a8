"""The processes of a stage, as accelerate sees them."""

import os
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from accelerate import PartialState


def on_cpu() -> bool:
    """Whether this stage runs on the CPU: its accelerate config says so, or there is nothing else."""
    # accelerate passes `use_cpu` on to a single process only, never to several.
    if os.environ.get("ACCELERATE_USE_CPU", "false").lower() == "true":
        return True

    import torch

    return not torch.accelerator.is_available()


def process_state() -> "PartialState":
    """
    The state of this process: its rank, the number of ranks, its device.

    Created here and not by `PartialState()`, which takes several CPU processes for strangers to each other.
    """
    from accelerate import PartialState

    return PartialState(cpu=on_cpu())
