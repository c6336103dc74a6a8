import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from trl_grpo_ext.errors import ConfigError, StageError
from trl_grpo_ext.files import read_json, write_json


FAKE_DRIVER = Path(__file__).parent / "fake_driver.py"
ALL = ["data", "cold", "rl", "exam", "page"]


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def start_driver(workshop):
    command = [sys.executable, str(FAKE_DRIVER), str(workshop.write()), str(workshop.run_dir)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def record(workshop, folder):
    return read_json(workshop.run_dir / folder / "stage.json")


def test_stages_run_in_order_and_only_once(workshop):
    shown = workshop.run()
    assert workshop.starts() == ALL
    assert "✓ [3/5] rl (grpo) took" in shown
    assert f"report: {workshop.run_dir}/05-page/out/report.html" in shown
    assert "0.250 (0.10–0.40)" in shown
    assert "0.250 (k=4)" in shown

    shown = workshop.run()
    assert workshop.starts() == ALL  # nothing was started
    assert "- [3/5] rl (grpo) is done already" in shown
    assert "report: " in shown


def test_a_stage_is_told_what_to_do(workshop):
    workshop.run()
    run_dir = workshop.run_dir
    rl = record(workshop, "03-rl")
    assert rl["inputs"] == {
        "init_from": f"{run_dir}/02-cold/out",
        "revision": None,
        "data": f"{run_dir}/01-data/out",
        "template": f"{run_dir}/template.jinja",
    }
    assert (rl["id"], rl["kind"], rl["index"], rl["seed"], rl["run_dir"]) == ("rl", "grpo", 3, 7, str(run_dir))
    assert rl["config"]["train"]["advantage"] == "rloo"
    assert rl["status"] == "done"
    assert [attempt["exit_code"] for attempt in rl["attempts"]] == [0]
    assert record(workshop, "02-cold")["inputs"]["init_from"] == f"{run_dir}/01-data/out/base"
    assert record(workshop, "01-data")["base"] == {"from_config": {"hidden_size": 8}}
    assert {path.name for path in run_dir.iterdir() if not path.name.startswith(".")} == {
        "pipeline.yaml",
        "pipeline.resolved.yaml",
        "template.jinja",
        "environment.json",
        *(f"{number:02d}-{name}" for number, name in enumerate(ALL, start=1)),
    }
    assert (run_dir / "pipeline.yaml").read_text() == workshop.file.read_text()
    assert read_json(run_dir / "environment.json")["packages"]["trl"]


def test_a_model_of_the_hub_is_passed_with_its_revision(workshop):
    workshop.content["base"] = {"model": "org/model", "revision": "abc"}
    workshop.run()
    inputs = record(workshop, "02-cold")["inputs"]
    assert (inputs["init_from"], inputs["revision"]) == ("org/model", "abc")
    assert record(workshop, "03-rl")["inputs"]["revision"] is None


def test_a_model_folder_is_passed_by_its_absolute_path(workshop, monkeypatch):
    monkeypatch.chdir(workshop.folder)
    (workshop.folder / "models").mkdir()
    workshop.content["base"] = {"model": "models"}
    workshop.run()
    assert record(workshop, "02-cold")["inputs"]["init_from"] == f"{workshop.folder}/models"


def test_a_changed_key_makes_a_finished_stage_stale(workshop):
    workshop.run()
    workshop.content["stages"][1]["train"]["learning_rate"] = 2e-3
    with pytest.raises(ConfigError, match=r"'cold' is stale: train\.learning_rate: 0\.001 -> 0\.002") as caught:
        workshop.run()
    assert workshop.starts() == ALL
    assert record(workshop, "02-cold")["status"] == "done"  # a refused run changes nothing
    move = str(caught.value).splitlines()[-1]
    assert "01-data" not in move
    assert all(folder in move for folder in ("02-cold", "03-rl", "04-exam", "05-page"))

    subprocess.run(move, shell=True, check=True)  # what the message says to do is what helps
    workshop.run()
    assert workshop.starts() == [*ALL, "cold", "rl", "exam", "page"]


def test_a_key_put_back_makes_the_stage_done_again(workshop):
    workshop.run()
    workshop.content["seed"] = 8
    with pytest.raises(ConfigError, match=r"'data' is stale: seed: 7 -> 8"):
        workshop.run()
    workshop.content["seed"] = 7
    workshop.run()
    assert workshop.starts() == ALL


def test_a_free_key_may_change(workshop):
    workshop.run()
    workshop.content["stages"][2]["train"]["logging_steps"] = 5
    workshop.run()
    assert workshop.starts() == ALL


def test_a_control_run_needs_its_own_directory(workshop):
    workshop.run()
    with pytest.raises(ConfigError, match="'rl' is stale: control: None -> 'shuffled-rewards'"):
        workshop.run(control="shuffled-rewards")
    assert record(workshop, "03-rl")["control"] is None


def test_an_input_that_is_run_again_and_comes_out_the_same_changes_nothing(workshop):
    workshop.run()
    shutil.rmtree(workshop.run_dir / "01-data")
    workshop.run()
    assert workshop.starts() == [*ALL, "data", "page"]  # the page shows when the stages ran


def test_an_input_that_comes_out_differently_makes_a_stage_stale(workshop):
    workshop.run()
    (workshop.run_dir / "01-data" / "DONE").unlink()
    workshop.behave("data", "differ")
    with pytest.raises(ConfigError, match="'cold' is stale: its input 'data' is no longer the one it was made from"):
        workshop.run()
    assert workshop.starts() == [*ALL, "data"]


def test_the_page_is_made_again_when_a_stage_changes(workshop):
    workshop.run()
    shutil.rmtree(workshop.run_dir / "04-exam")
    workshop.run()
    assert workshop.starts() == [*ALL, "exam", "page"]


def test_a_stage_without_checkpoint_starts_afresh_with_what_the_recipe_says_now(workshop):
    workshop.behave("rl", "crash")
    with pytest.raises(StageError):
        workshop.run()
    workshop.behave("rl")
    workshop.content["stages"][2]["train"]["learning_rate"] = 1e-5
    workshop.run()
    assert record(workshop, "03-rl")["config"]["train"]["learning_rate"] == 1e-5


@pytest.mark.parametrize(("max_steps", "resumes"), [(20, True), (5, False)])
def test_only_a_longer_training_may_go_on_from_a_checkpoint(workshop, max_steps, resumes):
    workshop.behave("rl", "checkpoint_and_die")
    with pytest.raises(StageError, match="SIGKILL"):
        workshop.run()
    workshop.behave("rl")
    workshop.content["stages"][2]["train"]["max_steps"] = max_steps
    if resumes:
        workshop.run()
        assert [attempt["exit_code"] for attempt in record(workshop, "03-rl")["attempts"]] == [-9, 0]
    else:
        with pytest.raises(ConfigError, match=r"'rl' is stale: train\.max_steps: 10 -> 5"):
            workshop.run()


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ("user_mistake", ConfigError, r"^stage 'cold': no such model$"),
        ("crash", StageError, r"stage 'cold' failed: ZeroDivisionError: x\nlog: .*02-cold/logs/attempt-1\.log"),
        ("silent_crash", StageError, r"ended with exit code 7 .*\n.*behaves: silent_crash\n  the last words\nlog: "),
        ("no_done", StageError, r"ended with exit code 0 and said no more"),
    ],
)
def test_a_stage_that_fails_says_why(workshop, behaviour, error, message):
    workshop.behave("cold", behaviour)
    with pytest.raises(error, match=message):
        workshop.run()
    assert record(workshop, "02-cold")["status"] == "failed"
    workshop.behave("cold")
    workshop.run()
    assert workshop.starts() == ["data", "cold", *ALL[1:]]
    assert record(workshop, "02-cold")["status"] == "done"
    assert not (workshop.run_dir / "02-cold" / "error.json").exists()


