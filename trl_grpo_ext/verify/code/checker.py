"""Tasks with many right answers: a checker of the task says which outputs are right."""

from contextlib import closing
from dataclasses import replace
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.sandbox.backend import Sandbox
from trl_grpo_ext.sandbox.jobs import Called, Calls, Ran
from trl_grpo_ext.verify.code.outcome import (
    ENDINGS,
    PASSED,
    Outcome,
    Outcomes,
    Program,
    each,
    failed,
    runs,
    told_input,
)
from trl_grpo_ext.verify.code.text import plain, quoted, shown


MAX_CHECKED_OUTPUT = 8_000_000  # characters; they travel to the checker as one value
MAX_CHECKED_CHARACTERS = 64 << 20  # of all outputs that wait for a checker
CHECKER_SECONDS = 10.0  # the checker of a task is not paid from the time of the program
_CALL_CHECKER = """

def _call_checker(input, output, expected):
    from inspect import signature
    try:
        signature(check).bind(input, output, expected)
    except TypeError:
        return check(input, output)
    return check(input, output, expected)
"""


def by_checker(program: Program, box: Sandbox) -> Outcomes:
    """
    How each test went, by the checker of the case.

    Args:
        program ([`Program`]):
            The program; its case has a checker.
        box ([`~trl_grpo_ext.sandbox.Sandbox`]):
            Where both of them run.

    Raises:
        [`~errors.DataError`]: if the checker is broken.
        [`~errors.SandboxError`]: if the sandbox failed.
    """
    # All runs come before all checks: threads that each hold a worker of the sandbox while they wait for a second one
    # would wait for each other for ever.
    tests = program.case.tests
    ran = _outputs(program, box)
    pairs = list(zip(tests, ran, strict=False))
    asked = tuple((test.given, result.output, test.expected) for test, result in pairs if result.ended == "ok")
    checked = iter(_check(program, asked, box) if asked else ())
    for test, result in pairs:
        outcome = next(checked, None) if result.ended == "ok" else failed(result, told_input(test.given))
        if outcome is None:
            return  # the checker was stopped at an output before
        yield outcome


def _outputs(program: Program, box: Sandbox) -> list[Ran]:
    ran: list[Ran] = []
    kept = 0
    with closing(runs(program, box)) as results:
        for result in results:
            kept += len(result.output)
            fits = len(result.output) <= MAX_CHECKED_OUTPUT and kept <= MAX_CHECKED_CHARACTERS
            ran.append(result if fits else Ran("output"))
            if program.until_failure and ran[-1].ended != "ok":
                break
    return ran


def _check(program: Program, asked: tuple[tuple[str, str, str | None], ...], box: Sandbox) -> list[Outcome]:
    scores: list[tuple[float | None, str]] = []
    with closing(each(box.call(_checks(program, asked)), len(asked))) as results:
        for result in results:
            scores.append((_score(result), _fault(result)))
            if program.until_failure and scores[-1][0] != 1.0:
                break
    strange = next((index for index, (score, _) in enumerate(scores) if score is None), None)
    if strange is not None:
        _blame(program, asked[strange], scores[strange][1], box)
    return [_of_checker(*score, *row[:2]) for score, row in zip(scores, asked, strict=False)]


def _checks(program: Program, asked: tuple[tuple[Any, ...], ...]) -> Calls:
    limits = replace(program.case.limits, seconds=program.case.time_limit + CHECKER_SECONDS)
    return Calls(f"{program.case.checker}{_CALL_CHECKER}", "_call_checker", asked, limits)


def _score(result: Called) -> float | None:
    """What a checker gave; nothing, if that is no score."""
    usable = result.ended == "ok" and type(result.value) in (bool, int, float) and 0 <= result.value <= 1
    return float(result.value) if usable else None


def _fault(result: Called) -> str:
    if result.ended == "ok":
        return f"it returned {shown(result.value)}"
    return plain(result.note) if result.ended == "raised" and result.note else ENDINGS.get(result.ended, "")


def _blame(program: Program, row: tuple[str, str, str | None], fault: str, box: Sandbox) -> None:
    """
    A checker that cannot cope with an output is broken, unless it copes with the expected one: else a program would
    escape judgement by printing what no checker can read.
    """
    given, _, expected = row
    if expected is not None:
        job = _checks(program, ((given, expected, expected),))
        with closing(each(box.call(job), 1)) as results:
            if any(_score(result) is not None for result in results):
                return
    raise DataError(f"the checker failed ({fault}) at {told_input(given)}; mend it, or give the expected output")


def _of_checker(score: float | None, fault: str, given: str, output: str) -> Outcome:
    if score == 1.0:
        return PASSED
    told = f"cannot read it ({fault})" if score is None else f"gives it {score:g}"
    return Outcome(score or 0.0, "wrong", f"{told_input(given)}, got {quoted(output.rstrip())}: the checker {told}")
