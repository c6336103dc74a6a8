"""The maths judge beside plain math-verify, on the labelled pairs of the tests.

    python benchmarks/math_judge.py

The last line is one JSON object: accuracy, wrong answers paid and right answers refused of both, and how many times
faster the judge is (wall-clock, same pairs, same run). The worker is warm in both cases.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify

from trl_grpo_ext import verify_math


CASES = Path(__file__).parents[1] / "tests" / "cases" / "math.jsonl"


def plain(gold: str, completion: str) -> bool:
    """math-verify as its README uses it, with the reference wrapped as it wants it."""
    return verify(parse(f"${gold}$"), parse(completion))


def ours(gold: str, completion: str) -> bool:
    return verify_math(gold, completion).value == 1.0


def measure(judge: Callable[[str, str], bool], cases: list[dict]) -> dict:
    """Verdicts of a judge against the labels, and the seconds it took."""
    judge("\\sqrt{2}", "\\boxed{2^{1/2}}")
    started = time.perf_counter()
    verdicts = [judge(case["gold"], case["completion"]) for case in cases]
    seconds = time.perf_counter() - started
    labels = [case["equivalent"] for case in cases]
    pairs = list(zip(verdicts, labels, strict=True))
    return {
        "accuracy": sum(verdict == label for verdict, label in pairs) / len(pairs),
        "paid_wrong": sum(verdict and not label for verdict, label in pairs),
        "refused_right": sum(label and not verdict for verdict, label in pairs),
        "seconds": seconds,
    }


def main() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    results = {"trl_grpo_ext": measure(ours, cases), "math_verify": measure(plain, cases)}
    speedup = results["math_verify"]["seconds"] / results["trl_grpo_ext"]["seconds"]
    for result in results.values():
        result["accuracy"] = round(result["accuracy"], 4)
        result["seconds"] = round(result["seconds"], 2)
    print(json.dumps({"pairs": len(cases), **results, "times_faster": round(speedup, 1)}))


if __name__ == "__main__":
    main()
