"""Rungs that decide by reading alone: numbers, bases, choices, words, ratios."""

import re
from typing import TYPE_CHECKING

from trl_grpo_ext.verify.math.decision import Decision
from trl_grpo_ext.verify.math.exact import digits_key, parse_plain
from trl_grpo_ext.verify.math.expression import parse
from trl_grpo_ext.verify.math.shapes import INFINITY
from trl_grpo_ext.verify.math.times import clocks, dates
from trl_grpo_ext.verify.math.units import same_unit, split_unit


if TYPE_CHECKING:
    from trl_grpo_ext.verify.math.compare import Ladder


_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9 .,'’:\-]*\Z")
_TEXT_COMMAND = re.compile(r"\\text\s*\{([^{}]*)\}")
_LETTER = re.compile(r"[(\[{]?\s*([A-Z])\s*[)\]}]?")
_SMALL_CHOICE = re.compile(r"[(\[{]?\s*([a-e])\s*[)\]}]?\s*[.:)]?")
_BRACKETED = re.compile(r"[^()]*\(\s*[A-Ea-e]\s*\)")
_OPTION = re.compile(  # as published exams print their answers
    r"(?:\(\s*(?=[A-Z]\s*\)))?([A-Z])\s*(?:\)|[.:](?=[^\d=]*(?:\s|\Z)))\s*(.*)\Z", re.DOTALL
)
_LEAD_TO_CHOICE = re.compile(
    r"\A(?:the\s+)?(?:option|choice|answer)(?:\s+is)?\s*:?\s+(?=[(\[]?[A-F]\b)", re.IGNORECASE
)
_OTHER_OPTION = re.compile(r"\(\s*[A-F]\s*\)")
_LETTERS = re.compile(r"[A-F](?:\s*(?:,|and|&)?\s*[A-F]){0,5}\Z")
_SEVERAL_LETTERS = re.compile(r"[A-F](?:\s*(?:,|and|&)\s*[A-F])+\Z")
_BASE = re.compile(r"\(?(?:\\text\{)?\s*([0-9A-Fa-f]+)\s*\}?\)?\s*_\{?(\d+)\}?\Z")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)


_PLURAL = re.compile(r"(?<=\w{4}[^s])s\Z")