def test_a_driver_killed_leaves_no_stage_and_the_next_one_goes_on(workshop):
    workshop.behave("rl", "hang")
    driver = start_driver(workshop)
    wait_until(lambda: workshop.starts()[-1:] == ["rl"])
    stage = workshop.pids()[-1]
    driver.kill()
    driver.wait()
    wait_until(lambda: not alive(stage), seconds=5)
    assert record(workshop, "03-rl")["status"] == "running"
    workshop.behave("rl")
    workshop.run(lock_timeout=10)
    assert workshop.starts() == [*ALL[:3], *ALL[2:]]
    assert [attempt["exit_code"] for attempt in record(workshop, "03-rl")["attempts"]] == [None, 0]


@pytest.mark.parametrize(
    ("signum", "behaviour"), [(signal.SIGINT, "hang"), (signal.SIGTERM, "hang"), (signal.SIGTERM, "stubborn")]
)
def test_a_signal_stops_the_stage_and_then_the_driver(workshop, signum, behaviour):
    workshop.behave("cold", behaviour)
    driver = start_driver(workshop)
    wait_until(lambda: (workshop.run_dir / "02-cold" / "logs" / "attempt-1.log").exists())
    wait_until(lambda: "behaves" in (workshop.run_dir / "02-cold" / "logs" / "attempt-1.log").read_text())
    time.sleep(0.3)
    driver.send_signal(signum)
    assert driver.wait(timeout=10) == 130
    assert not alive(workshop.pids()[-1])
    assert record(workshop, "02-cold")["status"] == "pending"
    workshop.behave("cold")
    workshop.run()
    assert workshop.starts() == ["data", "cold", *ALL[1:]]


