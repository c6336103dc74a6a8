"""`verify_code`: one completion against the tests of one task."""

import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.errors import ConfigError, DataError, SandboxError
from trl_grpo_ext.sandbox.jobs import Called, Calls, Limits, Ran, Run, Tested, Tests
from trl_grpo_ext.verdict import Verdict, VerdictKind
from trl_grpo_ext.verify.code.case import Case
from trl_grpo_ext.verify.code.extract import read_program
from trl_grpo_ext.verify.code.options import CodeOptions
from trl_grpo_ext.verify.code.output import same_output
from trl_grpo_ext.verify.code.text import is_encodable, plain, quoted, shortened, shown
from trl_grpo_ext.verify.code.values import equal


if TYPE_CHECKING:
    from trl_grpo_ext.sandbox import Sandbox

MAX_CHECKED_OUTPUT = 8_000_000  # characters; they travel to the checker as one value
MAX_CHECKED_CHARACTERS = 64 << 20  # of all outputs that wait for a checker
CHECKER_SECONDS = 10.0  # the checker of a task is not paid from the time of the program
_MAX_ANSWER = 4_000
_MAX_REASON = 300
_MAX_CALL = 100
_KINDS: dict[str, VerdictKind] = {"timeout": "timeout", "memory": "memory"}
_ENDINGS = {
    "raised": "it raised an exception",
    "exited": "it ended its process",
    "timeout": "out of time",
    "memory": "out of memory",
    "output": "it printed or returned too much, or something that is no plain data",
    "missing": "the function is not there",
}
_NOT_COMPILED = ("SyntaxError", "IndentationError", "TabError", "CompileError")
_FUTURE = re.compile(r"^from __future__ import [^\n(]+$", re.MULTILINE)
_CALL_CHECKER = """

def _call_checker(input, output, expected):
    from inspect import signature
    try:
        signature(check).bind(input, output, expected)
    except TypeError:
        return check(input, output)
    return check(input, output, expected)
"""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Program:
    answer: str
    source: str
    case: Case
    options: CodeOptions

    @property
    def limits(self) -> Limits:
        limits = Limits(seconds=self.case.time_limit)
        memory = self.case.memory_limit_mb
        return limits if memory is None else replace(limits, memory_mb=memory)

    @property
    def tolerance(self) -> float | None:
        stated = self.case.float_tolerance
        return self.options.float_tolerance if stated is None else stated


@dataclass(frozen=True)
class Outcome:
    """
    How one test went.

    Args:
        score (`float`):
            1.0 if it passed.
        kind (`str`, *optional*, defaults to `"wrong"`):
            That of a verdict on this test alone.
        reason (`str`, *optional*, defaults to `""`):
            What was given, what was expected and what came, if it did not pass.
    """

    score: float
    kind: VerdictKind = "wrong"
    reason: str = ""


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


_PASSED = Outcome(1.0, "correct")
_Outcomes = Generator[Outcome, None, None]


