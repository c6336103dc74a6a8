"""What the page says: the numbers, warnings and samples of a run, put into words."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.report.charts import accuracy_metric
from trl_grpo_ext.report.figures import Interval
from trl_grpo_ext.report.run import Run, Stage, as_dict, dicts, moment, number
from trl_grpo_ext.report.text import duration, percent, plain, shorten, spoken


_JUDGE_TROUBLE = re.compile(r"unscored|timeout|timed_out|infra_error")
_SAMPLES_PER_VERDICT = 3
_FACT_ENDS = (200, 100)  # characters kept at the start and the end of an answer or a reason
_MEANS_OF_SHARE = ("frac", "share", "ratio", "rate", "unscored")


@dataclass(frozen=True)
class Alert:
    """
    Something the reader should know before trusting a number.

    Args:
        level (`str`):
            `"bad"`, `"warn"` or `"note"`.
        title (`str`):
            What it is.
        text (`str`):
            The details, may be empty.
    """

    level: str
    title: str
    text: str = ""


@dataclass(frozen=True)
class Measure:
    """
    A mean with its interval.

    Args:
        mean (`float`, *optional*):
            Share in [0, 1]; `None` when it was not measured.
        low, high (`float`, *optional*):
            Ends of the interval.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def read(cls, value: Any) -> "Measure":
        """From a block `{"mean", "ci": [low, high]}` of `scores.json`, whatever it may lack."""
        block = as_dict(value)
        ends = block.get("ci")
        low, high = (number(ends[0]), number(ends[1])) if isinstance(ends, list) and len(ends) == 2 else (None, None)
        return cls(number(block.get("mean")), low, high)

    @property
    def text(self) -> str:
        """The mean in per cent."""
        return percent(self.mean)

    @property
    def interval(self) -> str:
        """The interval in per cent, `""` when there is none."""
        return "" if self.low is None or self.high is None else f"{100 * self.low:.1f} to {100 * self.high:.1f} %"


def headline(run: Run) -> dict | None:
    """Accuracy in the first and in the last evaluation; `None` when nothing was evaluated."""
    evaluations = run.evaluations()
    if not evaluations:
        return None
    first, last = evaluations[0], evaluations[-1]
    decoding = next((d for d in ("greedy", "sampled") if Measure.read(last.scores.get(d)).mean is not None), "greedy")
    before, after = Measure.read(first.scores.get(decoding)), Measure.read(last.scores.get(decoding))
    found: dict[str, Any] = {
        "decoding": decoding,
        "after": after,
        "after_of": subject(last),
        "n": last.scores.get("n"),
        "before": None,
        "verdicts": [],
    }
    if first is not last and before.mean is not None and after.mean is not None:
        found |= {"before": before, "before_of": subject(first), "verdicts": [_compare(before, after)]}
    if len(evaluations) > 2 and after.mean is not None:
        previous = evaluations[-2]
        measure = Measure.read(previous.scores.get(decoding))
        if measure.mean is not None:
            text = f"Since {subject(previous)} ({measure.text}): {_compare(measure, after)}"
            found["verdicts"].append(text)
    return found


def subject(stage: Stage) -> str:
    """The model an evaluation looked at, by the name of the stage that made it."""
    return str(stage.config.get("init_from") or stage.id)


def pass_ks(stages: Iterable[Stage]) -> list[str]:
    """Every k of pass@k that was measured, in order."""
    ks = {str(k) for stage in stages for k in as_dict(stage.scores.get("pass_at_k"))}
    return sorted(ks, key=lambda k: (int(k) if k.isdecimal() else math.inf, k))


def evaluation_rows(run: Run, ks: list[str]) -> list[dict]:
    """One row of the table of evaluations for each eval stage with scores."""
    rows = []
    for stage in run.evaluations():
        scores = stage.scores
        passes = as_dict(scores.get("pass_at_k"))
        sampled = as_dict(scores.get("sampled"))
        shape = as_dict(scores.get("format"))
        rows.append(
            {
                "id": stage.id,
                "subject": subject(stage),
                "n": scores.get("n", "–"),
                "greedy": Measure.read(scores.get("greedy")),
                "sampled": Measure.read(sampled),
                "n_samples": sampled.get("n_samples"),
                "passes": [Measure.read(passes.get(k)) for k in ks],
                "format": percent(number(shape.get("mean"))),
                "truncated": percent(number(scores.get("truncated"))),
                "tokens": plain(number(scores.get("mean_tokens"))),
                "unscored": percent(number(scores.get("unscored"))),
                "trouble": (number(scores.get("unscored")) or 0.0) > 0,
            }
        )
    return rows


