"""`trl-grpo-ext verify code`: the verdict on one program, its tests one by one, and what an interrupt leaves."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields

import psutil
import pytest

from trl_grpo_ext import cli
from trl_grpo_ext.cli import option_flags
from trl_grpo_ext.verify.code import CodeOptions


DOUBLE = {"format": "stdio", "tests": [{"input": "7", "output": "14"}, {"input": "-1", "output": "-2"}]}
ABSOLUTE = "print(2 * abs(int(input())))"


@pytest.fixture
def verify(capsys, monkeypatch):
    """Run the command; return its exit code, what the lines under the table say, and all it printed."""
    monkeypatch.setenv("COLUMNS", "80")

    def verify(*arguments):
        code = cli.main(["verify", "code", *map(str, arguments)])
        captured = capsys.readouterr()
        assert captured.err == ""
        said = re.findall(r"^(verdict|answer|reason) +(.*?) *$", captured.out, re.MULTILINE)
        return code, dict(said), captured.out

    return verify


@pytest.fixture
def case_file(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps(DOUBLE), encoding="utf-8")
    return path


@pytest.fixture
def program_file(tmp_path):
    def write(source):
        path = tmp_path / "program.py"
        path.write_text(source, encoding="utf-8")
        return path

    return write


@pytest.mark.sandbox
def test_files(verify, case_file, program_file):
    code, said, _ = verify("--case", case_file, "--program", program_file("print(2 * int(input()))"))
    assert code == 0
    assert said == {
        "verdict": "correct (1)",
        "answer": "print(2 * int(input()))",
        "reason": "passed 2 of 2 tests",
    }


@pytest.mark.sandbox
def test_texts(verify):
    code, said, _ = verify("--case", json.dumps(DOUBLE), "--completion", f"So:\n```python\n{ABSOLUTE}\n```")
    assert code == 0
    assert said["verdict"] == "wrong (0)"
    assert said["reason"] == "test 2 of 2: input '-1': line 1: expected '-2', got '2'"


def test_a_completion_without_a_program_is_judged(verify, case_file):
    code, said, _ = verify("--case", case_file, "--completion", "I do not know.")
    assert (code, said["verdict"], said["answer"]) == (0, "no_answer (0)", "none")


@pytest.mark.sandbox
def test_a_program_may_hold_fences_itself(verify, program_file):
    case = {"format": "function_call", "tests": {"fn_name": "f", "inputs": [[]], "outputs": ["```"]}}
    program = program_file('def f():\n    """\n```\n"""\n    return "```"\n')
    assert verify("--case", json.dumps(case), "--program", program)[1]["verdict"] == "correct (1)"


@pytest.mark.sandbox
def test_other_languages_are_judged_as_what_they_are(verify, program_file):
    case = {**DOUBLE, "language": "javascript"}
    _, said, _ = verify("--case", json.dumps(case), "--program", program_file("console.log(1);"))
    assert said["answer"] == "console.log(1);"


@pytest.mark.sandbox
def test_credit_for_some_of_the_tests(verify, program_file):
    arguments = ["--case", json.dumps({**DOUBLE, "weights": [3, 1]}), "--program", program_file(ABSOLUTE)]
    assert verify(*arguments, "--credit", "fraction")[1]["verdict"] == "wrong (0.5)"
    assert verify(*arguments, "--credit", "weighted")[1]["verdict"] == "wrong (0.75)"


@pytest.mark.sandbox
def test_explain_shows_each_test(verify, program_file):
    tests = [{"input": text, "output": str(2 * int(text))} for text in ("-1", "7", "8")]
    arguments = ["--case", json.dumps({**DOUBLE, "tests": tests}), "--program", program_file(ABSOLUTE)]
    code, said, shown = verify(*arguments, "--explain")
    assert code == 0
    assert said == verify(*arguments)[1]
    assert re.findall(r"^ (\d)  +(input '.*?') +(.*?) *$", shown, re.MULTILINE) == [
        ("1", "input '-1'", "wrong: line 1: expected '-2', got '2'"),
        ("2", "input '7'", "passed"),
        ("3", "input '8'", "passed"),
    ]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.sandbox
def test_explain_shows_what_was_not_run(verify, program_file):
    calls = {"fn_name": "f", "inputs": [[1], [2], [3]], "outputs": [1, 2, 3]}
    case = {"format": "function_call", "tests": calls, "time_limit": 0.5}
    program = program_file("def f(x):\n    while x > 1:\n        pass\n    return x")
    code, said, shown = verify("--case", json.dumps(case), "--program", program, "--explain")
    assert (code, said["verdict"]) == (0, "timeout (0)")
    told = re.findall(r"^ (\d)  +(f\(\d\)) +(\w+)", shown, re.MULTILINE)
    assert told == [("1", "f(1)", "passed"), ("2", "f(2)", "timeout"), ("3", "f(3)", "not")]


