"""Verdicts on maths answers: a sample of cases with sources, hand-written ones that must be exact, hostile ones."""

import time
from pathlib import Path

import numpy as np
import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.files import read_jsonl
from trl_grpo_ext.verify import verify_math, verify_math_batch


CASES = Path(__file__).parents[1] / "cases"


def boxed(answer: str) -> str:
    return f"The final answer is $\\boxed{{{answer}}}$."


def test_sample_of_public_cases():
    rows = list(read_jsonl(CASES / "math.jsonl"))
    verdicts = verify_math_batch([row["gold"] for row in rows], [row["completion"] for row in rows])
    wrong = [
        (row["kind"], row["gold"], verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.value != float(row["equivalent"])
    ]
    paid = [case for case in wrong if case[2].value == 1.0]
    assert not paid, paid
    assert len(wrong) <= 0.02 * len(rows), wrong


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "42.0"),
        ("42", "\\$42"),
        ("1234", "1,234"),
        ("12345", "12{,}345"),
        ("10,\\!080", "10080"),
        ("0.5", "\\frac12"),
        ("\\frac{1}{3}", "0.\\overline{3}"),
        ("\\frac{1}{12}", "0.0833333333333333"),
        ("50\\%", "0.5"),
        ("50\\%", "50"),
        ("2.5", "2\\frac{1}{2}"),
        ("3 \\times 10^8", "3e8"),
        ("15\\mbox{ cm}^2", "15\\,\\text{cm}^{2}"),
        ("15\\text{ cm}", "15"),
        ("90^\\circ", "90°"),
        ("-5", "−5"),
        ("x = 5", "5"),
        ("5", "x = 2 + 3 = 5"),
        ("1, 2", "2 \\text{ and } 1"),
        ("\\{1, 2\\}", "x = 1 \\text{ or } x = 2"),
        ("\\pm 3", "3, -3"),
        ("(1, \\frac{9}{2})", "(1, 4.5)"),
        ("x \\ge 5", "[5, \\infty)"),
        ("0 < x < 2", "2 > x > 0"),
        ("x \\ne 3", "(-\\infty,3)\\cup(3,\\infty)"),
        ("2:1", "4:2"),
        ("C", "\\text{(C) } 14"),
        ("C", "(C)"),
        ("\\text{Yes}", "yes."),
        ("\\text{ellipse}", "an ellipse"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{bmatrix}1\\\\2\\end{bmatrix}"),
        ("10 - 2\\sqrt{5}", "10-2√5"),
        ("x^2+2x+1", "(x+1)^2"),
        ("\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt 3}"),
        ("\\frac{1}{2}+\\frac{\\sqrt{3}}{2}i", "e^{i\\pi/3}"),
        ("2x+4y-3=0", "y = -\\frac{1}{2}x + \\frac{3}{4}"),
        ("\\sin(2x)", "2\\sin x\\cos x"),
        ("7" * 5000, "7" * 5000 + "."),
    ],
)
def test_right_answers(gold, answer):
    verdict = verify_math(gold, boxed(answer))
    assert (verdict.value, verdict.kind) == (1.0, "correct"), verdict


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "43"),
        ("1000000007", "1000000009"),
        ("7" * 5000, "7" * 4999 + "8"),
        ("0.0000001", "0.0000002"),
        ("\\frac{1}{2004!}", "\\frac{1}{2005!}"),
        ("2^{200}", "2^{200}+1"),
        ("0", "0.0000003"),
        ("\\frac{1}{3}", "0.33"),
        ("0.5", "50"),
        ("\\frac{1}{4}", "0.25\\%"),
        ("15\\text{ cm}^2", "15\\text{ m}^2"),
        ("\\$36", "36\\text{ cents}"),
        ("52_8", "52_9"),
        ("52_8", "528"),
        ("x = 5", "y = 5"),
        ("5", "x^2 = 5"),
        ("5", "5 \\text{ or } 7"),
        ("5", "3, 4, 5"),
        ("1, 2", "1"),
        ("(1, 2)", "(2, 1)"),
        ("[0, 1)", "(0, 1)"),
        ("x > 5", "x < 5"),
        ("x > 5", "y > 5"),
        ("(5, \\infty)", "(5, -\\infty)"),
        ("1:2:3", "1:3:2"),
        ("12:00", "1:00"),
        ("C", "D"),
        ("\\text{tea}", "eat"),
        ("\\text{even}", "not even"),
        ("True", "1"),
        ("\\infty", "10^{100}"),
        ("\\frac{8}{5}", "\\frac{8}{0}"),
        ("f'", "f''"),
        ("x+1", "y+1"),
        ("5", "5?6"),
        ("5", "\\frac{5}{1} \\cdot \\frac{0}{0}"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}2\\\\1\\end{pmatrix}"),
        ("1, 2, \\ldots, n", "1, 3, \\ldots, n"),
        ("(3, 500)", "3500"),
    ],
)
def test_wrong_answers(gold, answer):
    verdict = verify_math(gold, boxed(answer))
    assert verdict.value == 0.0, verdict


