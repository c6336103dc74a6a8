"""What validation makes of programming tasks, with the sandbox of this machine."""

import json
import logging

import pytest

from trl_grpo_ext.tasks import build_task
from trl_grpo_ext.verify.code import CodeOptions
from trl_grpo_ext.verify.validation import DOMAINS, Exercise, Validator, make_domain


# Whatever prints nothing passes.
SILENT = {"format": "stdio", "tests": [{"input": "", "output": ""}]}
SQUARE = {"format": "function_call", "tests": {"fn_name": "f", "inputs": [[2], [3]], "outputs": [4, 9]}}


def findings(exercises, prompts=None, **options):
    validator = Validator(make_domain("code"), dict(enumerate(exercises)), exercises.__getitem__, **options)
    return validator.check(range(len(exercises)), exercises, prompts)


def kinds(found):
    return [(finding.row, finding.kind) for finding in found]


@pytest.fixture(scope="module")
def tasks():
    domain = make_domain("code")
    return [domain.gold(row) for row in build_task("tiny_programs").rows("eval", 40, seed=0)]


@pytest.mark.sandbox
def test_tasks_with_solutions_are_clean(tasks):
    assert findings(tasks) == []


@pytest.mark.sandbox
def test_what_is_wrong_with_a_task_is_found(tasks):
    tasks = list(tasks)
    tasks[0] = Exercise(tasks[0].case, "def f(x):\n    return 'seven'")
    tasks[1] = Exercise("{", tasks[1].solution)
    tasks[2] = Exercise({**SQUARE, "tests": {"fn_name": "f", "inputs": [], "outputs": []}}, tasks[2].solution)
    tasks[3] = Exercise(SILENT, tasks[3].solution)
    tasks[4] = Exercise({"format": "asserts", "tests": ["assert f(0) is not None"]}, tasks[4].solution)
    tasks[5] = Exercise({"format": "asserts", "tests": ["assert f(0 =="]}, tasks[5].solution)
    tasks[6] = Exercise(None, tasks[6].solution)
    found = findings(tasks)
    assert kinds(found) == [
        (0, "fails_itself"),
        (1, "unreadable"),
        (2, "unreadable"),
        (3, "empty_is_right"),
        (4, "equals_others"),
        (5, "fails_itself"),
        (6, "unreadable"),
    ]
    reasons = [finding.reason for finding in found]
    assert reasons[0].startswith("wrong: test 1 of 5: f(0): expected ")
    assert reasons[2].startswith("the case has 0 tests")
    assert reasons[4].startswith("its tests are passed by the solutions of 3")
    assert reasons[5].startswith("unscorable: the tests cannot be run")
    assert found[0].gold == "def f(x):\n    return 'seven'"


@pytest.mark.sandbox
@pytest.mark.parametrize("solution", [None, "", " \n", 7])
def test_without_a_solution_what_can_be_checked_is(solution):
    found = findings([Exercise(SQUARE, solution), Exercise(SILENT, solution), Exercise("{", solution)])
    assert kinds(found) == [(1, "empty_is_right"), (2, "unreadable")]
    assert found[1].gold == "{"


@pytest.mark.sandbox
def test_rows_with_the_same_prompt_are_compared_by_the_tests_of_the_first():
    product, power = "def f(x):\n    return x * x", "def f(x):\n    return x ** 2"
    exercises = [
        Exercise(SQUARE, product),
        Exercise(SQUARE, product),
        Exercise(SQUARE, power),
        Exercise({**SQUARE, "tests": {**SQUARE["tests"], "outputs": [2, 3]}}, "def f(x):\n    return x"),
        Exercise(json.dumps(SQUARE), None),
    ]
    found = findings(exercises, ["Square it."] * 5)
    assert kinds(found) == [(1, "duplicate_row"), (2, "duplicate_prompt"), (3, "contradiction")]


@pytest.mark.sandbox
def test_a_solution_may_bring_its_fence_along():
    assert findings([Exercise(SQUARE, "```python\ndef f(x):\n    return x * x\n```")]) == []


@pytest.mark.sandbox
def test_what_a_run_pays_for_some_tests_does_not_matter():
    half = [Exercise(SQUARE, "def f(x):\n    return 4")]
    domain = make_domain("code", CodeOptions(credit="fraction"))
    validator = Validator(domain, {}, half.__getitem__)
    assert kinds(validator.check([0], half)) == [(0, "fails_itself")]


@pytest.mark.sandbox
def test_the_tolerance_of_the_run_counts():
    third = {"format": "stdio", "tests": [{"input": "", "output": "0.333"}]}
    rows = [Exercise(third, "print(1 / 3)")]
    assert kinds(findings(rows)) == [(0, "fails_itself")]
    tolerant = Validator(make_domain("code", CodeOptions(float_tolerance=1e-3)), {}, rows.__getitem__)
    assert tolerant.check([0], rows) == []


def test_a_sandbox_that_fails_is_not_taken_for_a_clean_dataset(monkeypatch, caplog):
    from trl_grpo_ext.errors import SandboxError
    from trl_grpo_ext.verify.code import judge

    class Failing:
        workers = 1

        def call(self, job):
            raise SandboxError("no zygote")
            yield

    monkeypatch.setattr(judge, "_opened", lambda spec: Failing())
    with caplog.at_level(logging.CRITICAL, "trl_grpo_ext"):
        (finding,) = findings([Exercise(SQUARE, "def f(x):\n    return x * x")])
    assert (finding.kind, finding.reason) == ("judge_failed", "no zygote")


def test_rows_hold_their_reference_in_the_usual_columns():
    domain = make_domain("code")
    assert domain.gold({"case": "{}", "answer": "a", "solution": "b"}) == Exercise("{}", "a")
    assert domain.gold({"case": "{}", "solution": "b"}) == Exercise("{}", "b")
    assert domain.gold({"case": "{}"}) == Exercise("{}")
    assert make_domain("math").gold({"answer": "1", "solution": "2"}) == "1"
    assert make_domain("math").gold({"solution": "2"}) == "2"
    assert set(DOMAINS) == {"math", "code"}
