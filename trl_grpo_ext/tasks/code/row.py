"""A row of a published dataset, read with errors that name the row, the column and the value."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import is_text


# Contests and benchmarks limit a single test; a case has one limit for all. Without a cap, two hundred tests of two
# seconds each would let one endless loop hold a sandbox for minutes.
MAX_SECONDS = 60.0

# Contests count resident memory, a sandbox the address space, of which a bare interpreter already takes a good part.
MIN_MEMORY_MB = 256

_SHOWN = 80


class Row:
    """
    One row of a dataset.

    Args:
        dataset (`str`):
            The dataset's name, for messages.
        columns (`Mapping`):
            The row.
        id_columns (`str`):
            Columns that name the row in messages; the first that is there is taken.
    """

    def __init__(self, dataset: str, columns: Mapping[str, Any], *id_columns: str):
        self.dataset = dataset
        self.columns = columns
        named = [columns[name] for name in id_columns if columns.get(name) not in (None, "")]
        self.label = f"{dataset} row {shown(named[0])}" if named else f"{dataset} row"

    def error(self, problem: str) -> DataError:
        """The error that says what is wrong with this row."""
        return DataError(f"{self.label}: {problem}")

    def text(self, *names: str) -> str:
        """
        The first of these columns that holds text.

        Raises:
            [`~errors.DataError`]: if none does.
        """
        for name in names:
            value = self.columns.get(name)
            if isinstance(value, str) and value.strip() and is_text(value):
                return value
        seen = ", ".join(f"{name} is {shown(self.columns[name])}" for name in names if name in self.columns)
        raise self.error(
            f"no text under {' or '.join(map(repr, names))} ({seen or f'the columns are {sorted(self.columns)}'}); "
            f"give a row as {self.dataset} publishes it"
        )

    def optional_text(self, name: str) -> str:
        """The text of a column that may be missing or null, as an empty string then."""
        return "" if self.columns.get(name) in (None, "") else self.text(name)

    def identifier(self, name: str) -> str:
        """A column that names a Python function."""
        value = self.text(name).strip()
        return self.checked_identifier(value, name)

    def checked_identifier(self, value: Any, where: str) -> str:
        """`value`, if it can name a Python function."""
        if not isinstance(value, str) or not value.isidentifier():
            raise self.error(f"{where} is {shown(value)}, which cannot name a function; correct it or drop the row")
        return value

    def number(self, value: Any, where: str) -> float:
        """`value`, or 0 where it is `None`."""
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise self.error(f"{where} is {shown(value)}; expected a number that is not negative")
        return float(value)

    def decoded(self, name: str) -> Any:
        """A column that holds JSON text, or what it stands for already."""
        value = self.columns.get(name)
        return self.json(value, name) if isinstance(value, str) else value

    def json(self, text: str, where: str) -> Any:
        """
        Decode JSON.

        Raises:
            [`~errors.DataError`]: if it is none, or is nested too deeply, or holds a number with thousands of digits.
        """
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.error(
                f"{where} is no JSON ({str(error)[:_SHOWN]}): {shown(text)}; correct it or drop the row"
            ) from error

    def syntax_tree(self, source: str, where: str) -> ast.Module:
        """
        Parse Python of the dataset; nothing of it is run.

        Raises:
            [`~errors.DataError`]: if it is no Python.
        """
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self.error(f"{where} is no Python ({error}): {shown(source)}; correct it or drop the row") from error

    def case(
        self, *, format: str, tests: Any, entry_point: str | None, time_limit: float, prompt: str, **optional: Any
    ) -> dict[str, Any]:
        """
        The case of this row, with its prompt.

        Args:
            format (`str`):
                `"asserts"`, `"check_function"`, `"stdio"` or `"function_call"`.
            tests:
                The tests in that format.
            entry_point (`str`, *optional*):
                The function under test; `None` for whole programs.
            time_limit (`float`):
                Seconds for all tests together.
            prompt (`str`):
                What the model is asked.
            **optional:
                More fields of the case; those that are `None` or empty are left out.

        Raises:
            [`~errors.DataError`]: if the tests hold what JSON in UTF-8 cannot carry, such as NaN.
        """
        case = {"format": format, "tests": tests, "entry_point": entry_point, "time_limit": time_limit}
        case |= {name: value for name, value in optional.items() if value not in (None, "", [])}
        case["prompt"] = prompt
        try:
            json.dumps(case, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            raise self.error(f"its tests cannot be written as JSON ({error}); correct them or drop the row") from error
        return case


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}… ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… (a {type(value).__name__})"


def total_seconds(per_test: float, tests: int) -> float:
    """Time for all tests of a case: the limit of one times their number, at most `MAX_SECONDS`."""
    return min(per_test * tests, MAX_SECONDS)


def memory_mb(mebibytes: float) -> int | None:
    """A contest's memory limit as that of a case: whole MiB, at least `MIN_MEMORY_MB`; `None` where there is none."""
    return max(MIN_MEMORY_MB, round(mebibytes)) if mebibytes > 0 else None


def function_prompt(statement: str, name: str, starter: str = "") -> str:
    """Ask for a Python function; `starter` is code to start from."""
    start = f"\n\nStart from this code:\n\n```python\n{starter.strip()}\n```" if starter.strip() else ""
    return (
        f"{statement.strip()}{start}\n\n"
        f"Write the Python function `{name}`. Put the whole code in one ```python block at the end of the answer."
    )


def program_prompt(statement: str, language: str = "Python", fence: str = "python") -> str:
    """Ask for a program that reads standard input and prints."""
    return (
        f"{statement.strip()}\n\n"
        f"Write a {language} program that reads the input from standard input and prints the output. Put the whole "
        f"program in one ```{fence} block at the end of the answer."
    )


def is_python3(source: str) -> bool:
    """Whether a published solution is Python 3; old collections mix both kinds. It is parsed, not run."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def unfenced(text: str) -> str:
    """The code in the last fenced block of a text, or the text itself where it has none."""
    blocks = re.findall(r"^```[^\n`]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return (blocks[-1] if blocks else text).strip("\n")
