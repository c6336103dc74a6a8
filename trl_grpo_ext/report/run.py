"""Read a run directory as it lies: finished, still running, broken off or damaged."""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from trl_grpo_ext.errors import ConfigError


_FOLDER = re.compile(r"(\d+)-([A-Za-z0-9_]+)")  # a stage moved aside carries a suffix and is not part of the run
_RECENT_COMPLETIONS = 400  # enough to find right and wrong ones near the end without holding a long log in memory


@dataclass
class Stage:
    """
    One stage of a run, as its folder shows it.

    Args:
        id (`str`):
            Name of the stage in the recipe.
        kind (`str`):
            Kind of the stage, `"?"` when neither the recipe nor the folder tells.
        folder (`Path`, *optional*):
            The stage's folder; `None` when the stage has not been started.
        record (`dict`, *optional*):
            Content of `stage.json`.
        done (`dict`, *optional*):
            Content of `DONE`; `None` when the stage has not finished.
        error (`dict`, *optional*):
            Content of `error.json`.
        progress (`dict`, *optional*):
            Content of `progress.json`.
        scores (`dict`, *optional*):
            Content of `out/scores.json`.
        data_report (`dict`, *optional*):
            Content of `out/report.json`.
        metrics (`list[dict]`, *optional*):
            Rows of `logs/metrics.jsonl` in order of step.
        completions (`list[dict]`, *optional*):
            The last rows of `logs/completions.jsonl`.
    """

    id: str
    kind: str
    folder: Path | None = None
    record: dict = field(default_factory=dict)
    done: dict | None = None
    error: dict = field(default_factory=dict)
    progress: dict = field(default_factory=dict)
    scores: dict = field(default_factory=dict)
    data_report: dict = field(default_factory=dict)
    metrics: list[dict] = field(default_factory=list)
    completions: list[dict] = field(default_factory=list)

    @property
    def status(self) -> str:
        """`"done"`, `"failed"`, `"running"`, … as recorded; `DONE` wins because it is written last."""
        if self.done is not None:
            return "done"
        if self.folder is None:
            return "pending"
        return str(self.record.get("status") or "unknown")

    @property
    def attempts(self) -> list[dict]:
        """The recorded starts of this stage."""
        return dicts(self.record.get("attempts"))

    @property
    def config(self) -> dict:
        """The resolved block of the recipe this stage was started with."""
        return as_dict(self.record.get("config"))

    @property
    def seconds(self) -> float | None:
        """Wall-clock seconds over all attempts; `None` when no attempt has a known end."""
        spans = [_span(attempt) for attempt in self.attempts]
        # A report written by the last attempt itself, or a killed driver, leaves that attempt without an end.
        if self.done is not None and (not spans or spans[-1] is None):
            spans = [*spans[:-1], number(self.done.get("seconds"))]
        known = [span for span in spans if span is not None]
        return sum(known) if known else None


@dataclass
class Run:
    """
    A run directory.

    Args:
        path (`Path`):
            The directory.
        recipe (`dict`):
            The resolved recipe, `{}` when it is missing or unreadable.
        recipe_text (`str`):
            The same as text, for display.
        environment (`dict`):
            Content of `environment.json`.
        stages (`list[Stage]`):
            Stages in the order of the recipe.
        problems (`list[str]`):
            What is missing or unreadable, one sentence each.
    """

    path: Path
    recipe: dict
    recipe_text: str
    environment: dict
    stages: list[Stage]
    problems: list[str]

    @property
    def name(self) -> str:
        """Name of the run."""
        return str(self.recipe.get("name") or self.path.name)

    @property
    def control(self) -> str | None:
        """What this run controls for (`"shuffled-rewards"`), or `None` for an ordinary run."""
        return next((str(stage.record["control"]) for stage in self.stages if stage.record.get("control")), None)

    def evaluations(self) -> list[Stage]:
        """The eval stages that have scores."""
        return [stage for stage in self.stages if stage.kind == "eval" and stage.scores]


def read_run(run_dir: str | Path) -> Run:
    """
    Read a run directory without requiring that it is complete.

    Args:
        run_dir (`str` or `Path`):
            The run's `output_dir`.

    Returns:
        `Run`: what is there; what is missing is listed in `problems`.

    Raises:
        `ConfigError`: if the path is not a directory, or holds neither a recipe nor a stage.
    """
    path = Path(run_dir)
    if not path.is_dir():
        raise ConfigError(f"no run directory at {str(path)!r}; give the output_dir of a run")
    problems: list[str] = []
    recipe, recipe_text = _read_recipe(path, problems)
    folders = _stage_folders(path)
    if not recipe_text and not folders:
        raise ConfigError(
            f"{str(path)!r} is not a run directory: it holds no pipeline.yaml and no stage folder such as 00-data; "
            "give the output_dir of a run"
        )
    declared = {
        str(block["id"]): str(block.get("kind", "?")) for block in dicts(recipe.get("stages")) if "id" in block
    }
    order = [*declared, *(name for name in folders if name not in declared)]
    return Run(
        path=path,
        recipe=recipe,
        recipe_text=recipe_text,
        environment=_read_object(path / "environment.json", path, problems, required=True),
        stages=[_read_stage(name, declared.get(name, "?"), folders.get(name), path, problems) for name in order],
        problems=problems,
    )


