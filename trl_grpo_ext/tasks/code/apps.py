"""APPS (huggingface.co/papers/2105.09938) and TACO (huggingface.co/papers/2312.14852)."""

import re
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.paired import paired_tests
from trl_grpo_ext.tasks.code.row import (
    Row,
    function_prompt,
    is_python3,
    memory_mb,
    program_prompt,
    shown,
    total_seconds,
)


# What the harnesses of both datasets allow for one test.
_SECONDS_PER_TEST = 4.0

_DURATION = re.compile(
    r"\s*(?:[0-9.]+\s*-\s*)?([0-9]+(?:\.[0-9]+)?)\s*(ms|milliseconds?|s|secs?|seconds?)\s*", re.IGNORECASE
)
_SIZE = re.compile(
    r"\s*([0-9]+(?:\.[0-9]+)?)\s*(kilobytes?|kb|megabytes?|mb|mib|gigabytes?|gb|bytes?)\s*", re.IGNORECASE
)
_MEBIBYTES = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "b": 1 / 1024**2}


def apps_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of APPS.

    Every test may take 4 s, all together at most `MAX_SECONDS` (60 s).

    Args:
        row (`Mapping`):
            A row with `question`, `input_output` (JSON text), `starter_code`.

    Returns:
        `dict`: a case of the format `stdio`, or `function_call` where `input_output` has a `fn_name`, with the
        `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if the row has no tests (one in ten has none), or tests of no known form.
    """
    return _case(Row("APPS", row, "problem_id", "id"), _SECONDS_PER_TEST)


def taco_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of TACO.

    The time limit is the row's, such as `"2.0 seconds"` (4 s where it has none), times the number of tests, at most
    `MAX_SECONDS` (60 s); the memory limit is the row's, at least `MIN_MEMORY_MB` (256 MiB).

    TACO publishes apart which problems of its test part have several right answers. With that file's column
    `special_judge` joined to the rows, such a problem is refused here; without it, it is judged by one of the answers.

    Args:
        row (`Mapping`):
            A row with `question`, `input_output` (JSON text), `starter_code`, `time_limit`, `memory_limit`.

    Returns:
        `dict`: a case of the format `stdio` or `function_call`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if the row has no tests, tests or limits of no known form, or a special judge.
    """
    seen = Row("TACO", row, "url", "name")
    if row.get("special_judge"):
        raise seen.error(
            "its answers need a special judge ('special_judge' is true) and TACO has no checker for it; drop the row"
        )
    per_test = _measure(seen, "time_limit", _DURATION)
    memory = _measure(seen, "memory_limit", _SIZE)
    seconds = _SECONDS_PER_TEST if per_test is None else per_test[0] / (1000 if per_test[1].startswith("m") else 1)
    limit = None if memory is None else memory_mb(memory[0] * _MEBIBYTES[memory[1][0]])
    return _case(seen, seconds or _SECONDS_PER_TEST, limit)


def apps_solution(row: Mapping[str, Any]) -> str | None:
    """
    The first published solution of a row of APPS that is Python 3.

    Args:
        row (`Mapping`):
            A row with `solutions`: a list, or JSON text of one.

    Raises:
        [`~errors.DataError`]: if the solutions are no JSON.
    """
    return _solution(Row("APPS", row, "problem_id", "id"))


def taco_solution(row: Mapping[str, Any]) -> str | None:
    """
    The first published solution of a row of TACO that is Python 3.

    Args:
        row (`Mapping`):
            A row with `solutions`: a list, or JSON text of one.

    Raises:
        [`~errors.DataError`]: if the solutions are no JSON.
    """
    return _solution(Row("TACO", row, "url", "name"))


def _solution(row: Row) -> str | None:
    solutions = row.decoded("solutions") if row.columns.get("solutions") else []
    texts = (
        text for text in (solutions if isinstance(solutions, list) else []) if isinstance(text, str) and text.strip()
    )
    return next((text.strip("\n") for text in texts if is_python3(text)), None)


def _case(row: Row, per_test: float, memory_limit_mb: int | None = None) -> dict[str, Any]:
    statement = row.text("question")
    starter = row.optional_text("starter_code")
    form, tests, name = paired_tests(
        row, row.decoded("input_output") if row.columns.get("input_output") else None, starter
    )
    return row.case(
        format=form,
        tests=tests,
        entry_point=name,
        time_limit=total_seconds(per_test, len(tests) if name is None else len(tests["inputs"])),
        memory_limit_mb=memory_limit_mb,
        prompt=program_prompt(statement) if name is None else function_prompt(statement, name, starter),
    )


def _measure(row: Row, column: str, form: re.Pattern) -> tuple[float, str] | None:
    value = row.columns.get(column)
    if value in (None, "", "None"):
        return None
    found = form.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise row.error(f"{column!r} is {shown(value)}; expected a number with its unit, such as '2.0 seconds'")
    return float(found[1]), found[2].lower()


class APPS(CodeTask):
    """
    APPS: ten thousand problems from coding sites, some for whole programs, some for functions.

    The repository on the Hub holds a loading script, which `datasets` no longer runs; its Parquet conversion is read.
    """

    source = "codeparrot/apps"
    license = "MIT"
    hub_parts = ("train", "test")
    hub_revision = "refs/convert/parquet"
    statement_columns = ("question",)
    case = staticmethod(apps_case)
    solution = staticmethod(apps_solution)


class TACO(CodeTask):
    """
    TACO: twenty-six thousand contest problems, with tests, limits and solutions.

    The repository on the Hub holds a loading script, which `datasets` no longer runs; its Parquet conversion is read.
    """

    source = "BAAI/TACO"
    license = "Apache-2.0"
    hub_parts = ("train", "test")
    hub_revision = "refs/convert/parquet"
    statement_columns = ("question",)
    case = staticmethod(taco_case)
    solution = staticmethod(taco_solution)
