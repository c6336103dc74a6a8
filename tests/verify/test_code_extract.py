"""Reading the program of a completion."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.verify.code import CodeOptions, read_program
from trl_grpo_ext.verify.code.extract import MAX_CHARACTERS, MAX_FENCES


CODE = "def f(x):\n    return x\n"


def program(text: str, language: str = "python", **options) -> str | None:
    found = read_program(text, CodeOptions(**options), language)
    assert (found.source is None) == (found.kind == "no_answer") == bool(found.reason)
    return found.source


def block(info: str = "python", code: str = CODE, fence: str = "```") -> str:
    return f"{fence}{info}\n{code}{fence}\n"


@pytest.mark.parametrize(
    "info",
    [
        *["python", "Python", "PYTHON", "py", "Py", "python3", "py3", "python3.11", ""],
        *[" python", "python  ", "python\t", 'python title="a.py"', "{.python}", "{.python .numberLines}", "{python}"],
        *["python:main.py", "python,linenos", "   ", "ipython"],
    ],
)
def test_python_like_info_strings(info):
    assert program(f"So:\n\n{block(info)}\nDone.") == CODE


@pytest.mark.parametrize("info", ["bash", "text", "json", "javascript", "cpp", "python-repl", "pycon", "solution.py"])
def test_blocks_in_other_languages_are_ignored(info):
    assert program(block(info)) is None
    assert program(block() + block(info, "g = 1\n")) == CODE
    assert program(block(info, "g = 1\n") + block()) == CODE


@pytest.mark.parametrize("fence", ["```", "````", "~~~", "~~~~~~"])
def test_fences(fence):
    assert program(block(fence=fence)) == CODE


def test_the_closing_fence_is_at_least_as_long_and_of_the_same_kind():
    code = 'text = """\n```\n~~~~~\n"""\n'
    assert program(f"````python\n{code}````\n") == code
    assert program(f"~~~python\nx = '```'\n```\n{CODE}~~~\n") == f"x = '```'\n```\n{CODE}"
    assert program(f"```python\n{CODE}`````\nprose") == CODE
    assert program(f"```python\n{CODE}``` \t\nprose") == CODE


def test_a_fence_in_a_docstring_of_a_function_does_not_end_the_block():
    code = 'def f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x\n'
    assert program(block(code=code)) == code


def test_a_line_of_inline_code_opens_no_block():
    assert program(f"```print(1)``` is wrong\n{block()}") == CODE
    assert program("```print(1)```") is None
    assert program("a ```python\nprint(1)\n") is None


@pytest.mark.parametrize("indent", ["   ", "\t", " " * 9])
def test_a_block_in_a_list_item_is_dedented(indent):
    lines = [f"{indent}{line}\n" if line else "\n" for line in ("```python", *CODE.splitlines(), "", "x = 1", "```")]
    assert program("1. Code:\n\n" + "".join(lines) + "\n2. Done.\n") == CODE + "\nx = 1\n"


def test_a_block_beside_the_mark_of_a_list_item():
    assert program("- ```python\n  def f(x):\n      return x\n  ```\n- done\n") == CODE
    assert program("10. ```py\n    def f(x):\n        return x\n    ```\n") == CODE


def test_dedenting_removes_no_more_than_the_indentation_of_the_fence():
    assert program("  ```python\n    x = 1\n y = 2\nz = 3\n  ```\n") == "  x = 1\ny = 2\nz = 3\n"


def test_crlf():
    assert program(f"Solution:\n\n{block()}".replace("\n", "\r\n")) == CODE


def test_a_block_that_is_never_closed_goes_on_to_the_end():
    assert program(f"So:\n```python\n{CODE}") == CODE
    assert program(f"```python\n{CODE}".rstrip()) == CODE.rstrip()
    assert program(block(code="x = 1\n") + "Better:\n```python\nprint(") == "print("


def test_a_block_that_was_left_open_ends_where_the_next_begins():
    assert program(f"```python\nx = 1\n\nBetter:\n{block()}") == CODE
    assert program(f"```text\nsample\n{block()}") == CODE


