"""The structure of an answer: lists, tuples, intervals, unions, matrices, and inequalities as sets."""

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction

from trl_grpo_ext.verify.math.evaluate import constant, linear
from trl_grpo_ext.verify.math.exact import digits_key, parse_plain
from trl_grpo_ext.verify.math.normalise import spelling


NAME = re.compile(
    r"(?:[A-Za-z]|\\frac\{d[a-z]\}\{d[a-z]\}|\\frac\{[A-Z]{2}\}\{[A-Z]{2}\}|\\[a-zA-Z]+|\|\s*[A-Z]{1,3}\s*\||\\(?:angle|triangle)\s*(?:[A-Z](?:_\{?\w+\}?)?'*\s*){1,3}|[A-Z]{2,3})"
    r"'*(?:_\{?\w+\}?)?(?:\^\{?-1\}?(?=\())?(?:\([a-zA-Z0-9, ]*\))?\Z"
)
RELATION = re.compile(r"(\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z])|<|>)")
EQUALS = re.compile(r"(?<![<>!:\\=])=(?!=)")
INFINITY = re.compile(r"([-+]?)\s*\\infty\Z")
_UNION = re.compile(r"\\cup(?![a-zA-Z])")
_MATRIX = re.compile(r"\\begin\{pmatrix\}((?:(?!\\begin|\\end).)*)\\end\{pmatrix\}\Z", re.DOTALL)
_NAMED_POINT = re.compile(
    r"\(\s*[a-zA-Z](?:_\{?\w+\}?)?(?:\s*,\s*[a-zA-Z](?:_\{?\w+\}?)?)+\s*\)\s*=\s*(?=[(\[])|[A-Z]'?\s*(?=\([^()]*,)"
)
_SIGN = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")
_CONSTANTS = ("\\pi", "\\infty", "e")
_OPEN, _CLOSE = "([{", ")]}"
_BARS = re.compile(r"\|([^|]+)\|\Z")
_BETWEEN_MEMBERS = re.compile("[,;]")
_CONNECTOR = re.compile(
    r"(?:,|;)\s*\\text\s*\{\s*(?:and|or)\s*\}|(?:,|;)\s*(?:and|or)\b|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z])(?:and|or)(?![A-Za-z])"
    r"|\\(?:lor|land|vee)(?![a-zA-Z])|[,;]"
)


@dataclass(frozen=True)
class Shape:
    """
    An answer with parts.

    Args:
        kind (`str`):
            `"list"` (without order), `"tuple"` (with order; brackets matter; an interval is one), `"union"` (of tuples
            and lists) or `"matrix"` (of rows).
        parts (`tuple`):
            Normalised strings, or shapes.
        brackets (`str`, *optional*, defaults to `""`):
            Opening and closing bracket of a tuple.
    """

    kind: str
    parts: tuple
    brackets: str = ""


def read_shape(text: str) -> Shape | None:
    """Read a normalised answer as a structure; `None` if it is a single value."""
    text = _membership(text)
    matrix = _MATRIX.match(text)
    if matrix:
        rows = matrix.group(1).split(r"\\")
        cells = [tuple(cell.strip() for cell in row.split("&")) for row in rows if row.strip()]
        return Shape("matrix", tuple(Shape("tuple", row) for row in cells))
    if not text.startswith(("(", "[", "\\{", "{")) and not _split_needed(text):
        values = expand_sign(text)
        if len(values) > 1:
            return Shape("list", tuple(values))
    if _UNION.search(text):
        sides = split(text, _UNION)
        if len(sides) < 2:
            return None  # the sign stands inside a bracket: unbalanced, or not a union of sets
        members = [read_shape(side) for side in sides]
        sets = [member for member in members if member is not None and member.kind in ("tuple", "list")]
        return Shape("union", tuple(sets)) if len(sets) == len(members) else None
    set_body = re.fullmatch(r"\\\{(.*)\\\}|\{(.*)\}", text, re.DOTALL)
    if set_body:
        body = set_body.group(1) if set_body.group(1) is not None else set_body.group(2)
        if _balanced(body) and not re.search(r"\||\\mid|\\ldots", body):
            return Shape("list", tuple(_elements(body)))
        return None
    if text[:1] == "]" and text[-1:] in "[]":
        text = "(" + text[1:]
    if text[:1] in ("(", "[") and text[-1:] == "[":
        text = text[:-1] + ")"
    if text[:1] in ("(", "[") and text[-1:] in (")", "]") and _balanced(text[1:-1]):
        parts = split(text[1:-1], _BETWEEN_MEMBERS, numbers_stay=False)
        return Shape("tuple", tuple(parts), text[0] + text[-1]) if len(parts) > 1 else None
    if re.search(r"\\ldots", text):
        return None
    parts = _elements(text)
    return Shape("list", tuple(parts)) if len(parts) > 1 else None


