"""
Run a recipe: each stage as a process of its own, in order, starting only what is not done.

The driver imports no torch and keeps no state in memory: everything it knows is in the run directory, so it can be
killed at any moment and started again.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from trl_grpo_ext.errors import ConfigError, StageError
from trl_grpo_ext.files import write_json
from trl_grpo_ext.pipeline.display import Bar, progress_bar, show_summary
from trl_grpo_ext.pipeline.environment import describe_environment
from trl_grpo_ext.pipeline.launch import launch_command
from trl_grpo_ext.pipeline.manifest import (
    StageFolder,
    Standing,
    assess,
    fingerprint,
    input_digests,
    stage_folder,
)
from trl_grpo_ext.pipeline.recipe import Recipe, Stage
from trl_grpo_ext.pipeline.run_folder import claim, write_description
from trl_grpo_ext.pipeline.signals import StopSignals
from trl_grpo_ext.pipeline.stage_process import StageProcess
from trl_grpo_ext.pipeline.stage_record import stage_record
from trl_grpo_ext.report.text import duration


_POLL = 0.2  # seconds between two looks at progress.json
_LOG_TAIL = 20  # lines of a log that say why a stage failed


@dataclass(frozen=True)
class Runner:
    """
    Runs the stages of a recipe.

    Args:
        recipe (`Recipe`):
            The recipe.
        control (`str`, *optional*):
            Control experiment: `"shuffled-rewards"`.
        console (`Console`, *optional*):
            Where the progress is shown; standard output by default.
        build_command (`Callable`, *optional*):
            Makes the command line of a stage from the path of an accelerate config and the stage's directory.
        lock_timeout (`float`, *optional*, defaults to `30.0`):
            Seconds to wait for a process of an earlier run that still holds a stage.
        grace (`float`, *optional*, defaults to `20.0`):
            Seconds that a stage gets to end after a signal before it is killed.
    """

    recipe: Recipe
    control: str | None = None
    console: Console = field(default_factory=Console)
    build_command: Callable[[Path, Path], list[str]] = launch_command
    lock_timeout: float = 30.0
    grace: float = 20.0

    def run(self) -> Path:
        """
        Run every stage that is not done.

        Returns:
            `Path`: the run directory.

        Raises:
            [`~errors.ConfigError`]: if the user has to change something: the output directory is taken, a finished
                stage no longer fits the recipe, or a stage refused its configuration.
            [`~errors.StageError`]: if a stage failed.
            `KeyboardInterrupt`: if a signal stopped the run; the running stage has been stopped.
        """
        with claim(self.recipe) as run_dir, StopSignals() as stop:
            self._refuse_stale(run_dir)  # before anything is written or started
            write_description(run_dir, self.recipe, self.control)
            started_any = False
            for number, stage in enumerate(self.recipe.stages, start=1):
                title = f"[{number}/{len(self.recipe.stages)}] {stage.id} ({stage.kind})"
                self._wait_for_lock(stage_folder(run_dir, self.recipe, stage), stop)
                self._refuse_stale(run_dir)  # again: an input that was run anew may have come out differently
                if self._assess(run_dir, stage).state == "done":
                    # The last driver may have been killed before it wrote this.
                    stage_folder(run_dir, self.recipe, stage).update(status="done")
                    self._say(f"- {title} is done already")
                    continue
                if not started_any:
                    write_json(run_dir / "environment.json", describe_environment())
                    started_any = True
                self._run_stage(run_dir, stage, title, stop)
            show_summary(self.console, run_dir)
        return run_dir

    @cached_property
    def _marks(self) -> dict[str, dict[str, Any]]:
        return {stage.id: fingerprint(self.recipe, stage, self.control) for stage in self.recipe.stages}

    def _assess(self, run_dir: Path, stage: Stage) -> Standing:
        inputs = input_digests(run_dir, self.recipe, stage)
        return assess(stage_folder(run_dir, self.recipe, stage), stage, self._marks[stage.id], inputs)

    def _refuse_stale(self, run_dir: Path) -> None:
        complaints: list[str] = []
        affected: list[Stage] = []
        for stage in self.recipe.stages:
            standing = self._assess(run_dir, stage)
            built_on = [source for source in self.recipe.inputs(stage).values() if source in affected]
            if standing.state == "stale":
                complaints += [f"stage {stage.id!r} is stale: {change}" for change in standing.changes]
            if standing.state == "stale" or built_on:
                affected.append(stage)
        if not complaints:
            return
        folders = [stage_folder(run_dir, self.recipe, stage).path for stage in affected]
        moved = " ".join(str(folder) for folder in folders if folder.exists())
        aside = run_dir / time.strftime("aside-%Y%m%d-%H%M%S")
        raise ConfigError(
            "\n".join(complaints)
            + "\nPut back what was run, choose another --output_dir, or move the results aside and run again:"
            + f"\n  mkdir {aside} && mv {moved} {aside}/"
        )

    def _run_stage(self, run_dir: Path, stage: Stage, title: str, stop: StopSignals) -> None:
        folder = stage_folder(run_dir, self.recipe, stage)
        attempts = folder.record().get("attempts", [])
        for leftover in ("DONE", "error.json", "progress.json"):
            (folder.path / leftover).unlink(missing_ok=True)
        attempts.append({"started": time.time(), "ended": None, "exit_code": None})
        record = stage_record(run_dir, self.recipe, stage, self.control)
        write_json(folder.record_file, record | {"status": "running", "attempts": attempts})
        log = folder.log(len(attempts))
        command = self.build_command(self.recipe.accelerate_config(stage), folder.path)
        with progress_bar(self.console, title) as bar:
            exit_code = self._attend(StageProcess(command, log), folder, bar, stop)
        attempts[-1] |= {"ended": time.time(), "exit_code": exit_code}
        done = folder.done() is not None
        status = "done" if done else "pending" if stop.received else "failed"
        folder.update(status=status, attempts=attempts)
        if stop.received:
            raise KeyboardInterrupt
        if not done:
            raise _failure(stage, folder, exit_code, log)
        self._say(f"✓ {title} took {duration(attempts[-1]['ended'] - attempts[-1]['started'])}")

    def _attend(self, process: StageProcess, folder: StageFolder, bar: Bar, stop: StopSignals) -> int:
        forwarded = 0
        deadline = float("inf")
        try:
            while (exit_code := process.exit_code(timeout=_POLL)) is None:
                bar.show(folder.progress())
                if len(stop.received) > forwarded:
                    process.forward(stop.received[-1])
                    forwarded = len(stop.received)
                    deadline = min(deadline, time.monotonic() + self.grace)
                if forwarded > 1 or time.monotonic() > deadline:  # asked twice, or too slow
                    process.kill()
            return exit_code
        finally:
            if process.exit_code(timeout=0) is None:
                process.kill()
            process.clear()

    def _wait_for_lock(self, folder: StageFolder, stop: StopSignals) -> None:
        folder.path.mkdir(exist_ok=True)
        lock = FileLock(folder.path / ".lock")
        deadline = time.monotonic() + self.lock_timeout
        while not stop.received:
            try:
                with lock.acquire(timeout=_POLL):
                    return
            except Timeout as error:
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"{folder.path} is still in use by {folder.lock_holder()} after {self.lock_timeout:.0f} s; "
                        "stop it and run again"
                    ) from error
        raise KeyboardInterrupt

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _failure(stage: Stage, folder: StageFolder, exit_code: int, log: Path) -> ConfigError | StageError:
    report = folder.error()
    if report.get("kind") == "user":
        return ConfigError(f"stage {stage.id!r}: {report['message']}")
    if report:
        return StageError(f"stage {stage.id!r} failed: {report['message']}\nlog: {log}")
    how = f"was killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with exit code {exit_code}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_TAIL:]
    tail = "\n".join(f"  {line}" for line in lines)
    return StageError(f"stage {stage.id!r} {how} and said no more; the end of its log:\n{tail}\nlog: {log}")
