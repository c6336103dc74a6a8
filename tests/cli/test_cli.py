import json
import subprocess
import sys
import time

import pytest

from trl_grpo_ext import __version__, cli
from trl_grpo_ext.cli import run as run_command
from trl_grpo_ext.errors import ConfigError, DataError, StageError


def test_help_lists_commands_and_exit_codes(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("run", "status", "report", "list", "validate", "verify", "sft", "grpo", "eval", "exit codes:", "130"):
        assert word in shown


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"trl-grpo-ext {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "error: no command given"),
        (["rnu"], "error: unknown command 'rnu'; did you mean 'run'?"),
        (["run"], "error: the following arguments are required: RECIPE; `trl-grpo-ext run --help`"),
        (["run", "no/such.yaml"], "error: no file and no shipped recipe is called 'no/such.yaml'"),
        (["run", "x", "--seed", "many"], "error: argument --seed: invalid int value: 'many'"),
        (["list", "models"], "error: argument what: invalid choice: 'models'"),
        (["status", "no/such"], "error: no run directory at 'no/such'"),
        (["report", "no/such", "--json"], "error: no run directory at 'no/such'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(argv, message, capsys):
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("x"), 2), (DataError("x"), 2), (StageError("x"), 1), (KeyboardInterrupt(), 130)]
)
def test_exit_codes(error, code, monkeypatch, capsys):
    def fail(command, argv):
        raise error

    monkeypatch.setattr(run_command, "main", fail)
    assert cli.main(["run"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_other_errors_are_not_hidden(monkeypatch):
    def fail(command, argv):
        raise ZeroDivisionError

    monkeypatch.setattr(run_command, "main", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["run"])


@pytest.mark.parametrize("what", ["recipes", "rewards", "advantages", "tasks", "accelerate"])
def test_list(what, capsys):
    assert cli.main(["list", what]) == 0
    names = capsys.readouterr().out.splitlines()
    assert names
    expected = {"rewards": "math", "advantages": "grpo", "tasks": "arithmetic", "accelerate": "cpu"}
    assert expected.get(what, "quickstart") in names


def test_list_everything(capsys):
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.endswith(":")] == [
        "recipes:",
        "rewards:",
        "advantages:",
        "tasks:",
        "accelerate:",
    ]


@pytest.fixture
def run_dir(tmp_path):
    """A run of two stages, as the files say."""
    folder = tmp_path / "run"
    stages = [{"id": "exam", "kind": "eval"}, {"id": "page", "kind": "report"}]
    (folder / "01-exam" / "out").mkdir(parents=True)
    (folder / "pipeline.resolved.yaml").write_text(json.dumps({"name": "small", "stages": stages}))
    (folder / "environment.json").write_text("{}")
    record = {"id": "exam", "kind": "eval", "attempts": [{"started": 10.0, "ended": 12.5, "exit_code": 0}]}
    (folder / "01-exam" / "stage.json").write_text(json.dumps(record))
    (folder / "01-exam" / "DONE").write_text('{"finished": "2030-01-01T00:00:00+00:00", "seconds": 2.0}')
    score = {"mean": 0.5, "ci": [0.4, 0.6]}
    scores = {"n": 4, "greedy": score, "sampled": score | {"mean": 0.25}, "pass_at_k": {"1": score, "4": {"mean": 1}}}
    (folder / "01-exam" / "out" / "scores.json").write_text(json.dumps(scores))
    return folder


def test_report_json(run_dir, capsys):
    assert cli.main(["report", str(run_dir), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "stages": [
            {
                "id": "exam",
                "kind": "eval",
                "seconds": 2.5,
                "eval": {"greedy": 0.5, "sampled": 0.25, "pass_at_k": {"1": 0.5, "4": 1.0}},
            },
            {"id": "page", "kind": "report", "seconds": None, "eval": None},
        ]
    }


def test_report_json_with_a_control(run_dir, capsys):
    assert cli.main(["report", str(run_dir), "--json", "--control", str(run_dir)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["control"] == {"stages": content["stages"]}


def test_report_makes_the_page(run_dir, capsys):
    assert cli.main(["report", str(run_dir)]) == 0
    path = capsys.readouterr().out.strip()
    assert path.endswith("report.html")
    with open(path, encoding="utf-8") as page:
        assert "exam" in page.read()


def test_status(run_dir, capsys):
    assert cli.main(["status", str(run_dir)]) == 0
    shown = capsys.readouterr().out
    assert "exam" in shown
    assert "done" in shown
    assert "pending" in shown


def test_the_control_run_gets_its_own_directory(tmp_path, monkeypatch):
    from trl_grpo_ext.pipeline import runner

    seen = []
    monkeypatch.setattr(runner.Runner, "run", lambda self: seen.append((self.recipe.output_dir, self.control)))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "quickstart", "--control", "shuffled-rewards"]) == 0
    assert cli.main(["run", "quickstart", "--control", "shuffled-rewards", "--output_dir", "mine"]) == 0
    assert cli.main(["run", "quickstart"]) == 0
    assert seen == [
        (f"{seen[2][0]}-control-shuffled-rewards", "shuffled-rewards"),
        ("mine", "shuffled-rewards"),
        (seen[2][0], None),
    ]


def test_help_is_quick():
    """A person who asks for help, or presses tab, should not wait for torch."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "trl_grpo_ext", "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.5


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m trl_grpo_ext list | head -n 1",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
