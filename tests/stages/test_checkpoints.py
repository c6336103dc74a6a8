import json

import pytest

from trl_grpo_ext.stages.callbacks import append_rows, keep_rows_until
from trl_grpo_ext.stages.checkpoints import COMPLETE, list_checkpoints, newest_complete, remove_incomplete, step_of


def make(folder, step, complete=True):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_text("weights")
    if complete:
        (path / COMPLETE).touch()
    return path


def test_steps_are_compared_as_numbers(tmp_path):
    for step in (10, 9, 100):
        make(tmp_path, step)
    assert [step_of(path) for path in list_checkpoints(tmp_path)] == [9, 10, 100]
    assert newest_complete(tmp_path).name == "checkpoint-100"


def test_a_checkpoint_without_the_mark_does_not_count(tmp_path):
    make(tmp_path, 5)
    make(tmp_path, 10, complete=False)
    assert newest_complete(tmp_path).name == "checkpoint-5"


def test_no_checkpoint(tmp_path):
    assert newest_complete(tmp_path) is None
    assert newest_complete(tmp_path / "absent") is None
    make(tmp_path, 3, complete=False)
    assert newest_complete(tmp_path) is None


def test_only_incomplete_checkpoints_are_removed(tmp_path):
    kept = make(tmp_path, 5)
    broken = make(tmp_path, 10, complete=False)
    other = tmp_path / "checkpoint-best"
    other.mkdir()
    (tmp_path / "README.md").touch()
    assert remove_incomplete(tmp_path) == [broken]
    assert kept.is_dir()
    assert other.is_dir()
    assert not broken.exists()


def test_step_of_refuses_other_names(tmp_path):
    with pytest.raises(ValueError, match="checkpoint-best"):
        step_of(tmp_path / "checkpoint-best")


def test_rows_after_the_resumed_step_and_half_a_line_are_dropped(tmp_path):
    path = tmp_path / "logs" / "metrics.jsonl"
    append_rows(path, [{"step": step, "loss": 1.0} for step in (1, 2, 3, 4)])
    with open(path, "a") as file:
        file.write('{"step": 5, "lo')  # the process was killed in the middle of a write
    keep_rows_until(path, 3)
    append_rows(path, [{"step": 4, "loss": 2.0}])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0)]


def test_rows_without_a_file_are_no_error(tmp_path):
    keep_rows_until(tmp_path / "metrics.jsonl", 3)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_numbers_that_json_cannot_hold_become_null(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, [{"step": 1, "reward": float("nan"), "kl": float("inf"), "loss": 0.5}])
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {
        "step": 1,
        "reward": None,
        "kl": None,
        "loss": 0.5,
    }
