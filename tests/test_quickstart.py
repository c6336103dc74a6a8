"""The promise of the quickstart, end to end: the model learns from its reward, and not from a shuffled one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def evaluations(run_dir: Path, *arguments: str) -> dict[str, dict]:
    """Run the quickstart in `run_dir`; return its evaluations by stage."""
    command = [sys.executable, "-m", "trl_grpo_ext"]
    run = [*command, "run", "quickstart", "--output_dir", str(run_dir), "--seed", "7", *arguments]
    subprocess.run(run, check=True, timeout=1800)
    report = subprocess.run(
        [*command, "report", str(run_dir), "--json"], check=True, capture_output=True, text=True, timeout=120
    )
    return {stage["id"]: stage["eval"] for stage in json.loads(report.stdout)["stages"] if stage["eval"]}


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_the_model_learns(tmp_path):
    scores = evaluations(tmp_path / "run")
    assert scores["eval_sft"]["greedy"] <= 0.60
    assert scores["eval_rl"]["greedy"] >= 0.90
    assert scores["eval_rl"]["sampled"] >= scores["eval_sft"]["sampled"] + 0.30
    assert (tmp_path / "run" / "07-report" / "out" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_the_control_gains_nothing(tmp_path):
    scores = evaluations(tmp_path / "control", "--control", "shuffled-rewards")
    for kind in ("greedy", "sampled"):
        assert scores["eval_rl"][kind] <= scores["eval_sft"][kind] + 0.05
