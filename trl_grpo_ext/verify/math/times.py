"""Times of the day and days of the year, in the forms people write them."""

import re
from typing import TYPE_CHECKING

from trl_grpo_ext.verify.math.decision import Decision
from trl_grpo_ext.verify.math.exact import parse_plain


if TYPE_CHECKING:
    from trl_grpo_ext.verify.math.compare import Ladder


_TEXT_COMMAND = re.compile(r"\\text\s*\{([^{}]*)\}")
_CLOCK = re.compile(r"(\d{1,2})(?::([0-5]\d))?\s*(?:([aApP])\.?\s*[mM]\.?)?\Z")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:\s*,?\s*(?P<year>\d{4}))?"
_DATE = (
    re.compile(rf"(?:the\s+)?{_MONTH}\s+(?:the\s+)?{_DAY}{_YEAR}\Z", re.IGNORECASE),
    re.compile(rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}\Z", re.IGNORECASE),
)


def clocks(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Times of the day, on dials of 12 and 24 hours; a reference with a.m. or p.m. needs it."""
    if ":" not in gold + answer and not re.search(r"[aApP]\.?\s*[mM]", gold + answer):
        return None
    a, b = _clock(gold), _clock(answer)
    if a is None or b is None:
        number = parse_plain(answer if a else gold) if a or b else None
        return Decision(False, "a time of the day against a number") if number else None
    (hour, minute, half), (other_hour, other_minute, other_half) = a, b
    if half and not other_half and 1 <= other_hour <= 12:
        return Decision(False, f"{half}m is missing")
    if half:
        hour = hour % 12 + 12 * (half == "p")
    if other_half:
        other_hour = other_hour % 12 + 12 * (other_half == "p")
    free = bool(other_half) and not half and hour <= 12  # a reference without half of the day means either
    same = minute == other_minute and (hour == other_hour or (free and hour % 12 == other_hour % 12))
    if same:
        return Decision(True, "the same time")
    apart = minute == other_minute and hour % 12 == other_hour % 12
    return Decision(False, "the other half of the day" if apart else "another time")


def _clock(text: str) -> tuple[int, int, str] | None:
    match = _CLOCK.match(_plain(text))
    if not match or not (match.group(2) or match.group(3)):
        return None
    return int(match.group(1)), int(match.group(2) or 0), (match.group(3) or "").lower()


def dates(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Days of the year, the month named in full or in short, before the day or after it."""
    a, b = _date(gold), _date(answer)
    if a is None or b is None:
        return None
    return Decision(a == b, "the same day" if a == b else "another day")


def _date(text: str) -> tuple[int, int, str | None] | None:
    plain = _plain(text)
    match = _DATE[0].match(plain) or _DATE[1].match(plain)
    if not match:
        return None
    return _MONTHS.index(match.group("month")[:3].lower()), int(match.group("day")), match.group("year")


def _plain(text: str) -> str:
    return " ".join(_TEXT_COMMAND.sub(r" \1 ", text).split()).strip(" .")
