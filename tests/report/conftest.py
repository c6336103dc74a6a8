"""A run directory as the pipeline leaves it, with made-up numbers that look like those of a small maths run."""

import json
import math
import random
from pathlib import Path

import pytest

from trl_grpo_ext.report import build_report


START = 1_780_000_000.0
STEPS = 160
RESUMED_AT = 71

RECIPE = """\
version: 1
name: {name}
output_dir: runs/{name}
seed: 42
template: arithmetic_think
base:
  from_config: {{hidden_size: 64, num_hidden_layers: 2}}
stages:
- {{id: data, kind: prepare, task: arithmetic, sizes: {{sft: 2000, rl: 1000, eval: 200}}}}
- {{id: eval_base, kind: eval, init_from: base, data: data, evaluation: {{n_samples: 4, k: [1, 4]}}}}
- {{id: cold_sft, kind: sft, init_from: base, data: data, accelerate: cpu, train: {{max_steps: 120}}}}
- {{id: eval_sft, kind: eval, init_from: cold_sft, data: data, evaluation: {{n_samples: 4, k: [1, 4]}}}}
- id: reason_rl
  kind: grpo
  init_from: cold_sft
  data: data
  rewards: [math, {{name: format, mode: gate}}]
  accelerate: cpu
  train: {{advantage: grpo, num_generations: 8, max_steps: 160}}
- {{id: eval_rl, kind: eval, init_from: reason_rl, data: data, evaluation: {{n_samples: 4, k: [1, 4]}}}}
- {{id: report, kind: report}}
"""
STAGES = (
    ("data", "prepare", {"task": "arithmetic"}),
    ("eval_base", "eval", {"init_from": "base", "data": "data"}),
    ("cold_sft", "sft", {"init_from": "base", "data": "data"}),
    ("eval_sft", "eval", {"init_from": "cold_sft", "data": "data"}),
    ("reason_rl", "grpo", {"init_from": "cold_sft", "data": "data"}),
    ("eval_rl", "eval", {"init_from": "reason_rl", "data": "data"}),
    ("report", "report", {}),
)
SECONDS = {"data": 4.2, "eval_base": 11.0, "cold_sft": 63.0, "eval_sft": 11.5, "eval_rl": 12.25}
ACCURACY = {"eval_base": 0.005, "eval_sft": 0.31, "eval_rl": 0.785}
HOSTILE = (
    "<script>document.title = 'owned'; document.body.innerHTML = 'owned'</script>"
    "</pre></details><img src=https://example.com/x.png onerror=\"document.title='owned'\">"
    "\x1b[31mred\x1b[0m \x00 \u202egnp.exe \ud83d alone \u200bhidden {{ 7 * 7 }} $x_1$ &amp; שלום עולם"
)


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_rows(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def scores(accuracy: float, samples=()) -> dict:
    def measure(mean):
        half = 1.96 * math.sqrt(max(mean * (1 - mean), 0.004) / 200)
        return {"mean": mean, "ci": [max(0.0, mean - half), min(1.0, mean + half)]}

    return {
        "n": 200,
        "greedy": measure(accuracy),
        "sampled": {**measure(0.9 * accuracy), "n_samples": 4},
        "pass_at_k": {"1": measure(0.9 * accuracy), "4": measure(min(1.0, 1.2 * accuracy))},
        "format": {"mean": 0.98},
        "truncated": 0.015,
        "unscored": 0.0,
        "mean_tokens": 24.5,
        "seconds": 11.0,
        "samples": list(samples),
    }


def eval_samples() -> list[dict]:
    prompt = [{"role": "user", "content": "What is 17 + 25 * 3?"}]
    right = "<think>\n25 * 3 = 75\n17 + 75 = 92\n</think>\n<answer>92</answer>"
    wrong = "<think>\n17 + 25 = 42\n42 * 3 = 126\n</think>\n<answer>126</answer>"
    common = {"prompt": prompt, "gold": "92"}
    return [
        {**common, "completion": right, "value": 1.0, "kind": "correct", "answer": "92", "reason": "equal integers"},
        {**common, "completion": wrong, "value": 0.0, "kind": "wrong", "answer": "126", "reason": "126 is not 92"},
        {**common, "completion": "", "value": 0.0, "kind": "no_answer", "answer": None, "reason": "nothing to read"},
    ]


def sft_rows(noise: random.Random) -> list[dict]:
    return [
        {
            "step": step,
            "time": START + 100 + step,
            "loss": 0.25 + 3.2 * math.exp(-step / 18) + noise.gauss(0, 0.03),
            "mean_token_accuracy": 0.93 - 0.8 * math.exp(-step / 25),
            "grad_norm": 0.5 + 4 * math.exp(-step / 10) + abs(noise.gauss(0, 0.1)),
            "learning_rate": 1e-3,
            "entropy": 0.3 + 3 * math.exp(-step / 18),
        }
        for step in range(5, 121, 5)
    ]


def grpo_rows(noise: random.Random, learns: bool) -> list[dict]:
    rows = []
    for step in range(1, STEPS + 1):
        rise = 1 / (1 + math.exp(-(step - 60) / 22)) if learns else 0.0
        accuracy = min(1.0, max(0.0, 0.28 + 0.5 * rise + noise.gauss(0, 0.05)))
        form = min(1.0, 0.97 + noise.gauss(0, 0.01))
        truncated = max(0.0, 0.08 * (1 - rise) + noise.gauss(0, 0.01))
        pause = 400 if step >= RESUMED_AT else 0
        rows.append(
            {
                "step": step,
                "time": START + 300 + step + pause,
                "reward": accuracy * form,
                "reward_std": 0.4,
                "rewards/math_reward/mean": accuracy,
                "rewards/math_reward/std": 0.4,
                "rewards/format_reward/mean": form,
                "frac_reward_zero_std": min(1.0, max(0.0, 0.3 + 0.3 * rise + noise.gauss(0, 0.06))),
                "completions/mean_length": 31 - 8 * rise + noise.gauss(0, 0.8),
                "completions/mean_terminated_length": 29 - 7 * rise + noise.gauss(0, 0.8),
                "completions/clipped_ratio": truncated,
                "entropy": 0.55 - 0.3 * rise + noise.gauss(0, 0.02),
                "loss": noise.gauss(0, 0.02),
                "grad_norm": 0.6 + abs(noise.gauss(0, 0.25)),
                "learning_rate": 1e-4,
            }
        )
    return rows


def completion_rows() -> list[dict]:
    return [
        {
            "step": step,
            "prompt": "What is 6 * 7?",
            "completion": f"<think>6 * 7 = {answer}</think><answer>{answer}</answer>",
            "answer": "42",
            "rewards": {"math_reward": float(answer == 42), "format_reward": 1.0},
            "advantage": 0.9 if answer == 42 else -1.1,
        }
        for step in range(10, STEPS + 1, 10)
        for answer in (42, 43)
    ]


def attempts_of(name: str) -> list[dict]:
    if name == "reason_rl":  # broken off once and resumed
        return [
            {"started": START + 300, "ended": START + 375, "exit_code": -9},
            {"started": START + 760, "ended": START + 870, "exit_code": 0},
        ]
    if name == "report":
        return [{"started": START + 900, "ended": None, "exit_code": None}]
    return [{"started": START, "ended": START + SECONDS[name], "exit_code": 0}]


@pytest.fixture
def make_run(tmp_path):
    """Write a run directory: `make_run("quickstart")`, or `make_run("control", learns=False)` for its control."""

    def make(name: str = "quickstart", learns: bool = True) -> Path:
        return write_run(tmp_path / name, name, learns)

    return make


@pytest.fixture(scope="session")
def page(tmp_path_factory) -> Path:
    """The page of a finished run with its control; drawn once, since figures take seconds."""
    folder = tmp_path_factory.mktemp("report")
    control = write_run(folder / "control", "control", learns=False)
    return build_report(write_run(folder / "quickstart", "quickstart"), control)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory) -> Path:
    """The page of a run in which every text a model, a dataset or a recipe could have written attacks it."""
    run = write_run(tmp_path_factory.mktemp("report") / "quickstart", "quickstart")
    texts = [HOSTILE, "A" * 300_000 + HOSTILE, "e" + "\u0301" * 900 + "\u05e9" * 900, "x\n" * 5_000]
    samples = [
        {"prompt": HOSTILE, "completion": text, "value": value, "kind": HOSTILE, "answer": text, "reason": HOSTILE}
        for text in texts
        for value in (1.0, 0.0, None)
    ]
    write_json(run / "05-eval_rl" / "out" / "scores.json", scores(0.785, samples))
    prompt = [{"role": HOSTILE, "content": HOSTILE}] * 2
    row = {"step": 1, "prompt": prompt, "completion": HOSTILE, "answer": HOSTILE, "rewards": {HOSTILE: 1.0}}
    write_rows(run / "04-reason_rl" / "logs" / "completions.jsonl", [row])
    metrics = [{"step": 1, f"rewards/{HOSTILE}/mean": 1.0, "rewards/$_$/mean": 0.5, HOSTILE: 1.0}]
    write_rows(run / "04-reason_rl" / "logs" / "metrics.jsonl", metrics)
    write_json(run / "environment.json", {HOSTILE: {HOSTILE: HOSTILE}})
    record = {"id": "cold_sft", "kind": "sft", "status": '"><script>document.title = "owned"</script>'}
    write_json(run / "02-cold_sft" / "stage.json", record)
    (run / "02-cold_sft" / "DONE").unlink()
    return build_report(run)


