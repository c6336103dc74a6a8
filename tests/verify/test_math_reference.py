"""References that cannot be read make no answer wrong, and `check_golds` finds them before training does."""

from pathlib import Path

import pytest

from trl_grpo_ext.files import read_jsonl
from trl_grpo_ext.verify import verify_math, verify_math_batch
from trl_grpo_ext.verify.math import check_golds, judge
from trl_grpo_ext.verify.math.pool import Outcome, Request, WorkerPool


CASES = Path(__file__).parents[1] / "cases"
BROKEN = [
    "\\frac{2}{0",
    "\\sqrt{\\frac{1}{3}",
    "\\begin{tabular}{c} 4 \\end{tabular}",
    "\\begin{array}{c} x",
    "x^",
    ")(",
    "(2,3 \\cup (4,5)",
    "1, \\frac{1}{}, \\ldots",
    "7}",
]
SOUND = [
    "42",
    "\\frac{x+1}{2}",
    "\\text{no solution}",
    "No",
    "C",
    "12:30",
    "2:3",
    "1, 2, \\ldots, n",
    "x > 3",
    "x \\in (1, 2] \\cup [5, \\infty)",
    "(1, \\sqrt{2})",
    "\\begin{pmatrix} 1 \\\\ x \\end{pmatrix}",
    "y = 2x + 1",
    "15\\text{ cm}^2",
    "\\emptyset",
]


@pytest.mark.parametrize("gold", BROKEN)
@pytest.mark.parametrize("answer", ["5", "(1,2)", "\\text{none}"])
def test_an_unreadable_reference_is_unscorable(gold, answer):
    verdict = verify_math(gold, f"\\boxed{{{answer}}}")
    assert (verdict.value, verdict.kind) == (None, "unscorable"), verdict


@pytest.mark.parametrize("answer", ["x+1", "\\text{none}"])
@pytest.mark.parametrize("gold", SOUND)
def test_a_sound_reference_is_scored(gold, answer):
    assert verify_math(gold, f"\\boxed{{{answer}}}").value == 0.0


def test_an_unreadable_answer_is_wrong():
    for answer in ("\\begin{tabular}{c} 4 \\end{tabular}", "x^", ")(", "(2,3 \\cup (4,5)"):
        assert verify_math("x+4", f"\\boxed{{{answer}}}").value == 0.0


def test_the_check_of_references_is_not_blinded_by_equal_text():
    for gold, verdict in zip(BROKEN, check_golds(BROKEN), strict=True):
        assert (verdict.value, verdict.kind) == (None, "unscorable"), gold
        assert verdict.reason
    sound = [*SOUND, "7" * 3000, 42, "#### 42"]
    for gold, verdict in zip(sound, check_golds(sound), strict=True):
        assert verdict.value == 1.0, (gold, verdict)


def test_text_without_meaning_still_equals_itself():
    gold = "\\begin{tabular}{c} 4 \\end{tabular}"
    assert verify_math(gold, f"\\boxed{{{gold}}}").value == 1.0


def test_no_reference_is_judged_twice(monkeypatch):
    asked = []
    monkeypatch.setattr(
        WorkerPool, "ask", lambda self, *asking: asked.append(asking) or Outcome("decided", equal=True)
    )
    assert [verdict.value for verdict in check_golds(["x+1", "x+1", "5", None, ""])] == [1.0, 1.0, 1.0, None, None]
    assert asked == [(Request("x+1", None), judge.DEFAULT_TIMEOUT)]


def test_memory_spent_on_the_reference_is_its_own_fault(monkeypatch):
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("memory", blame="gold"))
    assert verify_math("x+1", "\\boxed{\\lim_{x \\to 3} x}").kind == "unscorable"


def test_references_of_gsm8k_equal_themselves_and_their_number():
    golds = [row["answer"] for row in read_jsonl(CASES / "gsm8k_200.jsonl")]
    numbers = [gold.rpartition("####")[2].strip() for gold in golds]
    assert len(golds) == 200
    for completions in (
        golds,
        [f"#### {number}" for number in numbers],
        [f"\\boxed{{{number}}}" for number in numbers],
    ):
        assert all(verdict.value == 1.0 for verdict in verify_math_batch(golds, completions))
    assert all(verdict.value == 1.0 for verdict in check_golds(golds))
    others = verify_math_batch(golds, golds[1:] + golds[:1])
    assert sum(verdict.value == 1.0 for verdict in others) < 0.05 * len(golds)
