"""Draw line charts and interval charts; knows nothing of runs. One drawing serves the PNG file and the inline SVG."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter


# Okabe and Ito's palette, which stays apart under every common colour blindness. The page replaces each colour by the
# CSS variable beside it, so that an inline figure follows the reader's light or dark scheme.
_COLOURS = {
    "ink": "#1f2329",
    "muted": "#5b6470",
    "grid": "#dfe3e8",
    "first": "#0072b2",
    "second": "#c04f00",
    "third": "#007a5a",
    "fourth": "#a0478a",
    "control": "#70767e",
}
_CURVE_STYLES = ("first", "second", "third", "fourth")
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "ytick.labelsize": 9,
    "xtick.labelsize": 9,
    "svg.fonttype": "none",  # real text: small, selectable, readable by a screen reader
    "text.parse_math": False,  # a reward may be called anything, `$` included
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_PNG_DPI = 160
_RAW_ALPHA = 0.3
_LOG_RATIO = 300  # beyond this spread a linear axis shows one spike and a flat line
_FEW_POINTS = 25  # below this each point gets a marker, so that a lone one can be seen
_FEWEST_SMOOTHED = 40  # shorter curves are shown as they are
_LONG_LABEL = 26  # two longer labels do not fit side by side


@dataclass(frozen=True)
class Curve:
    """
    One line of a chart.

    Args:
        label (`str`):
            Name in the legend.
        steps (`list[float]`):
            Positions on the x axis.
        values (`list[float]`):
            Heights; `nan` leaves a gap.
        control (`bool`, *optional*, defaults to `False`):
            Whether it belongs to the control run: grey and dashed.
    """

    label: str
    steps: list[float]
    values: list[float]
    control: bool = False


@dataclass(frozen=True)
class Chart:
    """
    A line chart over training steps.

    Args:
        name (`str`):
            File name of the figure, without suffix.
        title (`str`):
            What is shown.
        unit (`str`):
            Label of the y axis, with its unit.
        curves (`list[Curve]`):
            The lines.
        percent (`bool`, *optional*, defaults to `False`):
            Whether the values are shares in [0, 1].
        marks (`Sequence[float]`, *optional*, defaults to `()`):
            Steps at which the run was resumed.
    """

    name: str
    title: str
    unit: str
    curves: list[Curve]
    percent: bool = False
    marks: Sequence[float] = ()


@dataclass(frozen=True)
class Interval:
    """
    One dot of an interval chart.

    Args:
        label (`str`):
            Row of the chart.
        series (`str`):
            Which dot of the row it is.
        mean (`float`):
            The value, a share in [0, 1].
        low, high (`float`):
            Ends of its interval.
        control (`bool`, *optional*, defaults to `False`):
            Whether it belongs to the control run.
    """

    label: str
    series: str
    mean: float
    low: float
    high: float
    control: bool = False


def draw_chart(chart: Chart) -> Figure:
    """Draw a line chart."""
    with matplotlib.rc_context(_SETTINGS):
        figure, axes = _blank(4.3, 3.2)
        # Fixed margins: all charts alike, and drawn in half the time an automatic layout takes.
        legend = len(chart.curves) > 1 or bool(chart.marks)
        figure.subplots_adjust(left=0.19, right=0.97, top=0.9, bottom=0.305 if legend else 0.165)
        for index, curve in enumerate(sorted(chart.curves, key=lambda curve: curve.control)):
            _draw_curve(axes, curve, index)
        for index, step in enumerate(chart.marks):
            label = "resumed" if index == 0 else None
            axes.axvline(step, color=_COLOURS["muted"], linestyle=(0, (1, 3)), linewidth=1.2, label=label)
        axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold", color=_COLOURS["ink"])
        window = max((smoothing_window(len(curve.values)) for curve in chart.curves), default=1)
        axes.set_xlabel("optimizer step" + (f" (bold: mean of {window} logged steps)" if window > 1 else ""))
        axes.set_ylabel(chart.unit)
        axes.grid(axis="y", color=_COLOURS["grid"], linewidth=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        _scale_y(axes, chart)
        if legend:
            _legend(figure, "lower left")
        return figure


def draw_intervals(title: str, intervals: list[Interval]) -> Figure:
    """Draw means with their intervals, one row per label."""
    labels = list(dict.fromkeys(item.label for item in intervals))
    series = list(dict.fromkeys(item.series for item in intervals))
    with matplotlib.rc_context(_SETTINGS):
        figure, axes = _blank(6.0, 1.5 + 0.42 * len(labels))
        figure.set_layout_engine("constrained")  # the labels of the rows decide the left margin
        for index, name in enumerate(series):
            chosen = [item for item in intervals if item.series == name]
            heights = [labels.index(item.label) + 0.24 * (index - (len(series) - 1) / 2) for item in chosen]
            means = [item.mean for item in chosen]
            spread = [
                [max(0.0, item.mean - item.low) for item in chosen],
                [max(0.0, item.high - item.mean) for item in chosen],
            ]
            axes.errorbar(
                means,
                heights,
                xerr=spread,
                fmt="osD^"[index % 4],
                markersize=6,
                linewidth=1.8,
                capsize=3,
                color=_COLOURS[_CURVE_STYLES[index % len(_CURVE_STYLES)]],
                label=name,
            )
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("problems solved (%), with 95 % confidence interval")
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_COLOURS["ink"])
        axes.grid(axis="x", color=_COLOURS["grid"], linewidth=0.8)
        if len(series) > 1:
            _legend(figure, "outside lower left")
        return figure


def smoothing_window(length: int) -> int:
    """Over how many values a curve of this length is smoothed: odd, and 1 for a short curve."""
    return 1 if length < _FEWEST_SMOOTHED else 2 * (length // _FEWEST_SMOOTHED) + 1


def smooth(values: list[float], window: int) -> list[float]:
    """Mean of the `window` values around each position, leaving out `nan`; narrower at the ends."""
    reach = window // 2
    smoothed = []
    for middle in range(len(values)):
        seen = [value for value in values[max(0, middle - reach) : middle + reach + 1] if not math.isnan(value)]
        smoothed.append(sum(seen) / len(seen) if seen else math.nan)
    return smoothed


def save_png(figure: Figure, path: Path) -> None:
    """Write the figure as PNG on white."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(path, format="png", dpi=_PNG_DPI, facecolor="white")


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """
    The figure as an `<svg>` element to be placed in a page.

    Args:
        figure (`Figure`):
            The drawing.
        name (`str`):
            Keeps the ids inside apart from those of other figures on the page.
        description (`str`):
            What the figure shows, for readers who do not see it.

    Returns:
        `str`: the element, its colours as CSS variables `--fig-ink`, `--fig-first`, …
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", facecolor="none")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # matplotlib numbers groups from 1 in each figure
    for role, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--fig-{role})")
    size = re.search(r'viewBox="([^"]*)"', svg)
    view_box = size[1] if size else "0 0 400 300"
    opening = f'<svg viewBox="{view_box}" role="img" aria-label="{_attribute(description)}">'
    return opening + svg[svg.index(">") + 1 :]


def _blank(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.tick_params(colors=_COLOURS["muted"], labelcolor=_COLOURS["muted"])
    for spine in axes.spines.values():
        spine.set_color(_COLOURS["muted"])
    axes.xaxis.label.set_color(_COLOURS["muted"])
    axes.yaxis.label.set_color(_COLOURS["muted"])
    return figure, axes


def _draw_curve(axes: Axes, curve: Curve, index: int) -> None:
    colour = _COLOURS["control" if curve.control else _CURVE_STYLES[index % len(_CURVE_STYLES)]]
    dash = (0, (5, 2)) if curve.control else _DASHES[index % len(_DASHES)]
    layer = 2.0 if curve.control else 2.5  # the control lies behind
    window = smoothing_window(len(curve.values))
    if window > 1:
        axes.plot(curve.steps, curve.values, color=colour, linewidth=0.8, alpha=_RAW_ALPHA, zorder=layer)
    axes.plot(
        curve.steps,
        smooth(curve.values, window),
        color=colour,
        linestyle=dash,
        linewidth=1.9,
        marker="o" if len(curve.values) < _FEW_POINTS else None,
        markersize=3.5,
        label=curve.label,
        zorder=layer,
    )


def _scale_y(axes: Axes, chart: Chart) -> None:
    seen = [value for curve in chart.curves for value in curve.values if not math.isnan(value)]
    if chart.percent:
        top = max(seen, default=1.0)
        axes.set_ylim(-0.02 * max(top, 0.05), 1.02 if top > 0.5 else max(0.05, 1.25 * top))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if top > 0.2 else 1))
        return
    if seen and min(seen) > 0 and max(seen) > _LOG_RATIO * min(seen):
        axes.set_yscale("log")
        axes.set_ylabel(f"{chart.unit}, log scale")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))


def _legend(figure: Figure, place: Literal["lower left", "outside lower left"]) -> None:
    labels = figure.axes[0].get_legend_handles_labels()[1]
    figure.legend(
        loc=place,
        ncols=1 if max(map(len, labels)) > _LONG_LABEL else 2,
        frameon=False,
        fontsize=9,
        labelcolor=_COLOURS["ink"],
        borderaxespad=0.0,
        columnspacing=1.2,
        handlelength=2.4,
    )


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