@pytest.mark.sandbox
@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_markup_and_control_characters_are_text(explain, verify, program_file):
    program = program_file("print('[bold]\\x1b[31m')")
    _, said, shown = verify("--case", json.dumps(DOUBLE), "--program", program, *explain)
    assert "[bold]\\x1b[31m" in said["reason"]
    assert "\x1b" not in shown


@pytest.mark.sandbox
def test_tests_that_cannot_be_run_are_not_judged(verify, program_file):
    case = {"format": "asserts", "tests": ["assert f(1) =="]}
    code, said, _ = verify("--case", json.dumps(case), "--program", program_file("def f(x): return x"))
    assert (code, said["verdict"]) == (2, "unscorable (not judged)")


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_a_sandbox_that_fails_is_not_the_users_mistake(explain, verify, case_file, program_file, monkeypatch):
    from trl_grpo_ext.errors import SandboxError
    from trl_grpo_ext.verify.code import judge

    class Failing:
        def run(self, job):
            raise SandboxError("no zygote")
            yield

    monkeypatch.setattr(judge, "_opened", lambda spec: Failing())
    code, said, _ = verify("--case", case_file, "--program", program_file("print(1)"), *explain)
    assert (code, said["verdict"]) == (1, "infra_error (not judged)")


def test_every_option_has_a_flag_that_says_what_it_does(capsys):
    meanings = option_flags.described_arguments(CodeOptions)
    assert [*meanings] == [item.name for item in fields(CodeOptions)]
    with pytest.raises(SystemExit) as left:
        cli.main(["verify", "code", "--help"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in (*meanings, "case", "program", "completion", "sandbox", "explain"):
        assert f"--{name} " in shown
    assert "exit codes: 0 judged" in shown
    assert "--gold" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --case"),
        (["--case", "CASE"], "one of the arguments --completion --program is required"),
        (["--case", "none.json", "--completion", "x"], "--case 'none.json' cannot be read ([Errno 2] No such file"),
        (["--case", "CASE", "--program", "none.py"], "--program 'none.py' cannot be read ([Errno 2] No such file"),
        (["--case", "CASE", "--program", "/dev"], "--program '/dev' cannot be read ([Errno 21] Is a directory"),
        (["--case", "{", "--completion", "x"], "the case is no JSON that can be read"),
        (["--case", "{}", "--completion", "x"], "format is None; expected one of 'asserts'"),
        (["--case", "CASE", "--completion", "x", "--credit", "some"], "argument --credit: invalid choice: 'some'"),
        (["--case", "CASE", "--completion", "x", "--float_tolerance", "2"], "float_tolerance is 2.0; expected"),
        (["--case", "CASE", "--completion", "x", "--gold", "1"], "unrecognized arguments: --gold 1"),
        (["--case", "CASE", "--completion", "```py\n1\n```", "--sandbox", "lokal"], "unknown sandbox 'lokal'; did"),
        (["--case", "CASE", "--completion", "x", "--sandbox", "{"], "argument --sandbox: '{' is no JSON"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, case_file, capsys):
    given = [str(case_file) if argument == "CASE" else argument for argument in arguments]
    assert cli.main(["verify", "code", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def descendants(process):
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_there(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.sandbox
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_an_interrupt_leaves_no_process(sent, code, program_file):
    case = json.dumps({**DOUBLE, "time_limit": 60})
    command = [sys.executable, "-m", "trl_grpo_ext", "verify", "code", "--case", case]
    command += ["--program", str(program_file("while True: pass"))]
    # Its own session: a signal to this process alone, and not to those it started, as `kill` sends it.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = subprocess.Popen(command, start_new_session=True, **pipes)
    try:
        busy = lambda: any(child.cpu_times().user > 1.0 for child in descendants(started))  # noqa: E731
        assert waited_for(busy, 60), "the program never ran"
        below = descendants(started)
        os.kill(started.pid, sent)
        out, err = started.communicate(timeout=30)
    finally:
        started.kill()
    assert started.returncode == code
    assert out == ""
    assert err == ("interrupted\n" if sent == signal.SIGINT else "")
    assert below
    assert waited_for(lambda: not any(map(is_there, below)), 10), below


def waited_for(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return True
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.05)
    return False
