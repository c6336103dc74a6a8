"""Conventions of maths answers: words after a number, case, short words, percentages, order; several of each."""

import pytest

from trl_grpo_ext.verify import verify_math


def judged(gold: str, answer: str):
    return verify_math(gold, f"\\boxed{{{answer}}}")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("8", "8 apples"),
        ("8\\text{ orders}", "8"),
        ("4", "4 islands"),
        ("60", "60 \\text{ miles per hour}"),
        ("5 \\text{ or more}", "5 or more"),
        ("12 million", "12 \\text{ million}"),
        ("3\\sqrt{2}", "3\\sqrt2 \\text{ cm}"),
        ("c^2 m", "m c^2"),
        ("9", "4 + 5 = 9"),
    ],
)
def test_words_after_a_number_that_change_nothing(gold, answer):
    assert judged(gold, answer).value == 1.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("6", "6 \\text{ or more}"),
        ("6", "6 or fewer"),
        ("6", "6\\text{ at most}"),
        ("6", "6 and above"),
        ("4", "4 times three"),
        ("4", "4 minus two"),
        ("9", "9 or ten"),
        ("9", "9 and ten"),
        ("2", "2 not"),
        ("2", "2 plus x"),
        ("6", "6 over two"),
        ("12", "12 million"),
        ("12 million", "12"),
        ("4", "4 dozen"),
        ("4", "4 squared"),
        ("2", "2 thirds"),
        ("x^2", "x^2 m"),
        ("9", "4 + 4 = 9"),
    ],
)
def test_words_after_a_number_that_change_it(gold, answer):
    assert judged(gold, answer).value == 0.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("k", "K"),
        ("n^2", "N^2"),
        ("p+Q", "P+q"),
        ("\\frac{R}{S}", "\\frac{r}{s}"),
        ("\\{U, v\\}", "\\{u, V\\}"),
        ("F(x)", "f(x)"),
        ("y = T", "y = t"),
        ("x_A", "x_a"),
        ("\\Delta", "\\delta"),
        ("E", "e"),
        ("a^2+b^2+c", "a^2+b^2+C"),
    ],
)
def test_symbols_have_a_case(gold, answer):
    assert judged(gold, answer).value == 0.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("\\text{Ellipse}", "ellipse"),
        ("\\frac{\\text{Rise}}{\\text{Run}}", "\\frac{\\text{rise}}{\\text{run}}"),
        ("E = mc^2", "E = c^2 m"),
        ("V = IR", "V = RI"),
        ("\\frac{x^2}{2} + C", "x^2/2 + c"),
    ],
)
def test_text_and_equal_symbols_have_none(gold, answer):
    assert judged(gold, answer).value == 1.0


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("No", "\\text{No}", 1.0),
        ("No", "\\textbf{no}", 1.0),
        ("No", "NO", 1.0),
        ("up", "\\text{up}", 1.0),
        ("\\text{Al}", "Al", 1.0),
        ("\\text{US}", "us", 1.0),
        ("No", "\\text{Yes}", 0.0),
        ("\\text{up}", "pu", 0.0),
        ("pq", "qp", 1.0),
        ("PQ", "pq", 0.0),
    ],
)
def test_words_of_two_letters(gold, answer, value):
    assert judged(gold, answer).value == value


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("0.07", "7 percent", 1.0),
        ("0.07", "7\\text{ percent}", 1.0),
        ("0.125", "\\text{12.5 per cent}", 1.0),
        ("0.07", "7\\,\\text{\\%}", 1.0),
        ("28\\%", "28 pct", 1.0),
        ("28\\%", "28 percentage", 1.0),
        ("\\frac{1}{2}\\%", "0.5 percent", 1.0),
        ("7 percent", "0.07", 1.0),
        ("0.07", "7", 0.0),
        ("0.07", "0.07 percent", 0.0),
        ("30\\%", "20 percent", 0.0),
        ("7 \\text{ cm}", "7 percent", 0.0),
    ],
)
def test_percentages_in_words(gold, answer, value):
    assert judged(gold, answer).value == value


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("p<q", "q>p", 1.0),
        ("p \\le q", "q \\ge p", 1.0),
        ("p \\ne q", "q \\ne p", 1.0),
        ("x<\\pi", "\\pi>x", 1.0),
        ("(\\pi, \\infty)", "\\pi < x", 1.0),
        ("x<2y", "2y>x", 1.0),
        ("p<q", "p>q", 0.0),
        ("p<q", "q<p", 0.0),
        ("p \\le q", "q > p", 0.0),
        ("x<3", "y<3", 0.0),
    ],
)
def test_inequalities_turned_round(gold, answer, value):
    assert judged(gold, answer).value == value


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("\\sqrt{t^2}", "t", 0.0),
        ("\\sqrt{(a-b)^2}", "a-b", 0.0),
        ("\\sqrt[4]{t^4}", "t", 0.0),
        ("|t|", "\\sqrt{t^2}", 1.0),
        ("\\sqrt{(a-b)^2}", "|b-a|", 1.0),
        ("\\sqrt[3]{t^3}", "t", 1.0),
        ("\\sqrt{x}\\sqrt{y}", "\\sqrt{xy}", 1.0),
        ("1+\\sqrt{\\frac{m}{k}}", "1+\\frac{\\sqrt{mk}}{k}", 1.0),
        ("\\ln(x^2)", "2\\ln x", 1.0),  # equal wherever both are defined
        ("\\ln(xy)", "\\ln x + \\ln y", 1.0),
    ],
)
def test_roots_of_negative_numbers_squared(gold, answer, value):
    assert judged(gold, answer).value == value


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("(2,7)", "2,7", 0.0),
        ("2,7", "(2,7)", 0.0),
        ("[2,7]", "2, 7", 0.0),
        ("3, 4", "(4, 3)", 0.0),
        ("\\{3, 4\\}", "[3, 4]", 0.0),
        ("(x,y)=(1,2)", "1,2", 0.0),
        ("(x,y)=(1,2)", "(y,x)=(1,2)", 0.0),
        ("3, 4", "4 \\text{ and } 3", 1.0),
        ("(1,2)", "x=1, y=2", 1.0),
        ("(x,y)=(1,2)", "(1, 2.0)", 1.0),
        ("(1,2)", "\\{(1,2)\\}", 1.0),
        ("(1,2),(3,4)", "(3,4),(1,2)", 1.0),
    ],
)
def test_tuples_have_an_order_and_lists_have_none(gold, answer, value):
    assert judged(gold, answer).value == value
