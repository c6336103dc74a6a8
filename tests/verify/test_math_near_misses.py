"""Near misses that are not paid, and layout that changes nothing."""

import pytest

from trl_grpo_ext.verify import verify_math


PAIRS = [
    (r"2^{100000}", r"2^{100000}+1", 0.0),
    (r"2^{10^{10}}", r"2^{10^{10}}-1", 0.0),
    (r"2^{10^{10}}", r"4^{5\cdot 10^{9}}", 1.0),
    (r"2^{100001}", r"2\cdot 2^{100000}", 1.0),
    (r"20040!", r"20040!+1", 0.0),
    (r"20040!", r"20040\cdot 20039!", 1.0),
    (r"\frac{1}{2^{100000}}", r"\frac{1}{2^{100000}+1}", 0.0),
    (r"\pi", r"\pi+10^{-50}", 0.0),
    (r"\pi", r"\pi+10^{-200}", 0.0),
    (r"e", r"e+10^{-50}", 0.0),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}", 1.0),
    (r"\sin 75^\circ", r"\frac{\sqrt6+\sqrt2}{4}", 1.0),
    (r"\{1,2,3\}", r"\{1,2,3,\ldots\}", 0.0),
    (r"\{2,4\}", r"\{2,4,\cdots\}", 0.0),
    (r"x=1,y=2", r"(y,x)=(1,2)", 0.0),
    (r"(1,2)", r"(y,x)=(1,2)", 0.0),
    (r"(1,2)", r"(x,y)=(1,2)", 1.0),
    (r"A=\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"A^{T}=\begin{pmatrix}1&2\\3&4\end{pmatrix}", 0.0),
    (r"A=\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", 1.0),
    (r"5", r"x\cdot y=5", 0.0),
    (r"5", r"AB=5", 1.0),
    (r"x\cdot y=5", r"xy=5", 1.0),
    (r"\frac{1}{3}", r"0.333333333333", 1.0),
    (r"\frac{1}{2}", r"\mathbf{\frac12}", 1.0),
    (r"\frac{1}{2}", r"\text{$\frac{1}{2}$}", 1.0),
    (r"\frac{3}{4}", r"\boldsymbol{\dfrac{3}{4}}", 1.0),
    (r"\frac{3}{4}", r"{\large \frac{3}{4}}", 1.0),
    (r"\frac{3}{4}", r"\frac{3}{4}\tag{1}", 1.0),
    (r"2\sqrt{3}", r"\underline{2\sqrt{3}}", 1.0),
    (r"(1,2)", r"\mathbf{(1,2)}", 1.0),
    (r"12", r"{\Large 12}", 1.0),
    (r"12", r"\Large{12}", 1.0),
    (r"\frac{3}{4}", r"\mathbf{\frac{3}{5}}", 0.0),
    (r"5\text{ cm}", r"5\mathrm{cm}", 1.0),
    (r"5\text{ cm}", r"5\mathrm{m}", 0.0),
    (r"\text{(B)}", r"B", 1.0),
    (r"\text{Saturday}", r"\text{Saturdays}", 0.0),
]


@pytest.mark.parametrize(("gold", "answer", "value"), PAIRS)
def test_pair(gold, answer, value):
    assert verify_math(gold, rf"So it is $\boxed{{{answer}}}$.").value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer isn't $5$.", 0.0),
        ("The answer isn't 5", 0.0),
        ("The answer cannot be 5.", 0.0),
        ("The answer was thought to be 5", 0.0),
        ("The answer is 5.", 1.0),
        ("The answer is $5$, not $6$.", 1.0),
        (r"\boxed{6}\boxed{5}", 1.0),
        (r"\boxed{5}\boxed{6}", 0.0),
    ],
)
def test_what_a_text_says_of_5(text, value):
    assert verify_math("5", text).value == value
