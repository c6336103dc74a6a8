"""Rows with `verification_info` (PrimeIntellect and open-r1), and open-r1's Codeforces."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.paired import call_tests, paired_tests, stdio_tests
from trl_grpo_ext.tasks.code.row import (
    Row,
    function_prompt,
    is_python3,
    memory_mb,
    program_prompt,
    shown,
    total_seconds,
    unfenced,
)


# What the harnesses of both publishers allow for one test.
_SECONDS_PER_TEST = 5.0

# Name in a case, name in a sentence, and the fence, by the names that the datasets use.
_PYTHON = ("python", "Python", "python")
_CPP = ("cpp", "C++", "cpp")
LANGUAGES = {
    "python": _PYTHON,
    "python3": _PYTHON,
    "cpp": _CPP,
    "c++": _CPP,
    "javascript": ("javascript", "JavaScript", "javascript"),
    "rust": ("rust", "Rust", "rust"),
}

# A checker of the dataset is a script that opens three files; one of a case is a function `check`. The files are in
# memory, as not every sandbox lets a checker write.
_CHECKER = """\
import contextlib, io, sys


def check(input, output, expected):
    files = {{"input.txt": input, "correct_output.txt": expected, "solution_output.txt": output}}
    names = {{"__name__": "__main__", "open": lambda name, *how, **more: io.StringIO(files[name], newline=None)}}
    sys.argv = ["checker.py", *files]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        exec(compile({script!r}, "checker.py", "exec"), names)
    return float(printed.getvalue().split()[0])
"""


def verifiable_coding_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row with `verification_info`: `PrimeIntellect/verifiable-coding-problems`,
    `open-r1/verifiable-coding-problems-python` and datasets made like them.

    `verification_info` is a dictionary, JSON text or the text of a Python literal. Its `test_cases` are a list of
    `{"type", "input", "output", "fn_name"}` or JSON text of one, or of APPS' form `{"inputs", "outputs", "fn_name"}`.
    Arguments of a function are a list, or JSON text of one.

    Every test may take 5 s, all together at most `MAX_SECONDS` (60 s).

    Args:
        row (`Mapping`):
            A row with `verification_info` and the problem under `problem_statement`, `problem` or `prompt`.

    Returns:
        `dict`: a case of the format `stdio` or `function_call`, with the `prompt` for the model. Programs in other
        languages than Python carry a `language`.

    Raises:
        [`~errors.DataError`]: if the row has no tests, tests of unknown or mixed types or for several functions, an
            unknown language, or calls of a function in another language than Python.
    """
    seen = Row("verifiable-coding", row, "problem_id", "in_source_id")
    info = _literal(seen, row.get("verification_info"), "'verification_info'")
    if not isinstance(info, dict):
        raise seen.error(f"'verification_info' is {shown(info)}; expected 'language' and 'test_cases'")
    language, spoken, fence = _language(seen, info.get("language") or "python")
    form, tests, name = _tests(seen, _literal(seen, info.get("test_cases"), "'test_cases'"), info.get("fn_name"))
    if form == "function_call" and language != "python":
        raise seen.error(
            f"its tests call a function in {spoken}; only Python functions can be called, so drop the row"
        )
    statement = seen.text("problem_statement", "problem", "prompt")
    return seen.case(
        format=form,
        tests=tests,
        entry_point=name,
        time_limit=total_seconds(_SECONDS_PER_TEST, len(tests) if name is None else len(tests["inputs"])),
        language=None if language == "python" else language,
        prompt=program_prompt(statement, spoken, fence) if name is None else function_prompt(statement, name),
    )


def verifiable_coding_solution(row: Mapping[str, Any]) -> str | None:
    """The code of `gold_standard_solution`, if it is Python 3."""
    gold = row.get("gold_standard_solution")
    code = unfenced(gold) if isinstance(gold, str) else ""
    return code if code.strip() and is_python3(code) else None


