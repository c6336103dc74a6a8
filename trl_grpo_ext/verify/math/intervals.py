"""Sets of real numbers with computed end points: unions, differences, and inequalities as sets, in one form."""

import re
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from trl_grpo_ext.verify.math.evaluate import compare_constants, constant
from trl_grpo_ext.verify.math.shapes import INFINITY, RELATION, Shape, read_shape, solution_set


_REALS = re.compile(
    r"\\mathbb\{R\}|(?:\\text\s*\{)?\s*all\s+reals?(?:\s+numbers?)?(?:\s+[a-z])?\s*\}?(?:\s*[a-z])?", re.IGNORECASE
)
_WITHOUT = re.compile(r"\\(?:setminus|backslash)(?![a-zA-Z])")
_CAP = re.compile(r"\\cap(?![a-zA-Z])")
_AND = re.compile(r",?\s*(?:\\text\s*\{\s*and\s*\}|\\land(?![a-zA-Z])|\band\b)\s*")
_EVERYTHING = Shape("union", (Shape("tuple", ("-\\infty", "\\infty"), "()"),))


class _Uncomparable(ArithmeticError):
    """Two end points are too close to tell apart, or have no value."""


@dataclass(frozen=True)
class _End:
    """A cut of the real line: just below a number, or just above it."""

    infinite: int  # -1, 0 or 1
    value: Any
    above: bool

    def order(self, other: "_End") -> int:
        if self.infinite or other.infinite:
            return (self.infinite > other.infinite) - (self.infinite < other.infinite)
        apart = compare_constants(self.value, other.value)
        if apart is None:
            raise _Uncomparable
        return apart or self.above - other.above


def named_set(text: str) -> tuple[str, Shape] | None:
    """Read an inequality, an interval, a union or the real line, like [`solution_set`]."""
    membership = re.match(r"([a-zA-Z])\s*\\in(?![a-zA-Z])\s*", text)
    name, rest = (membership.group(1), text[membership.end() :]) if membership else ("", text)
    if _REALS.fullmatch(rest.strip()):
        return name, _EVERYTHING
    return solution_set(text)


def real_set(text: str) -> tuple[str, tuple] | None:
    """
    Read a set of real numbers with end points that can be computed.

    Args:
        text (`str`):
            A normalised answer.

    Returns:
        `tuple` or `None`: The name of the variable (`""` if there is none) and the cuts of the set, in order.
    """
    sides = _WITHOUT.split(text)
    both = _AND.split(text) if RELATION.search(text) else _CAP.split(text)
    try:
        if len(both) == 2:
            left, right = named_set(both[0].strip()), named_set(both[1].strip())
            if left is None or right is None or left[0] != right[0]:
                return None
            return left[0], _minus(_cuts(left[1]), _minus(_cuts(_EVERYTHING), _cuts(right[1])))
        if len(sides) == 2:
            whole = named_set(sides[0].strip())
            without = _set_or_points(sides[1].strip())
            if whole is None or without is None:
                return None
            return whole[0], _minus(_cuts(whole[1]), _cuts(without))
        found = named_set(text)
        return (found[0], _cuts(found[1])) if found else None
    except _Uncomparable:
        return None


def same_set(gold: tuple, answer: tuple) -> bool | None:
    """Whether two results of [`real_set`] are one set; `None` if that cannot be said."""
    try:
        return len(gold) == len(answer) and all(a.order(b) == 0 for a, b in zip(gold, answer, strict=True))
    except _Uncomparable:
        return None


def _set_or_points(text: str) -> Shape | None:
    body = re.fullmatch(r"\\\{\s*([^,;{}\\]+)\s*\\\}", text)
    if body:
        return Shape("union", (Shape("list", (body.group(1),)),))
    shape = read_shape(text)
    if shape is None:
        return None
    return shape if shape.kind == "union" else Shape("union", (shape,))


def _cuts(union: Shape) -> tuple[_End, ...]:
    pieces = []
    for piece in union.parts:
        if piece.kind == "list":
            for point in piece.parts:
                end = _end(point, False)
                if end.infinite:
                    raise _Uncomparable
                pieces.append((end, _End(0, end.value, True)))
            continue
        if piece.kind != "tuple" or len(piece.parts) != 2:
            raise _Uncomparable
        low = _end(piece.parts[0], piece.brackets[0] == "(")
        high = _end(piece.parts[1], piece.brackets[1] == "]")
        if low.infinite > 0 or high.infinite < 0 or low.order(high) >= 0:
            raise _Uncomparable  # no interval: a point, or an empty one
        pieces.append((low, high))
    return _joined(pieces)


def _joined(pieces: list[tuple[_End, _End]]) -> tuple[_End, ...]:
    cuts: list[_End] = []
    for low, high in sorted(pieces, key=cmp_to_key(_by_low)):
        if cuts and low.order(cuts[-1]) <= 0:
            if high.order(cuts[-1]) > 0:
                cuts[-1] = high
        else:
            cuts += [low, high]
    return tuple(cuts)


def _by_low(a: tuple[_End, _End], b: tuple[_End, _End]) -> int:
    return a[0].order(b[0])


def _minus(whole: tuple[_End, ...], without: tuple[_End, ...]) -> tuple[_End, ...]:
    pieces = []
    for low, high in zip(whole[::2], whole[1::2], strict=True):
        for start, end in zip(without[::2], without[1::2], strict=True):
            if start.order(low) > 0 and start.order(high) < 0:
                pieces.append((low, start))
            if end.order(low) > 0 and start.order(high) < 0:
                low = end
            if low.order(high) >= 0:
                break
        else:
            pieces.append((low, high))
    return _joined(pieces)


def _end(text: str, above: bool) -> _End:
    infinite = INFINITY.match(text)
    if infinite:
        return _End(-1 if infinite.group(1) == "-" else 1, None, False)
    value = constant(text)
    if value is None:
        raise _Uncomparable
    return _End(0, value, above)