def test_the_last_block_is_the_answer():
    assert program(block(code="first = 1\n") + "then\n" + block()) == CODE
    assert program(block() + "Usage:\n" + block(code="print(f(1))\n")) == "print(f(1))\n"
    assert program(block() + "Usage:\n" + block("", "from solution import f\nf(1)\n")).startswith("from solution")


@pytest.mark.parametrize(
    "sample",
    [
        *[
            "10\n",
            "3\n1 2 3\n",
            "[1, 2, 3]\n",
            "True\n",
            "Hello, world!\n",
            "$ python x.py\n7\n",
            ">>> print(f(1))\n1\n",
        ],
        *["python solution.py\n", "n = 3, k = 2\n", "Input: 3\nOutput: 7\n", "", "deque([1, 2])\n", "a == b\n"],
        'Traceback (most recent call last):\n  File "x.py", line 1\n    print(1/0)\nZeroDivisionError\n',
    ],
)
def test_a_block_without_language_that_is_no_code_is_ignored_beside_one_that_is(sample):
    assert program(block() + "Sample run:\n" + block("", sample)) == CODE
    assert program(block("") + "Sample run:\n" + block("", sample)) == CODE


@pytest.mark.parametrize(
    "code",
    [
        *["print(2*int(input()))\n", "import sys\nx = 1\n", "class A:\n    x = 1\n", "f = lambda x: x\n"],
        *[
            "from sys import stdin\n",
            "for line in open(0):\n    pass\n",
            "async def f(): pass\n",
            "n = int(input())\n",
        ],
        "# the answer\n\ndef f(): pass\n",
    ],
)
def test_a_block_without_language_that_looks_like_code_is_the_answer(code):
    assert program(block(code="x = 1\n") + block("", code)) == code


def test_a_lone_block_without_language_is_the_answer_whatever_it_looks_like():
    assert program(block("", "x = y\n")) == "x = y\n"


def test_an_empty_block_is_no_answer():
    assert program(block(code="")) is None
    assert program(block(code=" \n\n")) is None
    assert program("```python") is None
    assert program(block() + block(code="")) is None


@pytest.mark.parametrize("text", ["", "prose", "`return x` in `def f(x)`", CODE, "print(1)"])
def test_without_a_fence_there_is_no_answer(text):
    assert program(text) is None


def test_fences_may_be_optional():
    assert program(f"\n{CODE}\n", fence="optional") == CODE.rstrip()
    assert program(f"<think>\nhm\n</think>\n<answer>{CODE}</answer>", fence="optional") == CODE.rstrip()
    assert program("I cannot do it.", fence="optional") is None
    assert program("", fence="optional") is None
    assert program("```js\nx\n```\nimport os\n", fence="optional") is None
    assert program(CODE + block(code="x = 1\n"), fence="optional") == "x = 1\n"


def test_drafts_in_the_reasoning_do_not_count():
    assert program(f"<think>\n{block(code='x = 1')}</think>\n{block()}") == CODE
    assert program(f"<think>\n{block()}</think>\nI could not finish.") is None
    assert program(f"<think>a</think>{block(code='x = 1')}</think>\n{block()}") == CODE
    assert program(f"<think>\n```python\nunclosed\n</think>\n{block()}") == CODE
    assert program(f"<|begin_of_thought|>{block(code='x')}<|end_of_thought|>\n{block()}") == CODE


def test_reasoning_that_is_never_closed_leaves_no_answer():
    assert program(f"<think>\n{block()}") is None
    assert program(f"<think>a</think>\n{block()}\n<think>{block()}") is None


def test_the_mark_of_the_reasoning_may_be_a_word_of_the_program():
    code = "print('<think>')\n"
    assert program(block(code=code)) == code


