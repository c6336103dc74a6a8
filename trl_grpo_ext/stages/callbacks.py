"""Trainer callbacks of the sft and grpo stages: progress, metrics, and the mark of a complete checkpoint."""

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trl_grpo_ext.files import write_jsonl, write_text
from trl_grpo_ext.stages.checkpoints import COMPLETE
from trl_grpo_ext.stages.stage import Stage


if TYPE_CHECKING:
    from trl_grpo_ext.trainer import GroupRelativeTrainer


class CompleteCallback(TrainerCallback):
    """Mark each checkpoint `COMPLETE` once every rank has saved its part."""

    def on_save(self, args, state, control, **kwargs):
        args.distributed_state.wait_for_everyone()
        if state.is_world_process_zero:
            write_text(Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE, "")


class ProgressCallback(TrainerCallback):
    """Write `progress.json` after each optimizer step, with the newest of the metrics worth a glance."""

    _SHOWN = ("loss", "reward")

    def __init__(self, stage: Stage):
        self.stage = stage
        self.text = ""

    def on_train_begin(self, args, state, control, **kwargs):
        self.stage.progress(state.global_step, state.max_steps, self.text)

    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = [f"{key} {logs[key]:.3f}" for key in self._SHOWN if isinstance((logs or {}).get(key), float)]
        self.text = "  ".join(shown) or self.text

    def on_step_end(self, args, state, control, **kwargs):
        self.stage.progress(state.global_step, state.max_steps, self.text)


class MetricsCallback(TrainerCallback):
    """Append each logged row to `logs/metrics.jsonl`; on resume, first drop the rows that will be written again."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            keep_rows_until(self.path, state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        # The summary at the end of training has no loss or reward of its own: it is no step.
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            append_rows(self.path, [{"step": state.global_step, "time": round(time.time(), 3), **logs}])


class CompletionsCallback(TrainerCallback):
    """
    Append a few completions of the newest generation batch to `logs/completions.jsonl` at each logged step.

    Args:
        path (`Path`):
            File to append to.
        answers (`dict[str, str]`):
            Reference answers by [`~trl_grpo_ext.trainer.history.prompt_key`].
        trainer ([`~trl_grpo_ext.trainer.GroupRelativeTrainer`]):
            The trainer, which keeps its newest completions.
        per_step (`int`, *optional*, defaults to `4`):
            Most completions to write at a time.
    """

    def __init__(self, path: Path, answers: dict[str, str], trainer: "GroupRelativeTrainer", per_step: int = 4):
        self.path = path
        self.answers = answers
        self.trainer = trainer
        self.per_step = per_step

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            keep_rows_until(self.path, state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            append_rows(self.path, self._rows(state.global_step))

    def _rows(self, step: int) -> Iterable[dict[str, Any]]:
        # Loaded with the trainer by now; the sft stage, which has none, does without.
        from trl_grpo_ext.trainer.history import prompt_key

        for kept in self.trainer.recent_completions(self.per_step):
            yield {
                "step": step,
                "prompt": _last_text(kept["prompt"]),
                "completion": _last_text(kept["completion"]),
                "answer": self.answers.get(prompt_key(kept["prompt"])),
                "rewards": {name: _finite(value) for name, value in kept["rewards"].items()},
                "advantage": kept["advantage"],
            }


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append JSON lines to `path`; a NaN or infinity becomes `null`, which every JSON reader takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({key: _finite(value) for key, value in row.items()}, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def keep_rows_until(path: Path, step: int) -> None:
    """Drop the rows of `path` after `step`, and a last line that a kill left half written."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines[:-1] if line.strip()]  # what follows the last newline is half a line
    write_jsonl(path, [row for row in rows if row["step"] <= step])


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _last_text(messages: list[dict] | str) -> str:
    return messages if isinstance(messages, str) else messages[-1]["content"]
