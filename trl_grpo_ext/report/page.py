"""Put a run on one page."""

import math
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from trl_grpo_ext.files import write_text
from trl_grpo_ext.report import content
from trl_grpo_ext.report.charts import stage_charts
from trl_grpo_ext.report.figures import Chart, draw_chart, draw_intervals, inline_svg, save_png
from trl_grpo_ext.report.run import Run, Stage, read_run
from trl_grpo_ext.report.text import duration, percent, plain, visible


def build_report(
    run_dir: str | Path, control_dir: str | Path | None = None, out_dir: str | Path | None = None
) -> Path:
    """
    Write the report of a run: `report.html`, one page that needs no network and no script, and `figures/*.png`.

    Args:
        run_dir (`str` or `Path`):
            The run's `output_dir`. The run may be unfinished or damaged; the page then says what is missing.
        control_dir (`str` or `Path`, *optional*):
            `output_dir` of a control run with the same recipe, drawn over the curves of this one.
        out_dir (`str` or `Path`, *optional*):
            Where to write. Defaults to `out/` of the run's report stage, or `report/` in the run directory when no
            such stage was started.

    Returns:
        `Path`: the page.

    Raises:
        `ConfigError`: if `run_dir` or `control_dir` is not a run directory.
    """
    run = read_run(run_dir)
    control = read_run(control_dir) if control_dir is not None else None
    out = Path(out_dir) if out_dir is not None else _default_out(run)
    page = out / "report.html"
    write_text(page, _render(run, control, out / "figures"))
    return page


def _default_out(run: Run) -> Path:
    folder = next((stage.folder for stage in run.stages if stage.kind == "report" and stage.folder), None)
    return folder / "out" if folder else run.path / "report"


def _render(run: Run, control: Run | None, figures: Path) -> str:
    environment = Environment(
        loader=PackageLoader("trl_grpo_ext.report", "."),
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ks = content.pass_ks([*run.evaluations(), *(control.evaluations() if control else [])])
    return environment.get_template("report.html.jinja").render(
        name=run.name,
        folder=run.path.resolve().name,
        finished=all(stage.status == "done" for stage in run.stages if stage.kind != "report"),
        written=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        version=version("trl-grpo-ext"),
        alerts=content.alerts(run, control),
        headline=content.headline(run),
        control=control,
        control_headline=content.headline(control) if control else None,
        ks=ks,
        evaluations=content.evaluation_rows(run, ks),
        control_evaluations=content.evaluation_rows(control, ks) if control else [],
        interval_figure=_interval_figure(run, control, figures),
        stages=content.stage_rows(run),
        total=duration(content.total_seconds(run)),
        training=[_training(stage, control, figures) for stage in run.stages if stage.kind in ("sft", "grpo")],
        data=[(stage.id, content.flatten(stage.data_report)) for stage in run.stages if stage.data_report],
        samples=_sample_groups(run),
        recipe=run.recipe_text,
        environment=content.flatten(run.environment) if run.environment else [],
    )


def _harmless(value: Any) -> Any:
    """Every text the template prints passes here, so none can reach the page unfiltered."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _training(stage: Stage, control: Run | None, figures: Path) -> dict:
    twin = next((other for other in control.stages if other.id == stage.id), None) if control else None
    drawn = []
    for chart in stage_charts(stage, twin):
        caption = _caption(chart)
        svg = _place(draw_chart(chart), chart.name, f"Line chart, {chart.title}. {caption}", figures)
        drawn.append({"svg": svg, "caption": caption})
    return {"id": stage.id, "kind": stage.kind, "figures": drawn, "metrics": content.metric_rows(stage)}


def _interval_figure(run: Run, control: Run | None, figures: Path) -> Markup | None:
    dots = content.evaluation_intervals(run, control)
    if not dots:
        return None
    spoken = "; ".join(f"{dot.label} {dot.series} {percent(dot.mean)}" for dot in dots)
    figure = draw_intervals("Accuracy on held-out problems", dots)
    return _place(figure, "evaluations", f"Means with intervals: {spoken}.", figures)


def _place(figure: Figure, name: str, description: str, figures: Path) -> Markup:
    save_png(figure, figures / f"{name}.png")
    return Markup(inline_svg(figure, name, visible(description)))


def _caption(chart: Chart) -> str:
    """First and last value of each curve in words."""
    show = percent if chart.percent else plain
    parts = []
    for curve in chart.curves:
        known = [value for value in curve.values if not math.isnan(value)]
        values = show(known[0]) if len(known) == 1 else f"{show(known[0])} → {show(known[-1])}"
        parts.append(f"{curve.label}: {values}" if len(chart.curves) > 1 else values)
    return f"First to last: {'; '.join(parts)}"


def _sample_groups(run: Run) -> list[dict]:
    groups: list[dict[str, Any]] = [
        {"id": stage.id, "of": content.subject(stage) if stage.kind == "eval" else "training", "samples": found}
        for stage in run.stages
        if stage.kind in ("eval", "grpo") and (found := content.samples(stage))
    ]
    for index, group in enumerate(groups):
        group["open"] = index == len(groups) - 1
    return groups
