"""The structure of an answer: lists, tuples, intervals, unions, matrices, and inequalities as sets."""

import re
from dataclasses import dataclass

from trl_grpo_ext.verify.math.exact import digits_key, parse_plain
from trl_grpo_ext.verify.math.normalise import spelling


NAME = re.compile(
    r"(?:[A-Za-z]|\\frac\{d[a-z]\}\{d[a-z]\}|\\[a-zA-Z]+|\|\s*[A-Z]{1,3}\s*\||\\angle\s*[A-Z]{1,3}|[A-Z]{2,3})"
    r"'*(?:_\{?\w+\}?)?(?:\([a-zA-Z0-9, ]*\))?\Z"
)
RELATION = re.compile(r"(\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z])|<|>)")
EQUALS = re.compile(r"(?<![<>!:\\=])=(?!=)")
_UNION = re.compile(r"\\cup(?![a-zA-Z])")
_MATRIX = re.compile(r"\\begin\{pmatrix\}((?:(?!\\begin|\\end).)*)\\end\{pmatrix\}\Z", re.DOTALL)
_NAMED_POINT = re.compile(r"\(\s*[a-zA-Z](?:_\{?\w+\}?)?(?:\s*,\s*[a-zA-Z](?:_\{?\w+\}?)?)+\s*\)\s*=\s*(?=[(\[])")
_CONSTANTS = ("\\pi", "\\infty", "e")
_OPEN, _CLOSE = "([{", ")]}"
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
    if _has_one_sign(text) and not text.startswith(("(", "[", "\\{", "{")) and not _split_needed(text):
        return Shape("list", (text.replace("\\pm", "+"), text.replace("\\pm", "-")))
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
        parts = split(text[1:-1], re.compile("[,;]"))
        return Shape("tuple", tuple(parts), text[0] + text[-1]) if len(parts) > 1 else None
    if re.search(r"\\ldots", text):
        return None
    parts = _elements(text)
    return Shape("list", tuple(parts)) if len(parts) > 1 else None


def _membership(text: str) -> str:
    match = re.match(r"[a-zA-Z](?:_\{?\w+\}?)?\s*\\in(?![a-zA-Z])\s*", text)
    return text[match.end() :] if match else text


def _has_one_sign(text: str) -> bool:
    return text.count("\\pm") == 1 and "\\mp" not in text


def _split_needed(text: str) -> bool:
    return len(split(text, _CONNECTOR)) > 1


def _elements(text: str) -> list[str]:
    elements = []
    for part in split(text, _CONNECTOR):
        if _has_one_sign(part) and part[:1] not in ("(", "["):
            elements += [part.replace("\\pm", "+"), part.replace("\\pm", "-")]
        else:
            elements.append(part)
    if (
        elements
        and len(elements) > 1
        and len(split(elements[0], EQUALS)) > 1
        and not any(map(EQUALS.search, elements[1:]))
    ):
        elements[0] = split(elements[0], EQUALS)[-1]  # "n = 2, 3, 4" names all of them at once
    return elements


def split(text: str, separator: re.Pattern) -> list[str]:
    """Split at separators outside every bracket and command argument; thousands separators stay."""
    parts, depth, last = [], 0, 0
    if parse_plain(text) or digits_key(text):
        return [text]
    matches = {match.start(): match for match in separator.finditer(text)}
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
        terms, signs = terms[::-1], [_turned(signs[0])]
    if len(terms) == 2 and NAME.match(terms[0]):
        name, bound, sign = spelling(terms[0]), terms[1], signs[0]
        if sign == r"\ne":
            below, above = ("-\\infty", bound), (bound, "\\infty")
            return name, [Shape("tuple", below, "()"), Shape("tuple", above, "()")]
        if sign in ("<", r"\le"):
            return name, [Shape("tuple", ("-\\infty", bound), "()" if sign == "<" else "(]")]
        return name, [Shape("tuple", (bound, "\\infty"), "()" if sign == ">" else "[)")]
    if len(terms) == 3 and NAME.match(terms[1]):
        if signs[0] in (">", r"\ge") and signs[1] in (">", r"\ge"):
            terms, signs = terms[::-1], [_turned(sign) for sign in signs[::-1]]
        if signs[0] in ("<", r"\le") and signs[1] in ("<", r"\le"):
            brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
            return spelling(terms[1]), [Shape("tuple", (terms[0], terms[2]), brackets)]
    return None


def without_names(gold: str, answer: str) -> tuple[str, str]:
    """Take `(x, y) =` from before a point, unless the two of them name different coordinates."""
    names = [match.group() if match else "" for match in map(_NAMED_POINT.match, (gold, answer))]
    if all(names) and spelling(names[0]) != spelling(names[1]):
        return gold, answer
    return gold[len(names[0]) :], answer[len(names[1]) :]


def turn_round(text: str) -> str:
    """Return an inequality between two names with its sides swapped (`a < b` as `b > a`); anything else unchanged."""
    sides = [side.strip() for side in RELATION.split(text)]
    if len(sides) != 3 or not (NAME.match(sides[0]) and NAME.match(sides[2])):
        return text
    return f"{sides[2]} {_turned(sides[1])} {sides[0]}"


def _turned(sign: str) -> str:
    return {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}.get(sign, sign)
