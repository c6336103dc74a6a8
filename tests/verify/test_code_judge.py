"""Verdicts on programs, with a sandbox that only looks like one: what it runs is harmless and runs here."""

import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import jobs
from trl_grpo_ext.sandbox.jobs import ENDED, Called, Calls, Ran, Run
from trl_grpo_ext.verify.code import Case, verify_code, verify_code_batch
from trl_grpo_ext.verify.code.checker import CHECKER_SECONDS, MAX_CHECKED_CHARACTERS


def attempt(step: Callable[[], object]) -> tuple[str, object, str]:
    try:
        return "ok", step(), ""
    except (Exception, SystemExit) as error:
        return "raised", None, f"{type(error).__name__}: {error}"


class Here:
    """Runs jobs in this process, and remembers them."""

    workers = 3

    def __init__(self):
        self.jobs: list[Run | Calls | jobs.Tests] = []
        self.open = self.most = 0
        self.given = 0  # results that were asked for
        self._lock = threading.Lock()

    def _do(self, job, results: Iterator) -> Iterator:
        with self._lock:
            self.jobs.append(job)
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            for result in results:
                self.given += 1
                yield result
        finally:
            self.open -= 1

    def run(self, job: Run) -> Iterator[Ran]:
        return self._do(job, (self._run(job.source, text) for text in job.inputs))

    def _run(self, source: str, text: str) -> Ran:
        lines = iter(text.split("\n"))
        printed = io.StringIO()
        names = {"input": lambda: next(lines), "print": lambda *words, **how: print(*words, **how, file=printed)}
        ended, _, note = attempt(lambda: exec(source, names))
        return Ran(ended, printed.getvalue(), note)

    def call(self, job: Calls) -> Iterator[Called]:
        names: dict = {}
        loaded, _, note = attempt(lambda: exec(job.source, names))

        def one(arguments: tuple) -> Called:
            if loaded != "ok":
                return Called("raised", note=note)
            if job.function not in names:
                return Called("missing", note=f"there is no function {job.function}")
            return Called(*attempt(lambda: names[job.function](*arguments)))

        return self._do(job, map(one, job.arguments))

    def test(self, job: jobs.Tests) -> Iterator[jobs.Tested]:
        names: dict = {}
        attempt(lambda: exec(job.source, names))
        exec(job.setup, names)

        def one(test: str) -> jobs.Tested:
            ended, _, note = attempt(lambda: exec(test, names))
            return jobs.Tested(ended, note)

        return self._do(job, map(one, job.tests))


class Scripted:
    """Gives the results it was given, whatever it is asked to run."""

    workers = 2

    def __init__(self, *results, fault: Exception | None = None):
        self.results, self.fault = results, fault

    def run(self, job):
        self.job = job
        yield from self.results
        if self.fault is not None:
            raise self.fault

    call = test = run


@pytest.fixture
def box() -> Iterator[Here]:
    here = Here()
    yield here
    assert here.open == 0, "a job was never closed"


def fenced(code: str) -> str:
    return f"So:\n\n```python\n{code}\n```\n"


SUM = {"format": "stdio", "tests": [{"input": "3 4\n", "output": "7\n"}, {"input": "10 -2\n", "output": "8\n"}]}
RIGHT_SUM = fenced("a, b = map(int, input().split())\nprint(a + b)")
HALF_SUM = fenced("input()\nprint(7)")
DOUBLE = {
    "format": "function_call",
    "tests": {"fn_name": "double", "inputs": [[1], [2], [[3]], ["a"]], "outputs": [2, 4, [3, 3], "aa"]},
}
ASSERTS = {
    "format": "asserts",
    "entry_point": "double",
    "tests": ["x = 1", "assert double(x) == 2", "assert double(0)"],
}
CHECK = {
    "format": "check_function",
    "entry_point": "double",
    "tests": "def check(candidate):\n    assert candidate(2) == 4, 'two'\n",
}
RIGHT_DOUBLE = fenced("def double(x):\n    return x + x")


# ------------------------------------------------------------------------------------------------------------- formats


