"""docs/math_answers.md and docs/moving_from_math_verify.md are those of the judge of today."""

import json
import re
from collections import Counter
from dataclasses import fields
from importlib.metadata import version

import pytest

from tests.docs.scripts import ROOT, script
from trl_grpo_ext import verify_math
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.math import MathOptions


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def answers():
    return script("math_answers")


@pytest.fixture(scope="module")
def moving():
    return script("moving_from_math_verify")


@pytest.fixture(scope="module")
def answers_text(answers):
    return answers.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def moving_text(moving):
    return moving.PAGE.read_text(encoding="utf-8")


def test_the_page_of_conventions_is_fresh(answers, answers_text):
    assert answers.page() == answers_text, "run: python docs/math_answers.py --write"


def test_every_option_has_a_row_and_a_convention(answers_text):
    names = [item.name for item in fields(MathOptions)]
    table = answers_text.partition("## Options")[2]
    assert re.findall(r"^\| `(\w+)` \| `.*?` \|", table, re.MULTILINE) == names
    assert {*names} == {*re.findall(r"\[`(\w+)`\]\(#options\)", answers_text)}


def test_conventions_show_what_is_right_and_what_is_not(answers):
    kinds = Counter()
    for conventions in (*answers.ANSWERS.values(), answers.COMPLETIONS, answers.GOLDS):
        for convention in conventions:
            assert convention.examples
            kinds.update(example.kind for example in convention.examples)
    assert kinds["correct"] > 30
    assert kinds["wrong"] > 15
    assert kinds.keys() == {"correct", "wrong", "truncated", "no_answer", "unscorable"}


def test_the_recipe_it_shows_is_understood(answers_text):
    import yaml

    from trl_grpo_ext.rewards import RewardSpec, get_reward

    (block,) = re.findall(r"```yaml\n(.*?)```", answers_text, re.DOTALL)
    (reward,) = yaml.safe_load(block)["rewards"]
    spec = RewardSpec.parse(reward)
    assert get_reward(spec.name, **spec.params)(prompts=[""], completions=["\\boxed{50}"], answer=["50\\%"]) == [0.0]


def test_a_judge_that_breaks_a_convention_makes_no_page(answers, monkeypatch):
    def refuse(golds, completions):
        return [Verdict(0.0, "wrong", reason="no")] * len(golds)

    monkeypatch.setattr(answers, "verify_math_batch", refuse)
    with pytest.raises(SystemExit, match="the convention says correct, the judge wrong"):
        answers.page()


def test_the_accuracy_table_counts_every_case(answers_text):
    cases = [json.loads(line) for line in (ROOT / "tests/cases/math.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = Counter(case["kind"] for case in cases)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", answers_text, re.MULTILINE)
    assert {kind: int(pairs) for kind, pairs, *_ in rows} == kinds
    for _, pairs, right, paid, refused in rows:
        assert int(pairs) == int(right) + int(paid) + int(refused)
    (total,) = re.findall(r"^\| \*\*all\*\* \| \*\*(\d+)\*\* \|", answers_text, re.MULTILINE)
    assert int(total) == len(cases)


def test_a_table_cell_holds_any_text(answers):
    assert answers.code("|x|\ny") == "`\\|x\\|⏎y`"
    assert answers.code("") == "(empty)"


def test_the_page_of_changes_is_fresh(moving, moving_text):
    message = "run: python docs/moving_from_math_verify.py --write"
    theirs, versions = moving.read_page(moving_text)
    assert versions == {"math_verify": version("math-verify"), "trl": version("trl")}, message
    assert theirs.keys() == {moving.key(pair) for pairs in moving.CHANGES.values() for pair in pairs}, message
    assert moving.page(theirs, versions) == moving_text, message


def test_every_change_is_one(moving, moving_text):
    theirs, _ = moving.read_page(moving_text)
    for pairs in moving.CHANGES.values():
        for pair in pairs:
            right = "correct" if pair.right else "wrong"
            assert {*theirs[moving.key(pair)]} != {right}
            assert verify_math(pair.gold, pair.completion).value == pair.right
    changed = {cells: ["wrong", "wrong"] for cells in theirs}
    with pytest.raises(SystemExit, match="all agree on gold"):
        moving.page(changed, {"math_verify": "1", "trl": "1"})


@pytest.mark.sandbox
def test_the_verdicts_of_others_are_those_of_the_installed_ones(moving, moving_text):
    theirs, _ = moving.read_page(moving_text)
    quick = [*moving.CHANGES["Golds as datasets hold them"]]
    quick += moving.CHANGES["Wrong answers that were paid"] + moving.CHANGES["Right answers that were refused"]
    for cells, verdicts in moving.ask_others(quick).items():
        words = [verdict.partition(",")[0] for verdict in verdicts]  # how long it took is that machine's affair
        assert words == [verdict.partition(",")[0] for verdict in theirs[cells]], cells


@pytest.mark.sandbox
def test_a_judge_that_hangs_is_killed(moving, monkeypatch):
    others = moving.Others()
    assert others.ask("math-verify", "1", "$2$") == "wrong"
    monkeypatch.setattr(moving, "LIMIT", 0.5)
    assert others.ask("math-verify", "5", "\\boxed{5^{5^{5^{5^{5}}}}}") == "none in 0.5 s"
    assert others._process is None


@pytest.mark.parametrize("name", ["math_answers", "moving_from_math_verify"])
def test_pages_are_linked_and_their_links_lead_somewhere(name):
    assert f"docs/{name}.md" in README
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        assert (ROOT / "docs" / path).exists()
        assert not anchor or anchor in anchors