def write_run(run: Path, name: str, learns: bool = True) -> Path:
    noise = random.Random(name)
    run.mkdir(parents=True)
    (run / "pipeline.yaml").write_text(RECIPE.format(name=name))
    (run / "pipeline.resolved.yaml").write_text(RECIPE.format(name=name))
    versions = {"trl-grpo-ext": "0.1.0", "trl": "1.16.0", "torch": "2.13.0", "transformers": "5.24.0"}
    write_json(run / "environment.json", {"python": "3.11.2", "packages": versions, "gpus": [], "cpus": 8})
    for index, (stage, kind, config) in enumerate(STAGES):
        folder = run / f"{index:02d}-{stage}"
        write_json(
            folder / "stage.json",
            {
                "id": stage,
                "kind": kind,
                "index": index,
                "config": {"id": stage, "kind": kind, **config},
                "control": None if learns else "shuffled-rewards",
                "status": "running" if kind == "report" else "done",
                "attempts": attempts_of(stage),
            },
        )
        if kind != "report":
            write_json(folder / "DONE", {"finished": START + 1000, "seconds": 1.0})
        if kind == "eval":
            accuracy = ACCURACY[stage] if learns or stage != "eval_rl" else 0.295
            write_json(folder / "out" / "scores.json", scores(accuracy, eval_samples()))
    write_json(
        run / "00-data" / "out" / "report.json", {"sft": 2000, "rl": 1000, "eval": 200, "dropped": {"twice": 3}}
    )
    write_rows(run / "02-cold_sft" / "logs" / "metrics.jsonl", sft_rows(noise))
    write_rows(run / "04-reason_rl" / "logs" / "metrics.jsonl", grpo_rows(noise, learns))
    write_rows(run / "04-reason_rl" / "logs" / "completions.jsonl", completion_rows())
    write_json(run / "04-reason_rl" / "progress.json", {"step": STEPS, "total": STEPS, "text": "reward 0.78"})
    return run