def test_stdio(box):
    verdict = verify_code(RIGHT_SUM, SUM, sandbox=box)
    assert (verdict.value, verdict.kind, verdict.reason) == (1.0, "correct", "passed 2 of 2 tests")
    assert verdict.answer == "a, b = map(int, input().split())\nprint(a + b)\n"
    assert verdict.seconds > 0
    assert box.jobs == [Run(verdict.answer, ("3 4\n", "10 -2\n"))]


def test_stdio_wrong(box):
    verdict = verify_code(HALF_SUM, SUM, sandbox=box)
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert verdict.reason == "test 2 of 2: input '10 -2': line 1: expected '8', got '7'"


def test_stdio_compares_with_the_tolerance_of_the_case_or_of_the_options(box):
    case = {"format": "stdio", "tests": [{"input": "3", "output": "0.333333333333"}]}
    answer = fenced("print('%.6f' % (1 / int(input())))")
    assert not verify_code(answer, case, sandbox=box)
    assert verify_code(answer, {**case, "float_tolerance": 1e-6}, sandbox=box)
    assert verify_code(answer, case, options={"float_tolerance": 1e-6}, sandbox=box)
    assert not verify_code(answer, {**case, "float_tolerance": 0.0}, options={"float_tolerance": 1e-6}, sandbox=box)


def test_function_call(box):
    assert verify_code(RIGHT_DOUBLE, DOUBLE, sandbox=box).value == 1.0
    (job,) = box.jobs
    assert (job.function, job.arguments) == ("double", ((1,), (2,), ([3],), ("a",)))


def test_function_call_wrong(box):
    verdict = verify_code(fenced("def double(x):\n    return 2 * x if x != [3] else (3,)"), DOUBLE, sandbox=box)
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert verdict.reason == "test 3 of 4: double([3]): expected [3, 3], got (3,)"


def test_a_function_that_raises_or_is_missing_is_wrong(box):
    raising = verify_code(fenced("def double(x):\n    raise ValueError('no')"), DOUBLE, sandbox=box)
    assert (raising.value, raising.kind) == (0.0, "wrong")
    assert raising.reason == "test 1 of 4: double(1): ValueError: no"
    missing = verify_code(fenced("def triple(x):\n    return 3 * x"), DOUBLE, sandbox=box)
    assert (missing.value, missing.kind) == (0.0, "wrong")
    assert "the function is not there: there is no function double" in missing.reason


def test_asserts(box):
    verdict = verify_code(RIGHT_DOUBLE, ASSERTS, sandbox=box)
    assert (verdict.value, verdict.reason) == (0.0, "test 3 of 3: assert double(0): AssertionError:")
    (job,) = box.jobs
    assert (job.tests, job.function, job.setup) == (tuple(ASSERTS["tests"]), "double", "")
    assert verify_code(RIGHT_DOUBLE, {**ASSERTS, "tests": ASSERTS["tests"][:2]}, sandbox=box).value == 1.0


def test_a_note_that_quotes_the_assertion_is_not_told_twice():
    box = Scripted(jobs.Tested("ok"), jobs.Tested("raised", "assert double(x) == 2; double(1) returned 3"))
    verdict = verify_code(RIGHT_DOUBLE, ASSERTS, sandbox=box)
    assert verdict.reason == "test 2 of 3: assert double(x) == 2; double(1) returned 3"


def test_check_function(box):
    assert verify_code(RIGHT_DOUBLE, CHECK, sandbox=box).value == 1.0
    (job,) = box.jobs
    assert (job.tests, job.function, job.setup) == (("check(double)",), "double", CHECK["tests"])
    wrong = verify_code(fenced("def double(x):\n    return x"), CHECK, sandbox=box)
    assert (wrong.value, wrong.reason) == (0.0, "test 1 of 1: check(double): AssertionError: two")


def test_expected_values_and_tests_are_in_no_job_that_runs_the_program(box):
    for case in (SUM, DOUBLE):
        verify_code(RIGHT_SUM if case is SUM else RIGHT_DOUBLE, case, sandbox=box)
    assert all("8" not in repr(job) and "aa" not in repr(job) for job in box.jobs)