def _membership(text: str) -> str:
    match = re.match(r"[a-zA-Z](?:_\{?\w+\}?)?\s*\\in(?![a-zA-Z])\s*", text)
    return text[match.end() :] if match else text


def expand_sign(text: str) -> list[str]:
    """Return both values of `a \\pm b`; a text with another number of such signs is one value."""
    signs = _SIGN.findall(text)
    if len(signs) != 1:
        return [text]
    return [_SIGN.sub(sign, text) for sign in "+-"]


def _split_needed(text: str) -> bool:
    return len(split(text, _CONNECTOR)) > 1


def _elements(text: str) -> list[str]:
    elements = []
    for part in split(text, _CONNECTOR):
        elements += expand_sign(part) if part[:1] not in ("(", "[") else [part]
    if (
        elements
        and len(elements) > 1
        and len(split(elements[0], EQUALS)) > 1
        and not any(map(EQUALS.search, elements[1:]))
    ):
        elements[0] = split(elements[0], EQUALS)[-1]  # "n = 2, 3, 4" names all of them at once
    return elements


def split(text: str, separator: re.Pattern, numbers_stay: bool = True) -> list[str]:
    """Split at separators outside every bracket and command argument; thousands separators stay unless told."""
    parts, depth, last = [], 0, 0
    if numbers_stay and (parse_plain(text) or digits_key(text)):
        return [text]
    matches = {match.start(): match for match in separator.finditer(text)}
    if not matches:
        return [text.strip()] if text.strip() else []
    at = 0
    while at < len(text):
        match = matches.get(at)
        if match and depth == 0:
            parts.append(text[last:at])
            at = last = max(match.end(), at + 1)
            continue
        if text[at] == "\\" and text[at : at + 2] in ("\\{", "\\}"):
            depth += 1 if text[at + 1] == "{" else -1
            at += 2
            continue
        if text[at] in _OPEN:
            depth += 1
        elif text[at] in _CLOSE:
            depth -= 1
        at += 1
    parts.append(text[last:])
    return [part.strip() for part in parts if part.strip()]


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth < 0:
            return False
    return depth == 0


def solution_set(text: str) -> tuple[str, Shape] | None:
    """Read an inequality, an interval or a union as the name of its variable (`""` if unnamed) and a union."""
    text = strip_set_builder(text)
    if not RELATION.search(text):
        shape = read_shape(text)
        if shape and shape.kind == "tuple" and len(shape.parts) == 2:
            return "", Shape("union", (shape,))
        return ("", shape) if shape and shape.kind == "union" else None
    if re.search(r"\band\b|\\land", text):
        return None  # an intersection
    names, pieces = set(), []
    for piece in split(text, _CONNECTOR):
        solved = _solve_relation(piece)
        if solved is None:
            return None
        names.add(solved[0])
        pieces.extend(solved[1])
    return (names.pop(), Shape("union", tuple(pieces))) if len(names) == 1 else None


def strip_set_builder(text: str) -> str:
    """Return the condition of `{x | condition}`; anything else unchanged."""
    match = re.fullmatch(
        r"\\\{\s*[a-zA-Z]\s*(?:\\in\s*(?:\\mathbb\{R\}|R))?\s*(?:\||\\mid|:)(.*)\\\}", text, re.DOTALL
    )
    return match.group(1).strip() if match else text


def _solve_relation(text: str) -> tuple[str, list[Shape]] | None:
    sides = [side.strip() for side in RELATION.split(text)]
    terms, signs = sides[::2], sides[1::2]
    if len(terms) == 2 and NAME.match(terms[1]) and (not NAME.match(terms[0]) or terms[0] in _CONSTANTS):
        terms, signs = terms[::-1], [turned(signs[0])]
    if len(terms) == 2 and NAME.match(terms[0]):
        return spelling(terms[0]), _half_lines(terms[1], signs[0])
    if len(terms) == 3 and signs[0] in (">", r"\ge") and signs[1] in (">", r"\ge"):
        terms, signs = terms[::-1], [turned(sign) for sign in signs[::-1]]
    if len(terms) == 3 and NAME.match(terms[1]):
        if signs[0] in ("<", r"\le") and signs[1] in ("<", r"\le"):
            brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
            return spelling(terms[1]), [Shape("tuple", (terms[0], terms[2]), brackets)]
        return None
    return _solve_absolute(terms, signs) or _solve_linear(terms, signs)


