"""Sets, families, inequalities, points, times and prose: right and wrong answers of each kind."""

import pytest

from trl_grpo_ext.verify import verify_math
from trl_grpo_ext.verify.math.families import family, same_family
from trl_grpo_ext.verify.math.intervals import real_set, same_set


def judged(gold: str, answer: str) -> float | None:
    return verify_math(gold, f"So $\\boxed{{{answer}}}$.").value


SETS = [
    ("2x > 6", "x > 3", 1.0),
    ("-2x > 6", "x < -3", 1.0),
    ("-2x > 6", "x > -3", 0.0),
    ("2x < 6", "(-\\infty, 3)", 1.0),
    ("1 < 2x+1 < 5", "(0, 2)", 1.0),
    ("x+y < 1", "2x+2y < 2", 1.0),
    ("x+y < 1", "y < 1-x", 1.0),
    ("x+y < 1", "1 > x+y", 1.0),
    ("x+y < 1", "x+y \\le 1", 0.0),
    ("x+y < 1", "-x-y < -1", 0.0),
    ("|x-1| \\le 3", "[-2, 4]", 1.0),
    ("|x| > 2", "x < -2 \\text{ or } x > 2", 1.0),
    ("|x| < 5", "x < 5", 0.0),
    ("1 < x \\le 4", "x > 1 \\text{ and } x \\le 4", 1.0),
    ("x > 5", "x > 5 \\text{ and } x < 10", 0.0),
    ("(1, 2) \\cup [2, 3)", "(1, 3)", 1.0),
    ("(1, 2) \\cup (2, 3)", "(1, 3)", 0.0),
    ("(-1, 0) \\cup (0, 1)", "(-1, 1) \\setminus \\{0\\}", 1.0),
    ("\\mathbb{R} \\setminus \\{0\\}", "x \\ne 0", 1.0),
    ("\\mathbb{R} \\setminus \\{0\\}", "\\mathbb{R}", 0.0),
    ("(0, 9) \\cap (5, 12)", "(5, 9)", 1.0),
    ("(-\\infty, \\infty)", "\\text{all real numbers}", 1.0),
    ("[0, 1] \\cup \\{2\\}", "\\{2\\} \\cup [0, 1]", 1.0),
    ("(2,12) \\cup (12,102)", "(2,12) \\cup (12,602)", 0.0),
    ("\\emptyset", "\\{\\emptyset\\}", 0.0),
    ("\\emptyset", "\\{\\}", 1.0),
    ("x > 5", "5", 0.0),
    ("(5, \\infty)", "\\infty", 0.0),
]
FAMILIES = [
    ("x \\equiv 3 \\pmod 7", "x \\equiv 10 \\pmod{7}", 1.0),
    ("x \\equiv 3 \\pmod 7", "x = 7k+3, k \\in \\mathbb{Z}", 1.0),
    ("x \\equiv 3 \\pmod 7", "x \\equiv 3 \\pmod{14}", 0.0),
    ("x \\equiv 3 \\pmod 7", "3", 0.0),
    ("x = k\\pi, k \\in \\mathbb{Z}", "x = n\\pi, n \\in \\mathbb{Z}", 1.0),
    ("x = k\\pi, k \\in \\mathbb{Z}", "x = 2k\\pi, k \\in \\mathbb{Z}", 0.0),
    ("x = k\\pi, k \\in \\mathbb{Z}", "x = \\pi", 0.0),
    ("\\pm\\frac{\\pi}{3}+2k\\pi, k \\in \\mathbb{Z}", "2k\\pi \\pm \\frac{\\pi}{3}, k \\in \\mathbb{Z}", 1.0),
    ("\\frac{\\pi}{4}+\\frac{k\\pi}{2}, k \\in \\mathbb{Z}", "\\frac{(2k+1)\\pi}{4}, k \\in \\mathbb{Z}", 1.0),
    ("\\{2k+1 : k \\in \\mathbb{Z}\\}", "\\{2k-1 : k \\in \\mathbb{Z}\\}", 1.0),
]
NAMES = [
    ("p=5,q=2;p=7,q=2", "(5,2),(7,2)", 1.0),
    ("p=5,q=2", "(5,2)", 1.0),
    ("(2,5)", "p=5,q=2", 0.0),
    ("(1,2)", "y=1,x=2", 0.0),
    ("x=1,y=2", "y=2, x=1", 1.0),
    ("x=1,y=2", "x=2,y=1", 0.0),
    ("x=1,y=2", "x=1,z=2", 0.0),
    ("f(x)=x^2+1", "f(t)=t^2+1", 1.0),
    ("f(x)=x+a", "f(t)=t+b", 0.0),
    ("f(x)=x^2+1", "g(x)=x^2+1", 0.0),
    ("f^{-1}(x) = \\frac{x-1}{2}", "\\frac{x-1}{2}", 1.0),
    ("\\frac{AB}{CD}=\\frac12", "0.5", 1.0),
    ("2x+z = 1", "1", 0.0),
    ("C=\\frac{def}{de+df+ef}", "\\frac{1}{\\frac{1}{d}+\\frac{1}{e}+\\frac{1}{f}}", 1.0),
    ("\\frac{x^3}{3}+C", "K+\\frac{x^3}{3}", 1.0),
    ("x^2", "x^2+C", 0.0),
    ("P(1,2)", "(1,2)", 1.0),
]
VECTORS = [
    ("2\\mathbf{i}-\\mathbf{j}", "(2,-1)", 1.0),
    ("2\\hat{i}+3\\hat{j}", "3\\mathbf{j}+2\\mathbf{i}", 1.0),
    ("2\\mathbf{i}-\\mathbf{j}", "(2,1)", 0.0),
    ("\\begin{pmatrix} 2 \\\\ -1 \\\\ 0 \\end{pmatrix}", "2\\mathbf{i}-\\mathbf{j}", 1.0),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "[[1,2],[3,4]]", 1.0),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "[[1,2],[3,5]]", 0.0),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\left[\\begin{array}{cc}1&2\\\\3&4\\end{array}\\right]", 1.0),
]
TIMES = [
    ("14:30", "2:30 \\text{ p.m.}", 1.0),
    ("9:00 \\text{ a.m.}", "9 \\text{ a.m.}", 1.0),
    ("3:30 \\text{ p.m.}", "3:30", 0.0),
    ("3:30", "3:30 \\text{ p.m.}", 1.0),
    ("3:30 \\text{ p.m.}", "3:30 \\text{ a.m.}", 0.0),
    ("12:30 \\text{ a.m.}", "0:30", 1.0),
    ("\\text{December 25}", "\\text{Dec 25}", 1.0),
    ("\\text{March 5, 2020}", "\\text{5 March 2020}", 1.0),
    ("\\text{March 5, 2020}", "\\text{March 5, 2021}", 0.0),
    ("\\text{March 5}", "\\text{5}", 0.0),
]
PROSE = [
    ("5", "\\text{5 apples}", 1.0),
    ("5", "\\text{The answer is 5}", 1.0),
    ("5", "\\text{There are } 5 \\text{ ways}", 1.0),
    ("x=5", "\\text{the solution is } x=5", 1.0),
    ("7", "\\text{The answer is not 7}", 0.0),
    ("7", "\\text{There are at least } 7", 0.0),
    ("5", "\\text{5 or 6}", 0.0),
    ("\\text{Yes}", "\\text{Yes, it is}", 1.0),
    ("\\text{Yes}", "\\text{Yes, but no}", 0.0),
    ("B", "Option B", 1.0),
    ("(B)", "b", 1.0),
    ("\\textbf{(C)}\\ 14", "C", 1.0),
    ("\\textbf{(C)}\\ 14", "14", 1.0),
    ("\\textbf{(C)}\\ 14", "D", 0.0),
    ("(A)", "(A)(B)", 0.0),
    ("A, C", "AC", 1.0),
    ("A", "AC", 0.0),
]
SIGNS = [
    ("45^\\circ", "\\frac{\\pi}{4} \\text{ radians}", 1.0),
    ("\\frac{\\pi}{3}", "60^\\circ", 1.0),
    ("\\frac{\\pi}{3}", "60", 0.0),
    ("45^\\circ", "45\\pi", 0.0),
    ("1, 2, 3, 4, 5", "1, 2, \\ldots, 5", 1.0),
    ("55", "1+2+\\cdots+10", 1.0),
    ("55", "1+2+\\cdots+11", 0.0),
    ("5", "5...", 0.0),
    ("\\sqrt[3]{2}", "∛2", 1.0),
    ("{10 \\choose 3}", "120", 1.0),
    ("\\infty", "\\text{infinity}", 1.0),
    ("-\\infty", "\\text{infinity}", 0.0),
    ("\\phi", "\\varphi", 1.0),
    ("\\int_0^1 x\\,dx", "\\frac12", 1.0),
]


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [*SETS, *FAMILIES, *NAMES, *VECTORS, *TIMES, *PROSE, *SIGNS],
    ids=lambda value: str(value),
)
def test_kinds(gold, answer, value):
    assert judged(gold, answer) == value


def test_sets_of_numbers_alone():
    assert real_set("x > 3")[0] == "x"
    assert same_set(real_set("(1, 2] \\cup (2, 3)")[1], real_set("(1, 3)")[1]) is True
    assert same_set(real_set("(1, 2)")[1], real_set("[1, 2)")[1]) is False
    assert same_set(real_set("(\\sqrt{2}, \\pi)")[1], real_set("(2^{1/2}, \\pi)")[1]) is True
    for text in ("5", "(a, b)", "(2, 1)", "x > y", "(1, 2, 3)", ""):
        assert real_set(text) is None, text


def test_families_alone():
    assert family("x = 3k, k \\in \\mathbb{Z}") == ("x", ((0, 3),))
    assert family("x = k^2, k \\in \\mathbb{Z}") is None
    assert family("3") is None
    evens_and_odds = ((0, 2), (1, 2))
    assert same_family(evens_and_odds, ((5, 1),)) is True
    assert same_family(((0, 2),), ((1, 2),)) is False