def verify_code(
    completion: str,
    case: Case | Mapping[str, Any] | str,
    *,
    options: CodeOptions | dict[str, Any] | None = None,
    sandbox: "Sandbox | str | Mapping[str, Any] | None" = None,
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
    sandbox: "Sandbox | str | Mapping[str, Any] | None" = None,
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
    programs = [row for row in read if isinstance(row, _Program)]
    judged = iter(_judge_all(programs, sandbox) if programs else ())
    return [next(judged) if isinstance(row, _Program) else row for row in read]


def explain_code(
    completion: str,
    case: Case | Mapping[str, Any] | str,
    *,
    options: CodeOptions | dict[str, Any] | None = None,
    sandbox: "Sandbox | str | Mapping[str, Any] | None" = None,
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
    return tuple(_input(test.given) for test in case.tests)


def _call(case: Case, arguments: Sequence[Any]) -> str:
    return shortened(f"{case.entry_point}({', '.join(map(shown, arguments))})", _MAX_CALL)


def _judge_all(programs: list[_Program], sandbox: Any) -> list[Verdict]:
    box = _opened(sandbox)
    if len(programs) == 1:
        return [_guarded(_judge, programs[0], box)]
    with ThreadPoolExecutor(min(len(programs), box.workers)) as threads:
        return list(threads.map(lambda program: _guarded(_judge, program, box), programs))


def _opened(sandbox: Any) -> Any:
    if sandbox is None or isinstance(sandbox, (str, Mapping)):
        from trl_grpo_ext.sandbox import open_sandbox

        return open_sandbox(sandbox)
    return sandbox


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


def _read(completion: object, case: Case | Verdict, options: CodeOptions) -> Verdict | _Program:
    if isinstance(case, Verdict):
        return case
    if completion is None:
        return Verdict(0.0, "no_answer", reason="there is no completion")
    if not isinstance(completion, str):
        return Verdict(None, "infra_error", reason=f"the completion is a {type(completion).__name__}, not text")
    found = read_program(completion, options, case.language)
    if found.source is None:
        return Verdict(0.0, "no_answer", reason=found.reason)
    if not is_encodable(found.source):
        return Verdict(0.0, "malformed", reason="the program holds half of a surrogate pair, which is no text")
    return _Program(shortened(found.source, _MAX_ANSWER), _with_preamble(found.source, case), case, options)


def _with_preamble(source: str, case: Case) -> str:
    if not case.preamble:
        return source
    # Imports from the future have to come before everything else.
    future = _FUTURE.findall(source) if case.language == "python" else []
    return "\n".join([*future, case.preamble, _FUTURE.sub("", source) if future else source])


def _judge(program: _Program, box: Any) -> Verdict:
    return _verdict(program, list(_outcomes(program, box)))


def _outcomes(program: _Program, box: Any) -> _Outcomes:
    """How each test went; nothing after the first failure if only all tests together earn anything."""
    case = program.case
    with closing(_OUTCOMES["checker" if case.checker else case.format](program, box)) as outcomes:
        for outcome in outcomes:
            yield outcome
            if outcome.score < 1.0 and program.options.credit == "all":
                return


def _verdict(program: _Program, outcomes: Sequence[Outcome]) -> Verdict:
    total = len(program.case.tests)
    failed = next((number for number, outcome in enumerate(outcomes) if outcome.score < 1.0), None)
    if failed is None:
        return Verdict(1.0, "correct", program.answer, f"passed {total} of {total} tests")
    scores = [outcome.score for outcome in outcomes] + [0.0] * (total - len(outcomes))
    reason = shortened(f"test {failed + 1} of {total}: {outcomes[failed].reason}", _MAX_REASON)
    return Verdict(_value(scores, program), outcomes[failed].kind, program.answer, reason)


def _value(scores: list[float], program: _Program) -> float:
    if program.options.credit == "all":
        return 0.0
    weights = program.case.weights if program.options.credit == "weighted" else None
    if weights is None:
        return sum(scores) / len(scores)
    return sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)


def _failed(result: Ran | Called | Tested, where: str) -> Outcome:
    """The outcome of a test that did not come to its end."""
    note = plain(result.note)
    if result.ended == "unusable":
        raise DataError(f"the tests cannot be run ({note or 'no reason was given'}); mend or drop the task")
    kind = _KINDS.get(result.ended, "wrong")
    if result.ended == "raised" and note.startswith(_NOT_COMPILED):
        kind = "malformed"
    told = note if result.ended == "raised" and note else f"{_ENDINGS[result.ended]}{': ' if note else ''}{note}"
    return Outcome(0.0, kind, told if note.startswith("assert ") else f"{where}: {told}")


def _each(results: Iterable[Any], total: int) -> Generator[Any, None, None]:
    """The results of a job, which is ended when no more of them are wanted."""
    count, all_well = 0, True
    iterator = iter(results)
    try:
        for result in iterator:
            count, all_well = count + 1, all_well and result.ended == "ok"
            yield result
            if count == total:
                return
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    if all_well:
        raise SandboxError(f"the sandbox gave {count} results for {total} tests, and no reason")


def _tests(program: _Program, tests: tuple[str, ...], setup: str = "") -> Tests:
    return Tests(
        program.source,
        tests,
        setup=setup,
        helpers=program.case.preamble,
        function=program.case.entry_point,
        until_failure=program.options.credit == "all",
        limits=program.limits,
    )


def _by_asserts(program: _Program, box: Any) -> _Outcomes:
    tests = program.case.tests
    with closing(_each(box.test(_tests(program, tests)), len(tests))) as results:
        for result, test in zip(results, tests, strict=False):
            yield _PASSED if result.ended == "ok" else _failed(result, plain(test, _MAX_CALL))


def _by_check_function(program: _Program, box: Any) -> _Outcomes:
    call = f"check({program.case.entry_point})"
    job = _tests(program, (call,), setup=program.case.tests[0])
    with closing(_each(box.test(job), 1)) as results:
        for result in results:
            yield _PASSED if result.ended == "ok" else _failed(result, call)


def _by_function_call(program: _Program, box: Any) -> _Outcomes:
    case = program.case
    arguments = tuple(test.given for test in case.tests)
    job = Calls(program.source, str(case.entry_point), arguments, limits=program.limits)
    with closing(_each(box.call(job), len(arguments))) as results:
        for result, test in zip(results, case.tests, strict=False):
            if result.ended == "ok" and equal(test.expected, result.value, program.tolerance):
                yield _PASSED
                continue
            called = _call(case, test.given)
            if result.ended != "ok":
                yield _failed(result, called)
            else:
                told = f"expected {shown(test.expected)}, got {shown(result.value)}"
                yield Outcome(0.0, "wrong", f"{called}: {told}")


def _by_output(program: _Program, box: Any) -> _Outcomes:
    with closing(_runs(program, box)) as results:
        for result, test in zip(results, program.case.tests, strict=False):
            if result.ended != "ok":
                yield _failed(result, _input(test.given))
                continue
            same, where = same_output(test.expected, result.output, program.tolerance)
            yield _PASSED if same else Outcome(0.0, "wrong", f"{_input(test.given)}: {where}")


def _by_checker(program: _Program, box: Any) -> _Outcomes:
    # All runs come before all checks: threads that each hold a worker of the sandbox while they wait for a second one
    # would wait for each other for ever.
    tests = program.case.tests
    ran = _outputs(program, box)
    pairs = list(zip(tests, ran, strict=False))
    asked = tuple((test.given, result.output, test.expected) for test, result in pairs if result.ended == "ok")
    checked = iter(_check(program, asked, box) if asked else ())
    for test, result in pairs:
        outcome = next(checked, None) if result.ended == "ok" else _failed(result, _input(test.given))
        if outcome is None:
            return  # the checker was stopped at an output before
        yield outcome


def _outputs(program: _Program, box: Any) -> list[Ran]:
    ran: list[Ran] = []
    kept = 0
    with closing(_runs(program, box)) as results:
        for result in results:
            kept += len(result.output)
            fits = len(result.output) <= MAX_CHECKED_OUTPUT and kept <= MAX_CHECKED_CHARACTERS
            ran.append(result if fits else Ran("output"))
            if program.options.credit == "all" and ran[-1].ended != "ok":
                break
    return ran


def _check(program: _Program, asked: tuple[tuple[str, str, str | None], ...], box: Any) -> list[Outcome]:
    scores: list[tuple[float | None, str]] = []
    with closing(_each(box.call(_checks(program, asked)), len(asked))) as results:
        for result in results:
            scores.append((_score(result), _fault(result)))
            if program.options.credit == "all" and scores[-1][0] != 1.0:
                break
    strange = next((index for index, (score, _) in enumerate(scores) if score is None), None)
    if strange is not None:
        _blame(program, asked[strange], scores[strange][1], box)
    return [_of_checker(*score, *row[:2]) for score, row in zip(scores, asked, strict=False)]


def _checks(program: _Program, asked: tuple[tuple[Any, ...], ...]) -> Calls:
    limits = replace(program.limits, seconds=program.case.time_limit + CHECKER_SECONDS)
    return Calls(f"{program.case.checker}{_CALL_CHECKER}", "_call_checker", asked, limits)


def _score(result: Called) -> float | None:
    """What a checker gave; nothing, if that is no score."""
    usable = result.ended == "ok" and type(result.value) in (bool, int, float) and 0 <= result.value <= 1
    return float(result.value) if usable else None


def _fault(result: Called) -> str:
    if result.ended == "ok":
        return f"it returned {shown(result.value)}"
    return plain(result.note) if result.ended == "raised" and result.note else _ENDINGS.get(result.ended, "")


def _blame(program: _Program, row: tuple[str, str, str | None], fault: str, box: Any) -> None:
    """
    A checker that cannot cope with an output is broken, unless it copes with the expected one: else a program would
    escape judgement by printing what no checker can read.
    """
    given, _, expected = row
    if expected is not None:
        job = _checks(program, ((given, expected, expected),))
        with closing(_each(box.call(job), 1)) as results:
            if any(_score(result) is not None for result in results):
                return
    raise DataError(f"the checker failed ({fault}) at {_input(given)}; mend it, or give the expected output")


def _of_checker(score: float | None, fault: str, given: str, output: str) -> Outcome:
    if score == 1.0:
        return _PASSED
    told = f"cannot read it ({fault})" if score is None else f"gives it {score:g}"
    return Outcome(score or 0.0, "wrong", f"{_input(given)}, got {quoted(output.rstrip())}: the checker {told}")


def _runs(program: _Program, box: Any) -> Generator[Any, None, None]:
    case = program.case
    job = Run(program.source, tuple(test.given for test in case.tests), case.language, program.limits)
    return _each(box.run(job), len(case.tests))


def _input(given: str) -> str:
    return f"input {quoted(given.rstrip())}"


_OUTCOMES: dict[str, Callable[[_Program, Any], _Outcomes]] = {
    "asserts": _by_asserts,
    "check_function": _by_check_function,
    "function_call": _by_function_call,
    "stdio": _by_output,
    "checker": _by_checker,
}
