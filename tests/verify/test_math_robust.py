"""Nothing a model writes ends a run: malformed structures, faults of the judge itself, and its source."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trl_grpo_ext
from trl_grpo_ext.verify import verify_math, verify_math_batch
from trl_grpo_ext.verify.math import MathOptions, compare, judge, normalise, reference
from trl_grpo_ext.verify.math.decision import Decision
from trl_grpo_ext.verify.math.pool import Outcome, WorkerPool


PIECES = (
    *"()[]{}<>,;:=+-|^_%&$.?'! ",
    *("\\{", "\\}", "\\\\", "\\cup", "\\cap", "\\pm", "\\in", "\\le", "\\ne", "\\infty", "\\ldots", "\\circ", "\\mid"),
    *("\\frac", "\\frac{1}{2}", "\\sqrt", "\\text{", "\\text{ and }", "\\text{ or more}", " or ", "\\text{no}"),
    *("\\begin{pmatrix}", "\\end{pmatrix}", "\\approx", "\\boxed{", "x", "y", "N", "AB", "0", "3", "17", "0.5", "km"),
)
answers = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(gold=answers, answer=answers, equal=st.booleans())
def test_any_pieces_in_any_order_get_a_verdict(gold, answer, equal):
    for pair in ((gold, answer), ("5", answer), ("(0,1)\\cup(2,3)", answer)):
        verdict = judge._guarded(judge._read, pair[0], f"\\boxed{{{pair[1]}}}", MathOptions())
        assert getattr(verdict, "kind", "") != "infra_error", verdict
        normalised = [normalise.normalise(text) for text in pair]
        assert compare.compare(*normalised, lambda gold, answer: equal).equal in (True, False)
        assert reference.readable(normalised[0], lambda text: equal) in (True, False)


@pytest.mark.parametrize(
    "answer",
    [
        "(-\\infty, 4 \\cup 6",
        "(0,2 \\cup (3,4)",
        "[1, 2 \\cup [3 \\cup 4]",
        "\\cup",
        "\\cup 5 \\cup",
        "\\{ \\cup \\}",
        "\\{1 \\cup \\{2",
        "\\text{for } (1,2 \\cup 3",
        "x \\in \\cup",
        ", ; ,",
        "\\pm",
        "= = =",
    ],
)
def test_unbalanced_structures_are_wrong_on_either_side(answer):
    for gold in ("5", "(0,1)\\cup(2,3)", "x+1"):
        assert verify_math(gold, f"\\boxed{{{answer}}}").value == 0.0
    assert verify_math(answer, "\\boxed{5}").value in (0.0, None)


@pytest.mark.parametrize("fault", [RecursionError, KeyError, TypeError])
def test_a_fault_of_the_judge_is_no_score(monkeypatch, caplog, fault):
    def broken(gold, answer, *others):
        if answer == "13":
            raise fault("of ours")
        return Decision(gold == answer, "")

    monkeypatch.setattr(judge, "compare", broken)
    with caplog.at_level(logging.ERROR):
        verdicts = verify_math_batch(["1", "1", "1"], ["\\boxed{1.}", "\\boxed{13}", "\\boxed{2}"])
    assert [verdict.value for verdict in verdicts] == [1.0, None, 0.0]
    assert verdicts[1].kind == "infra_error"
    assert fault.__name__ in verdicts[1].reason
    assert fault.__name__ in caplog.text


def test_a_fault_on_the_way_to_the_worker_is_no_score(monkeypatch):
    def broken(self, request, timeout):
        raise ValueError("of ours")

    monkeypatch.setattr(WorkerPool, "ask", broken)
    verdicts = verify_math_batch(["x+1", "x+2"], ["\\boxed{\\lim_{x \\to 3} x}", "\\boxed{\\lim_{x \\to 4} x}"])
    assert [verdict.kind for verdict in verdicts] == ["infra_error", "infra_error"]


def test_a_fault_in_the_worker_is_no_score(monkeypatch):
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("failed", note="KeyError"))
    assert verify_math("x+1", "\\boxed{\\lim_{x \\to 3} x}").value is None


def test_no_source_file_holds_control_characters():
    sources = sorted(Path(trl_grpo_ext.__file__).parent.rglob("*.py"))
    assert len(sources) > 20
    found = [
        (source.name, ord(character))
        for source in sources
        for character in set(source.read_text(encoding="utf-8"))
        if (ord(character) < 32 and character != "\n") or 127 <= ord(character) < 160
    ]
    assert not found
