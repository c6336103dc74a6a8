"""Congruences and families with a whole-number parameter: unions of arithmetic progressions, compared as sets."""

import math
import re
from fractions import Fraction
from typing import Any

from trl_grpo_ext.verify.math.evaluate import progression, rational_ratio
from trl_grpo_ext.verify.math.shapes import EQUALS, NAME, expand_sign, split


_CONGRUENCE = re.compile(
    r"(?:(?P<name>[a-zA-Z])?\s*(?:\\equiv|=)\s*)?(?P<rest>-?\d{1,30})\s*\(?\s*\\p?mod\s*\{?\s*(?P<modulus>\d{1,30})\s*\}?\s*\)?\Z"
)
_PARAMETER = re.compile(
    r",?\s*(?:\\text\s*\{\s*(?:,?\s*(?:where|for|with))?(?:\s*(?:any|some))?(?:\s*integers?)?\s*\}\s*)?\(?\s*(?P<name>[a-zA-Z])\s*"
    r"(?:\\in\s*(?:\\mathbb\s*\{?\s*Z\s*\}?|Z)|\\text\s*\{\s*(?:is\s*)?(?:an?\s*)?integers?\s*\})\s*\)?\Z"
)
_BUILDER = re.compile(r"\\\{\s*(.*?)\s*(?:\||\\mid(?![a-zA-Z])|:)\s*([a-zA-Z]\s*\\in\b.*?)\s*\\\}\Z", re.DOTALL)
_OR = re.compile(r"\\text\s*\{\s*,?\s*(?:or|and)\s*\}|,")
_MAX_PERIOD = 10_000  # progressions in one common period


def family(text: str) -> tuple[str, tuple[tuple[Any, Any], ...]] | None:
    """
    Read `x \\equiv 3 \\pmod 5` or `x = a + bk, k \\in \\mathbb{Z}`.

    Args:
        text (`str`):
            A normalised answer, without set-builder notation.

    Returns:
        `tuple` or `None`: The name of the variable (`""` if unnamed), and start and step of each progression.
    """
    builder = _BUILDER.match(text)
    if builder:
        text = f"{builder.group(1)}, {builder.group(2)}"
    congruence = _CONGRUENCE.match(text)
    if congruence:
        modulus = int(congruence.group("modulus"))
        if not modulus:
            return None
        return congruence.group("name") or "", ((Fraction(int(congruence.group("rest"))), Fraction(modulus)),)
    parameter = _PARAMETER.search(text)
    if not parameter:
        return None
    name, found = "", []
    for body in split(text[: parameter.start()].strip(" ,"), _OR):
        sides = split(body, EQUALS)
        if len(sides) == 2 and NAME.match(sides[0]):
            name, body = sides[0], sides[1]
        for value in expand_sign(body):
            one = progression(value, parameter.group("name"))
            if one is None:
                return None
            found.append(one)
    return (name, tuple(found)) if found else None


def same_family(gold: tuple[tuple[Any, Any], ...], answer: tuple[tuple[Any, Any], ...]) -> bool | None:
    """Whether two unions of progressions have the same members; `None` if that cannot be said."""
    unit = gold[0][1]
    parts = []
    for progressions in (gold, answer):
        ratios = []
        for progression_start, progression_step in progressions:
            start, step = rational_ratio(progression_start, unit), rational_ratio(progression_step, unit)
            if start is None or not step:
                return None
            ratios.append((start, abs(step)))
        parts.append(ratios)
    period = _common([step for ratios in parts for _, step in ratios])
    members = []
    for ratios in parts:
        if sum(int(period / step) for _, step in ratios) > _MAX_PERIOD:
            return None
        members.append(
            {(start + index * step) % period for start, step in ratios for index in range(int(period / step))}
        )
    return members[0] == members[1]


def _common(steps: list[Fraction]) -> Fraction:
    numerator = math.lcm(*(step.numerator for step in steps))
    denominator = math.gcd(*(step.denominator for step in steps))
    return Fraction(numerator, denominator)
