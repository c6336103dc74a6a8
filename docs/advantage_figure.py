"""The figure of docs/advantages: what a right and a wrong answer are worth, by the pass rate of their group.

python docs/advantage_figure.py    # draws docs/advantages/pass_rate.png

The curves are kept in the file as well, as JSON in the PNG text field "Curves".
"""

import io
import json
import math
import random
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from trl_grpo_ext.advantages import FAMILIES, bind_params
from trl_grpo_ext.advantages.estimation import Estimator


PICTURE = Path(__file__).parent / "advantages" / "pass_rate.png"
GROUP = 16
BATCHES, ORDERS = 4, 8  # random orders of the completions, in batches; each is also rotated by every number of places
ROWS = ORDERS * GROUP * (GROUP + 1)

# Inputs beside the rewards that favour no completion; what comes from outside of the group says a pass rate of 1/2.
NEUTRAL = {
    **dict.fromkeys(("lengths", "metric", "strata", "seq_entropy"), torch.ones(ROWS, GROUP)),
    "seq_logp": -torch.ones(ROWS, GROUP),
    **dict.fromkeys(("greedy_reward", "old_mean"), torch.full((ROWS,), 0.5)),
    **dict.fromkeys(("alpha", "beta"), torch.ones(ROWS)),
    **dict.fromkeys(("times", "old_std"), torch.zeros(ROWS)),
    "ref_rewards": torch.tensor([[0.0, 1.0]]).expand(ROWS, 2),
    "anchor": torch.tensor(0.5),
}

RIGHT, WRONG, INK, MUTED, GRID, OWN = "#0072b2", "#c04f00", "#1f2329", "#5b6470", "#dfe3e8", "#faf3e3"
SETTINGS = {"font.size": 9, "font.family": "DejaVu Sans", "axes.unicode_minus": True, "text.parse_math": False}
COLUMNS = 5
DPI = 120
COLOURS = 64
SCALES = (1.1, 4.2)  # of the axes that panels share: rewards, and rewards over their standard deviation

Curves = dict[str, tuple[list[float], list[float]]]


def drawn_entries() -> list[str]:
    """The estimators that give one number for each completion, family by family."""
    names = [name for names in FAMILIES.values() for name in names if "/" not in name]
    return [name for name in names if bind_params(name).level == "completion"]


def curves() -> Curves:
    """For each entry the mean advantage of the right and of the wrong answers, by number of right answers."""
    generator = random.Random(0)  # draws the same in every version, which torch does not promise
    batches = [_batch(generator) for _ in range(BATCHES)]
    return {name: _curve(bind_params(name), batches) for name in drawn_entries()}


def _batch(generator: random.Random) -> torch.Tensor:
    """Rewards of a batch, (ORDERS * 16, 17, 16): every number of right answers, from none to all, in every order."""
    rewards = torch.ones(GROUP + 1, GROUP, dtype=torch.float64).tril(-1)
    drawn = [torch.tensor(generator.sample(range(GROUP), GROUP)) for _ in range(ORDERS)]
    return torch.stack([rewards[:, order.roll(places)] for order in drawn for places in range(GROUP)])


def _curve(estimator: Estimator, batches: list[torch.Tensor]) -> tuple[list[float], list[float]]:
    inputs = {name: NEUTRAL[name] for name in estimator.inputs}
    right, wrong = [], []
    for rewards in batches:
        table = rewards.flatten(0, 1)
        values = estimator(table.unsqueeze(2) if estimator.layout == "components" else table, **inputs).values
        values = values.view_as(rewards)
        right.append((values * rewards).sum(dim=(0, 2)) / rewards.sum(dim=(0, 2)))
        wrong.append((values * (1 - rewards)).sum(dim=(0, 2)) / (1 - rewards).sum(dim=(0, 2)))
    return torch.stack(right).mean(dim=0).tolist(), torch.stack(wrong).mean(dim=0).tolist()