def test_limits_of_the_case_reach_the_sandbox(box):
    verify_code(RIGHT_SUM, {**SUM, "time_limit": 2, "memory_limit_mb": 300}, sandbox=box)
    verify_code(RIGHT_SUM, SUM, sandbox=box)
    first, second = (job.limits for job in box.jobs)
    assert (first.seconds, first.memory_mb) == (2, 300)
    assert (second.seconds, second.memory_mb) == (5.0, type(second)().memory_mb)


def test_other_languages_are_run_as_they_are():
    case = {**SUM, "language": "cpp", "preamble": "#include <cstdio>"}
    box = Scripted(Ran("ok", "7\n"), Ran("ok", "8\n"))
    verdict = verify_code("```python\nno\n```\n```c++\nint main() {}\n```", case, sandbox=box)
    assert (verdict.value, verdict.answer) == (1.0, "int main() {}\n")
    assert box.job == Run("#include <cstdio>\nint main() {}\n", ("3 4\n", "10 -2\n"), "cpp")


def test_the_preamble_stands_before_the_program_and_behind_imports_from_the_future(box):
    case = {**DOUBLE, "preamble": "import math\nTWO = 2"}
    assert verify_code(fenced("def double(x):\n    return x * TWO"), case, sandbox=box).value == 1.0
    answer = fenced("from __future__ import annotations\n\ndef double(x: Unknown):\n    return x * TWO")
    assert verify_code(answer, case, sandbox=box).value == 1.0
    assert box.jobs[-1].source.startswith("from __future__ import annotations\nimport math\nTWO = 2\n\n\ndef double")


# -------------------------------------------------------------------------------------------------------------- credit


def test_all_or_nothing_ends_at_the_first_failure(box):
    verify_code(fenced("def double(x):\n    return 2 if x == 1 else 0"), DOUBLE, sandbox=box)
    assert box.given == 2


def test_fraction(box):
    verdict = verify_code(HALF_SUM, SUM, options={"credit": "fraction"}, sandbox=box)
    assert (verdict.value, verdict.kind, bool(verdict)) == (0.5, "wrong", False)
    answer = fenced("def double(x):\n    return 0 if x == 2 else x + x")
    verdict = verify_code(answer, DOUBLE, options={"credit": "fraction"}, sandbox=box)
    assert (verdict.value, verdict.reason) == (0.75, "test 2 of 4: double(2): expected 4, got 0")
    assert verify_code(RIGHT_DOUBLE, DOUBLE, options={"credit": "fraction"}, sandbox=box).value == 1.0


def test_weights(box):
    case = {**SUM, "weights": [1, 3]}
    assert verify_code(HALF_SUM, case, options={"credit": "weighted"}, sandbox=box).value == 0.25
    assert verify_code(HALF_SUM, case, options={"credit": "fraction"}, sandbox=box).value == 0.5
    assert verify_code(HALF_SUM, case, sandbox=box).value == 0.0
    assert verify_code(HALF_SUM, SUM, options={"credit": "weighted"}, sandbox=box).value == 0.5
    assert (
        verify_code(RIGHT_SUM, {**SUM, "weights": [0.1, 0.7]}, options={"credit": "weighted"}, sandbox=box).value == 1
    )


def test_after_an_early_end_the_remaining_tests_count_as_failed():
    box = Scripted(Called("ok", 2), Called("timeout", note="no answer within 5 s"))
    verdict = verify_code(RIGHT_DOUBLE, DOUBLE, options={"credit": "fraction"}, sandbox=box)
    assert (verdict.value, verdict.kind) == (0.25, "timeout")
    assert verdict.reason == "test 2 of 4: double(2): out of time: no answer within 5 s"


@pytest.mark.parametrize("ended", sorted(set(ENDED) - {"ok", "unusable"}))
@pytest.mark.parametrize("case", [SUM, DOUBLE, ASSERTS, CHECK])
def test_every_end_of_a_program_is_its_own_fault(ended, case):
    result = {"stdio": Ran, "function_call": Called}.get(case["format"], jobs.Tested)
    verdict = verify_code(RIGHT_DOUBLE, case, sandbox=Scripted(result(ended, note="say\x1b so\nloudly\ud800 ")))
    assert (verdict.value, verdict.kind) == (0.0, ended if ended in ("timeout", "memory") else "wrong")
    assert "say so loudly" in verdict.reason
    assert verdict.reason.isprintable()


