"""The marks around the thinking of a completion."""

import pytest

from trl_grpo_ext.verify.code import CodeOptions, read_program
from trl_grpo_ext.verify.math.extract import read_completion
from trl_grpo_ext.verify.math.options import MathOptions
from trl_grpo_ext.verify.thinking import thinking_marks, thinking_start


@pytest.mark.parametrize(
    ("end", "start"),
    [(None, "<think>"), ("</think>", "<think>"), ("[/T]", "[T]"), ("[END]", None), ("</a/b>", "<a/b>")],
)
def test_the_opening_mark_is_the_same_without_its_slash(end, start):
    assert thinking_start(end) == start
    if end is not None:
        assert thinking_marks(end) == ((start, end),)


def test_by_default_two_pairs_are_known():
    assert thinking_marks(None) == (
        ("<think>", "</think>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
    )


@pytest.mark.parametrize(("start", "end"), [*thinking_marks(None), ("[T]", "[/T]"), ("", "[END]")])
def test_maths_and_programs_begin_after_the_same_mark(start, end):
    options = {} if (start, end) in thinking_marks(None) else {"thinking_end": end}
    answer = read_completion(f"{start}\\boxed{{1}}{end}\\boxed{{2}}", MathOptions(**options))
    assert (answer.answer, answer.kind) == ("2", "found")
    text = f"{start}\n```python\n1\n```\n{end}\n```python\n2\n```"
    assert read_program(text, CodeOptions(**options)).source == "2\n"
    if start:
        assert read_completion(f"{start}\\boxed{{1}}", MathOptions(**options)).kind == "truncated"
        assert read_program(f"{start}\n```python\n1\n```", CodeOptions(**options)).kind == "no_answer"