def codeforces_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of `open-r1/codeforces`.

    A `generated_checker` is a Python script that is given the paths of the input, of the expected output and of the
    program's output, and prints the share of points, 0 to 1. It becomes the case's `checker`, whose `check(input,
    output, expected)` runs that script in the sandbox; what it reads with `open` are files in memory.

    The time limit is the row's (5 s where it has none) times the number of tests, at most `MAX_SECONDS` (60 s); the
    memory limit is the row's, at least `MIN_MEMORY_MB` (256 MiB).

    Args:
        row (`Mapping`):
            A row with `description`, `official_tests`, `time_limit` (s), `memory_limit` (MB), `input_mode`,
            `generated_checker`, and `prompt` where there is one.

    Returns:
        `dict`: a case of the format `stdio`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if the row has no tests or tests that nothing passes, is interactive, reads and writes
            files, or is for an unknown language.
    """
    seen = Row("codeforces", row, "id")
    if row.get("interaction_format"):
        raise seen.error(
            "the problem is interactive ('interaction_format'), which no list of tests can judge; drop it"
        )
    if row.get("input_mode") not in (None, "stdio"):
        raise seen.error(f"'input_mode' is {shown(row['input_mode'])}; only 'stdio' can be judged, so drop the row")
    if row.get("executable") is False:
        raise seen.error("no known solution passes its tests ('executable' is false); drop the row")
    form, tests, _ = _tests(seen, row.get("official_tests") or [], None)
    if form != "stdio":
        raise seen.error("its 'official_tests' call a function; expected inputs and outputs of a program")
    language, spoken, fence = _language(seen, row.get("language") or "python")
    statement = seen.optional_text("prompt") or _statement(seen)
    checker = seen.optional_text("generated_checker")
    seconds, memory = (seen.number(row.get(column), repr(column)) for column in ("time_limit", "memory_limit"))
    return seen.case(
        format="stdio",
        tests=tests,
        entry_point=None,
        time_limit=total_seconds(seconds or _SECONDS_PER_TEST, len(tests)),
        memory_limit_mb=memory_mb(memory),
        checker=_CHECKER.format(script=checker) if checker else None,
        language=None if language == "python" else language,
        prompt=program_prompt(statement, spoken, fence),
    )


def _tests(row: Row, tests: Any, fn_name: Any) -> tuple[str, Any, str | None]:
    if isinstance(tests, dict):
        return paired_tests(row, {"fn_name": fn_name, **tests})
    inputs, outputs = _columns(row, tests)
    if not tests:
        raise row.error("its list of tests is empty; drop the row")
    for test in tests:
        if not isinstance(test.get("fn_name"), str | None):
            raise row.error(f"'fn_name' of a test is {shown(test['fn_name'])}; expected a name")
    names = {test.get("fn_name") or fn_name for test in tests}
    kinds = sorted({str(test.get("type") or ("function_call" if any(names) else "stdin_stdout")) for test in tests})
    if kinds == ["stdin_stdout"]:
        return "stdio", stdio_tests(row, inputs, outputs), None
    if kinds != ["function_call"]:
        raise row.error(f"its tests are of the types {kinds}; expected all 'stdin_stdout' or all 'function_call'")
    if len(names) != 1:
        raise row.error(f"its tests call several functions, {shown(sorted(map(str, names)))}; expected one")
    name = row.checked_identifier(names.pop(), "'fn_name'")
    if all(isinstance(text, str) for text in inputs):
        inputs = [row.json(text, "the arguments of a test") for text in inputs]
        outputs = [row.json(text, "the output of a test") if isinstance(text, str) else text for text in outputs]
    return "function_call", call_tests(row, name, inputs, outputs), name


def _columns(row: Row, tests: Any) -> tuple[list, list]:
    if not isinstance(tests, list):
        raise row.error(f"its tests are {shown(tests)}; expected a list of tests with 'type', 'input' and 'output'")
    for test in tests:
        if not isinstance(test, dict) or "input" not in test or "output" not in test:
            raise row.error(f"a test is {shown(test)}; expected 'input' and 'output'")
    return [test["input"] for test in tests], [test["output"] for test in tests]


def _literal(row: Row, value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise row.error(
            f"{where} is neither JSON nor a Python literal: {shown(value)}; correct it or drop the row"
        ) from error


def _language(row: Row, name: Any) -> tuple[str, str, str]:
    known = LANGUAGES.get(name.lower()) if isinstance(name, str) else None
    if known is None:
        raise row.error(f"its language is {shown(name)}; known are {', '.join(sorted(LANGUAGES))}")
    return known


def _statement(row: Row) -> str:
    parts = [row.text("description")]
    for heading, column in (("Input", "input_format"), ("Output", "output_format")):
        if text := row.optional_text(column):
            parts.append(f"{heading}\n\n{text.strip()}")
    examples = row.columns.get("examples") or []
    for example in stdio_tests(row, *_columns(row, examples)):
        parts.append(f"Example input\n\n{example['input'].strip()}\n\nExample output\n\n{example['output'].strip()}")
    if note := row.optional_text("note"):
        parts.append(f"Note\n\n{note.strip()}")
    return "\n\n".join(parts)


class VerifiableCoding(CodeTask):
    """Problems with `verification_info`, of which some have a `gold_standard_solution`."""

    source = "open-r1/verifiable-coding-problems-python"
    license = "not declared"
    hub_parts = ("train",)
    statement_columns = ("problem_statement", "problem", "prompt")
    case = staticmethod(verifiable_coding_case)
    solution = staticmethod(verifiable_coding_solution)


class Codeforces(CodeTask):
    """Codeforces problems with official tests and, where several answers are right, checkers. No solutions."""

    source = "open-r1/codeforces"
    license = "CC-BY-4.0"
    hub_config = "verifiable"
    hub_parts = ("train", "test")
    statement_columns = ("description", "prompt")
    has_solutions = False
    case = staticmethod(codeforces_case)
