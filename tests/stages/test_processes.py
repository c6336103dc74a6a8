"""Stages under `accelerate launch` with two processes."""

import os
import subprocess
import sys

import pytest

from trl_grpo_ext.files import read_json, read_jsonl
from trl_grpo_ext.shipped import accelerate_config_path
from trl_grpo_ext.stages.__main__ import main
from trl_grpo_ext.stages.checkpoints import COMPLETE, list_checkpoints


def launch(stage):
    command = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0", "--config_file"]
    stage_command = ["-m", "trl_grpo_ext.stages", "--stage_dir", str(stage.dir)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(accelerate_config_path("cpu_2")), *stage_command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.distributed
def test_two_processes_train_one_model(make_stage, tiny_model, data_folder):
    train = {
        "max_steps": 2,
        "save_steps": 1,
        "logging_steps": 1,
        "per_device_train_batch_size": 2,
        "num_generations": 4,
        "max_completion_length": 6,
    }
    inputs = {"init_from": tiny_model, "data": data_folder}
    stage = make_stage("grpo", {"rewards": ["math"], "train": train}, inputs=inputs)
    done = launch(stage)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (stage.dir / "DONE").is_file()
    assert [(path / COMPLETE).is_file() for path in list_checkpoints(stage.checkpoints)] == [True, True]
    assert [row["step"] for row in read_jsonl(stage.logs / "metrics.jsonl")] == [1, 2]
    assert (stage.checkpoints / "checkpoint-2" / "rng_state_1.pth").is_file()
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(stage.out)


@pytest.mark.distributed
def test_two_processes_share_an_evaluation(make_stage, tiny_model, data_folder, monkeypatch):
    evaluation = {"n_samples": 1, "k": [1], "max_completion_length": 6, "limit": 5, "batch_size": 8}
    stage = make_stage("eval", {"evaluation": evaluation}, inputs={"init_from": tiny_model, "data": data_folder})
    done = launch(stage)
    assert done.returncode == 0, done.stderr[-3000:]
    shared = read_json(stage.out / "scores.json")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert main(["--stage_dir", str(stage.dir)]) == 0
    alone = read_json(stage.out / "scores.json")
    assert shared["n"] == alone["n"] == 5
    assert [(s["prompt"], s["completion"]) for s in shared["samples"]] == [
        (s["prompt"], s["completion"]) for s in alone["samples"]
    ]


@pytest.mark.distributed
def test_the_first_rank_to_fail_says_why(make_stage, tiny_model, data_folder):
    train = {"per_device_train_batch_size": 1, "num_generations": 3}
    inputs = {"init_from": tiny_model, "data": data_folder}
    stage = make_stage("grpo", {"rewards": ["math"], "train": train}, inputs=inputs)
    assert launch(stage).returncode != 0
    error = read_json(stage.dir / "error.json")
    assert error["kind"] == "user"
    assert "num_generations=3 does not divide the generation batch of 2" in error["message"]
    assert not (stage.dir / "DONE").exists()