def test_a_program_that_does_not_compile_is_malformed(box):
    for answer in ("def double(x)\n    return x", "  def double(x):\n    return x", "if True:\n\tx\n        y"):
        verdict = verify_code(fenced(answer), DOUBLE, sandbox=box)
        assert (verdict.value, verdict.kind) == (0.0, "malformed")
    assert verify_code(fenced("x = '\ud800'"), DOUBLE, sandbox=box).kind == "malformed"


# ------------------------------------------------------------------------------------------------------------- checker


OTHER_DIGIT = (
    "def check(inp, out):\n    a, b = map(int, inp.split()); v = int(out)\n    return 0 <= v <= 9 and v != a + b"
)
DIGITS = {
    "format": "stdio",
    "tests": [{"input": "2 5\n", "output": "2\n"}, {"input": "4 5\n", "output": "0\n"}],
    "checker": OTHER_DIGIT,
}


def test_a_checker_decides(box):
    answer = fenced("a, b = map(int, input().split())\nprint(9 if a + b < 9 else 0)")
    assert verify_code(answer, DIGITS, sandbox=box).value == 1.0
    run, check = box.jobs
    assert isinstance(run, Run)
    assert check.source.startswith(OTHER_DIGIT)
    assert check.arguments == (("2 5\n", "9\n", "2\n"), ("4 5\n", "0\n", "0\n"))
    assert check.limits.seconds == 5.0 + CHECKER_SECONDS


def test_a_checker_that_says_no(box):
    verdict = verify_code(fenced("print(9)"), DIGITS, sandbox=box)
    assert (verdict.value, verdict.reason) == (0.0, "test 2 of 2: input '4 5', got '9': the checker gives it 0")
    assert verify_code(fenced("print(9)"), DIGITS, options={"credit": "fraction"}, sandbox=box).value == 0.5


def test_a_checker_may_look_at_the_expected_output(box):
    case = {**DIGITS, "checker": "def check(input, output, expected=None):\n    return output == expected"}
    assert verify_code(fenced("print(2 if '2' in input() else 0)"), case, sandbox=box).value == 1.0


def test_a_checker_may_give_partial_credit(box):
    case = {**DIGITS, "checker": "def check(input, output):\n    return 0.25 if output == '9\\n' else 1"}
    verdict = verify_code(fenced("print(9)"), case, options={"credit": "fraction"}, sandbox=box)
    assert (verdict.value, verdict.kind) == (0.25, "wrong")
    assert verify_code(fenced("print(9)"), case, sandbox=box).value == 0.0
    assert verify_code(fenced("print(1)"), case, sandbox=box).value == 1.0


def test_printing_what_a_checker_cannot_read_is_wrong(box):
    verdict = verify_code(fenced("print('nine')"), DIGITS, sandbox=box)
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert "the checker cannot read it (ValueError" in verdict.reason
    answer = fenced("print('nine' if '2' in input() else 0)")
    assert verify_code(answer, DIGITS, options={"credit": "fraction"}, sandbox=box).value == 0.5


@pytest.mark.parametrize(
    "checker",
    [
        "def check(input, output):\n    raise KeyError(output)",
        "def check(input, output):\n    return None",
        "def check(input, output):\n    return 'yes'",
        "def check(input, output):\n    return 7",
        "def check(input, output):\n    return float('nan')",
        "def check(input):\n    return True",
        "def chekc(input, output):\n    return True",
        "def check(input, output)\n    return True",
    ],
)
def test_a_broken_checker_makes_a_task_unscorable(box, checker):
    verdict = verify_code(fenced("print(9)"), {**DIGITS, "checker": checker}, sandbox=box)
    assert (verdict.value, verdict.kind) == (None, "unscorable")
    assert verdict.reason.startswith("the checker failed (")


def test_a_checker_without_expected_output_that_fails_makes_a_task_unscorable(box):
    case = {**DIGITS, "tests": [{"input": "2 5"}]}
    assert verify_code(fenced("print(9)"), case, sandbox=box).value == 1.0
    assert verify_code(fenced("print('nine')"), case, sandbox=box).kind == "unscorable"