def evaluation_intervals(run: Run, control: Run | None) -> list[Interval]:
    """The same means and intervals, to be drawn."""
    dots = []
    for source in [run] if control is None else [run, control]:
        for stage in source.evaluations():
            label = f"{stage.id} (control)" if source is control else stage.id
            for decoding in ("greedy", "sampled"):
                found = Measure.read(stage.scores.get(decoding))
                if found.mean is not None:
                    low = found.mean if found.low is None else found.low
                    high = found.mean if found.high is None else found.high
                    dots.append(Interval(label, decoding, found.mean, low, high))
    return dots


def stage_rows(run: Run) -> list[dict]:
    """One row of the table of stages for each stage of the run."""
    rows = []
    for stage in run.stages:
        started = moment(stage.attempts[0].get("started")) if stage.attempts else None
        status = stage.status
        step, total = number(stage.progress.get("step")), number(stage.progress.get("total"))
        rows.append(
            {
                "id": stage.id,
                "kind": stage.kind,
                "status": "writing this page" if stage.kind == "report" and status == "running" else status,
                "state": status,
                "attempts": len(stage.attempts) or "–",
                "started": started.strftime("%Y-%m-%d %H:%M:%S") if started else "–",
                "seconds": duration(stage.seconds),
                "steps": f"{step:.0f} of {total:.0f}" if step is not None and total else "–",
            }
        )
    return rows


def total_seconds(run: Run) -> float | None:
    """Wall-clock seconds of all stages together."""
    known = [stage.seconds for stage in run.stages if stage.seconds is not None]
    return sum(known) if known else None


def alerts(run: Run, control: Run | None) -> list[Alert]:
    """What the reader should know first, the worst on top."""
    found = []
    for stage in run.stages:
        found += _stage_alerts(stage)
    found += _comparison_alerts(run)
    if run.control:
        found.append(
            Alert("note", "This run is a control", f"It was started with {run.control}; its rewards say nothing.")
        )
    if control is not None and not control.control:
        found.append(
            Alert(
                "warn",
                "The overlaid run is not marked as a control",
                f"No stage of {control.name} records a control, so its curves may not be what they are called here.",
            )
        )
    unfinished = [stage for stage in run.stages if stage.status != "done" and stage.kind != "report"]
    if unfinished:
        names = ", ".join(f"{stage.id} ({stage.status})" for stage in unfinished)
        found.append(Alert("warn", "The run is not finished", f"Still open: {names}."))
    problems = run.problems + ([f"Control run: {text}" for text in control.problems] if control else [])
    if problems:
        found.append(Alert("warn", "Missing or unreadable", " ".join(problems)))
    return sorted(found, key=lambda alert: ("bad", "warn", "note").index(alert.level))


def metric_rows(stage: Stage) -> list[tuple[str, str, str, str]]:
    """Name, first, last and mean of every metric a training stage logged."""
    values: dict[str, list[float]] = {}
    for row in stage.metrics:
        for key, value in row.items():
            known = number(value)
            if known is not None and key not in ("step", "time"):
                values.setdefault(key, []).append(known)
    return [
        (key, plain(seen[0]), plain(seen[-1]), plain(sum(seen) / len(seen))) for key, seen in sorted(values.items())
    ]


