"""CodeContests (huggingface.co/papers/2203.07814)."""

from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.paired import stdio_tests
from trl_grpo_ext.tasks.code.row import Row, is_python3, memory_mb, program_prompt, shown, total_seconds


_PARTS = ("public_tests", "private_tests", "generated_tests")
# Rows from sites that publish no limit.
_SECONDS_PER_TEST = 3.0
_PYTHON3 = 3


def code_contests_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of CodeContests: its public, private and generated tests, in that order.

    The time limit is the row's (3 s where it has none) times the number of tests, at most `MAX_SECONDS` (60 s); the
    memory limit is the row's, at least `MIN_MEMORY_MB` (256 MiB).

    The dataset does not say which problems have several right answers. About a third of them do, and a right answer
    other than the published one is then refused.

    Args:
        row (`Mapping`):
            A row with `description`, `public_tests`, `private_tests`, `generated_tests` (each `{"input": [...],
            "output": [...]}`), `time_limit` (`{"seconds", "nanos"}`), `memory_limit_bytes`.

    Returns:
        `dict`: a case of the format `stdio`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if the row has no tests, or tests or limits of no known form, or reads or writes a file.
    """
    seen = Row("CodeContests", row, "name")
    for column in ("input_file", "output_file"):
        if row.get(column):
            raise seen.error(
                f"its programs use a file ({column!r} is {shown(row[column])}) rather than standard input and output; "
                "drop the row"
            )
    tests = [test for part in _PARTS for test in _tests(seen, part)]
    if not tests:
        raise seen.error(f"it has no tests under {', '.join(map(repr, _PARTS))}; drop the row")
    return seen.case(
        format="stdio",
        tests=tests,
        entry_point=None,
        time_limit=total_seconds(_seconds(seen), len(tests)),
        memory_limit_mb=memory_mb(seen.number(row.get("memory_limit_bytes"), "'memory_limit_bytes'") / 1024**2),
        prompt=program_prompt(seen.text("description")),
    )


def code_contests_solution(row: Mapping[str, Any]) -> str | None:
    """The first published solution in Python 3."""
    solutions = row.get("solutions")
    if not isinstance(solutions, dict):
        return None
    pairs = zip(solutions.get("language") or [], solutions.get("solution") or [], strict=False)
    return next((text.strip("\n") for language, text in pairs if language == _PYTHON3 and is_python3(text)), None)


def _tests(row: Row, part: str) -> list[dict[str, str]]:
    tests = row.columns.get(part) or {"input": [], "output": []}
    inputs, outputs = (tests.get("input"), tests.get("output")) if isinstance(tests, dict) else (None, None)
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise row.error(f"{part!r} is {shown(tests)}; expected 'input' and 'output', two lists of one length")
    return stdio_tests(row, inputs, outputs)


def _seconds(row: Row) -> float:
    limit = row.columns.get("time_limit") or {}
    if not isinstance(limit, dict):
        raise row.error(f"'time_limit' is {shown(limit)}; expected 'seconds' and 'nanos'")
    seconds, nanos = (row.number(limit.get(unit), f"{unit!r} of 'time_limit'") for unit in ("seconds", "nanos"))
    return seconds + nanos / 1e9 or _SECONDS_PER_TEST


class CodeContests(CodeTask):
    """CodeContests: thirteen thousand contest problems with public, private and generated tests."""

    source = "deepmind/code_contests"
    license = "CC-BY-4.0"
    hub_parts = ("train", "test")
    statement_columns = ("description",)
    case = staticmethod(code_contests_case)
    solution = staticmethod(code_contests_solution)
