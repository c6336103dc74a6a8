"""docs/math_answers.md: what the maths judge takes for the same answer, with verdicts computed as the page is made.

python docs/math_answers.py            # print the page
python docs/math_answers.py --write    # write it
"""

import inspect
import json
import sys
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from trl_grpo_ext.cli.option_flags import described_arguments
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.verify.math import MathOptions, verify_math_batch
from trl_grpo_ext.verify.validation import KINDS


ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "math_answers.md"
CASES = ROOT / "tests" / "cases" / "math.jsonl"
MADE_BY = "<!-- made by docs/math_answers.py: change that, then run it with --write -->"


@dataclass(frozen=True)
class Example:
    """
    A pair that shows a convention.

    Args:
        gold (`str`):
            The reference.
        said (`str`):
            The final answer, or a whole completion where the convention is about finding the answer in one.
        kind (`str`):
            The verdict that the convention calls for.
    """

    gold: str
    said: str
    kind: str


@dataclass(frozen=True)
class Convention:
    """
    What counts as the same answer.

    Args:
        rule (`str`):
            The convention.
        option (`str`, *optional*):
            The option that changes it.
        examples (`tuple[Example]`):
            What it makes right, and what not.
    """

    rule: str
    option: str | None
    examples: tuple[Example, ...]


def _convention(rule: str, *examples: tuple[str, str, str], option: str | None = None) -> Convention:
    return Convention(rule, option, tuple(Example(*example) for example in examples))


ANSWERS = {
    "Numbers": [
        _convention(
            "The value counts, not the form: fractions need not be reduced, nor arithmetic carried out.",
            (r"\frac{1}{2}", r"\frac{2}{4}", "correct"),
            ("12", r"3 \cdot 4", "correct"),
            (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}", "correct"),
            ("300000000", r"3 \times 10^8", "correct"),
            (r"\frac{71}{6}", r"11\frac{5}{6}", "correct"),
            ("1080", "1,080", "correct"),
            ("1000000007", "1000000009", "wrong"),
        ),
        _convention(
            "A decimal is an exact value only to float noise, twelve digits or more; a rounded one is another number.",
            (r"\frac{1}{3}", "0.333333333333", "correct"),
            (r"\frac{1}{3}", "0.33", "wrong"),
            (r"\pi", "3.14", "wrong"),
            option="tolerance",
        ),
        _convention(
            "The sign of a percentage may be left out where the gold has one; 50% is 0.5, and 50 is not.",
            (r"50\%", "50", "correct"),
            (r"50\%", "0.5", "correct"),
            ("0.5", r"50\%", "correct"),
            ("0.5", "50", "wrong"),
            option="percent",
        ),
        _convention(
            "A unit or a currency may be left out or added; a different one is wrong. So may the degree sign.",
            (r"5\text{ cm}", "5", "correct"),
            ("18", r"\$18", "correct"),
            (r"90^\circ", "90", "correct"),
            (r"5\text{ cm}", r"5\text{ m}", "wrong"),
            option="units",
        ),
        _convention(
            "The base of a number counts where both give one.",
            ("101_2", "101_{2}", "correct"),
            ("101_2", "101_3", "wrong"),
        ),
        _convention(
            "In English text a comma separates thousands.",
            ("1234", "1,234", "correct"),
            ("1,234", "1.234", "wrong"),
            option="decimal_comma",
        ),
    ],
    "Several values": [
        _convention(
            "The order of a bare list or a set is free.",
            ("1, 2", "2, 1", "correct"),
            (r"\{1, 2\}", r"\{2, 1\}", "correct"),
            (r"\pm 3", r"3 \text{ or } -3", "correct"),
            option="ordered_lists",
        ),
        _convention(
            "All members have to be there, and nothing else: to say several things does not help.",
            ("1, 2", "1", "wrong"),
            ("1, 2", "1, 2, 3", "wrong"),
            ("5", r"5 \text{ or } 6", "wrong"),
            option="strict_parts",
        ),
        _convention(
            "The order of a tuple counts.",
            ("(1, 2)", "(1, 2.0)", "correct"),
            ("(1, 2)", "(2, 1)", "wrong"),
            option="ordered_tuples",
        ),
        _convention(
            "The brackets of an interval count; an inequality is the interval that it describes.",
            ("[0, 9)", "[0, 9)", "correct"),
            ("[0, 9)", "(0, 9)", "wrong"),
            ("x > 3", r"(3, \infty)", "correct"),
            ("x > 3", "3 < x", "correct"),
            (r"x \geq 5", "x > 5", "wrong"),
        ),
        _convention(
            "Matrices are equal entry by entry, ratios up to a factor.",
            (
                r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
                r"\begin{bmatrix} 1 & 2 \\ 3 & 4.0 \end{bmatrix}",
                "correct",
            ),
            ("1:2:3", "2:4:6", "correct"),
            ("1:2:3", "1:3:2", "wrong"),
        ),
    ],
    "Expressions, equations, names": [
        _convention(
            "Expressions are the same if they are equal wherever both have a value.",
            ("(x+1)^2", "x^2 + 2x + 1", "correct"),
            (r"\tan^2 y + 1", r"\sec^2 y", "correct"),
            (r"\frac{x^2 - 1}{x - 1}", "x + 1", "correct"),
            ("x + 1", "y + 1", "wrong"),
        ),
        _convention(
            "Equations are the same up to a factor other than 0 and up to rearrangement.",
            ("y = 2x + 1", "2x - y + 1 = 0", "correct"),
            ("x + y = 1", "2x + 2y = 2", "correct"),
            ("x + y = 1", "x + y = 2", "wrong"),
            ("5", "x^2 = 5", "wrong"),
        ),
        _convention(
            "The name before a value may be left out or added; another name is wrong.",
            ("5", "x = 5", "correct"),
            ("x = 5", "5", "correct"),
            ("x = 5", "y = 5", "wrong"),
        ),
    ],
    "Choices and words": [
        _convention(
            "A choice is its letter, in any brackets; the text of the option may follow it.",
            ("B", "(B)", "correct"),
            ("B", "B.", "correct"),
            ("B", "(B) 5", "correct"),
            ("B", "(C)", "wrong"),
            option="choice_text",
        ),
        _convention(
            "Words are compared without their case.",
            ("Yes", "yes", "correct"),
            (r"\text{no solution}", "No solution", "correct"),
            ("yes", "no", "wrong"),
        ),
    ],
}