def flatten(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """A nested mapping as rows `(dotted name, text)`."""
    if isinstance(value, dict) and value:
        return [row for key, item in value.items() for row in flatten(item, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return [(prefix, ", ".join(str(item) for item in value) or "none")]
    return [(prefix, "–" if value is None else spoken(value))]


def samples(stage: Stage) -> list[dict]:
    """Right, wrong and unjudged completions of an eval or grpo stage, made safe to show."""
    if stage.kind == "eval":
        candidates = [_evaluated(sample) for sample in dicts(stage.scores.get("samples"))]
    else:
        accuracy = accuracy_metric(stage)
        name = accuracy.removeprefix("rewards/").removesuffix("/mean") if accuracy else None
        candidates = [_rewarded(row, name) for row in reversed(stage.completions)]
    return [
        sample
        for verdict in ("right", "wrong", "not judged")
        for sample in [item for item in candidates if item["verdict"] == verdict][:_SAMPLES_PER_VERDICT]
    ]


def _compare(before: Measure, after: Measure) -> str:
    if before.mean is None or after.mean is None:
        return ""
    points = f"{100 * (after.mean - before.mean):+.1f} percentage points".replace("-", "−")
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return points
    apart = after.low > before.high or after.high < before.low
    return f"{points}; the intervals {'do not overlap' if apart else 'overlap, so it may be chance'}"


def _stage_alerts(stage: Stage) -> list[Alert]:
    found = []
    trouble = []
    if stage.status == "failed" or stage.error:
        message = spoken(stage.error.get("message")) or "The stage left no message; its log says more."
        found.append(Alert("bad", f"{stage.id} failed", shorten(message)[0]))
    for key, value in stage.scores.items():
        known = number(value)
        if _JUDGE_TROUBLE.search(key) and known:
            trouble.append(f"{key}: {_amount(key, known)}")
    for key in sorted({key for row in stage.metrics for key in row}):
        values = [number(row.get(key)) for row in stage.metrics if key in row]
        seen = [value for value in values if value is not None]
        if _JUDGE_TROUBLE.search(key) and any(seen):
            mean, worst = sum(seen) / len(seen), max(seen)
            trouble.append(
                f"{key}: mean {_amount(key, mean)}, at worst {_amount(key, worst)}, "
                f"non-zero in {sum(value > 0 for value in seen)} of {len(seen)} logged steps"
            )
        lost = len(values) - len(seen)
        if key in ("loss", "grad_norm", "reward") and lost:
            found.append(
                Alert("bad", f"{stage.id}: {key} was not a finite number", f"In {lost} of {len(values)} logged steps.")
            )
    if trouble:
        found.append(Alert("bad", f"{stage.id}: completions were left unscored or timed out", "\n".join(trouble)))
    return found


def _comparison_alerts(run: Run) -> list[Alert]:
    evaluations = run.evaluations()
    if len(evaluations) < 2:
        return []
    first, last = evaluations[0], evaluations[-1]
    differing = [key for key in ("data", "evaluation") if first.config.get(key) != last.config.get(key)]
    differing += ["n"] if first.scores.get("n") != last.scores.get("n") else []
    if not differing:
        return []
    text = f"{first.id} and {last.id} differ in: {', '.join(differing)}."
    return [Alert("warn", "Before and after were not measured alike", text)]


def _amount(key: str, value: float) -> str:
    return percent(value) if any(part in key for part in _MEANS_OF_SHARE) and value <= 1 else plain(value)


def _evaluated(sample: dict) -> dict:
    value = number(sample.get("value"))
    facts = [("verdict", spoken(sample.get("kind"))), ("reason", spoken(sample.get("reason")))]
    facts += [("answer read", spoken(sample.get("answer"))), ("expected", spoken(sample.get("gold")))]
    return _sample(value, facts, sample)


def _rewarded(row: dict, accuracy: str | None) -> dict:
    rewards = as_dict(row.get("rewards"))
    named = accuracy if accuracy in rewards else next(iter(rewards), None)
    facts = [("step", spoken(row.get("step"))), ("expected", spoken(row.get("answer")))]
    facts += [(str(name), "not judged" if number(v) is None else plain(number(v))) for name, v in rewards.items()]
    facts += [("advantage", plain(number(row.get("advantage"))))]
    return _sample(number(rewards.get(named)), facts, row)


def _sample(value: float | None, facts: list[tuple[str, str]], source: dict) -> dict:
    prompt, _ = shorten(spoken(source.get("prompt")))
    completion, note = shorten(spoken(source.get("completion")))
    return {
        "verdict": "not judged" if value is None else "right" if value >= 1 else "wrong",
        "facts": [(name, shorten(text, *_FACT_ENDS)[0]) for name, text in facts if text],
        "prompt": prompt,
        "completion": completion or "(empty)",
        "note": note,
    }