def test_a_second_driver_is_refused(workshop):
    workshop.behave("data", "hang")
    driver = start_driver(workshop)
    wait_until(lambda: workshop.starts() == ["data"])
    with pytest.raises(ConfigError, match=rf"another run \(pid {driver.pid} on .* already works in"):
        workshop.run()
    driver.send_signal(signal.SIGINT)
    driver.wait(timeout=10)


def test_a_stage_still_held_by_an_earlier_run_is_refused(workshop):
    folder = workshop.run_dir / "01-data"
    workshop.run()
    (folder / "DONE").unlink()
    write_json(folder / ".lock.json", {"pid": 4711})
    with FileLock(folder / ".lock"), pytest.raises(ConfigError, match=r"01-data is still in use by .*4711"):
        workshop.run(lock_timeout=0.2)


def test_a_directory_of_something_else_is_refused(workshop):
    workshop.run_dir.mkdir()
    (workshop.run_dir / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"holds 'thesis\.tex' and is no run of a recipe"):
        workshop.run()
    assert [path.name for path in workshop.run_dir.iterdir()] == ["thesis.tex"]


def test_a_run_of_another_recipe_is_refused(workshop):
    workshop.run()
    workshop.content["name"] = "other"
    with pytest.raises(ConfigError, match="holds a run of recipe 'small', this is 'other'"):
        workshop.run()


def test_a_stage_whose_number_has_changed_is_not_run_again_in_silence(workshop):
    workshop.run()
    workshop.content["stages"].insert(1, {"id": "early", "kind": "eval", "init_from": "base", "data": "data"})
    with pytest.raises(ConfigError, match=r"stage 'cold' is now number 3 .*mv \S+/02-cold \S+/03-cold"):
        workshop.run()


# Not even root can make a folder in /proc.
@pytest.mark.parametrize("name", ["file", "file/below", "/proc/run"])
def test_a_directory_that_cannot_be_written_is_refused(workshop, name):
    (workshop.folder / "file").touch()
    workshop.run_dir = workshop.folder / name
    with pytest.raises(ConfigError, match="cannot be written"):
        workshop.run()


def test_a_damaged_record_is_named(workshop):
    workshop.run()
    (workshop.run_dir / "02-cold" / "stage.json").write_text('{"id": ')
    with pytest.raises(ConfigError, match=r"stage\.json cannot be read .*; move \S+/02-cold aside"):
        workshop.run()


def test_what_a_stage_started_does_not_outlive_it(workshop):
    """Workers of a launcher live in sessions of their own; a kill of the process group does not reach them."""
    script = workshop.folder / "launcher.py"
    script.write_text(
        "import json, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'], start_new_session=True)\n"
        "json.dump(child.pid, open(sys.argv[1], 'w'))\n"
        "sys.exit(1)\n"
    )
    pid_file = workshop.folder / "child.json"

    def command(accelerate_config, stage_dir):
        return [sys.executable, str(script), str(pid_file)]

    with pytest.raises(StageError):
        workshop.run(build_command=command)
    assert not alive(json.loads(pid_file.read_text()))
