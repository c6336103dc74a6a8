"""`trl-grpo-ext verify math`: the verdict of one answer, its steps, and every option of the judge."""

import re
from dataclasses import fields

import pytest

from trl_grpo_ext import cli
from trl_grpo_ext.cli import option_flags
from trl_grpo_ext.verify.math import MathOptions


@pytest.fixture
def verify(capsys, monkeypatch):
    """Run the command; return its exit code, what the lines under the table say, and all it printed."""
    monkeypatch.setenv("COLUMNS", "80")

    def verify(*arguments):
        code = cli.main(["verify", "math", *arguments])
        captured = capsys.readouterr()
        assert captured.err == ""
        said = re.findall(r"^(verdict|answer|reason) +(.*?) *$", captured.out, re.MULTILINE)
        return code, dict(said), captured.out

    return verify


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("1/2", "0.5", "correct (1)"),
        ("1/2", "0.4", "wrong (0)"),
        ("-\\frac{1}{2}", "-0.5", "correct (1)"),
        ("-1", "-1", "correct (1)"),
        ("\\{1,2\\}", "2, 1", "correct (1)"),
        ("5", "", "no_answer (0)"),
        ("5", "\\frac{5}{", "truncated (0)"),
    ],
)
def test_an_answer_alone_is_judged_as_if_boxed(gold, answer, verdict, verify):
    code, said, _ = verify("--gold", gold, "--answer", answer)
    assert code == 0
    assert said["verdict"] == verdict
    assert said["reason"]


def test_a_completion(verify):
    code, said, _ = verify("--gold", "#### 42", "--completion", "<think>41?</think>So it is \\boxed{42}.")
    assert code == 0
    assert said["verdict"] == "correct (1)"
    assert said["answer"] == "42"
    code, said, _ = verify("--gold", "42", "--completion", "<think>It may be \\boxed{42}")
    assert code == 0
    assert said["verdict"] == "truncated (0)"
    assert said["answer"] == "none"


def test_a_gold_that_cannot_be_read_is_not_judged(verify):
    code, said, _ = verify("--gold", "\\frac{1}{", "--answer", "1")
    assert code == 2
    assert said["verdict"] == "unscorable (not judged)"


def test_a_judge_that_fails_is_not_the_users_mistake(verify, monkeypatch):
    from trl_grpo_ext.verdict import Verdict
    from trl_grpo_ext.verify import math

    failed = math.Explanation(Verdict(None, "infra_error", reason="no worker"), ())
    monkeypatch.setattr(math, "explain_math", lambda *arguments, **options: failed)
    code, said, _ = verify("--gold", "1", "--answer", "1")
    assert code == 1
    assert said["verdict"] == "infra_error (not judged)"


def test_explain_shows_the_steps(verify):
    _, short, brief = verify("--gold", "1/3", "--answer", "0.33")
    _, said, shown = verify("--gold", "1/3", "--answer", "0.33", "--explain")
    assert said == short
    assert "extract gold" not in brief
    steps = re.findall(r"^ (\w[\w ]*?)  ", shown, re.MULTILINE)
    assert steps[:3] == ["step", "extract gold", "extract answer"]
    assert "numbers" in steps
    assert max(map(len, shown.splitlines())) <= 80


def test_markup_is_text(verify):
    _, said, shown = verify("--gold", "[bold]", "--answer", "[bold]", "--explain")
    assert said["answer"] == "[bold]"
    assert "\\boxed{[bold]}" in shown


@pytest.mark.parametrize(
    ("gold", "answer", "flags"),
    [
        ("50\\%", "50", ["--percent", "value"]),
        ("5\\text{ cm}", "5", ["--units", "required"]),
        ("1, 2", "2, 1", ["--ordered_lists"]),
        ("(B)", "(B) 5", ["--choice_text", "false"]),
    ],
)
def test_an_option_changes_a_verdict(gold, answer, flags, verify):
    assert verify("--gold", gold, "--answer", answer)[1]["verdict"] == "correct (1)"
    assert verify("--gold", gold, "--answer", answer, *flags)[1]["verdict"] == "wrong (0)"


def given(*flags):
    parser = option_flags.argparse.ArgumentParser()
    option_flags.add_option_flags(parser, MathOptions, "")
    return option_flags.read_options(parser.parse_args(flags), MathOptions)


def test_every_option_has_a_flag_that_says_what_it_does(capsys):
    assert given() == MathOptions()
    meanings = option_flags.described_arguments(MathOptions)
    assert [*meanings] == [item.name for item in fields(MathOptions)]
    with pytest.raises(SystemExit):
        cli.main(["verify", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, meaning in meanings.items():
        assert f"--{name} " in shown
        assert len(meaning) > 20
    assert "50%, 0.5 and a bare 50" in shown


def test_flags_are_read_as_their_fields_are_typed():
    assert given("--tolerance", "1e-3", "--ordered_lists", "--strict_parts", "False") == MathOptions(
        tolerance=1e-3, ordered_lists=True, strict_parts=False
    )
    assert given("--answer_tags", "final, out").answer_tags == ("final", "out")
    assert given("--answer_tags", "").answer_tags == ()
    assert given("--thinking_end", "[/t]", "--percent", "sign") == MathOptions(thinking_end="[/t]", percent="sign")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: domain, --gold"),
        (["maths", "--gold", "1"], "argument domain: invalid choice: 'maths' (choose from 'math', 'code')"),
        (["math", "--gold", "1"], "one of the arguments --answer --completion is required"),
        (
            ["math", "--gold", "1", "--answer", "1", "--completion", "1"],
            "argument --completion: not allowed with argument --answer",
        ),
        (["math", "--gold", "1", "--answer", "1", "--timeout", "0"], "timeout is 0.0; it must be a positive number"),
        (["math", "--gold", "1", "--answer", "1", "--tolerance", "2"], "tolerance is 2.0; expected"),
        (["math", "--gold", "1", "--answer", "1", "--tolerance", "x"], "argument --tolerance: invalid float value"),
        (["math", "--gold", "1", "--answer", "1", "--units", "any"], "argument --units: invalid choice: 'any'"),
        (
            ["math", "--gold", "1", "--answer", "1", "--ordered_lists", "maybe"],
            "argument --ordered_lists: 'maybe' is neither true nor false",
        ),
        (["math", "--gold", "1", "--answer", "1", "--unit", "any"], "unrecognized arguments: --unit any"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert cli.main(["verify", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
