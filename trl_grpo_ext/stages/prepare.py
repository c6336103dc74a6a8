"""Stage `prepare`: rows of a task in disjoint splits, each gold graded by its own verifier, and a base model."""

from collections import Counter

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import write_json, write_jsonl
from trl_grpo_ext.stages.stage import Stage
from trl_grpo_ext.tasks import build_task
from trl_grpo_ext.verify.validation import make_domain, plain_prompt


FILES = {"sft": "sft.jsonl", "rl": "rl_prompts.jsonl", "eval": "eval.jsonl"}

# A gold that fails its own check is a broken row; more than a few of them mean a broken data set.
MIN_GOLDS_PASSING = 0.98


def run(stage: Stage) -> None:
    """Write `sft.jsonl`, `rl_prompts.jsonl`, `eval.jsonl`, `report.json` and, for a `from_config` base, `base/`."""
    task = build_task(stage.config["task"], **(stage.config.get("task_params") or {}))
    sizes = {split: n for split, n in stage.config["sizes"].items() if n}
    stage.progress(0, len(sizes) + 1, "drawing rows")
    drawn = {split: task.rows(split, n, stage.seed) for split, n in sizes.items()}
    splits, dropped = clean(drawn)
    out = stage.fresh_out()
    for split, rows in splits.items():
        write_jsonl(out / FILES[split], rows)
    write_json(
        out / "report.json",
        {
            "task": stage.config["task"],
            "requested": sizes,
            "kept": {split: len(rows) for split, rows in splits.items()},
            "dropped": {reason: len(rows) for reason, rows in dropped.items()},
            "examples_dropped": {reason: rows[:3] for reason, rows in dropped.items()},
            "sources": dict(Counter(row["source"] for rows in splits.values() for row in rows)),
            "licenses": sorted({row["license"] for rows in splits.values() for row in rows}),
        },
    )
    if "from_config" in stage.record["base"]:
        stage.progress(len(sizes), len(sizes) + 1, "building the base model")
        from trl_grpo_ext.tasks.tiny_model import build_base

        build_base(stage.record["base"]["from_config"], out / "base", stage.template, stage.seed)
    stage.progress(len(sizes) + 1, len(sizes) + 1)


def clean(splits: dict[str, list[dict]]) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    """
    Drop duplicates and rows whose gold fails its own verifier; refuse training rows that are also evaluated.

    Args:
        splits (`dict[str, list[dict]]`):
            Rows by split name.

    Returns:
        `tuple`: the kept rows by split, and the dropped rows by reason.

    Raises:
        [`~errors.DataError`]: if fewer than 98 % of the golds pass, a split is left empty, or an evaluation problem is
            also in a training split.
    """
    dropped: dict[str, list[dict]] = {"duplicate": [], "gold_fails": []}
    kept = {
        split: _graded(_unique(rows, dropped["duplicate"]), dropped["gold_fails"]) for split, rows in splits.items()
    }
    failing = len(dropped["gold_fails"])
    graded = failing + sum(map(len, kept.values()))
    if graded and failing / graded > 1 - MIN_GOLDS_PASSING:
        first = dropped["gold_fails"][0]
        raise DataError(
            f"{failing} of {graded} golds fail their own verifier, at most {1 - MIN_GOLDS_PASSING:.0%} may; the first "
            f"is {first['answer']!r} ({first['dropped_because']})"
        )
    for split, rows in kept.items():
        if not rows:
            raise DataError(f"split {split!r} has no rows left; raise its size, or check the task's data")
    evaluated = {plain_prompt(row["prompt"]) for row in kept.get("eval", [])}
    for split in ("sft", "rl"):
        leaked = [row for row in kept.get(split, []) if plain_prompt(row["prompt"]) in evaluated]
        if leaked:
            shared = plain_prompt(leaked[0]["prompt"])
            raise DataError(f"{len(leaked)} evaluation problems are also in split {split!r}; the first: {shared}")
    return kept, dropped


def _unique(rows: list[dict], dropped: list[dict]) -> list[dict]:
    seen: set[str] = set()
    unique: list[dict] = []
    for row in rows:
        key = plain_prompt(row["prompt"])
        (dropped if key in seen else unique).append(row)
        seen.add(key)
    return unique


def _graded(rows: list[dict], dropped: list[dict]) -> list[dict]:
    golds = [row["answer"] for row in rows]
    # The gold is judged as a model would have to write it, boxed. Its own text is equal to itself even where it cannot
    # be compared with anything else, so that is checked apart.
    math = make_domain("math")
    itself = math.judge(golds, golds)
    readable = math.check(golds)
    kept = []
    for row, *verdicts in zip(rows, itself, readable, strict=True):
        failed = [verdict for verdict in verdicts if verdict.value != 1.0]
        if failed:
            dropped.append({**row, "dropped_because": f"{failed[0].kind}: {failed[0].reason}"})
        else:
            kept.append(row)
    return kept
