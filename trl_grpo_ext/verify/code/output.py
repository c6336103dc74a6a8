"""Compare what a program printed with what it should have printed. One pass, whatever was printed.

The conventions:

- Lines are compared in order, and there have to be as many of them: `1 2 3` on one line is not three lines.
- Blank lines before the first and after the last line with text are ignored; between them they count.
- Within a line, words are compared; how much of which blank stands between, before or after them does not matter.
- Words are compared as text: case, leading zeros, signs and the number of decimals matter.
- With a tolerance, an expected word that is a decimal number, with a point or an exponent, also equals any number
  that is near enough. An expected integer never does: 50000000000000000 is not 50000000000000001.
- The word `nan` equals itself as the text it is, but no number.
"""

import math
import re

from trl_grpo_ext.verify.code.text import quoted


_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_MAX_NUMBER = 400  # characters; a longer word is text, so no digits cost more than their length to convert
_MAX_TOLD = 40  # characters of a line within a reason


def same_output(expected: str, got: str, tolerance: float | None = None) -> tuple[bool, str]:
    """
    Compare a whole output with the expected one.

    Args:
        expected (`str`):
            What should have been printed.
        got (`str`):
            What was printed. Memory and time grow with its length and with the length of `expected`, no faster.
        tolerance (`float`, *optional*):
            Tolerance of decimal numbers, `|a - b| <= tolerance * max(1, |expected|)`; without one, all is text.

    Returns:
        `tuple[bool, str]`: Whether they are the same, and, if not, where they first differ.
    """
    wanted_lines = expected.strip().split("\n")
    got_lines = got.strip().split("\n", len(wanted_lines))  # one more than expected is enough to know
    for number, (wanted, line) in enumerate(zip(wanted_lines, got_lines, strict=False), 1):
        if wanted != line and not _same_words(wanted.split(), line, tolerance):
            told = f"expected {quoted(wanted.strip(), _MAX_TOLD)}, got {quoted(line.strip(), _MAX_TOLD)}"
            return False, f"line {number}: {told}"
    wanted_count, got_count = len(wanted_lines), len(got_lines)
    if got_count < wanted_count:
        return (
            False,
            f"line {got_count + 1}: expected {quoted(wanted_lines[got_count].strip(), _MAX_TOLD)}, got the end",
        )
    if got_count > wanted_count:
        line = got_lines[-1].split("\n", 1)[0].strip()
        return False, f"line {got_count}: expected the end, got {quoted(line, _MAX_TOLD)}"
    return True, ""


def _same_words(wanted: list[str], line: str, tolerance: float | None) -> bool:
    words = line.split(None, len(wanted))
    if words == wanted:
        return True
    return (
        tolerance is not None
        and len(words) == len(wanted)
        and all(one == other or _near(one, other, tolerance) for one, other in zip(wanted, words, strict=True))
    )


def _near(expected: str, got: str, tolerance: float) -> bool:
    if not any(mark in expected for mark in ".eE"):
        return False
    if max(len(expected), len(got)) > _MAX_NUMBER or not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(got)):
        return False
    wanted, number = float(expected), float(got)
    return math.isfinite(wanted) and math.isfinite(number) and abs(wanted - number) <= tolerance * max(1, abs(wanted))
