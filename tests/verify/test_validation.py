"""What validation finds, with a judge whose mind is known; and what it makes of real golds."""

import json
from pathlib import Path

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.math import MathOptions
from trl_grpo_ext.verify.validation import (
    KINDS,
    POOL,
    Domain,
    Finding,
    Validator,
    draw_rows,
    make_domain,
    plain_prompt,
)


CASES = Path(__file__).parents[1] / "cases"


def check(golds):
    return [
        Verdict(None, "unscorable", reason="no answer")
        if gold in (None, "", "?")
        else Verdict(None, "infra_error", reason="no worker")
        if gold == "crash"
        else Verdict(1.0, "correct")
        for gold in golds
    ]


def judge(golds, others):
    """Answers are equal without their spaces; `any` is right for everything, and `never` for nothing."""

    def one(gold, other):
        if gold == "breaks" and gold != other:
            return Verdict(None, "infra_error", reason="lost the worker")
        if gold is None or other is None:
            return Verdict(None, "unscorable", reason="no answer")
        equal = gold == "any" or ("never" not in (gold, other) and gold.replace(" ", "") == other.replace(" ", ""))
        return Verdict(1.0, "correct") if equal else Verdict(0.0, "wrong", reason="differs")

    return [one(*pair) for pair in zip(golds, others, strict=True)]


DOMAIN = Domain(("answer",), lambda gold: gold or None, check, judge)


def found(golds, prompts=None, batch=7, **options):
    """Findings of all rows, checked in batches."""
    others = {row: golds[row] for row in draw_rows(len(golds), seed=0)}
    validator = Validator(DOMAIN, others, golds.__getitem__, **options)
    findings = []
    for start in range(0, len(golds), batch):
        rows = range(start, min(start + batch, len(golds)))
        asked = None if prompts is None else prompts[start : start + batch]
        findings += validator.check(rows, golds[start : start + batch], asked)
    return findings


def kinds(findings):
    return [(finding.row, finding.kind) for finding in findings]


def test_different_answers_are_clean():
    assert found([str(i) for i in range(50)]) == []


def test_a_gold_that_cannot_be_read_is_listed_with_the_reason():
    findings = found(["1", "", None, "2", "?"])
    assert findings == [
        Finding(1, "unreadable", "", "no answer"),
        Finding(2, "unreadable", "None", "no answer"),
        Finding(4, "unreadable", "?", "no answer"),
    ]


def test_a_gold_that_is_not_right_as_its_own_answer_is_listed():
    assert found(["1", "never"]) == [Finding(1, "fails_itself", "never", "wrong: differs")]


def test_a_judge_that_fails_is_not_taken_for_a_clean_dataset():
    assert found(["1", "crash", "breaks", "2"], batch=4) == [
        Finding(1, "judge_failed", "crash", "no worker"),
        Finding(2, "judge_failed", "breaks", "beside the gold of another row: lost the worker"),
    ]


def test_a_gold_that_anything_satisfies_is_listed_once():
    golds = ["any" if i % 30 == 0 else str(i) for i in range(300)]
    (finding,) = found(golds)
    assert (finding.row, finding.kind, finding.gold) == (0, "equals_others", "any")
    assert finding.reason.startswith("right for 64 of 64 other rows, such as row ")


def test_an_answer_that_most_rows_share_is_listed_once_however_it_is_written():
    golds = [str(i) if i % 5 == 0 else "y es" if i % 5 == 1 else "yes" for i in range(300)]
    (finding,) = found(golds)
    assert finding.kind == "equals_others"
    assert finding.gold in ("yes", "y es")


@pytest.mark.parametrize("golds", [["A", "B", "C", "D"] * 100, [str(i % 3) for i in range(300)], ["1"] * 5])
def test_answers_that_are_right_for_some_other_rows_are_clean(golds):
    assert found(golds) == []


def test_no_comparison_with_others_is_possible_too():
    assert found(["any"] * 40, other_golds=0) == []
    with pytest.raises(ConfigError, match="other_golds is -1; it must be 0 or more"):
        found(["1"], other_golds=-1)


@pytest.mark.parametrize("batch", [1, 2, 7, 100])
def test_rows_with_the_same_prompt_are_compared_with_the_first(batch):
    prompts = ["a", "b", " A ", "a", "c", "a"]
    findings = found(["1 0", "2", "10", "1 0", "3", "11"], prompts, batch=batch)
    assert findings == [
        Finding(2, "duplicate_prompt", "10", "row 0 says '1 0'"),
        Finding(3, "duplicate_row", "1 0", "the same as row 0"),
        Finding(5, "contradiction", "11", "row 0 says '1 0'"),
    ]


