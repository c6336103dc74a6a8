"""Algebra: are two expressions equal? Runs inside the worker only, on top of math-verify, whose signals are off."""

import random
import re
from collections.abc import Callable
from functools import lru_cache

from latex2sympy2_extended import is_expr_of_only_symbols
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Derivative, E, Eq, Expr, Float, I, Integral, Limit, N, Pow, Product, Rational, Sum, log, zoo
from sympy.core.function import AppliedUndef


_CONFIG = (LatexExtractionConfig(),)
_DIGITS = 100
_SAME = Float(10, _DIGITS) ** -90  # exact expressions: agreement to 90 of 100 digits
_NOISE = Float(10, _DIGITS) ** -12  # decimals: the digits one needs to count as the exact value
_POINTS = 6
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*\\circ")


def equal(gold: str, answer: str, reading: Callable[[str], None]) -> bool:
    """
    Whether two normalised answers can be shown equal.

    Args:
        gold (`str`):
            The reference.
        answer (`str`):
            The answer.
        reading (`Callable`):
            Called with `"gold"` before the reference is read and with `"answer"` before anything else, so that an
            outside clock knows which of them takes the time.

    Returns:
        `bool`
    """
    if gold.count("'") != answer.count("'"):
        return False
    reading("gold")
    golds = _read(gold)
    reading("answer")
    answers = _read(answer)
    return any(_equal(a, b) for a in golds for b in answers)


def warm_up() -> None:
    """Build what the first comparison would build."""
    equal(r"\frac{x^2-1}{x-1}", "x+1.0", lambda what: None)
    equal(r"\{1, \frac{1}{\sqrt{2}}\}", r"\{x^2=4\}", lambda what: None)


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[Basic, ...]:
    formula = _DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", re.sub(r"(?<!\\)%", r"\\%", text))
    found = parse(f"${formula}$", _CONFIG, fallback_mode="no_fallback", parsing_timeout=None)
    return tuple(value for value in found if not isinstance(value, str))


def _equal(gold: Basic, answer: Basic) -> bool:
    if isinstance(answer, Eq) and not isinstance(gold, Eq) and not is_expr_of_only_symbols(answer.lhs):
        return False  # an equation still to be solved is not its right-hand side
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        decided = _same_values(_with_constants(gold), _with_constants(answer))
        if decided is not None:
            return decided
    return bool(verify(gold, answer, float_rounding=12, timeout_seconds=None))


def _with_constants(value: Expr) -> Expr:
    """Read `i` and `e` as the constants they are by convention, and carry out sums, limits and integrals."""
    value = value.subs(
        {symbol: {"i": I, "e": E}[symbol.name] for symbol in value.free_symbols if symbol.name in ("i", "e")}
    )
    return value.doit() if value.has(Sum, Product, Integral, Limit, Derivative) else value


def _same_values(gold: Expr, answer: Expr) -> bool | None:
    """Compare by value: exactly for rationals, else to 90 digits, at random points where both are real."""
    if gold.is_Rational and answer.is_Rational:
        return gold == answer
    symbols = sorted(gold.free_symbols | answer.free_symbols, key=str)
    limit = _NOISE if gold.has(Float) or answer.has(Float) else _SAME
    if not symbols:
        return _close(gold, answer, limit)
    if gold.has(AppliedUndef) or answer.has(AppliedUndef):
        return None
    roots = (
        any(not power.exp.is_integer for power in gold.atoms(Pow) | answer.atoms(Pow))
        or gold.has(log)
        or answer.has(log)
    )
    lowest = 1 if roots else -5000  # what stands under a root or a logarithm is positive by convention
    draw, agreed = random.Random(0), 0
    for _ in range(5 * _POINTS):
        point = {symbol: Rational(draw.randint(lowest, 5000), 997) for symbol in symbols}
        a, b = gold.subs(point), answer.subs(point)
        same = _close(a, b, limit) if _is_real(a) and _is_real(b) else None
        if same is False:
            return False
        agreed += same is True
        if agreed == _POINTS:
            return True
    return None


def _is_real(value: Expr) -> bool:
    return bool(N(value, 15).is_real)


def _close(a: Expr, b: Expr, limit: Float) -> bool | None:
    try:
        a, b = N(a, _DIGITS), N(b, _DIGITS)
        if not (a.is_finite and b.is_finite):
            return bool(a == b and a.is_infinite and a is not zoo)  # +∞ is +∞; what is undefined equals nothing
        scale = max(abs(a), abs(b))
        return bool(scale == 0 or abs(a - b) <= limit * scale)
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None  # not a number that can be computed