def test_a_crash_is_not_shown_to_the_checker(box):
    answer = fenced("print(9 if '2' in input() else 1 / 0)")
    verdict = verify_code(answer, DIGITS, options={"credit": "fraction"}, sandbox=box)
    assert (verdict.value, verdict.reason) == (0.5, "test 2 of 2: input '4 5': ZeroDivisionError: division by zero")
    assert len(box.jobs[-1].arguments) == 1
    crashing = verify_code(fenced("1 / 0"), DIGITS, sandbox=box)
    assert (crashing.value, len(box.jobs)) == (0.0, 3)


def test_the_checker_runs_after_the_programs_so_that_no_thread_holds_two_places(box):
    verify_code_batch([fenced("print(9)"), fenced("print(1)")] * 3, [DIGITS] * 6, sandbox=box)
    assert box.most <= box.workers


def test_outputs_that_wait_for_a_checker_are_limited():
    large = Ran("ok", "9" * (MAX_CHECKED_CHARACTERS + 1))
    verdict = verify_code(fenced("print(9)"), DIGITS, sandbox=Scripted(large))
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert "printed or returned too much" in verdict.reason


# ----------------------------------------------------------------------------------------------- what is not a verdict


@pytest.mark.parametrize("completion", [None, "", "prose", "```js\nx\n```", "<think>\n```python\nx\n```"])
def test_no_answer_needs_no_sandbox(completion):
    verdict = verify_code(completion, SUM, sandbox=None)
    assert (verdict.value, verdict.kind, verdict.answer) == (0.0, "no_answer", None)
    assert verdict.reason


@pytest.mark.parametrize("case", [{**SUM, "tests": []}, {}, "{", {**SUM, "time_limit": -1}])
def test_broken_tests_are_unscorable_whatever_was_answered(case):
    for completion in (RIGHT_SUM, "prose"):
        verdict = verify_code(completion, case, sandbox=None)
        assert (verdict.value, verdict.kind) == (None, "unscorable")
        assert verdict.reason.isprintable()


def test_tests_that_cannot_be_run_are_unscorable():
    for case in (ASSERTS, CHECK):
        verdict = verify_code(RIGHT_DOUBLE, case, sandbox=Scripted(jobs.Tested("unusable", "NameError: x")))
        assert (verdict.value, verdict.kind) == (None, "unscorable")
        assert "the tests cannot be run (NameError: x)" in verdict.reason


@pytest.mark.parametrize("case", [SUM, DOUBLE, ASSERTS, CHECK, DIGITS])
def test_a_sandbox_that_fails_is_no_verdict(case):
    box = Scripted(fault=SandboxError("the zygote\nis gone"))
    verdict = verify_code(RIGHT_DOUBLE, case, sandbox=box)
    assert (verdict.value, verdict.kind, verdict.reason) == (None, "infra_error", "the zygote is gone")


@pytest.mark.parametrize("case", [SUM, DOUBLE, ASSERTS, CHECK, DIGITS])
def test_a_sandbox_that_gives_too_few_results_is_no_verdict(case):
    verdict = verify_code(RIGHT_DOUBLE, case, sandbox=Scripted())
    assert (verdict.value, verdict.kind) == (None, "infra_error")
    assert "gave 0 results" in verdict.reason


def test_a_fault_of_the_judge_is_no_verdict(caplog):
    verdict = verify_code(RIGHT_DOUBLE, DOUBLE, sandbox=Scripted(fault=KeyError("surprise")))
    assert (verdict.value, verdict.kind) == (None, "infra_error")
    assert "KeyError" in verdict.reason
    assert "surprise" in caplog.text


def test_a_completion_that_is_no_text_is_no_verdict():
    assert verify_code([{"content": "x"}], SUM).kind == "infra_error"


# -------------------------------------------------------------------------------------------------------------- values


HUGE = 10**100_000


def deep(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [HUGE, [HUGE], {HUGE: HUGE}, -HUGE, deep(100_000), "\ud800\x00\n" * 9999, b"\x00" * 9999, float("nan"), {1: [2]}],
    ids=range(9),
)
def test_no_returned_value_breaks_the_reason(value):
    verdict = verify_code(RIGHT_DOUBLE, DOUBLE, sandbox=Scripted(Called("ok", value)))
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert len(verdict.reason) <= 301
    assert verdict.reason.isprintable()


