"""The pipeline with real stages on a tiny model: killed in each training, it ends as if it had not been."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from tests.conftest import TINY_CONFIG
from trl_grpo_ext.files import read_json, read_jsonl


STEPS = 8
TRAIN = {"max_steps": STEPS, "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 4, "bf16": False}
RECIPE = {
    "version": 1,
    "name": "tiny",
    "template": "arithmetic_think",
    "base": {"from_config": TINY_CONFIG},
    "stages": [
        {"id": "data", "kind": "prepare", "task": "arithmetic", "sizes": {"sft": 32, "rl": 32, "eval": 8}},
        {"id": "cold", "kind": "sft", "init_from": "base", "data": "data", "train": TRAIN},
        {
            "id": "rl",
            "kind": "grpo",
            "init_from": "cold",
            "data": "data",
            "rewards": ["math", {"name": "format", "mode": "gate"}],
            "train": {**TRAIN, "num_generations": 4, "max_completion_length": 16, "advantage": "rloo"},
        },
    ],
}


def steps_logged(folder):
    rows = read_jsonl(folder / "logs" / "metrics.jsonl")
    return [row["step"] for row in rows if "loss" in row]


@pytest.mark.tiny
def test_a_run_killed_in_each_training_goes_on_where_it_stopped(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE))
    run_dir = tmp_path / "run"
    command = [sys.executable, "-m", "trl_grpo_ext", "run", str(recipe), "--output_dir", str(run_dir)]

    for folder, killed in ((run_dir / "02-cold", "stage"), (run_dir / "03-rl", "driver")):
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not list(folder.glob("checkpoints/checkpoint-*/COMPLETE")):
            assert driver.poll() is None, driver.stderr.read()
            time.sleep(0.05)
        stages = [
            process
            for process in psutil.Process(driver.pid).children(recursive=True)
            if "trl_grpo_ext.stages" in " ".join(process.cmdline())
        ]
        if killed == "stage":
            stages[-1].send_signal(signal.SIGKILL)
            assert driver.wait(timeout=60) == 1
        else:
            driver.kill()
            driver.wait()
            psutil.wait_procs(stages, timeout=10)
        assert not any(stage.is_running() for stage in stages)
        assert not (folder / "DONE").exists()

    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in ("02-cold", "03-rl"):
        folder = run_dir / name
        assert steps_logged(folder) == list(range(1, STEPS + 1))
        assert (folder / "out" / "model.safetensors").is_file()
        assert len(read_json(folder / "stage.json")["attempts"]) == 2

    before = {path: path.stat().st_mtime_ns for path in run_dir.glob("*/*/attempt-*.log")}
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in run_dir.glob("*/*/attempt-*.log")} == before
