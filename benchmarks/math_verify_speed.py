"""How fast the maths judge is beside math-verify: one core, nothing remembered, same pairs, same run.

    python benchmarks/math_verify_speed.py

Both judges take turns on each of the labelled pairs of the tests, with their workers and imports warm, and with every
cache of ours emptied before each pair. A second part judges groups of sixteen completions as GSM8K gets them. The last
line is one JSON object: how many times faster the judge is, its p50 and p99 in milliseconds, and checks per second of
the groups.
"""

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify

from trl_grpo_ext.verify import verify_math, verify_math_batch


CASES = Path(__file__).parents[1] / "tests" / "cases"
ROUNDS = 3
GROUP = 16


def plain(gold: str, completion: str) -> bool:
    """math-verify as its README uses it, with the reference wrapped as it wants it."""
    return verify(parse(f"${gold}$"), parse(completion))


def caches() -> list[Callable[[], None]]:
    """What empties the caches of the judge, so that a pair costs what it costs the first time."""
    found = [item for item in gc.get_objects() if type(item).__name__ == "_lru_cache_wrapper"]
    ours = [item for item in found if item.__module__.startswith("trl_grpo_ext.verify.math.")]
    return [item.cache_clear for item in ours if item.__name__ != "_pool_of"]


def timed(judge: Callable[[str, str], object], gold: str, completion: str) -> float:
    started = time.perf_counter()
    judge(gold, completion)
    return time.perf_counter() - started


def beside_math_verify(pairs: list[tuple[str, str]], forget: list[Callable[[], None]]) -> dict:
    ours: list[float] = []
    theirs: list[float] = []
    for gold, completion in pairs:
        for clear in forget:
            clear()
        ours.append(timed(verify_math, gold, completion))
        theirs.append(timed(plain, gold, completion))
    return {"ours": ours, "theirs": theirs}


def gsm8k_checks_per_second(forget: list[Callable[[], None]]) -> float:
    """Groups of sixteen worked solutions, a quarter of them wrong, against one reference each."""
    rows = [json.loads(line) for line in (CASES / "gsm8k_sample.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds, checks = 0.0, 0
    for turn in range(20):
        for row in rows:
            solution, _, answer = row["answer"].rpartition("####")
            said = [answer.strip() if at % 4 else f"{at + turn}" for at in range(GROUP)]
            texts = [f"{solution}So, attempt {at}: the answer is \\boxed{{{value}}}." for at, value in enumerate(said)]
            for clear in forget:
                clear()
            started = time.perf_counter()
            verify_math_batch([row["answer"]] * GROUP, texts)
            seconds += time.perf_counter() - started
            checks += GROUP
    return checks / seconds


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cases = [json.loads(line) for line in (CASES / "math.jsonl").read_text(encoding="utf-8").splitlines()]
    pairs = [(case["gold"], case["completion"]) for case in cases]
    forget = caches()
    verify_math("2", "\\boxed{\\lim_{x \\to 2} x}", timeout=60.0)
    plain("\\sqrt{2}", "\\boxed{2^{1/2}}")
    runs = [beside_math_verify(pairs, forget) for _ in range(ROUNDS)]
    ours = [seconds for run in runs for seconds in run["ours"]]
    theirs = [seconds for run in runs for seconds in run["theirs"]]
    print(
        json.dumps(
            {
                "pairs": len(pairs),
                "rounds": ROUNDS,
                "times_faster_than_math_verify": round(sum(theirs) / sum(ours), 1),
                "ms_p50": round(1000 * statistics.median(ours), 3),
                "ms_p99": round(1000 * statistics.quantiles(ours, n=100)[98], 2),
                "math_verify_ms_p50": round(1000 * statistics.median(theirs), 2),
                "checks_per_second": round(len(ours) / sum(ours)),
                "gsm8k_group_checks_per_second": round(gsm8k_checks_per_second(forget)),
            }
        )
    )


if __name__ == "__main__":
    main()