def numbers(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Two plain numbers, with or without unit, are decided both ways."""
    gold_value, gold_unit = split_unit(gold)
    answer_value, answer_unit = split_unit(answer)
    gold_number, answer_number = parse_plain(gold_value), parse_plain(answer_value)
    same = same_unit(gold_unit, answer_unit, ladder.options.units)
    if gold_number and answer_number:
        if (gold_number.percent and answer_unit) or (answer_number.percent and gold_unit):
            return Decision(False, "a percentage is no length")
        if not gold_number.equals(answer_number, ladder.options.tolerance, ladder.options.percent):
            return Decision(False, _number_reason(gold_number, answer_number, ladder.options.tolerance))
        return Decision(same, "the same number" if same else unit_reason(gold_unit, answer_unit))
    gold_digits, answer_digits = digits_key(gold_value), digits_key(answer_value)
    if gold_digits and answer_digits:
        if gold_digits != answer_digits:
            return Decision(False, "differs in its digits")
        return Decision(same, "the same digits" if same else unit_reason(gold_unit, answer_unit))
    return None


def _number_reason(gold, answer, tolerance: float) -> str:
    if gold.value == answer.value:
        return "a percentage is not the number before its sign"
    near = bool(gold.value) and abs(gold.value - answer.value) < abs(gold.value) / 10
    return "differs by more than the tolerance" if tolerance or near else "another number"


def unit_reason(gold_unit: str, answer_unit: str) -> str:
    """Why two units cannot stand for each other."""
    named = [unit.lstrip("~") for unit in (gold_unit, answer_unit)]
    if not answer_unit:
        return f"the unit {named[0]} is missing"
    return f"the unit {named[1]} is not {named[0]}" if gold_unit else f"“{named[1]}” changes the value"


def bases(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Numerals with the index of their base: digits and base both matter."""
    a, b = _BASE.match(gold), _BASE.match(answer)
    if a and b:
        if a.group(2) != b.group(2):
            return Decision(False, "another base")
        same = a.group(1).lower() == b.group(1).lower()
        return Decision(same, "the same digits in the same base" if same else "other digits")
    if a and re.fullmatch(r"[0-9A-Fa-f]+", answer):
        same = a.group(1).lower() == answer.lower()
        return Decision(same, "the same digits, the base left out" if same else "other digits")
    return None


def choices(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """A letter, with any brackets, and the text of the option after it, on either side."""
    said = [_LEAD_TO_CHOICE.sub("", plain_text(text)) for text in (gold, answer)]
    if all(map(_LETTERS.match, said)) and any(map(_SEVERAL_LETTERS.match, said)):
        named = [sorted(re.findall(r"[A-Z]", text)) for text in said]
        if all(len(found) > 1 for found in named):
            return _same_choice(named[0] == named[1])
    letters = [_chosen(text, said[0] + said[1]) for text in said]
    if any(option is not None and _OTHER_OPTION.search(option[1]) for option in letters):
        return Decision(False, "more than one choice") if all(letters) else None
    ours, theirs = letters
    if ours and theirs:
        if theirs[1] and not ladder.options.choice_text:
            return Decision(False, "text after the letter")
        return _same_choice(ours[0] == theirs[0])
    if not ladder.options.choice_text:
        return None
    if ours and ours[1] and _OPTION.match(said[0]):
        return ladder.climb(ours[1], answer)
    return ladder.climb(gold, theirs[1]) if theirs and theirs[1] and _OPTION.match(said[1]) else None


def _chosen(text: str, both: str) -> tuple[str, str] | None:
    """The letter of a choice and the text of its option; a small letter is one only beside a bracketed letter."""
    plain, option = _LETTER.fullmatch(text), _OPTION.match(text)
    if plain or option:
        return (plain.group(1), "") if plain else (option.group(1), option.group(2)) if option else None
    small = _SMALL_CHOICE.fullmatch(text) if _BRACKETED.match(both) else None
    return (small.group(1).upper(), "") if small else None


def _same_choice(same: bool) -> Decision:
    return Decision(same, "the same choice" if same else "another choice")


def texts(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Words are compared as words: never as products of letters."""
    gold_words, answer_words = words_of(gold, is_text(answer)), words_of(answer, is_text(gold))
    if gold_words is not None and answer_words is not None:
        same = gold_words == answer_words or _agreed(gold_words, answer) or _agreed(answer_words, gold)
        return Decision(same, "the same words" if same else "other words")
    for said, other in ((gold_words, answer), (answer_words, gold)):
        if said is not None and parse_plain(split_unit(other)[0]):
            return Decision(False, "words are no number")
    for text, other in ((gold, answer), (answer, gold)):
        if not (is_text(text) and re.search(r"[A-Za-z]{3}", text) and words_of(text)):
            continue
        if parse(other) is not None or INFINITY.match(other) or _LETTER.fullmatch(plain_text(other)):
            return Decision(False, "words are no expression")
    return None


def _agreed(word: str, said: str) -> bool:
    """Whether a bare yes or no is what a longer sentence says: "Yes, it is"."""
    first, comma, rest = plain_text(said).lower().partition(",")
    opposites = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
    return word in opposites and first.strip() == word and bool(comma) and opposites[word] not in rest.split()


def words_of(text: str, beside_text: bool = False) -> str | None:
    """The words of a text in one spelling; `None` for what is no text."""
    plain = plain_text(text)
    if not _WORDS.match(plain) or not re.search(r"[A-Za-z]{2}", plain):
        return None
    marked = "\\text" in text or beside_text or plain.lower() == "no"
    if not marked and not re.search(r"[A-Za-z]{3}", plain):
        return None  # two bare letters are a product
    words = _ORDINAL.sub("", plain.lower())
    words = re.sub(r"[.,’':\-]", " ", words)
    found = [word for word in words.split() if word not in ("a", "an", "the")]
    if len(found) > 1:  # "no solutions" is "no solution", but a single word is the answer itself
        found = [_PLURAL.sub("", word) for word in found]
    return " ".join(found)


def is_text(text: str) -> bool:
    """Whether all of it is one text command."""
    return _TEXT_COMMAND.fullmatch(text) is not None


def plain_text(text: str) -> str:
    """A text without its text commands."""
    return " ".join(_TEXT_COMMAND.sub(r" \1 ", text).split())


def ratios(gold: str, answer: str, ladder: "Ladder") -> Decision | None:
    """Ratios are equal up to a factor; one of two numbers is also their quotient."""
    gold_parts, answer_parts = _ratio(gold), _ratio(answer)
    if gold_parts is None and answer_parts is None:
        return None
    if gold_parts is None or answer_parts is None:
        parts, other = (gold_parts, answer) if gold_parts else (answer_parts or [], gold)
        value = parse_plain(other)
        if value is None:
            return None
        if len(parts) != 2:
            return Decision(False, "a ratio of several terms against one number")
        same = parts[1] != 0 and parts[0] / parts[1] == value.value
        return Decision(same, "the quotient of the ratio" if same else "not the quotient of the ratio")
    if len(gold_parts) != len(answer_parts):
        return Decision(False, f"{len(gold_parts)} terms against {len(answer_parts)}")
    if 0 in gold_parts or 0 in answer_parts:
        same = gold_parts == answer_parts
    else:
        same = len({a / b for a, b in zip(gold_parts, answer_parts, strict=True)}) == 1
    return Decision(same, "the same ratio" if same else "another ratio")


def _ratio(text: str):
    text = text.rpartition("=")[2]
    text = re.sub(r"\\text\s*\{\s*to\s*\}|\bto\b", ":", text)
    if ":" not in text:
        return None
    numbers = [parse_plain(part) for part in text.split(":")[:20]]
    return None if any(number is None for number in numbers) else [number.value for number in numbers if number]


BY_READING = (
    ("numbers", numbers),
    ("times", clocks),
    ("dates", dates),
    ("bases", bases),
    ("choices", choices),
    ("words", texts),
    ("ratios", ratios),
)