def test_thinking_end_may_be_another_mark():
    assert program(f"[T]{block(code='x')}[/T]\n{block()}", thinking_end="[/T]") == CODE
    assert program(f"[T]\n{block()}", thinking_end="[/T]") is None
    assert program(f"{block(code='x')}\n###\n{block()}", thinking_end="###") == CODE


@pytest.mark.parametrize(
    "text",
    [
        f"<answer>\n{block()}</answer>",
        f"<answer>{block().rstrip()}</answer>",
        f"<answer> {block()} </answer>",
        f"<think>\nshort\n</think>\n<answer>\n```python\n{CODE}</answer>\n",
    ],
)
def test_answer_tags_are_transparent(text):
    assert program(text) == CODE


@pytest.mark.parametrize(
    ("language", "tag"),
    [("cpp", "c++"), ("cpp", "cpp"), ("cpp", "cc"), ("javascript", "js"), ("javascript", "Node"), ("rust", "rs")],
)
def test_other_languages(language, tag):
    code = "int main() {\n  return 0;\n}\n"
    assert program(block(tag, code), language) == code
    assert program(block("", code) + block("", "10\n"), language) == code
    assert program(block(tag, code) + block("python"), language) == code
    assert program(block("python"), language) is None


M = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "`" * M,
        ("x" * 9 + "`") * M,
        "```\n" * (10 * M // 4),
        "```\n" * (MAX_CHARACTERS // 4),
        " " * M,
        "\n" * M,
        "\n \n" * (M // 3),
        ("\t" * 999 + "\n") * (M // 1000),
        "a ```" * (M // 5),
        "a ```\n" * (M // 6),
        "<think>" * (M // 7),
        "</think>" * M,
        "```python\n" * MAX_FENCES,
        ("```\n" + "x = [\n" * 50 + "```\n") * (MAX_FENCES // 2 - 1),
        "```\n" + "for a" + " in" * (M // 4),
        "```\n" + (("for a" + " , a" * 60 + "\n") * (M // 260)),
        " ```python\n" + " x\n" * (M // 3 - 10),
        "```\n<think>\n```\n" * (MAX_FENCES // 2 - 1),
        "~~~" + "`" * (M - 10),
        "1" * M,
        ("- " * 100 + "```\n") * 4000,
        "```" + "{" * (M - 10),
    ],
    ids=range(22),
)
def test_hostile_texts_take_no_time(text):
    started = time.process_time()
    read_program(text)
    read_program(text, CodeOptions(fence="optional"), "cpp")
    assert time.process_time() - started < 3.0  # they take hundredths; quadratic search would take minutes


def test_too_much_text_is_no_answer():
    assert "characters" in read_program(block() + "x" * MAX_CHARACTERS).reason
    assert "fences" in read_program("```\n" * (MAX_FENCES + 1)).reason
    assert program("x" * MAX_CHARACTERS + "</think>" + block()) == CODE


PIECES = st.sampled_from(
    [
        *["```", "````", "~~~", "`", "python", "py", "\n", "\r\n", " ", "\t", "<think>", "</think>", "<answer>"],
        *["</answer>", "def f(): pass", "1. ", "- ", "{.python}", "print(1)", "10", "\ud800", "\x00", "$ ", "\u2028"],
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(["python", "cpp", "javascript", "rust"]))
def test_nothing_raises_and_what_is_found_stands_in_the_text(text, language):
    for fence in ("required", "optional"):
        found = read_program(text, CodeOptions(fence=fence), language)
        assert (found.source is None) == (found.kind == "no_answer")
        if found.source is not None:
            assert found.source.strip()
            untagged = text.replace("<answer>", "").replace("</answer>", "")
            assert all(line.strip() in text or line.strip() in untagged for line in found.source.split("\n"))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc =()\n#'\"", min_size=1).filter(str.strip), st.sampled_from(["```", "~~~~"]))
def test_a_block_is_read_back_as_it_was_written(code, fence):
    code = code.rstrip("\n") + "\n"
    assert program(f"Some words.\n\n{block(code=code, fence=fence)}\nMore words.\n") == code