def summary(run_dir: str | Path) -> dict:
    """
    The numbers of a run, for machines.

    Args:
        run_dir (`str` or `Path`):
            The run's `output_dir`.

    Returns:
        `dict`: `{"stages": [{"id", "kind", "seconds", "eval"}, …]}` in the order of the recipe. `seconds` is the total
        over attempts, `None` when unknown. `eval` is `{"greedy", "sampled", "pass_at_k": {"4": …}}` with means, or
        `None` for a stage without scores.

    Raises:
        `ConfigError`: if the path is not a run directory.
    """
    return {
        "stages": [
            {"id": stage.id, "kind": stage.kind, "seconds": stage.seconds, "eval": _means(stage.scores)}
            for stage in read_run(run_dir).stages
        ]
    }


def number(value: Any) -> float | None:
    """`value` as a finite float, or `None` when it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def as_dict(value: Any) -> dict:
    """`value` when it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts(value: Any) -> list[dict]:
    """The dicts of a list; empty when `value` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def moment(value: Any) -> datetime | None:
    """A point in time from Unix seconds or ISO 8601 text; `None` when it is neither."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
            return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)
        seconds = number(value)
        return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def _span(attempt: dict) -> float | None:
    started, ended = moment(attempt.get("started")), moment(attempt.get("ended"))
    return None if started is None or ended is None else max(0.0, (ended - started).total_seconds())


def _means(scores: dict) -> dict | None:
    if not scores:
        return None
    return {
        "greedy": number(as_dict(scores.get("greedy")).get("mean")),
        "sampled": number(as_dict(scores.get("sampled")).get("mean")),
        "pass_at_k": {
            str(k): number(as_dict(value).get("mean")) for k, value in as_dict(scores.get("pass_at_k")).items()
        },
    }


def _stage_folders(path: Path) -> dict[str, Path]:
    found = []
    for folder in path.iterdir():
        match = _FOLDER.fullmatch(folder.name)
        if match and folder.is_dir():
            found.append((int(match[1]), match[2], folder))
    return {name: folder for _, name, folder in sorted(found)}


def _read_recipe(path: Path, problems: list[str]) -> tuple[dict, str]:
    for name in ("pipeline.resolved.yaml", "pipeline.yaml"):
        try:
            text = (path / name).read_text(encoding="utf-8", errors="replace")
            recipe = yaml.safe_load(text)
        except FileNotFoundError:
            problems.append(f"{name} is missing.")
            continue
        except (OSError, yaml.YAMLError) as error:
            problems.append(f"{name} cannot be read: {error}")
            continue
        if isinstance(recipe, dict):
            return recipe, text
        problems.append(f"{name} holds no mapping.")
    return {}, ""


def _read_stage(name: str, kind: str, folder: Path | None, root: Path, problems: list[str]) -> Stage:
    if folder is None:
        return Stage(name, kind)
    record = _read_object(folder / "stage.json", root, problems, required=True)
    done = _read_object(folder / "DONE", root, problems) if (folder / "DONE").is_file() else None
    stage = Stage(
        id=name,
        kind=str(record.get("kind") or kind),
        folder=folder,
        record=record,
        done=done,
        error=_read_object(folder / "error.json", root, problems) if done is None else {},
        progress=_read_object(folder / "progress.json", root, problems),
    )
    finished = done is not None
    if stage.kind == "prepare":
        stage.data_report = _read_object(folder / "out" / "report.json", root, problems, required=finished)
    if stage.kind == "eval":
        stage.scores = _read_object(folder / "out" / "scores.json", root, problems, required=finished)
    if stage.kind in ("sft", "grpo"):
        rows = _read_rows(folder / "logs" / "metrics.jsonl", root, problems, required=finished)
        stage.metrics = _by_step(rows)
    if stage.kind == "grpo":
        rows = _read_rows(folder / "logs" / "completions.jsonl", root, problems, last=_RECENT_COMPLETIONS)
        stage.completions = rows
    return stage


def _read_object(path: Path, root: Path, problems: list[str], required: bool = False) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        if required:
            problems.append(f"{path.relative_to(root)} is missing.")
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.relative_to(root)} cannot be read: {error}")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path.relative_to(root)} holds no JSON object.")
        return {}
    return value


def _read_rows(
    path: Path, root: Path, problems: list[str], required: bool = False, last: int | None = None
) -> list[dict]:
    rows: list[dict] = []
    damaged = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for row in _objects(file):
                if row is None:
                    damaged += 1
                    continue
                rows.append(row)
                if last is not None and len(rows) > 2 * last:
                    del rows[:-last]
    except FileNotFoundError:
        if required:
            problems.append(f"{path.relative_to(root)} is missing.")
    except OSError as error:
        problems.append(f"{path.relative_to(root)} cannot be read: {error}")
    if damaged:
        problems.append(f"{path.relative_to(root)}: {damaged} unreadable line(s) were left out.")
    return rows if last is None else rows[-last:]


def _objects(lines: Iterable[str]) -> Iterable[dict | None]:
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        yield value if isinstance(value, dict) else None


def _by_step(rows: list[dict]) -> list[dict]:
    return sorted((row for row in rows if number(row.get("step")) is not None), key=lambda row: row["step"])
