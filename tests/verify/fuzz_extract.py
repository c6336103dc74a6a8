"""
Feed the extractor text for as long as one likes; the first crash, hang or growth ends it with the text that did it.

    nice python -m tests.verify.fuzz_extract --minutes 10

Not collected by pytest: a run says how many texts it took, and returns 1 if one of them broke something.
"""

import argparse
import random
import sys
import time

from trl_grpo_ext.verify.math import MathOptions, read_completion, read_gold
from trl_grpo_ext.verify.math.judge import _guarded, _read


PIECES = (
    *(
        "\\boxed{",
        "\\boxed",
        "\\fbox{",
        "\\boxed {",
        "}",
        "{",
        "}}",
        "\\{",
        "\\}",
        "\\",
        "\\\\",
        "$",
        "$$",
        "\\(",
        "\\)",
    ),
    *("\\[", "\\]", "<think>", "</think>", "<answer>", "</answer>", "<|begin_of_thought|>", "<|end_of_thought|>"),
    *(
        "The answer is ",
        "Final answer: ",
        "**Answer:** ",
        "#### ",
        "so ",
        " and ",
        " or ",
        ", ",
        ".",
        ":",
        "\n",
        "\n\n",
    ),
    *(
        "42",
        "1,234",
        "0.5",
        "-7",
        "1/2",
        "\\frac{1}{2}",
        "x = 5",
        "\\text{ cm}",
        "\\%",
        "(1, 2)",
        "[0, 1)",
        "π",
        "√2",
        "½",
    ),
    *("I hope it is correct", "because", "`", "*", "_", "\u200b", "\ud800", "\x00", "\u2028", "９", "é", "答案是"),
)
OPTIONS = (
    MathOptions(),
    MathOptions(fallback="none", answer_tags=()),
    MathOptions(thinking_end="[/THINK]", answer_tags=("answer", "solution"), decimal_comma=True),
)
KINDS = {"found", "no_answer", "malformed", "truncated"}
MOST_SECONDS = 2.0  # of one text; the extractor is linear


def text_of(draw: random.Random) -> str:
    """Pieces in any order, now and then many of them, and now and then cut at any place."""
    length = draw.choice((3, 8, 20, 60)) if draw.random() < 0.999 else 20_000
    text = "".join(draw.choice(PIECES) for _ in range(length))
    return text[: draw.randint(0, len(text))] if draw.random() < 0.3 else text


def fault_of(text: str, gold: str) -> str | None:
    """What went wrong with a text, in one line."""
    started = time.monotonic()
    for options in OPTIONS:
        found = read_completion(text, options)
        if found.kind not in KINDS or (found.kind == "found") != (found.answer is not None):
            return f"it was read as {found}"
        read_gold(text, options)
    verdict = _guarded(_read, gold, text, OPTIONS[0])
    if getattr(verdict, "kind", "") == "infra_error":
        return verdict.reason
    seconds = time.monotonic() - started
    return f"it took {seconds:.1f} s" if seconds > MOST_SECONDS else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    deadline = time.monotonic() + 60 * arguments.minutes
    texts = 0
    while time.monotonic() < deadline:
        text, gold = text_of(draw), draw.choice(("42", "x+1", "(1, 2)", "\\frac{1}{2}", "C"))
        texts += 1
        try:
            fault = fault_of(text, gold)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            print(f"text {texts} of seed {arguments.seed}: {fault}\n{text!r}")
            return 1
    print(f"{texts} texts in {arguments.minutes:g} minutes, none broke it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
