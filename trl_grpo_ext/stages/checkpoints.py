"""
Which checkpoints of a stage count.

A kill while a checkpoint is being saved leaves a folder that looks whole, so a checkpoint counts only with the file
`COMPLETE` that [`~trl_grpo_ext.stages.callbacks.CompleteCallback`] writes after every rank has saved.
"""

import re
import shutil
from pathlib import Path


COMPLETE = "COMPLETE"
_NAME = re.compile(r"checkpoint-(\d+)")


def step_of(checkpoint: Path) -> int:
    """The optimizer step in the name of a checkpoint folder."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise ValueError(f"{checkpoint.name!r} is not the name of a checkpoint")
    return int(match.group(1))


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoint folders in `folder`, oldest step first, complete or not."""
    found = [path for path in folder.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def newest_complete(folder: Path) -> Path | None:
    """The newest checkpoint that was saved to its end, or `None`."""
    complete = [path for path in list_checkpoints(folder) if (path / COMPLETE).is_file()]
    return complete[-1] if complete else None


def remove_incomplete(folder: Path) -> list[Path]:
    """Remove the checkpoints that were not saved to their end, so that none is counted or rotated, and return them."""
    incomplete = [path for path in list_checkpoints(folder) if not (path / COMPLETE).is_file()]
    for path in incomplete:
        shutil.rmtree(path)
    return incomplete
