"""HumanEval (huggingface.co/papers/2107.03374) and HumanEval+ (huggingface.co/papers/2305.01210)."""

import re
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.row import Row


# The original harness allows 3 s on an idle machine.
_SECONDS = 5.0
# EvalPlus runs up to some thousand inputs for a problem.
_PLUS_SECONDS = 20.0


def humaneval_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of HumanEval.

    What precedes the function in the prompt (imports, and helpers that the tests use, such as `poly` and
    `encode_cyclic`) becomes the `preamble`: it stands before the program, and the tests have their own copy of its
    functions.

    Args:
        row (`Mapping`):
            A row with `task_id`, `prompt`, `entry_point`, `test`.

    Returns:
        `dict`: a case of the format `check_function`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: if a column is missing, the prompt lacks the function, or the tests lack `check`.
    """
    return _case(Row("HumanEval", row, "task_id"), _SECONDS)


def humaneval_plus_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of HumanEval+ as `evalplus/humanevalplus` has it: HumanEval's columns, with more tests.

    The tests bring their own helpers and import NumPy, so the sandbox needs it: `SandboxOptions(packages=("numpy",))`.

    Args:
        row (`Mapping`):
            A row with `task_id`, `prompt`, `entry_point`, `test`.

    Returns:
        `dict`: a case of the format `check_function`, with the `prompt` for the model.

    Raises:
        [`~errors.DataError`]: as for [`humaneval_case`], and if the row is of EvalPlus' own release, which holds
            inputs without the expected values.
    """
    seen = Row("HumanEval+", row, "task_id")
    if "test" not in row and "plus_input" in row:
        raise seen.error(
            "it holds inputs ('base_input', 'plus_input') but no expected values; use the rows of "
            "evalplus/humanevalplus, which have them under 'test'"
        )
    return _case(seen, _PLUS_SECONDS)


def humaneval_solution(row: Mapping[str, Any]) -> str | None:
    """The reference solution: the prompt and its continuation."""
    return f"{row['prompt']}{row['canonical_solution']}".strip("\n") if row.get("canonical_solution") else None


def _case(row: Row, seconds: float) -> dict[str, Any]:
    name, prompt, tests = row.identifier("entry_point"), row.text("prompt"), row.text("test")
    start = re.search(rf"^def[ \t]+{re.escape(name)}\b", prompt, re.MULTILINE)
    if start is None:
        raise row.error(f"its prompt does not define {name!r}; correct 'entry_point' or drop the row")
    if not re.search(r"^def[ \t]+check\b", tests, re.MULTILINE):
        raise row.error("its 'test' does not define check(candidate), so there are no tests; drop the row")
    question = (
        "Complete this Python function. Put the whole function, with the imports and helpers it needs, in one "
        f"```python block at the end of the answer.\n\n```python\n{prompt.strip()}\n```"
    )
    preamble = prompt[: start.start()].strip()
    return row.case(
        format="check_function",
        tests=tests,
        entry_point=name,
        time_limit=seconds,
        preamble=preamble,
        prompt=question,
    )


class HumanEval(CodeTask):
    """
    HumanEval: 164 functions to be completed from signature and docstring.

    It is a benchmark: by default all problems are held out for evaluation.
    """

    source = "openai/openai_humaneval"
    license = "MIT"
    hub_parts = ("test",)
    statement_columns = ("prompt",)
    eval_share = 1.0
    case = staticmethod(humaneval_case)
    solution = staticmethod(humaneval_solution)


class HumanEvalPlus(HumanEval):
    """
    HumanEval+: the problems of HumanEval with about eighty times the tests. The sandbox needs NumPy.

    It is a benchmark: by default all problems are held out for evaluation.
    """

    source = "evalplus/humanevalplus"
    license = "Apache-2.0"
    case = staticmethod(humaneval_plus_case)
