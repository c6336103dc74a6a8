"""Stage `prepare`: rows of a task in disjoint splits, each gold graded by its own verifier, and a base model."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.errors import DataError, StageError
from trl_grpo_ext.files import write_json, write_jsonl
from trl_grpo_ext.stages.stage import Stage
from trl_grpo_ext.tasks import build_task
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.validation import DEFAULT_DOMAIN, Domain, make_domain, plain_prompt


FILES = {"sft": "sft.jsonl", "rl": "rl_prompts.jsonl", "eval": "eval.jsonl"}

# A gold that fails its own check is a broken row; more than a few of them mean a broken data set. Of published
# programs many fail: about a third of the problems of CodeContests have several right outputs, of which the tests list
# one, and nothing says which they are. Where more than these fail, something else is broken.
MIN_GOLDS_PASSING = {"math": 0.98, "code": 0.65}


def run(stage: Stage) -> None:
    """Write `sft.jsonl`, `rl_prompts.jsonl`, `eval.jsonl`, `report.json` and, for a `from_config` base, `base/`."""
    task = build_task(stage.config["task"], **(stage.config.get("task_params") or {}))
    sizes = {split: n for split, n in stage.config["sizes"].items() if n}
    stage.progress(0, len(sizes) + 1, "drawing rows")
    drawn = {split: task.rows(split, n, stage.seed) for split, n in sizes.items()}
    splits, dropped = clean(drawn, stage.config.get("sandbox"))
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


def clean(
    splits: dict[str, list[dict]], sandbox: str | dict[str, Any] | None = None
) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    """
    Drop duplicates and rows whose gold fails its own verifier; refuse training rows that are also evaluated.

    Args:
        splits (`dict[str, list[dict]]`):
            Rows by split name.
        sandbox (`str` or `dict`, *optional*):
            Where golds that are programs run, as [`~trl_grpo_ext.sandbox.open_sandbox`] takes it.

    Returns:
        `tuple`: the kept rows by split, and the dropped rows by reason.

    Raises:
        [`~errors.DataError`]: if more golds fail than their domain allows, a split is left empty, or an evaluation
            problem is also in a training split.
        [`~errors.StageError`]: if the judge failed at a gold, which says nothing about it.
    """
    dropped: dict[str, list[dict]] = {"duplicate": [], "gold_fails": []}
    kept = {
        split: _graded(_unique(rows, dropped["duplicate"]), dropped["gold_fails"], sandbox)
        for split, rows in splits.items()
    }
    _check_share([row for rows in kept.values() for row in rows], dropped["gold_fails"])
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


def _domain(row: dict) -> str:
    return row.get("domain", DEFAULT_DOMAIN)


def _check_share(passing: list[dict], failing: list[dict]) -> None:
    """Refuse a collection of which too many golds of one domain fail."""
    graded = Counter(map(_domain, [*passing, *failing]))
    for domain, count in Counter(map(_domain, failing)).items():
        most = 1 - MIN_GOLDS_PASSING[domain]
        if count / graded[domain] > most:
            first = next(row for row in failing if _domain(row) == domain)
            raise DataError(
                f"{count} of {graded[domain]} {domain} golds fail their own verifier, at most {most:.0%} may; the "
                f"first is {first.get('answer')!r} ({first['dropped_because']}). Mend the task's data, or drop "
                "such rows"
            )


def _unique(rows: list[dict], dropped: list[dict]) -> list[dict]:
    seen: set[str] = set()
    unique: list[dict] = []
    for row in rows:
        key = plain_prompt(row["prompt"])
        (dropped if key in seen else unique).append(row)
        seen.add(key)
    return unique


def _graded(rows: list[dict], dropped: list[dict], sandbox: str | dict[str, Any] | None) -> list[dict]:
    failures: dict[int, Verdict] = {}
    for domain in dict.fromkeys(map(_domain, rows)):
        numbers = [number for number, row in enumerate(rows) if _domain(row) == domain]
        failures.update(_failures(make_domain(domain, sandbox=sandbox), rows, numbers))
    kept = []
    for number, row in enumerate(rows):
        if number in failures:
            dropped.append({**row, "dropped_because": f"{failures[number].kind}: {failures[number].reason}"})
        else:
            kept.append(row)
    return kept


def _failures(domain: Domain, rows: list[dict], numbers: list[int]) -> Iterator[tuple[int, Verdict]]:
    golds = [domain.gold(rows[number]) for number in numbers]
    # The gold is judged as a model would have to write it. Its own text is equal to itself even where it cannot be
    # compared with anything else, so that is checked apart.
    itself = domain.judge(golds, golds)
    readable = domain.check(golds)
    for number, gold, *verdicts in zip(numbers, golds, itself, readable, strict=True):
        asked = verdicts if domain.read(gold) is not None else verdicts[1:]
        failed = [verdict for verdict in asked if verdict.value != 1.0]
        broke_down = next((verdict for verdict in failed if verdict.kind == "infra_error"), None)
        if broke_down is not None:
            raise StageError(
                f"the judge failed at the gold of row {rows[number].get('id', number)!r}, so nobody knows whether it "
                f"is right: {broke_down.reason}. `trl-grpo-ext doctor` tells what this machine lacks; then run the "
                "stage again"
            )
        if failed:
            yield number, failed[0]
