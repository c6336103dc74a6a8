"""Algebra: are two expressions equal? Runs inside the worker only, on top of math-verify, whose signals are off."""

import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from latex2sympy2_extended import is_expr_of_only_symbols, latex2sympy, normalize_latex
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import LatexExtractionConfig, verify
from math_verify.grader import should_treat_as_complex
from math_verify.parser import get_last_eq
from sympy import (
    Add,
    Basic,
    Derivative,
    E,
    Eq,
    Expr,
    Float,
    I,
    Integral,
    Limit,
    Mul,
    N,
    Pow,
    Product,
    Rational,
    Sum,
    factorial,
    log,
    zoo,
)
from sympy.core.function import AppliedUndef


_NORMALISATION = replace(
    LatexExtractionConfig().normalization_config, units=False
)  # it takes the m of c^2 m for metres
_CONVERSION = ConversionConfig(lowercase_symbols=False)  # n and N are two quantities
_DIGITS = 100
_SAME = Float(10, _DIGITS) ** -90  # exact expressions: agreement to 90 of 100 digits
_NOISE = Float(10, _DIGITS) ** -12  # decimals: the digits one needs to count as the exact value
_POINTS = 6
_PRIMES = (2**61 - 1, 2**89 - 1)  # two numbers that differ have both remainders in common once in 10^45
_LARGEST_FACTORIAL = 200_000
_EXPONENT_BITS = 100_000
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*\\circ")
_PERCENT = re.compile(r"(?<!\\)%")
_TEXT_WORD = re.compile(r"\\text\s*\{[^{}]*[A-Za-z]{2}[^{}]*\}")
_BROKEN_FORMULA = re.compile(r".*\$\s*=", re.DOTALL)  # "$1/2 $ = 3": the last formula counts
_CONSTANT_ADDED = re.compile(r"\+\s*C\Z")
_CONSTANT_ADDED_SMALL = re.compile(r"\+\s*c\Z")


class UnreadableReference(Exception):
    """The reference is no mathematics the algebra can read, so nothing can be said about any answer."""


