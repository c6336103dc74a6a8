"""What the terminal shows of a run: a progress bar for the stage that runs, and a table at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from trl_grpo_ext.pipeline.run_folder import is_being_worked_in
from trl_grpo_ext.report import read_run
from trl_grpo_ext.report.text import duration


class Bar:
    """A progress bar fed by the content of `progress.json`."""

    def __init__(self, progress: Progress, task: TaskID):
        self._progress = progress
        self._task = task

    def show(self, state: dict[str, Any]) -> None:
        """Move the bar to `state` (`step`, `total`, `text`)."""
        if state:
            text = escape(str(state.get("text", "")))
            self._progress.update(
                self._task, completed=state.get("step", 0), total=state.get("total") or None, text=text
            )


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Bar]:
    """Show a bar while the block runs; where there is no terminal, one line that says what has started."""
    if not console.is_terminal:
        console.print(f"  {title} …", markup=False, highlight=False, soft_wrap=True)
    columns = (
        TextColumn("  {task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task(title, total=None, text=""))


def show_summary(console: Console, run_dir: Path) -> None:
    """Print the table of a run, and where its report is."""
    run = read_run(run_dir)
    table = Table("stage", box=box.SIMPLE_HEAD)
    for heading in ("time", "greedy", "sampled", "pass@k"):
        table.add_column(heading, justify="right", no_wrap=True)
    for stage in run.stages:
        scores = stage.scores
        accuracy = [_score(scores.get(name)) for name in ("greedy", "sampled")]
        table.add_row(stage.id, duration(stage.seconds), *accuracy, _pass_at_k(scores.get("pass_at_k")))
    console.print(table)
    for stage in run.stages:
        if stage.kind == "report" and stage.folder is not None and stage.done is not None:
            page = stage.folder / "out" / "report.html"
            console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def show_status(console: Console, run_dir: Path) -> None:
    """
    Print how far each stage of a run is.

    Raises:
        [`~errors.ConfigError`]: if the path is no run directory.
    """
    table = Table("stage", "kind", "state", "step", "time", "attempts", box=box.SIMPLE_HEAD)
    for stage in read_run(run_dir).stages:
        state = stage.status
        if state == "running" and not is_being_worked_in(run_dir):
            state = "broken off"  # its driver was killed before it could write down the end
        step = f"{stage.progress.get('step', '?')}/{stage.progress.get('total', '?')}" if stage.progress else "–"
        table.add_row(stage.id, stage.kind, state, step, duration(stage.seconds), str(len(stage.attempts) or "–"))
    console.print(table)


def _score(score: dict[str, Any] | None) -> str:
    if not score or score.get("mean") is None:
        return "–"
    interval = score.get("ci")
    return f"{score['mean']:.3f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def _pass_at_k(scores: dict[str, Any] | None) -> str:
    if not scores:
        return "–"
    largest = max(scores, key=int)
    mean = scores[largest].get("mean")
    return "–" if mean is None else f"{mean:.3f} (k={largest})"
