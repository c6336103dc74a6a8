"""`trl-grpo-ext doctor`: what it looks at, and when it says that something is wrong."""

import json
import subprocess
import sys
import time

import pytest

from trl_grpo_ext import cli, sandbox
from trl_grpo_ext.cli import doctor
from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox import Isolation, self_check


class Box:
    """A sandbox that says how well it isolates."""

    def __init__(self, level="namespaces", layers=None, error=None):
        self.level, self.layers, self.error = level, layers or {"seccomp": "on", "landlock": "on"}, error

    def isolation(self):
        if self.error:
            raise SandboxError(self.error)
        return Isolation(self.level, self.layers)


@pytest.fixture
def examine(capsys, monkeypatch):
    """Run the command on a machine with such a sandbox; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "160")

    def examine(box, checks=(("runs a program", "ok"),)):
        monkeypatch.setattr(sandbox, "open_sandbox", lambda spec: box, raising=False)
        monkeypatch.setattr(self_check, "self_check", lambda box: list(checks))
        code = cli.main(["doctor"])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, captured.out

    return examine


def test_all_is_well(examine):
    code, shown = examine(Box())
    assert code == 0
    for word in ("Python", "torch", "trl", "accelerate", "processors", "memory", "namespaces", "docker", "g++"):
        assert word in shown
    for word in ("bwrap", "lean", "coqc"):
        assert word not in shown
    assert "✗" not in shown
    assert shown.endswith("\nfine\n")


def test_a_layer_that_is_off_is_named_and_may_be_missing(examine):
    code, shown = examine(Box("restricted", {"namespaces": "not permitted", "landlock": "on", "seccomp": "on"}))
    assert code == 0
    assert "–  namespaces" in shown
    assert "off: not permitted" in shown


def test_a_level_below_the_minimum_is_wrong(examine):
    code, shown = examine(Box("seccomp", {"landlock": "the kernel has none"}))
    assert code == 1
    assert "✗  level" in shown
    assert "the default minimum is 'restricted'" in shown
    assert shown.endswith("\n1 wrong\n")


def test_a_sandbox_that_does_not_start_is_wrong(examine):
    code, shown = examine(Box(error="no zygote"))
    assert code == 1
    assert "it does not start: no zygote" in shown


def test_a_check_that_fails_is_wrong_and_says_why(examine):
    code, shown = examine(
        Box(), [("runs a program", "ok"), ("hides the host's files", "programs can read /etc/passwd")]
    )
    assert code == 1
    assert "1 of 2 passed" in shown
    assert "programs can read /etc/passwd" in shown


def test_a_package_that_is_missing_or_old_is_wrong(examine, monkeypatch):
    installed = {"trl": "0.9.0", "torch": None, "vllm": None}
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: installed[name] if name in installed else real(name))
    code, shown = examine(Box())
    assert code == 1
    lines = {line.split()[1]: " ".join(line.split()) for line in shown.splitlines() if line.strip()[1:2] == " "}
    assert lines["trl"] == "✗ trl 0.9.0; needed is <2,>=1.16"
    assert lines["torch"] == "✗ torch not installed"
    assert lines["vllm"] == "– vllm not installed"


def test_help_explains_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "--help"])
    assert left.value.code == 0
    assert "exit codes:\n  0  " in capsys.readouterr().out
    assert cli.main(["doctor", "--fast"]) == 2


@pytest.mark.sandbox
def test_it_is_quick_and_imports_none_of_what_it_looks_for():
    code = (
        "import sys, json; from trl_grpo_ext.cli import main; code = main(['doctor']); "
        "print(json.dumps([code, [m for m in ('torch', 'trl', 'transformers', 'accelerate') if m in sys.modules]]))"
    )
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        seconds.append(time.perf_counter() - started)
    assert json.loads(done.stdout.splitlines()[-1]) in ([0, []], [1, []])
    assert min(seconds) < 6  # 2 s where nothing else is going on