def equal(gold: str, answer: str, reading: Callable[[str], None], tolerance: float = 0.0) -> bool:
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
        tolerance (`float`, *optional*, defaults to `0.0`):
            Relative difference between two numbers that is forgiven.

    Returns:
        `bool`

    Raises:
        [`UnreadableReference`]: if `gold` cannot be read.
    """
    reading("gold")
    reference = _read(gold)
    reading("answer")
    if reference is None:
        raise UnreadableReference(gold)
    if gold.count("'") != answer.count("'"):
        return False
    if _CONSTANT_ADDED.search(gold):
        answer = _CONSTANT_ADDED_SMALL.sub("+C", answer)  # the name of a constant of integration is free
    value = _read(answer)
    return value is not None and _equal(reference, value, tolerance)


def readable(text: str) -> bool:
    """Whether a normalised value can be read as mathematics."""
    return _read(text) is not None


def warm_up() -> None:
    """Build what the first comparison would build."""
    equal(r"\frac{x^2-1}{x-1}", "x+1.0", lambda what: None)
    equal(r"\{1, \frac{1}{\sqrt{2}}\}", r"\{x^2=4\}", lambda what: None)


@lru_cache(maxsize=64)
def _read(text: str) -> Basic | None:
    """Parse a value, or the last member of a chain of equalities; `None` for what is no mathematics."""
    text = _BROKEN_FORMULA.sub("", text)
    text = _TEXT_WORD.sub(lambda match: match.group().lower(), text)  # words, unlike symbols, have no case
    formula = normalize_latex(
        _DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", _PERCENT.sub(r"\\%", text)), config=_NORMALISATION
    )
    for candidate in dict.fromkeys((formula, get_last_eq(formula))):
        try:
            return latex2sympy(
                candidate,
                is_real=not should_treat_as_complex(candidate),
                convert_degrees=False,
                normalization_config=None,
                conversion_config=_CONVERSION,
            )
        except MemoryError:
            raise
        except Exception:  # the parser's way to say "no"; it raises whatever comes to hand
            continue
    return None


def _equal(gold: Basic, answer: Basic, tolerance: float) -> bool:
    if isinstance(answer, Eq) and not isinstance(gold, Eq) and not is_expr_of_only_symbols(answer.lhs):
        if answer.free_symbols or not _equal(answer.lhs, answer.rhs, tolerance):
            return False  # an equation still to be solved is not its right-hand side
        answer = answer.rhs
    if _differ_in_case(gold, answer):
        return False
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        decided = _same_values(_with_constants(gold), _with_constants(answer), tolerance)
        if decided is not None:
            return decided
    return bool(verify(gold, answer, float_rounding=12, timeout_seconds=None))


def _differ_in_case(gold: Basic, answer: Basic) -> bool:
    """math-verify compares some names without case, so a difference of case alone is caught before it."""
    golds, answers = _names(gold), _names(answer)
    return golds != answers and {name.lower() for name in golds} == {name.lower() for name in answers}


def _names(value: Basic) -> set[str]:
    symbols = {symbol.name for symbol in getattr(value, "free_symbols", ())}
    return symbols | {str(function.func) for function in getattr(value, "atoms", lambda *kinds: ())(AppliedUndef)}


def _with_constants(value: Expr) -> Expr:
    """Read `i` and `e` as the constants they are by convention, and carry out sums, limits and integrals."""
    value = value.subs(
        {symbol: {"i": I, "e": E}[symbol.name] for symbol in value.free_symbols if symbol.name in ("i", "e")}
    )
    return value.doit() if value.has(Sum, Product, Integral, Limit, Derivative) else value


def _same_values(gold: Expr, answer: Expr, tolerance: float) -> bool | None:
    """Compare by value: exactly for rationals, else to 90 digits, at random points where both are real."""
    if gold.is_Rational and answer.is_Rational and not tolerance:
        return gold == answer
    symbols = sorted(gold.free_symbols | answer.free_symbols, key=str)
    limit = _NOISE if gold.has(Float) or answer.has(Float) else _SAME
    if not symbols:
        exact = _same_residues(gold, answer) if limit is _SAME and not tolerance else None
        return _close(gold, answer, max(limit, Float(tolerance))) if exact is None else exact
    if gold.has(AppliedUndef) or answer.has(AppliedUndef):
        return None
    guarded = _guarded(gold) | _guarded(answer)
    turned = (None, *symbols) if guarded else (None,)
    lowest = 1 if guarded else -5000
    draw, agreed = random.Random(0), 0
    for _ in range(3 * _POINTS if guarded else 5 * _POINTS):
        # Letters under one root or logarithm share a sign by convention, so at most one of them is negative at a time.
        for negative in turned:
            point = {symbol: Rational(draw.randint(lowest, 5000), 997) for symbol in symbols}
            if negative is not None:
                point[negative] = -point[negative]
                if any(N(value.subs(point), 15).is_negative for value in guarded):
                    continue
            a, b = gold.subs(point), answer.subs(point)
            same = _close(a, b, limit) if _is_real(a) and _is_real(b) else None
            if same is False:
                return False
            agreed += same is True
        if agreed >= _POINTS:
            return True
    return None


def _same_residues(gold: Expr, answer: Expr) -> bool | None:
    """
    Compare two rational numbers too large to write out by their remainders: 2^100000 and its successor agree to
    thirty thousand digits. `None` where one of them is not made of whole numbers alone.
    """
    residues = [[_residue(value, prime) for prime in _PRIMES] for value in (gold, answer)]
    if any(residue is None for row in residues for residue in row):
        return None
    return residues[0] == residues[1]


def _residue(value: Expr, prime: int) -> int | None:
    """Remainder of a rational number by a prime, with division; `None` if it cannot be had from whole numbers."""
    if value.is_Integer:
        return int(value) % prime
    if value.is_Rational:
        return int(value.p) * pow(int(value.q), -1, prime) % prime if value.q % prime else None
    if isinstance(value, (Add, Mul)):
        parts = [_residue(part, prime) for part in value.args]
        if any(part is None for part in parts):
            return None
        return (sum(parts) if isinstance(value, Add) else math.prod(parts)) % prime  # type: ignore[arg-type]
    if isinstance(value, Pow):
        base, exponent = _residue(value.base, prime), _exponent(value.exp)
        # Below 0 and for an exponent of 0 the base must not vanish.
        return pow(base, exponent, prime) if base and exponent is not None else None
    if isinstance(value, factorial) and value.args[0].is_Integer and 0 <= value.args[0] <= _LARGEST_FACTORIAL:
        product = 1
        for factor in range(2, int(value.args[0]) + 1):
            product = product * factor % prime
        return product
    return None


def _exponent(value: Expr) -> int | None:
    """A whole exponent that can be written out, also one that is a power itself."""
    if value.is_Integer:
        return int(value)
    if isinstance(value, Pow) and value.base.is_Integer and value.exp.is_Integer and value.exp >= 0:
        digits = int(value.exp) * int(value.base).bit_length()
        return int(value.base) ** int(value.exp) if digits <= _EXPONENT_BITS else None
    if isinstance(value, Mul):
        parts = [_exponent(part) for part in value.args]
        return None if None in parts else math.prod(parts)  # type: ignore[arg-type]
    return None


def _guarded(value: Expr) -> set[Expr]:
    """What must not be negative for `value` to be a real number: all that stands under a root or a logarithm."""
    roots = {power.base for power in value.atoms(Pow) if not power.exp.is_integer}
    return {inner for inner in roots | {term.args[0] for term in value.atoms(log)} if inner.free_symbols}


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