COMPLETIONS = [
    _convention(
        "The last box counts; boxes joined by “and” or a comma are a list.",
        ("12", r"First \boxed{15}. No: it is \boxed{12}.", "correct"),
        ("12", r"First \boxed{12}. No: it is \boxed{15}.", "wrong"),
        ("1, 2", r"So it is \boxed{1} and \boxed{2}.", "correct"),
    ),
    _convention(
        "Only what follows the thinking counts. Thinking or a box that never ends is `truncated`.",
        ("12", r"<think>Maybe \boxed{15}?</think>It is \boxed{12}.", "correct"),
        ("12", r"<think>It is \boxed{12}", "truncated"),
        (r"\frac{1}{2}", r"It is \boxed{\frac{1}{", "truncated"),
        option="thinking_end",
    ),
    _convention(
        "Inside the last answer tag the answer may stand bare.",
        ("12", "<think>…</think><answer>12</answer>", "correct"),
        option="answer_tags",
    ),
    _convention(
        "Without box or tag, what is announced as the answer counts.",
        ("24", "Final Answer: The final answer is $24$. I hope it is correct.", "correct"),
        ("42", "6 times 7 is 42.\n#### 42", "correct"),
        ("18", "She makes 9 * 3 = $27 every day. The answer is 27.", "wrong"),
    ),
    _convention(
        "If nothing is announced either, the formula or number that the text ends with counts.",
        ("42", "Six times seven makes 42.", "correct"),
        ("42", "There is no telling,\nI am afraid.", "no_answer"),
        option="fallback",
    ),
]

GOLDS = [
    _convention(
        "A gold is read as datasets hold it: bare LaTeX, a number, a worked solution that marks its answer.",
        (r"3\sqrt{13}", r"\sqrt{117}", "correct"),
        ("5 + 5 = <<5+5=10>>10 apples.\n#### 10", "10", "correct"),
        (r"We add, and get $2+2=\boxed{4}$.", "4", "correct"),
    ),
    _convention(
        "A gold that cannot be read makes no answer wrong: the row is `unscorable`, and has no value.",
        ("", "4", "unscorable"),
        (r"\frac{1}{", "4", "unscorable"),
    ),
]

INTRODUCTION = """# Maths answers

When is an answer the reference answer? This page says what the reward `math`, `verify_math` and
`trl-grpo-ext verify math` take for the same. Each verdict in it was computed when the page was made.

`trl-grpo-ext verify math --gold GOLD --answer ANSWER --explain` shows how a verdict comes about, step by step, and
`trl-grpo-ext validate DATASET` finds golds that cannot be judged.
"""

UNSETTLED = """## What is left open

On these, sensible people disagree; the judge says something, and no example above promises what: a comma as the
decimal sign in English text, decimals rounded near half a unit of the last place, conversions between units,
logarithms without a base, a number in base n against plain digits, a column vector against a tuple, (1, 2) against
{1, 2}.
"""