def _half_lines(bound: str, sign: str) -> list[Shape]:
    if sign == r"\ne":
        return [Shape("tuple", ("-\\infty", bound), "()"), Shape("tuple", (bound, "\\infty"), "()")]
    if sign in ("<", r"\le"):
        return [Shape("tuple", ("-\\infty", bound), "()" if sign == "<" else "(]")]
    return [Shape("tuple", (bound, "\\infty"), "()" if sign == ">" else "[)")]


def _solve_absolute(terms: list[str], signs: list[str]) -> tuple[str, list[Shape]] | None:
    """`|x - 1| < 2` as `(-1, 3)`; with a greater sign, as what lies outside."""
    if len(terms) == 2 and _BARS.match(terms[1]):
        terms, signs = terms[::-1], [turned(signs[0])]
    inside = _BARS.match(terms[0])
    line = linear(inside.group(1), "0") if inside and len(terms) == 2 else None
    size = constant(terms[1]) if line else None
    if line is None or type(size) is not Fraction or size <= 0 or signs[0] == r"\ne":
        return None
    name, slope, offset = line
    low, high = sorted(((-size - offset) / slope, (size - offset) / slope))
    if signs[0] in ("<", r"\le"):
        brackets = "()" if signs[0] == "<" else "[]"
        return name, [Shape("tuple", (_fraction(low), _fraction(high)), brackets)]
    return name, _half_lines(_fraction(low), turned(signs[0])) + _half_lines(_fraction(high), signs[0])


def _fraction(value: Fraction) -> str:
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _solve_linear(terms: list[str], signs: list[str]) -> tuple[str, list[Shape]] | None:
    """`2x + 1 < 7` as `x < 3`; a chain of three sides as the interval it bounds."""
    solved = []
    for left, right in itertools.pairwise(terms):
        line = linear(left, right)
        if line is None:
            return None
        solved.append(line)
    names = {name for name, _, _ in solved if name}
    bounds = []
    for (_, slope, offset), sign in zip(solved, signs, strict=True):
        bound = -offset / slope
        bounds.append((_fraction(bound), sign if slope > 0 else turned(sign)))
    if len(names) != 1:
        return None
    if len(bounds) == 1:
        return names.pop(), _half_lines(*bounds[0])
    if len(bounds) != 2 or bounds[0][1] == r"\ne" or bounds[1][1] == r"\ne":
        return None
    lower, upper = sorted(bounds, key=lambda bound: bound[1] in ("<", r"\le"))
    if lower[1] not in (">", r"\ge") or upper[1] not in ("<", r"\le"):
        return None
    brackets = ("(" if lower[1] == ">" else "[") + (")" if upper[1] == "<" else "]")
    return names.pop(), [Shape("tuple", (lower[0], upper[0]), brackets)]


def without_names(gold: str, answer: str) -> tuple[str, str]:
    """Take `(x, y) =` from before a point, unless the two of them name different coordinates."""
    names = [match.group() if match else "" for match in map(_NAMED_POINT.match, (gold, answer))]
    if all(names) and spelling(names[0]) != spelling(names[1]):
        return gold, answer
    return gold[len(names[0]) :], answer[len(names[1]) :]


def swapped_names(text: str) -> bool:
    """Whether the named coordinates of a point come out of alphabetical order: `(y, x) = (1, 2)` is no `(1, 2)`."""
    named = _NAMED_POINT.match(text)
    letters = re.findall(r"[a-zA-Z]", named.group()) if named else []
    return letters != sorted(letters)


def relation_sides(text: str) -> tuple[str, str, str] | None:
    """Left side, sign and right side of a single inequality."""
    sides = [side.strip() for side in RELATION.split(text)]
    return (sides[0], sides[1], sides[2]) if len(sides) == 3 and sides[0] and sides[2] else None


def turn_round(text: str) -> str:
    """Return an inequality between two names with its sides swapped (`a < b` as `b > a`); anything else unchanged."""
    sides = [side.strip() for side in RELATION.split(text)]
    if len(sides) != 3 or not (NAME.match(sides[0]) and NAME.match(sides[2])):
        return text
    return f"{sides[2]} {turned(sides[1])} {sides[0]}"


def turned(sign: str) -> str:
    """The sign of an inequality with its sides swapped."""
    return {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}.get(sign, sign)
