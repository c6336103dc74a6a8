"""A programming task as datasets hold it: how a program is tested, and with what."""

import ast
import builtins
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.verify.code.options import is_tolerance
from trl_grpo_ext.verify.code.text import is_encodable, shown


FORMATS = ("asserts", "check_function", "stdio", "function_call")
LANGUAGES = ("python", "cpp", "javascript", "rust")
MAX_TESTS = 10_000
DEFAULT_SECONDS = 5.0
_MOST = 1_000_000  # seconds, MiB, or weight


@dataclass(frozen=True)
class Example:
    """
    One input and what should come of it.

    Args:
        given (`str` or `tuple`):
            The standard input, or the positional arguments.
        expected:
            What should be printed or returned; `None` for an output that only a checker knows.
    """

    given: Any
    expected: Any


@dataclass(frozen=True)
class Case:
    """
    How programs are tested for one task.

    Args:
        format (`str`):
            `"asserts"`: Python statements, in order, in one namespace; `"check_function"`: Python source that defines
            `check(candidate)`; `"stdio"`: inputs and outputs of a whole program; `"function_call"`: arguments and
            results of a function.
        tests (`tuple[str]` or `tuple[Example]`):
            The tests, at least one.
        entry_point (`str`, *optional*):
            Name of the function the tests are about.
        time_limit (`float`, *optional*, defaults to `5.0`):
            Seconds for all tests together.
        memory_limit_mb (`int`, *optional*):
            Memory of the program, in MiB; by default what the sandbox allows.
        float_tolerance (`float`, *optional*):
            Tolerance of decimal numbers, `|a - b| <= tolerance * max(1, |expected|)`.
        checker (`str`, *optional*):
            Python source that defines `check(input, output)` or `check(input, output, expected)` and returns whether
            the output is right, or how right it is, from 0 to 1: for tasks of format `"stdio"` with many answers.
        language (`str`, *optional*, defaults to `"python"`):
            Language of the program; all formats but `"stdio"` are for Python.
        preamble (`str`, *optional*, defaults to `""`):
            What is put before the program, such as the imports and helpers of the prompt.
        weights (`tuple[float]`, *optional*):
            One weight per test, for partial credit.
    """

    format: str
    tests: tuple[Any, ...]
    entry_point: str | None = None
    time_limit: float = DEFAULT_SECONDS
    memory_limit_mb: int | None = None
    float_tolerance: float | None = None
    checker: str | None = None
    language: str = "python"
    preamble: str = ""
    weights: tuple[float, ...] | None = None

    @classmethod
    def parse(cls, case: "Case | Mapping[str, Any] | str") -> "Case":
        """
        Read a case as datasets hold it.

        Args:
            case ([`Case`], `dict` or `str`):
                A mapping with the names of this class, or its JSON text. `tests` may be JSON text, too: a list of
                strings or one string (`asserts`), source (`check_function`), a list of `{"input": …, "output": …}`
                (`stdio`), or `{"fn_name": …, "inputs": [[…]], "outputs": […]}` (`function_call`). What is `None`
                counts as absent, and names that are not of this class are not looked at.

        Returns:
            [`Case`]

        Raises:
            [`~errors.DataError`]: if the case cannot be used to test a program.
        """
        if isinstance(case, cls):
            return case
        fields = _json(case, "the case") if isinstance(case, str) else case
        if not isinstance(fields, Mapping):
            raise DataError(f"the case is {shown(fields)}; expected a mapping with `format` and `tests`")
        given = {name: value for name, value in fields.items() if value is not None}
        form = _one_of(given, "format", FORMATS, None)
        language = _one_of(given, "language", LANGUAGES, "python")
        if language != "python" and form != "stdio":
            raise DataError(f"format {form!r} is for Python, not for {language}; use format 'stdio'")
        checker = _text(given, "checker")
        if checker is not None and form != "stdio":
            raise DataError(f"a checker looks at printed output; format {form!r} has none, so leave `checker` out")
        tests, function = _TESTS[form](given, checker)
        if not 0 < len(tests) <= MAX_TESTS:
            raise DataError(f"the case has {len(tests)} tests; expected 1 to {MAX_TESTS}")
        entry_point = _text(given, "entry_point") or function
        if entry_point is None and form in ("check_function", "function_call"):
            raise DataError(f"format {form!r} needs the name of the function; give `entry_point`")
        if entry_point is not None and not entry_point.isidentifier():
            raise DataError(f"entry_point is {shown(entry_point)}; expected the name of a function")
        return cls(
            format=form,
            tests=tests,
            entry_point=entry_point,
            time_limit=_positive(given, "time_limit", DEFAULT_SECONDS),
            memory_limit_mb=math.ceil(_positive(given, "memory_limit_mb", 0)) or None,
            float_tolerance=_tolerance(given),
            checker=checker,
            language=language,
            preamble=_text(given, "preamble") or "",
            weights=_weights(given, len(tests)),
        )


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is no JSON that can be read ({error}): {shown(text)}") from error


