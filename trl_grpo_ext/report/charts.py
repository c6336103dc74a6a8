"""Which charts a training stage gets, from the metrics it logged."""

import math
import re
from collections.abc import Iterable

from trl_grpo_ext.report.figures import Chart, Curve
from trl_grpo_ext.report.run import Stage, moment, number
from trl_grpo_ext.report.text import visible


_JUDGES = ("math", "code_reward", "code")  # of several, the first that is all or nothing
_REWARD_MEAN = re.compile(r"rewards/(.+)/mean", re.DOTALL)
_LONGEST_NAME = 40  # of a reward, in a legend

# name of the figure, title, y axis, shares?, {metric: name in the legend}
_GRPO_CHARTS: tuple[tuple[str, str, str, bool, dict[str, str]], ...] = (
    ("reward", "Reward", "mean reward per completion", False, {"reward": "reward"}),
    ("accuracy", "Accuracy on training prompts", "correct completions (%)", True, {}),
    ("other_rewards", "Other rewards", "mean reward per completion", False, {}),
    (
        "zero_variance",
        "Groups without a signal",
        "groups of equal rewards (%)",
        True,
        {"frac_reward_zero_std": "zero-variance groups"},
    ),
    (
        "length",
        "Completion length",
        "mean length (tokens)",
        False,
        {"completions/mean_length": "all completions", "completions/mean_terminated_length": "finished ones"},
    ),
    (
        "truncated",
        "Truncated completions",
        "completions cut at the limit (%)",
        True,
        {"completions/clipped_ratio": "truncated"},
    ),
    ("entropy", "Entropy of the policy", "mean entropy (nats per token)", False, {"entropy": "entropy"}),
    ("kl", "Distance from the reference", "mean KL (nats per token)", False, {"kl": "KL"}),
    ("loss", "Loss", "loss (no unit)", False, {"loss": "loss"}),
    ("grad_norm", "Gradient norm", "L2 norm before clipping", False, {"grad_norm": "gradient norm"}),
)
_SFT_CHARTS: tuple[tuple[str, str, str, bool, dict[str, str]], ...] = (
    ("loss", "Loss", "cross-entropy (nats per token)", False, {"loss": "training", "eval_loss": "held out"}),
    (
        "token_accuracy",
        "Token accuracy",
        "tokens predicted (%)",
        True,
        {"mean_token_accuracy": "training", "eval_mean_token_accuracy": "held out"},
    ),
    ("grad_norm", "Gradient norm", "L2 norm before clipping", False, {"grad_norm": "gradient norm"}),
)


def stage_charts(stage: Stage, control: Stage | None = None) -> list[Chart]:
    """
    The charts of a training stage; a metric that was never logged has none.

    Args:
        stage (`Stage`):
            A stage of kind `sft` or `grpo`.
        control (`Stage`, *optional*):
            The same stage of the control run, drawn over each chart of a `grpo` stage.
    """
    charts = []
    for name, title, unit, percent, metrics in _GRPO_CHARTS if stage.kind == "grpo" else _SFT_CHARTS:
        metrics = _reward_metrics(stage, name) if name in ("accuracy", "other_rewards") else metrics
        curves = [_curve(stage, key, label) for key, label in metrics.items()]
        curves = _distinct(curve for curve in curves if curve.steps)
        if not curves:
            continue
        if control is not None and stage.kind == "grpo":  # rewards do not reach a fine-tuning stage
            first = next(key for key in metrics if _curve(stage, key, "").steps)
            curves += [curve for curve in [_curve(control, first, "control run", control=True)] if curve.steps]
        charts.append(Chart(f"{stage.id}-{name}", title, unit, curves, percent, resumed_at(stage)))
    return charts


def accuracy_metric(stage: Stage) -> str | None:
    """The metric that holds the share of correct answers: the mean of the reward that judges answers."""
    means = _reward_means(stage)
    return next((key for judge in _JUDGES for key in means if judge in key), None)


def resumed_at(stage: Stage) -> list[float]:
    """The first step each attempt after the first one logged."""
    steps = []
    for attempt in stage.attempts[1:]:
        started = moment(attempt.get("started"))
        if started is None:
            continue
        later = (row["step"] for row in stage.metrics if (number(row.get("time")) or 0.0) >= started.timestamp())
        step = next(later, None)
        if step is not None and step != stage.metrics[0]["step"] and step not in steps:
            steps.append(step)
    return steps


def _reward_means(stage: Stage) -> dict[str, str]:
    """`{metric: reward name}` of every reward that was logged."""
    keys = dict.fromkeys(key for row in stage.metrics for key in row)
    return {key: visible(match[1])[:_LONGEST_NAME] for key in keys if (match := _REWARD_MEAN.fullmatch(key))}


def _reward_metrics(stage: Stage, chart: str) -> dict[str, str]:
    means = _reward_means(stage)
    accuracy = accuracy_metric(stage)
    if chart == "accuracy":
        return {accuracy: means[accuracy]} if accuracy else {}
    return {key: name for key, name in means.items() if key != accuracy}


def _curve(stage: Stage, key: str, label: str, control: bool = False) -> Curve:
    rows = [row for row in stage.metrics if key in row]
    values = [number(row[key]) for row in rows]
    if all(value is None for value in values):
        return Curve(label, [], [], control)
    return Curve(label, [row["step"] for row in rows], [math.nan if v is None else v for v in values], control)


def _distinct(curves: Iterable[Curve]) -> list[Curve]:
    """Leave out a curve that lies on an earlier one (no completion was cut, so finished ones are all of them)."""
    kept: list[Curve] = []
    for curve in curves:
        if all(curve.values != earlier.values for earlier in kept):
            kept.append(curve)
    return kept
