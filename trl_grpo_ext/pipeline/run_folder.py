"""The directory of a run: whose it is, who works in it, and the files that describe it."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml
from filelock import FileLock, Timeout

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.files import read_json, write_json, write_text
from trl_grpo_ext.pipeline.manifest import stage_folder
from trl_grpo_ext.pipeline.recipe import Recipe, resolved
from trl_grpo_ext.pipeline.strict_yaml import read_yaml


RESOLVED = "pipeline.resolved.yaml"
TEMPLATE = "template.jinja"
_ANOTHER = "choose another --output_dir"


@contextmanager
def claim(recipe: Recipe) -> Iterator[Path]:
    """
    Make or open the directory of a run and keep every other driver out of it.

    Yields:
        `Path`: the absolute path of the directory.

    Raises:
        [`~errors.ConfigError`]: if it cannot be written, holds something else or another recipe's run, or another
            driver works in it.
    """
    run_dir = Path(recipe.output_dir).absolute()
    holder = run_dir / ".driver.json"  # beside the lock: whoever asks for the lock truncates that file
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        _check_owner(run_dir, recipe)
        lock = FileLock(run_dir / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(f"{_describe(holder)} already works in {run_dir}; wait for it, or {_ANOTHER}") from error
    except OSError as error:
        raise ConfigError(f"output_dir {run_dir} cannot be written ({error.strerror}); {_ANOTHER}") from error
    try:
        write_json(holder, {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()})
        yield run_dir
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def write_description(run_dir: Path, recipe: Recipe, control: str | None) -> None:
    """Write `pipeline.resolved.yaml`, `pipeline.yaml` and `template.jinja`."""
    content: dict[str, Any] = {
        "version": recipe.version,
        "name": recipe.name,
        "output_dir": recipe.output_dir,
        "seed": recipe.seed,
        "control": control,
        "template": recipe.template,
        "accelerate": recipe.accelerate,
        "base": recipe.base.resolved(),
        "stages": [resolved(stage) for stage in recipe.stages],
    }
    write_text(run_dir / RESOLVED, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=119))
    write_text(run_dir / "pipeline.yaml", recipe.path.read_text(encoding="utf-8"))
    write_text(run_dir / TEMPLATE, recipe.template_text())


def is_being_worked_in(run_dir: Path) -> bool:
    """Whether a driver works in a run directory; one on another machine is taken at its word."""
    try:
        owner = read_json(run_dir / ".driver.json")
    except (OSError, ValueError):
        return False
    return owner["host"] != socket.gethostname() or psutil.pid_exists(owner["pid"])


def _check_owner(run_dir: Path, recipe: Recipe) -> None:
    if not (run_dir / RESOLVED).is_file():
        # A driver killed at its very start leaves hidden files (its lock, a half-written file) and nothing else.
        foreign = sorted(path.name for path in run_dir.iterdir() if not path.name.startswith("."))
        if foreign:
            raise ConfigError(f"output_dir {run_dir} holds {foreign[0]!r} and is no run of a recipe; {_ANOTHER}")
        return
    content = read_yaml(run_dir / RESOLVED)
    name = content.get("name") if isinstance(content, dict) else None
    if name != recipe.name:
        raise ConfigError(f"output_dir {run_dir} holds a run of recipe {name!r}, this is {recipe.name!r}; {_ANOTHER}")
    for stage in recipe.stages:
        _check_position(run_dir, stage_folder(run_dir, recipe, stage).path)


def _check_position(run_dir: Path, folder: Path) -> None:
    number, stage_id = folder.name.split("-")
    for other in run_dir.iterdir():
        match = re.fullmatch(rf"(\d+)-{stage_id}", other.name)
        if match and match[1] != number:
            raise ConfigError(
                f"stage {stage_id!r} is now number {int(number)} of the recipe and its folder is {other}; {_ANOTHER}, "
                f"or keep what it holds: mv {other} {folder}"
            )


def _describe(holder: Path) -> str:
    try:
        owner = read_json(holder)
    except (OSError, ValueError):  # it is written just after the lock is taken
        return "another run"
    since = time.strftime("%H:%M:%S", time.localtime(owner["started"]))
    return f"another run (pid {owner['pid']} on {owner['host']}, since {since})"
