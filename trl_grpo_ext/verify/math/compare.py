"""Compare two answers: by reading where that decides, element by element for lists and intervals, else by algebra.

One ladder serves both processes. The caller's process climbs it without algebra and gets `None` where only algebra can
tell; the worker climbs the same ladder with algebra at the end.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

from trl_grpo_ext.verify.math.exact import digits_key, parse_plain
from trl_grpo_ext.verify.math.normalise import normalise, spelling
from trl_grpo_ext.verify.math.shapes import (
    EQUALS,
    NAME,
    RELATION,
    Shape,
    read_shape,
    solution_set,
    split,
    strip_set_builder,
    turn_round,
    without_names,
)
from trl_grpo_ext.verify.math.units import same_unit, split_unit


Algebra = Callable[[str, str], bool]

MAX_PAIRWISE = 30  # longer lists are compared by spelling: matching n elements costs n² algebra calls

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9 .,'’:\-]*\Z")
_TEXT_COMMAND = re.compile(r"\\text\s*\{([^{}]*)\}")
_CHOICE = re.compile(r"[(\[{]?\s*([A-Z])\s*[)\]}]?\s*(?:[.:)](?!\d).*)?\Z", re.DOTALL)
_BASE = re.compile(r"\(?(?:\\text\{)?\s*([0-9A-Fa-f]+)\s*\}?\)?\s*_\{?(\d+)\}?\Z")
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?:\s*(?:\\text\{)?\s*([aApP])\.?\s*[mM]\.?\s*\}?)?\Z")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_NONSENSE = re.compile(r"[?@#\"]|%\s*[%\w\\]")
_APPROXIMATELY = re.compile(r"(?<=\S)\s*\\approx.*\Z|\A\s*\\approx\s*", re.DOTALL)
_LEAD_IN = re.compile(
    r"\\text\s*\{\s*(?:approximately|about|exactly|total:?|the answer is:?|year|answer:?)\s*\}\s*=?\s*", re.IGNORECASE
)


def compare(gold: str, answer: str, algebra: Algebra | None = None) -> bool | None:
    """
    Decide whether `answer` is `gold`.

    Args:
        gold (`str`):
            The reference, normalised.
        answer (`str`):
            The answer, normalised.
        algebra (`Callable`, *optional*):
            Decides a pair that reading cannot.

    Returns:
        `bool` or `None`: `None` only without `algebra`, where only algebra can tell.
    """
    if not spelling(gold) or not spelling(answer):
        return False
    if spelling(gold) == spelling(answer):
        return True
    gold, answer = _strip_prose(gold), _strip_prose(answer)
    for rung in (*_BY_READING, _relations, _structures, _named):
        decided = rung(gold, answer, algebra)
        if decided is not NotImplemented:
            return decided
    return _values(gold, answer, algebra)


def legible(text: str) -> bool:
    """Whether a normalised answer is a number, a time, a choice, text or a ratio: what needs no algebra to compare."""
    return any(rung(text, text, None) is True for rung in _BY_READING)


def _strip_prose(text: str) -> str:
    text = _LEAD_IN.sub("", text, count=1)
    return normalise(_APPROXIMATELY.sub("", text)) if "\\approx" in text else text.strip()


def _numbers(gold: str, answer: str, algebra: Algebra | None):
    """Two plain numbers, with or without unit, are decided both ways."""
    gold_value, gold_unit = split_unit(gold)
    answer_value, answer_unit = split_unit(answer)
    gold_number, answer_number = parse_plain(gold_value), parse_plain(answer_value)
    if gold_number and answer_number:
        if (gold_number.percent and answer_unit) or (answer_number.percent and gold_unit):
            return False  # a percentage is no length
        return same_unit(gold_unit, answer_unit) and gold_number.equals(answer_number)
    gold_digits, answer_digits = digits_key(gold_value), digits_key(answer_value)
    if gold_digits and answer_digits:
        return same_unit(gold_unit, answer_unit) and gold_digits == answer_digits
    return NotImplemented


def _clocks(gold: str, answer: str, algebra: Algebra | None):
    a, b = _CLOCK.match(_plain_text(gold)), _CLOCK.match(_plain_text(answer))
    if not (a and b):
        return NotImplemented
    half_a, half_b = (a.group(3) or "").lower(), (b.group(3) or "").lower()
    return a.groups()[:2] == b.groups()[:2] and (half_a == half_b or not half_a or not half_b)


def _bases(gold: str, answer: str, algebra: Algebra | None):
    a, b = _BASE.match(gold), _BASE.match(answer)
    if a and b:
        return a.group(1).lower() == b.group(1).lower() and a.group(2) == b.group(2)
    if a and re.fullmatch(r"[0-9A-Fa-f]+", answer):
        return a.group(1).lower() == answer.lower()
    return NotImplemented


def _choices(gold: str, answer: str, algebra: Algebra | None):
    letter = re.fullmatch(r"[(\[{]?\s*([A-Z])\s*[)\]}]?", _plain_text(gold))
    if not letter:
        return NotImplemented
    chosen = _CHOICE.match(_plain_text(answer))
    return letter.group(1) == chosen.group(1) if chosen else NotImplemented


def _texts(gold: str, answer: str, algebra: Algebra | None):
    """Words are compared as words: never as products of letters."""
    gold_words, answer_words = _words(gold, _is_text(answer)), _words(answer, _is_text(gold))
    if gold_words is None or answer_words is None:
        if gold_words is not None and parse_plain(split_unit(answer)[0]):
            return False
        if answer_words is not None and parse_plain(split_unit(gold)[0]):
            return False
        return NotImplemented
    return gold_words == answer_words


def _words(text: str, beside_text: bool = False) -> str | None:
    plain = _plain_text(text)
    if not _WORDS.match(plain) or not re.search(r"[A-Za-z]{2}", plain):
        return None
    marked = "\\text" in text or beside_text or plain.lower() == "no"
    if not marked and not re.search(r"[A-Za-z]{3}", plain):
        return None  # two bare letters are a product
    words = _ORDINAL.sub("", plain.lower())
    words = re.sub(r"[.,’':\-]", " ", words)
    return " ".join(re.sub(r"(?<=\w{4}[^s])s\Z", "", word) for word in words.split() if word not in ("a", "an", "the"))


def _is_text(text: str) -> bool:
    return _TEXT_COMMAND.fullmatch(text) is not None


def _plain_text(text: str) -> str:
    return " ".join(_TEXT_COMMAND.sub(r" \1 ", text).split())


def _ratios(gold: str, answer: str, algebra: Algebra | None):
    gold_parts, answer_parts = _ratio(gold), _ratio(answer)
    if gold_parts is None:
        return NotImplemented
    if answer_parts is None:
        value = parse_plain(answer)
        if value is None or len(gold_parts) != 2:
            return NotImplemented
        return gold_parts[1] != 0 and gold_parts[0] / gold_parts[1] == value.value
    if len(gold_parts) != len(answer_parts):
        return False
    if 0 in gold_parts or 0 in answer_parts:
        return gold_parts == answer_parts
    return len({a / b for a, b in zip(gold_parts, answer_parts, strict=True)}) == 1


def _ratio(text: str):
    text = text.rpartition("=")[2]
    text = re.sub(r"\\text\s*\{\s*to\s*\}|\bto\b", ":", text)
    if ":" not in text:
        return None
    numbers = [parse_plain(part) for part in text.split(":")[:20]]
    return None if any(number is None for number in numbers) else [number.value for number in numbers if number]


_BY_READING = (_numbers, _clocks, _bases, _choices, _texts, _ratios)


def _relations(gold: str, answer: str, algebra: Algebra | None):
    """An inequality in one variable is the set of numbers it describes."""
    if not (RELATION.search(gold) or RELATION.search(answer)):
        return NotImplemented
    gold_set, answer_set = solution_set(gold), solution_set(answer)
    if gold_set is None or answer_set is None:
        return NotImplemented
    if gold_set[0] and answer_set[0] and gold_set[0] != answer_set[0]:
        answer_set = solution_set(turn_round(answer)) or answer_set  # a < b is also b > a
    (gold_name, gold_shape), (answer_name, answer_shape) = gold_set, answer_set
    if gold_name and answer_name and gold_name != answer_name:
        return NotImplemented if re.search("[a-z]", _bounds(gold_shape), re.IGNORECASE) else False
    return _same_shape(gold_shape, answer_shape, algebra)


def _bounds(shape: Shape) -> str:
    return " ".join(bound for piece in shape.parts for bound in piece.parts if not bound.endswith("\\infty"))


def _structures(gold: str, answer: str, algebra: Algebra | None):
    """Lists without order, tuples and intervals with order and brackets, unions of intervals."""
    gold, answer = without_names(gold, answer)
    gold_shape, answer_shape = read_shape(strip_set_builder(gold)), read_shape(strip_set_builder(answer))
    if gold_shape is None and answer_shape is None:
        return NotImplemented
    if gold_shape is None or answer_shape is None:
        shape, other = (gold_shape, answer) if gold_shape else (cast(Shape, answer_shape), gold)
        if shape.kind == "list" and len(shape.parts) == 1:
            return compare(shape.parts[0], other, algebra) if gold_shape else compare(other, shape.parts[0], algebra)
        if parse_plain(split_unit(other)[0]) or _words(other) is not None:
            return False
        return _values(gold, answer, algebra) if shape.kind == "list" else NotImplemented
    gold_shape, answer_shape = _coordinates(gold_shape, answer_shape), _coordinates(answer_shape, gold_shape)
    if gold_shape.kind != answer_shape.kind:
        for shape, flipped in ((gold_shape, False), (answer_shape, True)):
            if shape.kind == "list" and len(shape.parts) == 1:
                return compare(gold, shape.parts[0], algebra) if flipped else compare(shape.parts[0], answer, algebra)
        return False if "list" in (gold_shape.kind, answer_shape.kind) else NotImplemented
    return _same_shape(gold_shape, answer_shape, algebra)


def _coordinates(shape: Shape, other: Shape) -> Shape:
    """`x = 1, y = 2` stands for the point (1, 2) when it is compared with a tuple."""
    if shape.kind != "list" or other.kind != "tuple":
        return shape
    named = [name_and_value(part) for part in shape.parts]
    names = {name for name, _ in named}
    if None in names or len(names) < len(named):
        return shape
    return Shape("tuple", tuple(value for _, value in named), other.brackets)


def _same_shape(gold: Shape, answer: Shape, algebra: Algebra | None) -> bool | None:
    if gold.kind == "list":
        gold, answer = _distinct(gold), _distinct(answer)
    if len(gold.parts) != len(answer.parts):
        return NotImplemented if gold.kind == "union" else False
    if gold.kind == "matrix":
        return _all(_compare_parts(a, b, algebra) for a, b in zip(gold.parts, answer.parts, strict=True))
    if gold.kind == "tuple":
        if gold.brackets != answer.brackets:
            return False
        return _all(compare(a, b, algebra) for a, b in zip(gold.parts, answer.parts, strict=True))
    if Counter(map(_element_key, gold.parts)) == Counter(map(_element_key, answer.parts)):
        return True
    if len(gold.parts) > MAX_PAIRWISE:
        return False
    return _matched(gold.parts, answer.parts, algebra)


def _distinct(shape: Shape) -> Shape:
    return Shape(shape.kind, tuple({_element_key(part): part for part in shape.parts}.values()))


def _element_key(part):
    if isinstance(part, Shape):
        return (part.kind, part.brackets, tuple(map(_element_key, part.parts)))
    number = parse_plain(part)
    return (number.value, number.percent) if number else spelling(part)


def _matched(gold: tuple, answer: tuple, algebra: Algebra | None) -> bool | None:
    left = list(answer)
    undecided = False
    for part in gold:
        verdicts = []
        for index, candidate in enumerate(left):
            verdict = _compare_parts(part, candidate, algebra)
            if verdict:
                del left[index]
                break
            verdicts.append(verdict)
        else:
            if all(verdict is False for verdict in verdicts):
                return False
            undecided = True
    return None if undecided else True


def _compare_parts(gold, answer, algebra: Algebra | None) -> bool | None:
    if isinstance(gold, Shape) and isinstance(answer, Shape):
        same = _same_shape(gold, answer, algebra) if gold.kind == answer.kind else False
        return False if same is NotImplemented else same
    if isinstance(gold, Shape) or isinstance(answer, Shape):
        return False
    return compare(gold, answer, algebra)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    undecided = False
    for verdict in verdicts:
        if verdict is False:
            return False
        undecided = undecided or verdict is None
    return None if undecided else True


def _named(gold: str, answer: str, algebra: Algebra | None):
    """`x = 5` is 5, and `y = 5` is not `x = 5`; the last member of a chain of equalities is the value."""
    gold_name, gold_value = name_and_value(gold)
    answer_name, answer_value = name_and_value(answer)
    if gold_name is None and answer_name is None:
        return NotImplemented
    if gold_name is not None and answer_name is not None:
        if spelling(gold_name) == spelling(answer_name):
            return compare(gold_value, answer_value, algebra)
        if parse_plain(gold_value) and parse_plain(answer_value):
            return False
        return NotImplemented
    if len(split(answer if gold_name is not None else gold, EQUALS)) > 1:
        return NotImplemented
    return compare(gold_value, answer_value, algebra)


def name_and_value(text: str) -> tuple[str | None, str]:
    """Split `x = 5` into the name (`None` if there is none, `""` for more than a name) and the last value."""
    sides = split(text, EQUALS)
    if len(sides) < 2:
        return None, text
    name = sides[0].replace("|", "").strip()
    if NAME.match(name) or len(sides) > 2 or _words(name):
        return name if NAME.match(name) or _words(name) else "", sides[-1].strip()
    return None, text


def _values(gold: str, answer: str, algebra: Algebra | None) -> bool | None:
    if algebra is None:
        return None
    if _NONSENSE.search(answer) and not _NONSENSE.search(gold):
        return False
    gold_value, gold_unit = split_unit(gold)
    answer_value, answer_unit = split_unit(answer)
    if not same_unit(gold_unit, answer_unit):
        return False
    return algebra(gold_value, answer_value)