def test_no_printed_text_breaks_the_reason():
    verdict = verify_code(RIGHT_SUM, SUM, sandbox=Scripted(Ran("ok", "\x1b[2J\x00\ud800\u2028\u202e" * 9999)))
    assert (verdict.value, verdict.kind) == (0.0, "wrong")
    assert verdict.reason.isprintable()


def test_long_programs_are_shortened_in_the_verdict(box):
    verdict = verify_code(fenced("print(7)\n" + "# x\n" * 100_000), SUM, sandbox=box)
    assert len(verdict.answer) < 5_000


# --------------------------------------------------------------------------------------------------------------- batch


def test_a_batch_keeps_its_order(box):
    completions = [RIGHT_SUM, "prose", HALF_SUM, RIGHT_DOUBLE, RIGHT_SUM]
    verdicts = verify_code_batch(completions, [SUM, SUM, SUM, DOUBLE, {}], sandbox=box)
    assert [verdict.kind for verdict in verdicts] == ["correct", "no_answer", "wrong", "correct", "unscorable"]
    assert verify_code_batch([], [], sandbox=box) == []


class Slow(Here):
    def run(self, job):
        def slow():
            time.sleep(0.02)
            yield from (Ran("ok", "7\n"), Ran("ok", "8\n"))

        return self._do(job, slow())


def test_a_batch_runs_as_many_programs_as_the_sandbox_does_at_once():
    slow = Slow()
    started = time.perf_counter()
    verdicts = verify_code_batch([RIGHT_SUM] * 30, [SUM] * 30, sandbox=slow)
    elapsed = time.perf_counter() - started
    assert all(verdicts)
    assert slow.most == slow.workers
    assert max(verdict.seconds for verdict in verdicts) < elapsed / 2, "the wait for a place is no time of a judgement"


def test_a_failure_of_one_completion_leaves_the_others_alone(box):
    class Fragile(Here):
        def call(self, job):
            if "triple" in job.source:
                raise SandboxError("gone")
            return super().call(job)

    verdicts = verify_code_batch([RIGHT_DOUBLE, fenced("triple = 1")] * 2, [DOUBLE] * 4, sandbox=Fragile())
    assert [verdict.value for verdict in verdicts] == [1.0, None, 1.0, None]


def test_one_case_is_read_once_for_all_its_completions(monkeypatch, box):
    read = []
    parse = Case.parse.__func__
    monkeypatch.setattr(Case, "parse", classmethod(lambda cls, case: read.append(case) or parse(cls, case)))
    verify_code_batch([RIGHT_SUM] * 8, [SUM] * 8, sandbox=box)
    assert len(read) == 1


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="1 cases for 2 completions"):
        verify_code_batch([RIGHT_SUM] * 2, [SUM])
    with pytest.raises(ConfigError, match="credit"):
        verify_code(RIGHT_SUM, SUM, options={"credit": "some"})


def test_a_sandbox_may_be_named(monkeypatch, box):
    opened = []
    monkeypatch.setattr("trl_grpo_ext.verify.code.judge.open_sandbox", lambda spec: opened.append(spec) or box)
    for spec in (None, "local", {"name": "local", "workers": 2}):
        assert verify_code(RIGHT_SUM, SUM, sandbox=spec).value == 1.0
    assert opened == [None, "local", {"name": "local", "workers": 2}]


def test_a_sandbox_that_cannot_be_opened_is_told_to_the_caller(monkeypatch):
    def refuse(spec):
        raise SandboxError("this machine isolates nothing")

    monkeypatch.setattr("trl_grpo_ext.verify.code.judge.open_sandbox", refuse)
    with pytest.raises(SandboxError, match="isolates nothing"):
        verify_code(RIGHT_SUM, SUM)


def test_verdicts_may_be_asked_for_from_many_threads(box):
    kinds: list[str] = []
    threads = [
        threading.Thread(target=lambda: kinds.append(verify_code(RIGHT_DOUBLE, DOUBLE, sandbox=box).kind))
        for _ in range(8)
    ]
    with contextlib.ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
    assert kinds == ["correct"] * 8
