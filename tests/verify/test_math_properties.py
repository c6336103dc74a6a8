"""What holds for all answers: order of arguments, writing without meaning, and that nothing raises."""

import string
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.verify import verify_math
from trl_grpo_ext.verify.math import MathOptions, check_golds, judge, read_completion, read_gold
from trl_grpo_ext.verify.math.compare import compare
from trl_grpo_ext.verify.math.evaluate import constant
from trl_grpo_ext.verify.math.expression import parse, symbols
from trl_grpo_ext.verify.math.normalise import normalise


COMMANDS = (
    *("\\frac", "\\sqrt", "\\text", "\\mathrm", "\\begin{pmatrix}", "\\end{pmatrix}", "\\left", "\\right", "\\cup"),
    *("\\pm", "\\pi", "\\infty", "\\sum_{k=1}^{n}", "\\binom", "\\boxed", "\\le", "\\in", "\\mathbb{R}", "\\ldots"),
    *("\\pmod", "\\equiv", "\\log", "\\sin", "\\circ", "\\{", "\\}", "\\\\", "\\,", "\\setminus", "\\mid"),
)
latex = st.lists(st.sampled_from((*COMMANDS, *string.printable)), max_size=30).map("".join)

whole = st.integers(-50, 50).map(str)
values = st.recursive(
    st.one_of(
        whole, st.sampled_from(["x", "y", "n", "\\pi", "a_1"]), st.integers(1, 30).map(lambda n: f"\\sqrt{{{n}}}")
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"\\frac{{{pair[0]}}}{{{pair[1]}}}"),
        st.tuples(inner, st.sampled_from("+-"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} \\cdot \\left({pair[1]}\\right)"),
        st.tuples(inner, st.integers(2, 4)).map(lambda pair: f"\\left({pair[0]}\\right)^{{{pair[1]}}}"),
    ),
    max_leaves=5,
)
lists = st.lists(values, min_size=2, max_size=3).map(", ".join)
tuples = st.lists(values, min_size=2, max_size=3).map(lambda parts: f"({', '.join(parts)})")
intervals = st.tuples(st.sampled_from("(["), st.integers(-9, 0), st.integers(1, 9), st.sampled_from(")]")).map(
    lambda parts: f"{parts[0]}{parts[1]}, {parts[2]}{parts[3]}"
)
inequalities = st.tuples(st.sampled_from(["x", "y", "2x"]), st.sampled_from(["<", "\\le", ">", "\\ge"]), whole).map(
    " ".join
)
equations = st.tuples(values, values).map(lambda sides: f"x + {sides[0]} = {sides[1]}")
words = st.sampled_from(
    ["\\text{even}", "\\text{no solution}", "Yes", "(B)", "3:30", "\\text{March 5}", "2:3", "52_8"]
)
units = st.tuples(whole, st.sampled_from(["\\text{ cm}", "\\text{ m}^2", "\\%", "^\\circ", " apples"])).map("".join)
answers = st.one_of(values, lists, tuples, intervals, inequalities, equations, words, units)

quiet = settings(max_examples=150, deadline=None, derandomize=True)


def decided(gold: str, answer: str) -> bool | None:
    """The verdict by everything but the algebra, whose own part these tests leave out for their speed."""
    return compare(normalise(gold), normalise(answer)).equal


@quiet
@given(gold=answers, answer=answers)
def test_symmetry(gold, answer):
    assert decided(gold, answer) == decided(answer, gold)


@quiet
@given(answers)
def test_an_answer_is_itself(answer):
    assert verify_math(answer, f"\\boxed{{{answer}}}").value == 1.0


@quiet
@given(values)
def test_a_value_is_itself_however_it_is_computed(value):
    tree = parse(normalise(value))
    if tree is not None and (symbols(tree) or constant(normalise(value)) is not None):
        assert decided(f"0 + {value}", value) in (True, None)
        assert decided(f"{value} + 1", value) is not True


WRITTEN_OTHERWISE = (
    lambda text: f" {text} ",
    lambda text: text.replace(" ", "  "),
    lambda text: text.replace("\\frac", "\\dfrac"),
    lambda text: text.replace("\\frac", "\\tfrac"),
    lambda text: text.replace("\\left", "").replace("\\right", ""),
    lambda text: f"{text}.",
    lambda text: f"${text}$",
    lambda text: f"\\({text}\\)",
    lambda text: f"\\displaystyle {text}",
    lambda text: text.replace("\\cdot", "\\times"),
    lambda text: text.replace("-", "−"),
    lambda text: text.replace("\\pi", "π"),
    lambda text: f"\\color{{red}} {text}",
)


@quiet
@given(gold=answers, answer=answers, how=st.sampled_from(WRITTEN_OTHERWISE))
def test_writing_without_meaning_changes_nothing(gold, answer, how):
    assert decided(answer, how(answer)) is True
    assert decided(gold, how(answer)) == decided(gold, answer)
    assert decided(how(gold), answer) == decided(gold, answer)


@quiet
@given(
    value=st.fractions(min_value=-10, max_value=10, max_denominator=50),
    other=st.fractions(-10, 10, max_denominator=50),
)
def test_fractions_are_compared_exactly(value, other):
    def written(number: Fraction) -> str:
        return f"\\frac{{{number.numerator}}}{{{number.denominator}}}"

    assert decided(written(value), written(other)) is (value == other)
    assert decided(written(value), f"{value.numerator}/{value.denominator}") is True
    assert decided(written(value), f"\\frac{{{3 * value.numerator}}}{{{3 * value.denominator}}}") is True
    assert decided(written(value), f"{written(value)} \\cdot \\sqrt{{2}}") is (value == 0)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(gold=st.one_of(latex, st.text(max_size=60)), text=st.one_of(latex, st.text(max_size=60)), in_box=st.booleans())
def test_nothing_raises(gold, text, in_box):
    completion = f"\\boxed{{{text}}}" if in_box else text
    for options in (MathOptions(), MathOptions(decimal_comma=True, strict_parts=False, tolerance=0.1)):
        read = judge._guarded(judge._read, gold, completion, options)
        assert getattr(read, "kind", "") != "infra_error", read
        alone = judge._guarded(judge._read_alone, gold, options)
        assert getattr(alone, "kind", "") != "infra_error", alone


@quiet
@given(st.text(max_size=200))
def test_extraction_takes_any_text(text):
    for options in (MathOptions(), MathOptions(thinking_end="]", answer_tags=("a", "b"), fallback="none")):
        assert read_completion(text, options).kind in ("found", "no_answer", "malformed", "truncated")
        read_gold(text, options)


def test_references_of_any_kind_can_be_checked():
    golds = ["x \\equiv 3 \\pmod 7", "\\mathbb{R}", "x > 2", "\\sqrt{2}", "a, b", "\\text{even}"]
    assert [verdict.value for verdict in check_golds(golds)] == [1.0] * len(golds)
