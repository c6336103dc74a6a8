"""`python -m trl_grpo_ext.stages`, in its own process and in this one."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from filelock import FileLock

from trl_grpo_ext.files import read_json
from trl_grpo_ext.stages.__main__ import main
from trl_grpo_ext.stages.driver_watch import DRIVER_VARIABLE


PREPARE = {"task": "arithmetic", "sizes": {"sft": 5, "rl": 6, "eval": 7}}


def test_a_stage_ends_with_done(make_stage):
    stage = make_stage("prepare", PREPARE)
    assert main(["--stage_dir", str(stage.dir)]) == 0
    assert set(read_json(stage.dir / "DONE")) == {"finished", "seconds"}
    assert read_json(stage.out / "report.json")["kept"] == {"sft": 5, "rl": 6, "eval": 7}
    assert not (stage.dir / "error.json").exists()
    assert not (stage.dir / ".lock.json").exists()


def test_a_mistake_of_the_user_is_told_from_a_crash(make_stage, monkeypatch):
    stage = make_stage("prepare", {**PREPARE, "task_params": {"digitz": 2}})
    assert main(["--stage_dir", str(stage.dir)]) == 2
    error = read_json(stage.dir / "error.json")
    assert error["kind"] == "user"
    assert "digits" in error["message"]
    assert not (stage.dir / "DONE").exists()

    stage = make_stage("prepare", PREPARE)
    monkeypatch.setattr("trl_grpo_ext.stages.prepare.build_task", lambda name: 1 / 0)
    assert main(["--stage_dir", str(stage.dir)]) == 1
    error = read_json(stage.dir / "error.json")
    assert (error["kind"], error["message"]) == ("crash", "ZeroDivisionError: division by zero")
    assert "Traceback" in error["traceback"]


def test_an_old_error_is_forgotten(make_stage):
    stage = make_stage("prepare", PREPARE)
    (stage.dir / "error.json").write_text("{}")
    assert main(["--stage_dir", str(stage.dir)]) == 0
    assert not (stage.dir / "error.json").exists()


def test_an_unknown_kind_is_refused(make_stage):
    stage = make_stage("dance", {})
    assert main(["--stage_dir", str(stage.dir)]) == 2
    assert "unknown stage kind 'dance'" in read_json(stage.dir / "error.json")["message"]


def test_a_second_process_refuses_and_leaves_the_folder_alone(make_stage, capsys):
    stage = make_stage("prepare", PREPARE)
    before = sorted(path.name for path in stage.dir.iterdir())
    with FileLock(stage.dir / ".lock"):
        assert main(["--stage_dir", str(stage.dir)]) == 1
    assert "in use by another process" in capsys.readouterr().err
    assert sorted(path.name for path in stage.dir.iterdir() if path.name != ".lock") == before


def test_preparing_without_a_base_to_build_imports_no_torch(make_stage):
    stage = make_stage("prepare", PREPARE)
    code = (
        "import sys; from trl_grpo_ext.stages.__main__ import main; "
        f"code = main(['--stage_dir', {str(stage.dir)!r}]); "
        "print(code, [m for m in ('torch', 'trl', 'transformers', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0 []"


_SLEEPER = "from trl_grpo_ext.stages.driver_watch import watch_driver; import time; watch_driver(); time.sleep(60)"


@pytest.mark.parametrize("end", ["driver", "launcher"])
def test_a_stage_outlives_neither_its_driver_nor_its_launcher(end):
    driver = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    mark = f"{driver.pid}:{psutil.Process(driver.pid).create_time()}"
    launch = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_SLEEPER!r}])"
    launcher = subprocess.Popen([sys.executable, "-c", launch], env={**os.environ, DRIVER_VARIABLE: mark})
    try:
        stage = _only_child(launcher.pid)
        time.sleep(1.5)  # a whole round of the watch, in which everything is in order
        assert stage.is_running()
        (driver if end == "driver" else launcher).kill()
        stage.wait(timeout=10)
        assert not stage.is_running()
    finally:
        driver.kill()
        launcher.kill()
        driver.wait()
        launcher.wait()


def _only_child(pid):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        children = psutil.Process(pid).children()
        if children and children[0].num_threads() > 1:  # the watch is running
            return children[0]
        time.sleep(0.05)
    raise AssertionError("the launcher has started nothing")