def _one_of(given: Mapping[str, Any], name: str, known: tuple[str, ...], default: str | None) -> str:
    value = given.get(name, default)
    if value not in known:
        raise DataError(f"{name} is {shown(value)}; expected one of {', '.join(map(repr, known))}")
    return value


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{name} is {shown(value)}; expected text")
    return value or None


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _MOST


def _positive(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    if not _is_positive(value):
        raise DataError(f"{name} is {shown(value)}; expected a number above 0, up to {_MOST:,}")
    return value


def _tolerance(given: Mapping[str, Any]) -> float | None:
    value = given.get("float_tolerance")
    if value is not None and not is_tolerance(value):
        raise DataError(f"float_tolerance is {shown(value)}; expected a number from 0 to below 1")
    return value


def _weights(given: Mapping[str, Any], tests: int) -> tuple[float, ...] | None:
    weights = given.get("weights")
    if weights is None:
        return None
    listed = isinstance(weights, Sequence) and not isinstance(weights, str)
    if not listed or len(weights) != tests or not all(map(_is_positive, weights)):
        raise DataError(f"weights is {shown(weights)}; expected a positive number for each of the {tests} tests")
    return tuple(map(float, weights))


def _asserts(given: Mapping[str, Any], checker: str | None) -> tuple[tuple[str, ...], str | None]:
    tests = given.get("tests")
    if isinstance(tests, str) and tests.lstrip().startswith("["):
        tests = _json(tests, "tests")
    tests = [tests] if isinstance(tests, str) else tests
    if not isinstance(tests, (list, tuple)) or not all(isinstance(test, str) and test.strip() for test in tests):
        raise DataError(f"tests is {shown(tests)}; expected a list of Python statements")
    return tuple(tests), None if given.get("entry_point") else _function_called("\n".join(tests))


def _function_called(tests: str) -> str | None:
    """The one function that assertions call and nobody has defined, if it is one."""
    try:
        nodes = list(ast.walk(ast.parse(tests)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the tests are refused where they are run, with a reason
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    unknown = {name for name in called - stored - defined - imported if not hasattr(builtins, name)}
    return unknown.pop() if len(unknown) == 1 else None


def _check_function(given: Mapping[str, Any], checker: str | None) -> tuple[tuple[str, ...], None]:
    tests = given.get("tests")
    if not isinstance(tests, str) or "check" not in tests:
        raise DataError(f"tests is {shown(tests)}; expected Python source that defines check(candidate)")
    return (tests,), None


def _stdio(given: Mapping[str, Any], checker: str | None) -> tuple[tuple[Example, ...], None]:
    tests = _loaded(given)
    if not isinstance(tests, (list, tuple)):
        raise DataError(f'tests is {shown(tests)}; expected a list of {{"input": …, "output": …}}')
    return tuple(_stdio_example(test, checker) for test in tests), None


def _stdio_example(test: object, checker: str | None) -> Example:
    if not isinstance(test, Mapping):
        raise DataError(f'a test is {shown(test)}; expected {{"input": …, "output": …}}')
    example = Example(test.get("input"), test.get("output"))
    for name, value in (("input", example.given), ("output", example.expected)):
        if value is None and name == "output" and checker is not None:
            continue
        if not isinstance(value, str) or not is_encodable(value):
            raise DataError(f"the {name} of a test is {shown(value)}; expected text")
    return example


def _function_call(given: Mapping[str, Any], checker: str | None) -> tuple[tuple[Example, ...], str | None]:
    tests = _loaded(given)
    if not isinstance(tests, Mapping):
        raise DataError(f'tests is {shown(tests)}; expected {{"fn_name": …, "inputs": [[…]], "outputs": […]}}')
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in inputs):
        raise DataError(f"the inputs of the tests are {shown(inputs)}; expected a list of lists of arguments")
    if not isinstance(outputs, (list, tuple)) or len(outputs) != len(inputs):
        raise DataError(f"the outputs of the tests are {shown(outputs)}; expected a list of {len(inputs)}")
    examples = (Example(tuple(given), expected) for given, expected in zip(inputs, outputs, strict=True))
    return tuple(examples), _text(tests, "fn_name")


def _loaded(given: Mapping[str, Any]) -> Any:
    tests = given.get("tests")
    return _json(tests, "tests") if isinstance(tests, str) else tests


_TESTS = {
    "asserts": _asserts,
    "check_function": _check_function,
    "stdio": _stdio,
    "function_call": _function_call,
}
