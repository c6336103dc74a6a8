"""`verify_code`: one completion against the tests of one task."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError, SandboxError
from trl_grpo_ext.files import is_text
from trl_grpo_ext.sandbox.backend import Sandbox, open_sandbox
from trl_grpo_ext.sandbox.jobs import Calls, Tests
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.code.case import Case
from trl_grpo_ext.verify.code.checker import by_checker
from trl_grpo_ext.verify.code.extract import read_program
from trl_grpo_ext.verify.code.options import CodeOptions
from trl_grpo_ext.verify.code.outcome import (
    PASSED,
    Outcome,
    Outcomes,
    Program,
    each,
    failed,
    runs,
    told_input,
)
from trl_grpo_ext.verify.code.output import same_output
from trl_grpo_ext.verify.code.text import plain, shortened, shown
from trl_grpo_ext.verify.code.values import equal


_MAX_ANSWER = 4_000
_MAX_REASON = 300
_MAX_CALL = 100
_FUTURE = re.compile(r"^from __future__ import [^\n(]+$", re.MULTILINE)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Explanation:
    """
    A verdict, and what it comes from.

    Args:
        verdict ([`~trl_grpo_ext.verdict.Verdict`]):
            The verdict.
        tests (`tuple[str]`):
            What each test asks, in short; none if it did not come to testing.
        outcomes (`tuple[Outcome]`):
            How each went, up to the one that ended the run.
    """

    verdict: Verdict
    tests: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


def verify_code(
    completion: str,
    case: Case | Mapping[str, Any] | str,
    *,
    options: CodeOptions | dict[str, Any] | None = None,
    sandbox: Sandbox | str | Mapping[str, Any] | None = None,
) -> Verdict:
    """
    Judge whether the program in `completion` passes the tests of a task.

    The program runs in a sandbox, in a process that sees inputs and arguments only; what it gave is compared in this
    one. May be called from any thread.

    Args:
        completion (`str`):
            What the model wrote. The last fenced block after the thinking is the program.
        case ([`Case`], `dict` or `str`):
            The tests, as [`Case.parse`] takes them.
        options ([`CodeOptions`] or `dict`, *optional*):
            The conventions.
        sandbox ([`~trl_grpo_ext.sandbox.Sandbox`], `str` or `dict`, *optional*):
            Where programs run, or what [`~trl_grpo_ext.sandbox.open_sandbox`] takes; by default the local sandbox.

    Returns:
        [`~trl_grpo_ext.verdict.Verdict`]: `value` is 1.0 or 0.0, or between them for partial credit; `None` if the
        tests are unusable (`"unscorable"`) or the machinery failed (`"infra_error"`). `reason` tells of the first
        test that failed. Nothing a model writes raises.

    Raises:
        [`~errors.ConfigError`]: if `options` are none.
        [`~errors.SandboxError`]: if the sandbox cannot be opened.

    Example:
    ````python
    >>> from trl_grpo_ext.verify.code import verify_code

    >>> case = {"format": "function_call", "tests": {"fn_name": "double", "inputs": [[2]], "outputs": [4]}}
    >>> verify_code("```python\\ndef double(x):\\n    return x + x\\n```", case).value
    1.0
    ````
    """
    return verify_code_batch([completion], [case], options=options, sandbox=sandbox)[0]


def verify_code_batch(
    completions: Sequence[str],
    cases: Sequence[Case | Mapping[str, Any] | str],
    *,
    options: CodeOptions | dict[str, Any] | None = None,
    sandbox: Sandbox | str | Mapping[str, Any] | None = None,
) -> list[Verdict]:
    """
    Judge many completions, as many at a time as the sandbox runs at once.

    Args:
        completions (`list[str]`):
            The completions.
        cases (`list`):
            One case per completion, as [`Case.parse`] takes them.
        options ([`CodeOptions`] or `dict`, *optional*):
            The conventions.
        sandbox ([`~trl_grpo_ext.sandbox.Sandbox`], `str` or `dict`, *optional*):
            Where programs run, or what [`~trl_grpo_ext.sandbox.open_sandbox`] takes; by default the local sandbox.

    Returns:
        `list[Verdict]`: One verdict per completion, in order.

    Raises:
        [`~errors.ConfigError`]: if the lists differ in length, or `options` are none.
        [`~errors.SandboxError`]: if the sandbox cannot be opened.
    """
    if len(completions) != len(cases):
        raise ConfigError(f"{len(cases)} cases for {len(completions)} completions; pass one per completion")
    checked = CodeOptions.parse(options)
    distinct = {id(case): case for case in cases}  # a group of completions shares one case
    parsed = {key: _guarded(Case.parse, case) for key, case in distinct.items()}
    read = [
        _guarded(_read, completion, parsed[id(case)], checked)
        for completion, case in zip(completions, cases, strict=True)
    ]
    programs = [row for row in read if isinstance(row, Program)]
    judged = iter(_judge_all(programs, sandbox) if programs else ())
    return [next(judged) if isinstance(row, Program) else row for row in read]


def explain_code(
    completion: str,
    case: Case | Mapping[str, Any] | str,
    *,
    options: CodeOptions | dict[str, Any] | None = None,
    sandbox: Sandbox | str | Mapping[str, Any] | None = None,
) -> Explanation:
    """
    Judge one completion as [`verify_code`] does, but go on after a failure, and tell of every test.

    Args:
        completion (`str`):
            What the model wrote.
        case ([`Case`], `dict` or `str`):
            The tests, as [`Case.parse`] takes them.
        options ([`CodeOptions`] or `dict`, *optional*):
            The conventions.
        sandbox ([`~trl_grpo_ext.sandbox.Sandbox`], `str` or `dict`, *optional*):
            Where programs run; by default the local sandbox.

    Returns:
        [`Explanation`]

    Raises:
        [`~errors.ConfigError`]: if `options` are none.
        [`~errors.SandboxError`]: if the sandbox cannot be opened.
    """
    checked = CodeOptions.parse(options)
    program = _guarded(_read, completion, _guarded(Case.parse, case), checked)
    if isinstance(program, Verdict):
        return Explanation(program)
    throughout = replace(program, options=replace(checked, credit="fraction"))
    box = _opened(sandbox)
    outcomes = _guarded(lambda: tuple(_outcomes(throughout, box)))
    if isinstance(outcomes, Verdict):
        return Explanation(outcomes)
    return Explanation(_verdict(program, outcomes), _asked(program.case), outcomes)


def _asked(case: Case) -> tuple[str, ...]:
    """What each test asks."""
    if case.format == "check_function":
        return (f"check({case.entry_point})",)
    if case.format == "asserts":
        return tuple(plain(test, _MAX_CALL) for test in case.tests)
    if case.format == "function_call":
        return tuple(_call(case, test.given) for test in case.tests)
    return tuple(told_input(test.given) for test in case.tests)


def _call(case: Case, arguments: Sequence[Any]) -> str:
    return shortened(f"{case.entry_point}({', '.join(map(shown, arguments))})", _MAX_CALL)


def _judge_all(programs: list[Program], sandbox: Sandbox | str | Mapping[str, Any] | None) -> list[Verdict]:
    box = _opened(sandbox)
    if len(programs) == 1:
        return [_guarded(_judge, programs[0], box)]
    with ThreadPoolExecutor(min(len(programs), box.workers)) as threads:
        return list(threads.map(lambda program: _guarded(_judge, program, box), programs))


def _opened(sandbox: Sandbox | str | Mapping[str, Any] | None) -> Sandbox:
    return open_sandbox(sandbox) if sandbox is None or isinstance(sandbox, (str, Mapping)) else sandbox


def _guarded(step: Callable, *arguments: Any) -> Any:
    """
    Time a step, and turn what was no fault of the program into "not judged": unusable tests, a sandbox that failed,
    and a fault of ours, which should not end a training run.
    """
    started = time.perf_counter()
    try:
        result = step(*arguments)
    except DataError as error:
        result = Verdict(None, "unscorable", reason=plain(str(error), _MAX_REASON))
    except SandboxError as error:
        _logger.error("the sandbox failed: %s", error)
        result = Verdict(None, "infra_error", reason=plain(str(error), _MAX_REASON))
    except Exception as error:
        _logger.exception("judging a program failed")
        result = Verdict(None, "infra_error", reason=f"the judge failed with {type(error).__name__}")
    return replace(result, seconds=time.perf_counter() - started) if isinstance(result, Verdict) else result


def _read(completion: object, case: Case | Verdict, options: CodeOptions) -> Verdict | Program:
    if isinstance(case, Verdict):
        return case
    if completion is None:
        return Verdict(0.0, "no_answer", reason="there is no completion")
    if not isinstance(completion, str):
        return Verdict(None, "infra_error", reason=f"the completion is a {type(completion).__name__}, not text")
    found = read_program(completion, options, case.language)
    if found.source is None:
        return Verdict(0.0, "no_answer", reason=found.reason)
    if not is_text(found.source):
        return Verdict(0.0, "malformed", reason="the program holds half of a surrogate pair, which is no text")
    return Program(shortened(found.source, _MAX_ANSWER), _with_preamble(found.source, case), case, options)


def _with_preamble(source: str, case: Case) -> str:
    if not case.preamble:
        return source
    # Imports from the future have to come before everything else.
    future = _FUTURE.findall(source) if case.language == "python" else []
    return "\n".join([*future, case.preamble, _FUTURE.sub("", source) if future else source])


def _judge(program: Program, box: Sandbox) -> Verdict:
    return _verdict(program, list(_outcomes(program, box)))


def _outcomes(program: Program, box: Sandbox) -> Outcomes:
    """How each test went; nothing after the first failure if only all tests together earn anything."""
    case = program.case
    with closing(_OUTCOMES["checker" if case.checker else case.format](program, box)) as outcomes:
        for outcome in outcomes:
            yield outcome
            if outcome.score < 1.0 and program.until_failure:
                return


def _verdict(program: Program, outcomes: Sequence[Outcome]) -> Verdict:
    total = len(program.case.tests)
    failed = next((number for number, outcome in enumerate(outcomes) if outcome.score < 1.0), None)
    if failed is None:
        return Verdict(1.0, "correct", program.answer, f"passed {total} of {total} tests")
    scores = [outcome.score for outcome in outcomes] + [0.0] * (total - len(outcomes))
    reason = shortened(f"test {failed + 1} of {total}: {outcomes[failed].reason}", _MAX_REASON)
    return Verdict(_value(scores, program), outcomes[failed].kind, program.answer, reason)


def _value(scores: list[float], program: Program) -> float:
    if program.until_failure:
        return 0.0
    weights = program.case.weights if program.options.credit == "weighted" else None
    if weights is None:
        return sum(scores) / len(scores)
    return sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)


def _tests(program: Program, tests: tuple[str, ...], setup: str = "") -> Tests:
    return Tests(
        program.source,
        tests,
        setup=setup,
        helpers=program.case.preamble,
        function=program.case.entry_point,
        until_failure=program.until_failure,
        limits=program.case.limits,
    )


def _by_asserts(program: Program, box: Sandbox) -> Outcomes:
    tests = program.case.tests
    with closing(each(box.test(_tests(program, tests)), len(tests))) as results:
        for result, test in zip(results, tests, strict=False):
            yield PASSED if result.ended == "ok" else failed(result, plain(test, _MAX_CALL))


def _by_check_function(program: Program, box: Sandbox) -> Outcomes:
    call = f"check({program.case.entry_point})"
    job = _tests(program, (call,), setup=program.case.tests[0])
    with closing(each(box.test(job), 1)) as results:
        for result in results:
            yield PASSED if result.ended == "ok" else failed(result, call)


def _by_function_call(program: Program, box: Sandbox) -> Outcomes:
    case = program.case
    arguments = tuple(test.given for test in case.tests)
    job = Calls(program.source, str(case.entry_point), arguments, limits=program.case.limits)
    with closing(each(box.call(job), len(arguments))) as results:
        for result, test in zip(results, case.tests, strict=False):
            if result.ended == "ok" and equal(test.expected, result.value, program.tolerance):
                yield PASSED
                continue
            called = _call(case, test.given)
            if result.ended != "ok":
                yield failed(result, called)
            else:
                told = f"expected {shown(test.expected)}, got {shown(result.value)}"
                yield Outcome(0.0, "wrong", f"{called}: {told}")


def _by_output(program: Program, box: Sandbox) -> Outcomes:
    with closing(runs(program, box)) as results:
        for result, test in zip(results, program.case.tests, strict=False):
            if result.ended != "ok":
                yield failed(result, told_input(test.given))
                continue
            same, where = same_output(test.expected, result.output, program.tolerance)
            yield PASSED if same else Outcome(0.0, "wrong", f"{told_input(test.given)}: {where}")


_OUTCOMES: dict[str, Callable[[Program, Sandbox], Outcomes]] = {
    "asserts": _by_asserts,
    "check_function": _by_check_function,
    "function_call": _by_function_call,
    "stdio": _by_output,
    "checker": by_checker,
}
