"""Tests as parallel lists of inputs and outputs: the form of APPS, TACO and what grew out of them."""

import re
from typing import Any

from trl_grpo_ext.tasks.code.row import Row, shown


_RETURNS = re.compile(r"->\s*['\"]?(\w+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def paired_tests(row: Row, paired: Any, starter: str = "") -> tuple[str, Any, str | None]:
    """
    Read `{"inputs": [...], "outputs": [...], "fn_name": ...}`.

    With a `fn_name`, inputs are lists of arguments. Outputs are often wrapped in one more list. They are unwrapped
    where every output is a list of one item, unless the starter code says that the function returns a list and the
    items are none. Without a `fn_name`, inputs and outputs are text, or lists of lines.

    Args:
        row ([`Row`]):
            Where the tests come from, for messages.
        paired:
            The decoded tests.
        starter (`str`, *optional*, defaults to `""`):
            The starter code.

    Returns:
        `tuple`: format, tests and entry point of a case.

    Raises:
        [`~errors.DataError`]: if there are no tests, or they are not of this form, or hold a dictionary whose keys
            were numbers, which JSON made into text.
    """
    if not isinstance(paired, dict):
        raise row.error(f"it has no tests ({shown(paired)}); drop the row")
    inputs, outputs = paired.get("inputs"), paired.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise row.error(
            f"its tests have inputs {shown(inputs)} and outputs {shown(outputs)}; expected two lists of one length"
        )
    if not inputs:
        raise row.error("its lists of tests are empty; drop the row")
    if paired.get("fn_name") is None:
        return "stdio", stdio_tests(row, inputs, outputs), None
    name = row.checked_identifier(paired["fn_name"], "'fn_name'")
    return "function_call", call_tests(row, name, inputs, outputs, starter), name


def stdio_tests(row: Row, inputs: list, outputs: list) -> list[dict[str, str]]:
    """Tests of a whole program; lists are lines."""
    return [
        {"input": _lines(row, given, "input"), "output": _lines(row, wanted, "output")}
        for given, wanted in zip(inputs, outputs, strict=True)
    ]


def call_tests(row: Row, name: str, inputs: list, outputs: list, starter: str = "") -> dict[str, Any]:
    """Tests of a function; see [`paired_tests`]."""
    for arguments in inputs:
        if not isinstance(arguments, list):
            raise row.error(f"an input of {name!r} is {shown(arguments)}; expected a list of arguments")
        if any(_had_number_keys(argument) for argument in arguments):
            raise row.error(
                f"an argument of {name!r} is a dictionary whose keys were numbers before JSON made them text "
                f"({shown(arguments)}); drop the row"
            )
    if _wrapped(outputs, starter):
        outputs = [output[0] for output in outputs]
    if any(_had_number_keys(output) for output in outputs):
        raise row.error(
            f"an output of {name!r} is a dictionary whose keys were numbers before JSON made them text; drop the row"
        )
    return {"fn_name": name, "inputs": inputs, "outputs": outputs}


def _wrapped(outputs: list, starter: str) -> bool:
    if not all(isinstance(output, list) and len(output) == 1 for output in outputs):
        return False
    returned = _RETURNS.search(starter)
    returns_list = returned is not None and returned[1].lower() == "list"
    return not returns_list or all(isinstance(output[0], list) for output in outputs)


def _had_number_keys(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(_INTEGER.fullmatch(key) for key in value)


def _lines(row: Row, value: Any, what: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str | int | float) for line in value):
        return "\n".join(map(str, value))
    raise row.error(f"an {what} of its tests is {shown(value)}; expected text or a list of lines")