def draw(found: Curves) -> Figure:
    """Draw a panel for each entry."""
    rows = math.ceil((len(found) + 1) / COLUMNS)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(11.5, 1.6 * rows + 0.4))
        inch = 1 / figure.get_figheight()
        figure.subplots_adjust(left=0.06, right=0.99, top=1 - 0.25 * inch, bottom=0.5 * inch, hspace=0.42, wspace=0.28)
        figure.supxlabel("pass rate of the group", fontsize=10, color=INK, y=0.08 * inch)
        figure.supylabel("advantage", fontsize=10, color=INK, x=0.003)
        family = {name: family for family, names in FAMILIES.items() for name in names}
        for index, (name, (right, wrong)) in enumerate(found.items(), start=1):
            axes = figure.add_subplot(rows, COLUMNS, index)
            _panel(axes, right, wrong)
            axes.set_title(name, loc="left", fontsize=9.5, fontweight="bold", color=INK, pad=3)
            if len(name) + len(family[name]) < 26:
                axes.set_title(family[name], loc="right", fontsize=7.5, color=MUTED, pad=3)
        _legend(figure.add_subplot(rows, COLUMNS, rows * COLUMNS))
        return figure


def _panel(axes: Axes, right: list[float], wrong: list[float]) -> None:
    rates = [count / GROUP for count in range(GROUP + 1)]
    values = [value for value in (*right, *wrong) if not math.isnan(value)]
    lowest, highest = min(0.0, *values), max(0.0, *values)
    shared = next((scale for scale in SCALES if max(-lowest, highest) <= scale), None)
    bottom, top = (-shared, shared) if shared else (lowest - 0.06 * (highest - lowest), 1.06 * highest)
    axes.set_ylim(bottom, top)
    tick = _round_down(max(-bottom, top))
    ticks = [value for value in (-tick, 0, tick) if bottom <= value <= top]
    axes.set_yticks(ticks, [f"{value:g}".replace("-", "\N{MINUS SIGN}") for value in ticks])
    axes.set_facecolor("white" if shared else OWN)
    axes.set_xlim(-0.04, 1.04)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.tick_params(colors=MUTED, labelsize=8, length=2, pad=2)
    axes.axhline(0, color=MUTED, linewidth=0.6)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
    for line, colour, end, dash in ((wrong, WRONG, 0, (0, (3, 1.2))), (right, RIGHT, GROUP, "solid")):
        axes.plot(rates[1:-1], line[1:-1], color=colour, linewidth=1.6, linestyle=dash, clip_on=False)
        axes.plot(rates[end], line[end], "o", color=colour, markersize=4.5, clip_on=False)


def _round_down(limit: float) -> float:
    digit = 10 ** math.floor(math.log10(limit))
    return max(step * digit for step in (1, 2, 4, 5) if step * digit <= limit)


def _legend(axes: Axes) -> None:
    axes.set_axis_off()
    axes.plot([], [], color=RIGHT, linewidth=1.6, label="a right answer")
    axes.plot([], [], color=WRONG, linewidth=1.6, linestyle=(0, (3, 1.2)), label="a wrong answer")
    axes.plot([], [], "o", color=MUTED, markersize=4.5, label="constant group")
    axes.fill_between([], [], [], facecolor=OWN, edgecolor=MUTED, linewidth=0.6, label="axis of its own")
    axes.legend(loc="center", frameon=False, fontsize=9, labelcolor=INK, borderaxespad=0)


def save(found: Curves, path: Path) -> None:
    """Draw the curves and write picture and numbers to `path`."""
    kept = {name: [[_short(value) for value in line] for line in lines] for name, lines in found.items()}
    drawn = io.BytesIO()
    with matplotlib.rc_context(SETTINGS):
        draw(found).savefig(drawn, format="png", dpi=DPI, facecolor="white")
    text = PngInfo()
    text.add_text("Curves", json.dumps(kept))
    # A palette takes a quarter of the room: the picture has few colours beside the soft edges of its letters.
    picture = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(path, format="png", optimize=True, pnginfo=text)


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


if __name__ == "__main__":
    save(curves(), PICTURE)
