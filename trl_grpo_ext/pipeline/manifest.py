"""
What the run directory remembers of a stage, and what follows from it: is the stage done, to be run, or stale?

A stage is done when its process wrote `DONE` and neither its configuration nor its inputs have changed since.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.files import read_json, write_json
from trl_grpo_ext.pipeline.launch import read_accelerate_config, world_size
from trl_grpo_ext.pipeline.recipe import BASE, GrpoStage, PrepareStage, Recipe, ReportStage, SftStage, Stage, resolved
from trl_grpo_ext.stages.checkpoints import newest_complete


# They change what is written down about a training, not the training.
FREE_PREFIXES = ("logging_", "save_")
FREE_KEYS = ("report_to",)

_CHUNK = 1 << 20

State = Literal["pending", "done", "stale"]


@dataclass(frozen=True)
class StageFolder:
    """The folder of one stage, `<number>-<id>`."""

    path: Path

    @property
    def record_file(self) -> Path:
        return self.path / "stage.json"

    @property
    def done_file(self) -> Path:
        return self.path / "DONE"

    @property
    def out(self) -> Path:
        return self.path / "out"

    def record(self) -> dict[str, Any]:
        """Content of `stage.json`; empty when the stage was never started."""
        return self._read(self.record_file)

    def done(self) -> dict[str, Any] | None:
        """Content of `DONE`, or `None` when the stage has not finished."""
        return self._read(self.done_file) if self.done_file.is_file() else None

    def error(self) -> dict[str, Any]:
        """Content of `error.json`; empty when the stage left none."""
        return self._read(self.path / "error.json")

    def progress(self) -> dict[str, Any]:
        """Content of `progress.json`; empty before the stage's first step."""
        return self._read(self.path / "progress.json")

    def lock_holder(self) -> str:
        """Which process holds the stage's lock, as far as it left word."""
        holder = self._read(self.path / ".lock.json")
        return f"process {holder.get('pid')} on {holder.get('host')}" if holder else "another process"

    def has_checkpoint(self) -> bool:
        """Whether there is a complete checkpoint to resume from."""
        return newest_complete(self.path / "checkpoints") is not None

    def log(self, attempt: int) -> Path:
        """The log of an attempt, counted from 1."""
        return self.path / "logs" / f"attempt-{attempt}.log"

    def update(self, **changes: Any) -> None:
        """Change keys of `stage.json`."""
        write_json(self.record_file, self.record() | changes)

    def _read(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            return {}
        try:
            content = read_json(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read ({error}); move {self.path} aside and run again") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{path} holds no JSON object; move {self.path} aside and run again")
        return content


@dataclass(frozen=True)
class Standing:
    """
    Where a stage stands.

    Args:
        state (`str`):
            `"done"`, `"pending"` (to be started or continued) or `"stale"` (the recipe no longer says what was run).
        changes (`tuple[str, ...]`, *optional*):
            What differs from what was run, one line each.
    """

    state: State
    changes: tuple[str, ...] = ()


def stage_folder(run_dir: Path, recipe: Recipe, stage: Stage) -> StageFolder:
    """The folder of `stage` in a run directory."""
    return StageFolder(run_dir / f"{recipe.stages.index(stage) + 1:02d}-{stage.id}")


def fingerprint(recipe: Recipe, stage: Stage, control: str | None) -> dict[str, Any]:
    """
    Everything in the recipe that the result of `stage` depends on, its inputs aside.

    Args:
        recipe (`Recipe`):
            The recipe.
        stage (`Stage`):
            One of its stages.
        control (`str`, *optional*):
            The control experiment of the run.
    """
    config = resolved(stage)
    marks: dict[str, Any] = {key: value for key, value in config.items() if key not in ("id", "accelerate", "train")}
    marks["seed"] = recipe.seed
    if isinstance(stage, PrepareStage):
        marks["files"] = {key: _content(Path(value)) for key, value in stage.task_params.items() if _is_path(value)}
    builds_base = isinstance(stage, PrepareStage) and recipe.base.from_config is not None
    if builds_base or not isinstance(stage, ReportStage | PrepareStage):
        marks["template"] = hashlib.sha256(recipe.template_text().encode()).hexdigest()[:16]
    if isinstance(stage, PrepareStage) or getattr(stage, "init_from", None) == BASE:
        marks["base"] = recipe.base.resolved()
    if isinstance(stage, GrpoStage):
        marks["control"] = control
    if isinstance(stage, SftStage | GrpoStage):
        marks["train"] = {key: value for key, value in stage.train.items() if not _is_free(key)}
        accelerate = recipe.accelerate_config(stage)
        marks["accelerate"] = {
            "num_processes": world_size(accelerate),
            "mixed_precision": str(read_accelerate_config(accelerate).get("mixed_precision", "no")),
        }
    return json.loads(json.dumps(marks))  # as it will be read back, so that the two compare equal


def config_hash(marks: dict[str, Any]) -> str:
    """Digest of a fingerprint."""
    return hashlib.sha256(json.dumps(marks, sort_keys=True).encode()).hexdigest()


def outputs_digest(folder: StageFolder) -> str | None:
    """
    Digest of what a finished stage left in `out/`; `None` while it has not finished.

    It is kept in `stage.json`, because a model may be many gigabytes.
    """
    if folder.done() is None:
        return None
    known = folder.record().get("outputs")
    if known is not None:
        return known
    digest = _content(folder.out)
    folder.update(outputs=digest)
    return digest


def input_digests(run_dir: Path, recipe: Recipe, stage: Stage) -> dict[str, Any]:
    """
    Which result of each earlier stage `stage` reads, by the id of that stage; `None` for one that has not finished.

    For a report, which also shows times and logs, the result is the finish itself.
    """
    digests = {}
    for source in recipe.inputs(stage).values():
        if source is not None:
            folder = stage_folder(run_dir, recipe, source)
            finished = (folder.done() or {}).get("finished")
            digests[source.id] = finished if isinstance(stage, ReportStage) else outputs_digest(folder)
    return digests


def assess(folder: StageFolder, stage: Stage, marks: dict[str, Any], inputs: dict[str, Any]) -> Standing:
    """
    Say where a stage stands.

    Args:
        folder (`StageFolder`):
            The stage's folder.
        stage (`Stage`):
            The stage as the recipe has it now.
        marks (`dict`):
            Its [`fingerprint`] now.
        inputs (`dict`):
            Its [`input_digests`] now.
    """
    record = folder.record()
    finished = folder.done() is not None
    if not record or not (finished or folder.has_checkpoint()):
        return Standing("pending")  # there is nothing that a change could contradict
    changed = differences(record.get("fingerprint"), marks)
    if not finished:
        changed = {key: values for key, values in changed.items() if not _is_longer_training(key, *values)}
    changes = [f"{key}: {before!r} -> {now!r}" for key, (before, now) in changed.items()]
    changes += _changed_inputs(record.get("input_digests", {}), inputs)
    if changes and isinstance(stage, ReportStage):
        return Standing("pending")  # a page about the other stages is made again, whatever changed
    if changes:
        return Standing("stale", tuple(changes))
    return Standing("done" if finished else "pending")


def differences(before: Any, now: Any, where: str = "") -> dict[str, tuple[Any, Any]]:
    """The dotted keys under which two nested mappings differ, with both values; `None` stands for a missing one."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return {} if before == now else {where: (before, now)}
    found: dict[str, tuple[Any, Any]] = {}
    for key in [*before, *(key for key in now if key not in before)]:
        found |= differences(before.get(key), now.get(key), f"{where}.{key}" if where else key)
    return found


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and Path(value).exists()


def _content(root: Path) -> str:
    """Digest of the names and contents of a file, or of all files below a folder."""
    total = hashlib.sha256()
    for path in [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file()):
        total.update(path.relative_to(root).as_posix().encode() + b"\0")
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    return total.hexdigest()


def _is_free(key: str) -> bool:
    return key in FREE_KEYS or key.startswith(FREE_PREFIXES)


def _is_longer_training(key: str, before: Any, now: Any) -> bool:
    return key == "train.max_steps" and isinstance(before, int) and isinstance(now, int) and now > before


def _changed_inputs(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    # An input that has not finished may come out as it was: that is seen when it has.
    changed = [source for source, digest in now.items() if digest is not None and before.get(source) != digest]
    return [f"its input {source!r} is no longer the one it was made from" for source in changed]
