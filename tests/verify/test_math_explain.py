"""Why a verdict is what it is: reasons in one line, and the steps to them."""

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verify.math import MathOptions, explain_math, verify_math
from trl_grpo_ext.verify.math.pool import Outcome, WorkerPool


ALGEBRA = ("2", "\\lim_{x \\to 2} x")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("1/3", "0.33", "gold 1/3, answer 0.33: differs by more than the tolerance"),
        ("42", "7", "gold 42, answer 7: another number"),
        ("42", "42.0", "gold 42, answer 42.0: the same number"),
        ("5\\text{ cm}", "5\\text{ m}", "gold 5\\text{ cm}, answer 5\\text{ m}: the unit m is not cm"),
        ("6", "6 \\text{ or more}", "gold 6, answer 6 \\text{ or more}: “or more” changes the value"),
        ("52_8", "52_9", "gold 52_8, answer 52_9: another base"),
        ("3:30 \\text{ p.m.}", "3:30", "gold 3:30 \\text{ p.m.}, answer 3:30: pm is missing"),
        ("C", "D", "gold C, answer D: another choice"),
        ("1, 2, 3", "1, 2", "gold 1, 2, 3, answer 1, 2: 2 parts instead of 3"),
        ("1, 2", "1, 3", "gold 1, 2, answer 1, 3: the part 2 is missing"),
        ("(1, 2)", "(2, 1)", "gold (1, 2), answer (2, 1): part 1 differs"),
        ("[0, 1)", "[0, 1]", "gold [0, 1), answer [0, 1]: brackets [] instead of [)"),
        ("x = 5", "y = 5", "gold x = 5, answer y = 5: y instead of x"),
        ("x > 5", "y > 5", "gold x > 5, answer y > 5: about y instead of x"),
        ("x+1", "x+2", "gold x+1, answer x+2: another function of its variables"),
        ("x+1", "y+1", "gold x+1, answer y+1: other variables"),
        ("5", "x^2 = 5", "gold 5, answer x^2 = 5: an equation against a value"),
        ("\\text{even}", "odd", "gold \\text{even}, answer odd: other words"),
    ],
)
def test_reasons(gold, answer, reason):
    assert verify_math(gold, f"\\boxed{{{answer}}}").reason == reason


def test_long_answers_do_not_make_long_reasons():
    verdict = verify_math("5", "\\boxed{" + "x+" * 500 + "1}")
    assert len(verdict.reason) < 200


def test_the_steps_of_a_pair_that_is_read():
    explanation = explain_math("x+1", "So $\\boxed{1 + x}$.")
    assert explanation.verdict.value == 1.0
    assert [rung.name for rung in explanation.rungs][:4] == [
        "extract gold",
        "extract answer",
        "normalise",
        "same text",
    ]
    assert explanation.rungs[1].decided == "box: 1 + x"
    assert explanation.rungs[-1].name == "values"
    assert explanation.rungs[-1].decided == "equal: the same value"
    assert all(rung.decided == "passed on" for rung in explanation.rungs[3:-1])


def test_the_steps_of_a_pair_for_the_algebra():
    explanation = explain_math(ALGEBRA[0], f"\\boxed{{{ALGEBRA[1]}}}", timeout=30.0)
    assert explanation.verdict.value == 1.0
    names = [rung.name for rung in explanation.rungs]
    assert names[0] == "extract gold"
    assert names[-2:] == ["values", "algebra"]
    assert len(names) == len(set(names))
    assert explanation.rungs[-1].decided == "equal: shown equal"


def test_the_steps_where_the_algebra_gave_up(monkeypatch):
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("timeout"))
    explanation = explain_math(ALGEBRA[0], f"\\boxed{{{ALGEBRA[1]}}}")
    assert explanation.verdict.kind == "timeout"
    assert explanation.rungs[-1].name == "algebra"
    assert "not decided in 1.5 s" in explanation.rungs[-1].decided


@pytest.mark.parametrize(
    ("gold", "completion", "last"),
    [("", "\\boxed{1}", "extract gold"), ("1", "", "extract answer"), ("1", "so \\boxed{1", "extract answer")],
)
def test_the_steps_end_where_the_judgement_does(gold, completion, last):
    explanation = explain_math(gold, completion)
    assert explanation.rungs[-1].name == last
    assert explanation.rungs[-1].decided == explanation.verdict.reason


@pytest.mark.parametrize(
    ("gold", "completion", "options"),
    [
        ("1/3", "\\boxed{0.33}", MathOptions()),
        ("1/3", "\\boxed{0.33}", MathOptions(tolerance=0.1)),
        ("x^2", "\\boxed{x \\cdot x}", MathOptions()),
        ("7", "it is 7", MathOptions(fallback="none")),
    ],
)
def test_an_explanation_has_the_verdict_of_the_judge(gold, completion, options):
    explained = explain_math(gold, completion, options=options).verdict
    judged = verify_math(gold, completion, options=options)
    assert (explained.value, explained.kind, explained.reason) == (judged.value, judged.kind, judged.reason)


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="timeout is 0"):
        explain_math("1", "1", timeout=0)