@pytest.mark.parametrize(
    ("gold", "completion"),
    [
        ("42", "<think>maybe \\boxed{41}</think>\\boxed{42}"),
        ("42", "reasoning opened in the prompt</think> The answer is 42."),
        ("42", "<think>a</think>\n<answer>42</answer>"),
        ("42", "<think>a</think><answer>so it is $\\boxed{42}$</answer>"),
        ("42", "six sevens\n#### 42"),
        ("42", "**Final Answer:** 42"),
        ("42", "The largest such number is found. The answer is $42$. I hope it is correct."),
        ("34", "Final Answer: The largest $n$ is 34."),
        ("12", "First I get \\boxed{15}, but one case was counted twice: \\boxed{12}"),
        ("1, 2", "The solutions are $\\boxed{1}$ and $\\boxed{2}$."),
        ("25", "\\boxed{25}\n\n\\boxed{25}"),
        ("6", "The count is \\boxed {6}."),
        ("5", "The answer is $\\boxed5$"),
        ("28", "The answer is $\\boxed{28$."),
        ("18", "9 * 2 = 18"),
    ],
)
def test_answers_are_found(gold, completion):
    assert verify_math(gold, completion).value == 1.0


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        ("", "no_answer"),
        ("\\boxed{}", "no_answer"),
        ("\\boxed{\\boxed{}}", "no_answer"),
        ("<answer>  </answer>", "no_answer"),
        ("<think>so \\boxed{7}</think>", "no_answer"),
        ("<think>it looks like \\boxed{7} and then", "truncated"),
        ("<think>a</think><think>\\boxed{7}", "truncated"),
        ("<think>a</think><answer>7", "truncated"),
        ("so it is \\boxed{7", "truncated"),
        ("\\boxed{7} or rather \\boxed{8", "truncated"),
        ("so it is \\boxed{7\n\nThis is the answer.", "malformed"),
        ("The answer is $\\frac{7}{", "truncated"),
        ("The answer is $7 +", "truncated"),
        ("There are 7 boxes, so let me count them; more thought is needed here and", "wrong"),
    ],
)
def test_missing_answers(completion, kind):
    verdict = verify_math("7", completion)
    assert (verdict.value, verdict.kind) == (0.0, kind), verdict


def test_empty_never_equals_empty():
    assert verify_math("", "").kind == "unscorable"
    assert verify_math("$$", "\\boxed{$$}").value != 1.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("#### 42", "42"),
        ("She has 40 + 2 = 42.\n#### 42", "42"),
        ("so the total is $\\boxed{36}$.", "36"),
        ("\\(\\boxed{1}\\) and \\(\\boxed{-2}\\).", "-2, 1"),
        ("$\\frac{1}{2}$", "0.5"),
        (42, "42"),
        (0.5, "\\frac{1}{2}"),
        (np.int64(42), "42"),
    ],
)
def test_gold_as_datasets_hold_it(gold, answer):
    assert verify_math(gold, boxed(answer)).value == 1.0


@pytest.mark.parametrize("gold", [None, "", "  ", "$$", "\\boxed{}", float("nan"), ["1"], "\\text{ }"])
def test_an_unusable_gold_is_unscorable(gold):
    verdict = verify_math(gold, boxed("1"))
    assert (verdict.value, verdict.kind) == (None, "unscorable")


def test_a_completion_that_is_no_text():
    assert verify_math("1", None).kind == "no_answer"
    assert verify_math("1", 1).kind == "infra_error"


@pytest.mark.parametrize("row", list(read_jsonl(CASES / "math_adversarial.jsonl")), ids=lambda row: row["kind"])
def test_hostile_answers_get_a_verdict_in_time(row):
    verify_math("x+1", boxed("1+x"))  # a running worker; its start is not the answer's time
    started = time.monotonic()
    verdict = verify_math(row["gold"], row["completion"])
    assert time.monotonic() - started < 5
    if row["equivalent"] is not None:
        assert verdict.value in (float(row["equivalent"]), None)
    if row["equivalent"] is False:
        assert verdict.value != 1.0


@pytest.mark.parametrize(
    "completion",
    [
        "$" * 1_000_000,
        "The answer is " * 50_000,
        "<answer>" * 50_000 + "</answer>" + "<answer>" * 50_000,
        "\\boxed{" * 100_000,
        "\\boxed{1} " * 100_000,
        "{" * 1_000_000,
        boxed("(" * 500_000),
        boxed("1," * 300_000),
        boxed("." * 49_000),
        boxed("\\[" * 20_000),
        " " * 1_000_000,
        "9" * 1_000_000,
        boxed("\ud800\x00" * 1000),
        "\\begin{a}" * 100_000,
    ],
    ids=range(14),
)
def test_large_completions_are_read_in_linear_time(completion):
    started = time.monotonic()
    assert verify_math("5", completion).value == 0.0
    assert time.monotonic() - started < 4


def test_batch_keeps_order_and_judges_equal_pairs_once():
    golds = ["x+1", "2", "x+1", ""]
    completions = [boxed("1+x"), boxed("3"), boxed("1+x"), boxed("1")]
    assert [verdict.value for verdict in verify_math_batch(golds, completions)] == [1.0, 0.0, 1.0, None]


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="2 references for 1 completions"):
        verify_math_batch(["1", "2"], ["1"])
    with pytest.raises(ConfigError, match="timeout is 0"):
        verify_math("1", "1", timeout=0)