def page() -> str:
    """The page, as it is to be today."""
    parts = [MADE_BY, INTRODUCTION]
    for title, conventions in ANSWERS.items():
        parts.append(f"## {title}\n\n{_section(conventions, boxed=True)}\n")
    parts.append(f"## Where the answer stands in a completion\n\n{_section(COMPLETIONS, boxed=False)}\n")
    parts.append(f"## Golds\n\n{_section(GOLDS, boxed=True)}\n")
    parts += [UNSETTLED, _options(), _findings(), _accuracy()]
    return "\n".join(parts)


def _section(conventions: list[Convention], boxed: bool) -> str:
    return "\n\n".join(_shown(convention, boxed) for convention in conventions)


def _shown(convention: Convention, boxed: bool) -> str:
    completions = [f"\\boxed{{{example.said}}}" if boxed else example.said for example in convention.examples]
    verdicts = verify_math_batch([example.gold for example in convention.examples], completions)
    option = f" Option: [`{convention.option}`](#options)." if convention.option else ""
    rows = [f"| gold | {'answer' if boxed else 'completion'} | verdict |", "|---|---|---|"]
    for example, verdict in zip(convention.examples, verdicts, strict=True):
        _check(example, verdict)
        rows.append(f"| {code(example.gold)} | {code(example.said)} | {verdict.kind} |")
    return f"{convention.rule}{option}\n\n" + "\n".join(rows)


def _check(example: Example, verdict: Verdict) -> None:
    if verdict.kind != example.kind:
        raise SystemExit(
            f"gold {example.gold!r}, {example.said!r}: the convention says {example.kind}, the judge {verdict.kind} "
            f"({verdict.reason})"
        )


def code(text: str) -> str:
    """Text as code in a cell of a table."""
    return f"`{text}`".replace("|", "\\|").replace("\n", "⏎") if text else "(empty)"


def _options() -> str:
    meanings = described_arguments(MathOptions)
    rows = ["| option | default | what it does |", "|---|---|---|"]
    for item in fields(MathOptions):
        default = json.dumps(item.default)
        rows.append(f"| `{item.name}` | `{default}` | {meanings[item.name].replace('|', chr(92) + '|')} |")
    recipe = "rewards:\n  - {name: math, params: {percent: value, decimal_comma: true}}"
    return (
        f"## Options\n\n{inspect.getdoc(MathOptions).partition('Args:')[0].strip()}\n\n"
        f"In a recipe:\n\n```yaml\n{recipe}\n```\n\nOn the command line, `--percent value`. In Python, "
        '`MathOptions(percent="value")`.\n\n' + "\n".join(rows) + "\n"
    )


def _findings() -> str:
    rows = ["| finding | what is the matter | wastes a run |", "|---|---|---|"]
    rows += [f"| `{name}` | {kind.meaning} | {'yes' if kind.wasteful else 'no'} |" for name, kind in KINDS.items()]
    text = (
        "`trl-grpo-ext validate DATASET` judges every gold of a dataset against itself and against golds of other "
        "rows, and compares rows that have the same prompt. It exits with 1 if there is a finding that wastes a run, "
        "and writes all of them to the Parquet file of `--output`: `row`, `kind`, `gold`, `reason`. It takes the "
        "options above, so that a dataset is checked by the conventions of the run."
    )
    return f"## Checking a dataset\n\n{text}\n\n" + "\n".join(rows) + "\n"


def _accuracy() -> str:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    verdicts = verify_math_batch([case["gold"] for case in cases], [case["completion"] for case in cases])
    pairs, right, paid, refused = Counter(), Counter(), Counter(), Counter()
    for case, verdict in zip(cases, verdicts, strict=True):
        said, meant = verdict.value == 1.0, case["equivalent"]
        pairs[case["kind"]] += 1
        right[case["kind"]] += said == meant
        paid[case["kind"]] += said and not meant
        refused[case["kind"]] += meant and not said
    rows = ["| kind | pairs | right | wrong answers paid | right answers refused |", "|---|---|---|---|---|"]
    rows += [f"| {kind} | {pairs[kind]} | {right[kind]} | {paid[kind]} | {refused[kind]} |" for kind in sorted(pairs)]
    sums = [sum(counts.values()) for counts in (pairs, right, paid, refused)]
    rows.append(f"| **all** | {' | '.join(f'**{n}**' for n in sums)} |")
    few, many = min(pairs.values()), max(pairs.values())
    text = (
        f"The {len(cases)} labelled pairs of `tests/cases/math.jsonl`, {few} to {many} of each of {len(pairs)} kinds. "
        "They are a sample, and the judge was developed on it: the table shows what it covers, and not how it does on "
        "pairs that nobody has looked at."
    )
    return f"## Accuracy by kind\n\n{text}\n\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
