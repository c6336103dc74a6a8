"""A programming task as datasets hold it: how a program is tested, and with what."""

import ast
import builtins
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import is_text
from trl_grpo_ext.sandbox import languages
from trl_grpo_ext.sandbox.jobs import Limits
from trl_grpo_ext.verify.code.options import is_tolerance
from trl_grpo_ext.verify.code.text import shown


FORMATS = ("asserts", "check_function", "stdio", "function_call")
LANGUAGES = ("python", *languages.LANGUAGES)
MAX_TESTS = 10_000
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
            `check(candidate)`, which is one test, whatever it checks; `"stdio"`: inputs and outputs of a whole
            program; `"function_call"`: arguments and results of a function.
        tests (`tuple[str]` or `tuple[Example]`):
            The tests, at least one.
        entry_point (`str`, *optional*):
            Name of the function the tests are about; of `"asserts"`, by default the only one that they call and that
            nobody has defined.
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

    Raises:
        [`~errors.DataError`]: if the case cannot be used to test a program.
    """

    format: str
    tests: tuple[Any, ...]
    entry_point: str | None = None
    time_limit: float = Limits.seconds
    memory_limit_mb: int | None = None
    float_tolerance: float | None = None
    checker: str | None = None
    language: str = "python"
    preamble: str = ""
    weights: tuple[float, ...] | None = None

    def __post_init__(self):
        _one_of("format", self.format, FORMATS)
        _one_of("language", self.language, LANGUAGES)
        for name in ("entry_point", "checker"):
            object.__setattr__(self, name, _text(name, getattr(self, name)) or None)
        object.__setattr__(self, "preamble", _text("preamble", self.preamble) or "")
        if self.language != "python" and self.format != "stdio":
            raise DataError(f"format {self.format!r} is for Python, not for {self.language}; use format 'stdio'")
        if self.checker is not None and self.format != "stdio":
            raise DataError(
                f"a checker looks at printed output; format {self.format!r} has none, so leave `checker` out"
            )
        self._check_tests()
        self._check_entry_point()
        self._check_limits()
        if self.float_tolerance is not None and not is_tolerance(self.float_tolerance):
            raise DataError(f"float_tolerance is {shown(self.float_tolerance)}; expected a number from 0 to below 1")
        object.__setattr__(self, "weights", _weights(self.weights, len(self.tests)))

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
        read = _json(case, "the case") if isinstance(case, str) else case
        if not isinstance(read, Mapping):
            raise DataError(f"the case is {shown(read)}; expected a mapping with `format` and `tests`")
        names = [item.name for item in fields(cls)]
        given = {name: read[name] for name in names if read.get(name) is not None}
        form = _one_of("format", given.get("format"), FORMATS)
        given["tests"], function = _TESTS[form](given.get("tests"))
        if given.get("entry_point") in (None, ""):
            given["entry_point"] = function
        if _is_positive(given.get("memory_limit_mb")):
            given["memory_limit_mb"] = math.ceil(given["memory_limit_mb"])
        return cls(**given)

    @property
    def limits(self) -> Limits:
        """What a job for this case may use."""
        if self.memory_limit_mb is None:
            return Limits(seconds=self.time_limit)
        return Limits(seconds=self.time_limit, memory_mb=self.memory_limit_mb)

    def _check_tests(self) -> None:
        if not isinstance(self.tests, tuple):
            raise DataError(f"tests is {shown(self.tests)}; expected a tuple of tests, or use `Case.parse`")
        if not 0 < len(self.tests) <= MAX_TESTS:
            raise DataError(f"the case has {len(self.tests)} tests; expected 1 to {MAX_TESTS}")
        for test in self.tests:
            _CHECKS[self.format](test)
        if self.format == "stdio" and self.checker is None and any(test.expected is None for test in self.tests):
            raise DataError("the output of a test is None; expected text, or a `checker` that needs none")
        if self.format == "check_function" and len(self.tests) > 1:
            raise DataError(f"the case has {len(self.tests)} tests; format 'check_function' has one")

    def _check_limits(self) -> None:
        _check_positive("time_limit", self.time_limit)
        if self.memory_limit_mb is not None:
            _check_positive("memory_limit_mb", self.memory_limit_mb)
        try:
            _ = self.limits
        except ConfigError as error:
            raise DataError(f"no sandbox keeps the limits of the case: {error}") from error

    def _check_entry_point(self) -> None:
        if self.entry_point is None and self.format == "asserts":
            object.__setattr__(self, "entry_point", _function_called("\n".join(self.tests)))
        if self.entry_point is None and self.format in ("check_function", "function_call"):
            raise DataError(f"format {self.format!r} needs the name of the function; give `entry_point`")
        if self.entry_point is not None and not self.entry_point.isidentifier():
            raise DataError(f"entry_point is {shown(self.entry_point)}; expected the name of a function")


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is no JSON that can be read ({error}): {shown(text)}") from error


def _loaded(tests: Any) -> Any:
    return _json(tests, "tests") if isinstance(tests, str) else tests


# ------------------------------------------------------------------------------------------------------ single fields


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise DataError(f"{name} is {shown(value)}; expected one of {', '.join(map(repr, known))}")
    return value


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{name} is {shown(value)}; expected text")
    return value


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _MOST


def _check_positive(name: str, value: object) -> None:
    if not _is_positive(value):
        raise DataError(f"{name} is {shown(value)}; expected a number above 0, up to {_MOST:,}")


def _weights(weights: Any, tests: int) -> tuple[float, ...] | None:
    if weights is None:
        return None
    listed = isinstance(weights, Sequence) and not isinstance(weights, str)
    if not listed or len(weights) != tests or not all(map(_is_positive, weights)):
        raise DataError(f"weights is {shown(weights)}; expected a positive number for each of the {tests} tests")
    return tuple(map(float, weights))


def _function_called(tests: str) -> str | None:
    """The one function that assertions call and nobody has defined, if it is one."""
    try:
        nodes = list(ast.walk(ast.parse(tests)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the tests are refused where they are run, with a reason
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    taken = {node.arg for node in nodes if isinstance(node, ast.arg)}  # a parameter of a function of the tests
    unknown = {name for name in called - stored - defined - imported - taken if not hasattr(builtins, name)}
    return unknown.pop() if len(unknown) == 1 else None


# ----------------------------------------------------------------------- tests of each format, as datasets hold them


def _asserts(tests: Any) -> tuple[tuple[Any, ...], None]:
    if isinstance(tests, str):
        tests = _json(tests, "tests") if tests.lstrip().startswith("[") else [tests]
    if not isinstance(tests, (list, tuple)):
        raise DataError(f"tests is {shown(tests)}; expected a list of Python statements")
    return tuple(tests), None


def _check_function(tests: Any) -> tuple[tuple[Any, ...], None]:
    return (tests,), None


def _stdio(tests: Any) -> tuple[tuple[Example, ...], None]:
    tests = _loaded(tests)
    if not isinstance(tests, (list, tuple)):
        raise DataError(f'tests is {shown(tests)}; expected a list of {{"input": …, "output": …}}')
    for test in tests:
        if not isinstance(test, Mapping):
            raise DataError(f'a test is {shown(test)}; expected {{"input": …, "output": …}}')
    return tuple(Example(test.get("input"), test.get("output")) for test in tests), None


def _function_call(tests: Any) -> tuple[tuple[Example, ...], str | None]:
    tests = _loaded(tests)
    if not isinstance(tests, Mapping):
        raise DataError(f'tests is {shown(tests)}; expected {{"fn_name": …, "inputs": [[…]], "outputs": […]}}')
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in inputs):
        raise DataError(f"the inputs of the tests are {shown(inputs)}; expected a list of lists of arguments")
    if not isinstance(outputs, (list, tuple)) or len(outputs) != len(inputs):
        raise DataError(f"the outputs of the tests are {shown(outputs)}; expected a list of {len(inputs)}")
    examples = (Example(tuple(given), expected) for given, expected in zip(inputs, outputs, strict=True))
    return tuple(examples), _text("fn_name", tests.get("fn_name"))


_TESTS: dict[str, Callable[[Any], tuple[tuple[Any, ...], str | None]]] = {
    "asserts": _asserts,
    "check_function": _check_function,
    "stdio": _stdio,
    "function_call": _function_call,
}


# ------------------------------------------------------------------------------------------- one test of each format


def _check_statement(test: Any) -> None:
    if not isinstance(test, str) or not test.strip():
        raise DataError(f"a test is {shown(test)}; expected Python statements")


def _check_source(test: Any) -> None:
    if not isinstance(test, str) or "check" not in test:
        raise DataError(f"tests is {shown(test)}; expected Python source that defines check(candidate)")


def _check_texts(test: Any) -> None:
    if not isinstance(test, Example):
        raise DataError(f"a test is {shown(test)}; expected an `Example`, or use `Case.parse`")
    for name, value in (("input", test.given), ("output", test.expected)):
        if value is None and name == "output":
            continue
        if not isinstance(value, str) or not is_text(value):
            raise DataError(f"the {name} of a test is {shown(value)}; expected text")


def _check_call(test: Any) -> None:
    if not isinstance(test, Example) or not isinstance(test.given, tuple):
        raise DataError(f"a test is {shown(test)}; expected an `Example` of arguments, or use `Case.parse`")


_CHECKS = {
    "asserts": _check_statement,
    "check_function": _check_source,
    "stdio": _check_texts,
    "function_call": _check_call,
}