@pytest.mark.parametrize("empty", [None, "", "  ", []])
def test_empty_prompts_are_no_duplicates(empty):
    assert kinds(found(["1", "2", "3"], [empty, "a", empty])) == [(0, "no_prompt"), (2, "no_prompt")]


def test_messages_are_prompts():
    messages = [[{"role": "user", "content": text}] for text in ("One\n?", "one ? ", "Two?")]
    assert kinds(found(["1", "1", "1"], messages)) == [(1, "duplicate_row")]
    assert plain_prompt(messages[0]) == plain_prompt(messages[1]) != plain_prompt(messages[2])


def test_rows_that_cannot_be_judged_are_no_contradictions():
    assert kinds(found(["?", "1", "2"], ["a", "a", "a"])) == [(0, "unreadable"), (2, "contradiction")]


def test_findings_do_not_depend_on_the_batches():
    golds = [["any", "yes", "never", str(i)][i % 4] for i in range(200)]
    prompts = [str(i % 152) if i % 5 else str(i % 150) for i in range(200)]
    assert {kind for _, kind in kinds(found(golds, prompts))} == {
        "equals_others",
        "fails_itself",
        "contradiction",
        "duplicate_row",
    }
    assert found(golds, prompts, batch=1) == found(golds, prompts, batch=9) == found(golds, prompts, batch=200)


def test_long_golds_are_shortened():
    validator = Validator(DOMAIN, {}, lambda row: "", other_golds=0)
    (finding,) = validator.check([0, 1], ["x" * 1000, "x" * 1000], ["a", "a"])
    assert finding.gold == "x" * 300 + "…"


def test_rows_to_compare_with_are_few_and_the_same_for_a_seed():
    assert draw_rows(3, seed=0) == [0, 1, 2]
    drawn = draw_rows(100_000, seed=1)
    assert len(drawn) == len({*drawn}) == POOL
    assert drawn == draw_rows(100_000, seed=1) != draw_rows(100_000, seed=2)


def test_an_unknown_domain_names_what_is_supported():
    assert make_domain("math").columns == ("answer", "solution")
    with pytest.raises(ConfigError, match="rows of domain 'cooking' cannot be checked; supported: math"):
        make_domain("cooking")
    with pytest.raises(ConfigError, match=r"did you mean 'math'\? supported: math"):
        make_domain("maths")


def test_every_kind_has_a_meaning():
    assert {kind for kind, entry in KINDS.items() if not entry.wasteful} == {"duplicate_row", "duplicate_prompt"}
    assert all(entry.meaning for entry in KINDS.values())


def math_findings(golds, **options):
    validator = Validator(make_domain("math"), dict(enumerate(golds)), golds.__getitem__, **options)
    return validator.check(range(len(golds)), golds)


def test_golds_as_maths():
    golds = ["42", "#### 7", "So it is \\boxed{8}.", "\\frac{1}{", "", None, 9, "(B)"]
    assert kinds(math_findings(golds)) == [(3, "unreadable"), (4, "unreadable"), (5, "unreadable")]


def test_a_worked_solution_that_marks_no_answer_is_unreadable():
    solution = "First we add the two numbers of apples, then we take away those that Tim has given to his sister, and "
    (finding,) = math_findings([solution + "see what is left"])
    assert finding.kind == "unreadable"
    assert finding.reason == "25 words without a box, '####' or 'the answer is'"
    assert math_findings([solution + "get \\boxed{3}", solution + "get 3\n#### 3"]) == []


@pytest.mark.parametrize(("comma", "kind"), [(False, "contradiction"), (True, "duplicate_prompt")])
def test_golds_are_read_by_the_conventions_of_the_run(comma, kind):
    golds = ["1,5", "1,50"]
    validator = Validator(make_domain("math", MathOptions(decimal_comma=comma)), {}, golds.__getitem__)
    assert kinds(validator.check([0, 1], golds, ["3/2?", "3/2?"])) == [(1, kind)]


def test_golds_of_gsm8k_are_clean():
    rows = [json.loads(line) for line in (CASES / "gsm8k_200.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 200
    assert math_findings([row["answer"] for row in rows]) == []
