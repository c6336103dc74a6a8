"""MBPP, full and sanitized (huggingface.co/papers/2108.07732), and MBPP+ (huggingface.co/papers/2305.01210)."""

import ast
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.row import Row, function_prompt, shown


# The slowest reference solution, of task 123, takes about five.
_SECONDS = 10.0
# EvalPlus runs about a hundred inputs for a problem.
_PLUS_SECONDS = 20.0

_VARIANTS = ("full", "sanitized")


def mbpp_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of MBPP, full or sanitized.

    The function's name is that of the reference solution's function which the first assertion calls. The prompt is
    the task's text with that assertion. `test_imports` and `test_setup_code` become the `preamble`, which the
    program and the tests share. The harder `challenge_test_list` is not part of the published evaluation, nor of the
    case.

    Args:
        row (`Mapping`):
            A row with `text` (full) or `prompt` (sanitized), `code`, `test_list`.

    Returns:
        `dict`: a case of the format `asserts`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if a column is missing, there are no tests, they name no function, or they build objects
            of a class that the program would have to define (three rows of the full set do).
    """
    seen = Row("MBPP", row, "task_id")
    tests = _texts(seen, "test_list")
    if not tests:
        raise seen.error("its 'test_list' is empty, so there are no tests; drop the row")
    return _case(seen, tests, tests, _SECONDS)


def mbpp_plus_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of MBPP+ as `evalplus/mbppplus` has it: MBPP's columns, with more tests as one script under
    `test`: helpers, `inputs`, and a loop over them. The loop becomes a `check(candidate)`; all inputs pass, or none
    counts.

    The script imports NumPy, so the sandbox needs it: `SandboxOptions(packages=("numpy",))`.

    Args:
        row (`Mapping`):
            A row with `prompt`, `code`, `test_list`, `test`.

    Returns:
        `dict`: a case of the format `check_function`, with the `prompt` for the model; of the format `asserts` for a
        function that is called `check` itself.

    Raises:
        [`~errors.DataError`]: as for [`mbpp_case`], and if the script is of another form, or the row of EvalPlus' own
            release, which holds inputs without the expected values.
    """
    seen = Row("MBPP+", row, "task_id")
    if "test" not in row and "plus_input" in row:
        raise seen.error(
            "it holds inputs ('base_input', 'plus_input') but no expected values; use the rows of "
            "evalplus/mbppplus, which have them under 'test'"
        )
    examples = _texts(seen, "test_list")
    if not examples:
        raise seen.error("its 'test_list' is empty, so nothing names the function; drop the row")
    case = _case(seen, examples, [seen.text("test")], _PLUS_SECONDS)
    return (
        case if case["entry_point"] == "check" else {**case, "format": "check_function", "tests": _checked(seen, case)}
    )


def mbpp_solution(row: Mapping[str, Any]) -> str | None:
    """The reference solution, with line ends of one kind."""
    code = row.get("code")
    return "\n".join(code.splitlines()).strip("\n") if code else None


def _case(row: Row, examples: list[str], tests: list[str], seconds: float) -> dict[str, Any]:
    setup = [*_texts(row, "test_imports"), row.optional_text("test_setup_code")]
    preamble = "\n".join(filter(None, setup))
    name = _entry_point(row, examples, preamble)
    statement = f"{row.text('text', 'prompt').strip()}\n\nIt should pass this test:\n\n{examples[0].strip()}"
    return row.case(
        format="asserts",
        tests=tests,
        entry_point=name,
        time_limit=seconds,
        preamble=preamble,
        prompt=function_prompt(statement, name),
    )


def _checked(row: Row, case: dict[str, Any]) -> str:
    script = case["tests"][0]
    loop = re.search(r"^inputs[ \t]*=", script, re.MULTILINE)
    if loop is None:
        raise row.error(f"its 'test' has no line 'inputs = …': {shown(script)}; fetch the dataset again")
    # Imports stay at the top: where one fails, the tests are to blame and not the program.
    body = textwrap.indent(f"{case['entry_point']} = candidate\n{script[loop.start() :]}", "    ")
    return f"{script[: loop.start()]}def check(candidate):\n{body}"


def _texts(row: Row, column: str) -> list[str]:
    value = row.columns.get(column) or []
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise row.error(f"{column!r} is {shown(value)}; expected a list of texts, none of them empty")
    return value


def _entry_point(row: Row, examples: list[str], preamble: str) -> str:
    called = [_called(row, text, "its test") for text in examples]
    defined = row.syntax_tree(row.text("code"), "'code'").body
    classes = {node.name for node in defined if isinstance(node, ast.ClassDef)}
    built = sorted(classes & {name for names in [*called, _called(row, preamble, "its setup")] for name in names})
    if built:
        raise row.error(
            f"its tests build objects of {built[0]!r}, a class that the program would have to define but the task "
            "does not mention; drop the row"
        )
    functions = {node.name for node in defined if isinstance(node, ast.FunctionDef)}
    for name in called[0]:
        if name in functions:
            return name
    raise row.error(
        f"its first test calls no function of its 'code' ({shown(examples[0])}, which has {sorted(functions)}); "
        "correct it or drop the row"
    )


def _called(row: Row, source: str, where: str) -> list[str]:
    calls = [node.func for node in ast.walk(row.syntax_tree(source, where)) if isinstance(node, ast.Call)]
    return [function.id for function in calls if isinstance(function, ast.Name)]


class MBPP(CodeTask):
    """
    MBPP: short functions described in a sentence, with three assertions each.

    Args:
        dataset (`str`, *optional*):
            See [`CodeTask`].
        revision (`str`, *optional*):
            See [`CodeTask`].
        eval_share (`float`, *optional*):
            See [`CodeTask`].
        variant (`str`, *optional*, defaults to `"full"`):
            Which of the two sets to take from the Hub: `"full"` (974 problems) or `"sanitized"` (427, checked by
            hand).

    Raises:
        [`~errors.ConfigError`]: if a parameter is out of range.
    """

    source = "google-research-datasets/mbpp"
    license = "CC-BY-4.0"
    hub_parts = ("train", "test")
    statement_columns = ("text", "prompt")
    case = staticmethod(mbpp_case)
    solution = staticmethod(mbpp_solution)

    def __init__(
        self,
        dataset: str | None = None,
        revision: str | None = None,
        eval_share: float | None = None,
        variant: str = "full",
    ):
        super().__init__(dataset, revision, eval_share)
        if variant not in _VARIANTS:
            raise ConfigError(f"mbpp: variant={variant!r} is unknown; use {' or '.join(map(repr, _VARIANTS))}")
        self.hub_config = variant


class MBPPPlus(CodeTask):
    """
    MBPP+: 378 problems of MBPP with about thirty-five times the tests. The sandbox needs NumPy.

    It is a benchmark: by default all problems are held out for evaluation.
    """

    source = "evalplus/mbppplus"
    license = "Apache-2.0"
    hub_parts = ("test",)
    statement_columns = ("prompt",)
    eval_share = 1.0
    case = staticmethod(mbpp_plus_case)
    solution = staticmethod(mbpp_solution)
