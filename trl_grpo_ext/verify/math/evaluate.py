"""Values of expressions without a computer-algebra system: exact where rational, else to sixty digits.

Two expressions are compared at points drawn by a fixed seed. A clear difference at one point proves them different;
agreement at all of them to fifty digits is taken for equality, as it is in the algebra. What is neither is left to the
algebra. Every step is bounded, so the text of a model may be evaluated in the caller's process.
"""

import math
import random
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from trl_grpo_ext.verify.math.expression import Node, operations, parse, parse_vector, symbols


_OF_THREAD = threading.local()
_DIGITS = 60
_MANY_DIGITS = 330
_SAME = 1e-50  # relative; sixty digits less what a long expression loses
_DIFFERENT = 1e-35  # relative; between the two nothing is decided
_NOISE = 1e-12  # decimals of twelve digits and more: the digits one needs to count as the exact value
_VANISHING = 1e-48  # a sum of roots this small may be zero; nothing is decided about it
_POINTS = 10
_TRIES = 40
_MAX_WRITTEN_BITS = 1_000  # of a bound that is written out again
_PATIENCE = 12  # points at which the value is out of bounds
_MAX_BITS = 40_000  # of an exact number
_MAX_FACTORIAL = 2_500
_MAX_TERMS = 300  # of a sum that is written out
_MAX_WORK = 10_000  # operations of one evaluation, sums included; one on long numbers counts for several
_BITS_PER_OPERATION = 500
_MAX_EXPONENT = 100_000
_SCALES = (1, 9, 250, 1, 1)  # of pairs of points: corners of absolute values lie near small numbers, rarely far out
_COUNTING = frozenset({"factorial", "binomial", "gcd", "lcm", "sum", "product"})  # of whole numbers
_ROUNDING = frozenset({"floor", "ceil"})
_COUNTING_NAMES = frozenset("klmnpqKLMNPQ")  # with these names, rounding is of whole numbers too
_ROOTED = frozenset({"root", "ln", "power"})


class Undefined(ArithmeticError):
    """The expression has no value at this point."""


class Pole(Undefined):
    """A division by zero: at a point without variables, a value that equals nothing."""


class Undecided(ArithmeticError):
    """The value is outside what this module computes."""


class TooMuch(Undecided):
    """The value takes too long, and it would at other points, too."""


def same_value(gold: str, answer: str, tolerance: float = 0.0) -> bool | None:
    """
    Compare two normalised values as functions of their variables.

    Args:
        gold (`str`):
            The reference.
        answer (`str`):
            The answer.
        tolerance (`float`, *optional*, defaults to `0.0`):
            Relative difference that is forgiven where there are no variables.

    Returns:
        `bool` or `None`: `None` where one of them cannot be read, or nothing can be said with certainty.
    """
    gold_tree, answer_tree = parse(gold), parse(answer)
    if gold_tree is None or answer_tree is None:
        return None
    poles = [not symbols(tree) and has_pole(tree) for tree in (gold_tree, answer_tree)]
    if any(poles):
        return None if all(poles) else False
    noisy = _noise(gold_tree, answer_tree)
    # Rational numbers have been compared exactly; only other constants can agree to sixty digits and differ.
    settled = noisy or bool(tolerance or symbols(gold_tree) or symbols(answer_tree))
    decided = None
    for a, b in _samples((gold_tree, answer_tree)):
        decided = _same_number(a, b, noisy, tolerance)
        if not decided:
            return decided
        settled = settled or type(a) is type(b) is Fraction
    return decided if settled else _same_to_many_digits((gold_tree, answer_tree))


def _same_to_many_digits(trees: tuple[Node, Node]) -> bool | None:
    """Look again at constants that agree: pi and pi + 10^-60 do so to any digits but more of them."""
    with _context().workdps(_MANY_DIGITS):
        for a, b in _samples(trees):
            if a is None or b is None:
                return None
            a, b = _to_mp(a), _to_mp(b)
            scale = max(abs(a), abs(b))
            return bool(scale == 0 or abs(a - b) <= scale * _context().mpf(10) ** (30 - _MANY_DIGITS))
    return None


def has_pole(tree: Node) -> bool:
    """Whether a tree without variables divides by zero."""
    try:
        _Evaluation({}).of(tree)
    except Pole:
        return True
    except (Undefined, Undecided):
        return False
    return False


def factor_between(gold: tuple[str, str], answer: tuple[str, str]) -> tuple[bool | None, int]:
    """
    Compare two relations by the difference of their sides.

    Args:
        gold (`tuple[str, str]`):
            Left and right side of the reference.
        answer (`tuple[str, str]`):
            Left and right side of the answer.

    Returns:
        `tuple[bool | None, int]`: Whether the differences are equal up to a constant factor that is not zero (`None`
        if nothing can be said), and the sign of that factor (0 where there is none).
    """
    trees = [parse(side) for side in (*gold, *answer)]
    if any(tree is None for tree in trees):
        return None, 0
    differences = (("subtract", trees[0], trees[1]), ("subtract", trees[2], trees[3]))
    if not symbols(differences[0]) or not symbols(differences[1]):
        return None, 0
    factor: Any = None
    agreed = 0
    for a, b in _samples(differences):
        if a is None or b is None:
            return None, 0
        if _vanishes(a) or _vanishes(b):
            if not (_vanishes(a) and _vanishes(b)):
                return _unless_polynomial(differences), 0
            continue
        ratio = _divide(a, b)
        if factor is None:
            factor = ratio
            continue
        same = _same_number(factor, ratio, False, 0.0)
        if same is False:
            return _unless_polynomial(differences), 0
        if same is None:
            return None, 0
        agreed += 1
    if factor is None or agreed < 3 or type(factor) is _context().mpc:
        return None, 0
    return True, 1 if factor > 0 else -1


def constant(text: str) -> Any | None:
    """The real value of a normalised expression without variables: a fraction, or sixty digits; else `None`."""
    tree = parse(text)
    if tree is None or symbols(tree):
        return None
    try:
        value = _Evaluation({}).of(tree)
    except (Undefined, Undecided):
        return None
    return None if type(value) is _complex_type() else value


def compare_constants(a: Any, b: Any) -> int | None:
    """Order two results of [`constant`]: -1, 0 or 1; `None` if they are too close to tell."""
    same = _same_number(a, b, False, 0.0)
    if same is None:
        return None
    return 0 if same else 1 if _to_mp(a) > _to_mp(b) else -1


def progression(text: str, parameter: str) -> tuple[Any, Any] | None:
    """Start and step of `text`, if it is a number plus a multiple of `parameter`; `None` for anything else."""
    tree = parse(text)
    if tree is None or symbols(tree) != {parameter}:
        return None
    try:
        values = [_Evaluation({parameter: Fraction(at)}).of(tree) for at in (0, 1, 2, 7)]
    except (Undefined, Undecided):
        return None
    if any(type(value) is _complex_type() for value in values):
        return None
    start, step = values[0], _difference(values[1], values[0])
    straight = all(
        _same_number(_difference(value, start), at * _to_mp(step), False, 0.0)
        for at, value in ((2, values[2]), (7, values[3]))
    )
    return (start, step) if straight and not _vanishes(step) else None


def coefficients(text: str) -> list[Any] | None:
    """The coefficients of the unit vectors i, j and k in `text`; `None` for what is no combination of them."""
    tree = parse_vector(text)
    names = symbols(tree) if tree is not None else frozenset()
    if tree is None or not names <= {"i", "j", "k"} or not names & {"j", "k"}:
        return None
    try:
        at = [dict.fromkeys("ijk", Fraction(0)) for _ in range(5)]
        for point, name in zip(at[1:], "ijk", strict=False):
            point[name] = Fraction(1)
        at[4] = {"i": Fraction(2), "j": Fraction(-3), "k": Fraction(5)}
        origin, *units, probe = [_Evaluation(point).of(tree) for point in at]
    except (Undefined, Undecided):
        return None
    expected = 2 * _to_mp(units[0]) - 3 * _to_mp(units[1]) + 5 * _to_mp(units[2])
    return units if origin == 0 and _same_number(expected, probe, False, 0.0) else None


def rational_ratio(a: Any, b: Any) -> Fraction | None:
    """`a / b` where that is a fraction of whole numbers below a million, else `None`."""
    if type(a) is Fraction and type(b) is Fraction:
        return a / b
    ratio = _to_mp(a) / _to_mp(b)
    if abs(ratio) > _MAX_EXPONENT:
        return None
    near = Fraction(str(ratio)).limit_denominator(1_000_000)
    return near if abs(_to_mp(near) - ratio) < _VANISHING else None


def _difference(a: Any, b: Any) -> Any:
    return a - b if type(a) is type(b) is Fraction else _to_mp(a) - _to_mp(b)


def linear(left: str, right: str) -> tuple[str, Fraction, Fraction] | None:
    """Return `(x, a, b)` of `left - right = a x + b` with rational a and b; `None` for anything else."""
    trees = parse(left), parse(right)
    if trees[0] is None or trees[1] is None:
        return None
    tree = ("subtract", *trees)
    names = symbols(tree)
    if len(names) != 1:
        return None
    (name,) = names
    values = []
    try:
        for at in (0, 1, 2, Fraction(-7, 3), Fraction(1001, 7)):
            values.append(_Evaluation({name: Fraction(at)}).of(tree))
    except (Undefined, Undecided):
        return None
    if not all(type(value) is Fraction for value in values):
        return None
    offset, slope = values[0], values[1] - values[0]
    straight = (
        values[2] == 2 * slope + offset
        and values[3] == Fraction(-7, 3) * slope + offset
        and values[4] == Fraction(1001, 7) * slope + offset
    )
    written = max(part.bit_length() for number in (slope, offset) for part in (number.numerator, number.denominator))
    return (name, slope, offset) if straight and slope and written < _MAX_WRITTEN_BITS else None


def _unless_polynomial(trees: tuple[Node, Node]) -> bool | None:
    """No common factor: of polynomials that is the end of it, of other equations only the algebra knows."""
    return False if all(_polynomial(tree) for tree in trees) else None


def _polynomial(tree: Node) -> bool:
    kind = tree[0]
    if kind in ("number", "noisy", "symbol", "pi", "e") or not symbols(tree):
        return True
    if kind in ("add", "subtract", "multiply", "negate"):
        return all(_polynomial(part) for part in tree[1:])
    if kind == "divide":
        return _polynomial(tree[1]) and not symbols(tree[2])
    return kind == "power" and _polynomial(tree[1]) and tree[2][0] == "number" and tree[2][1].denominator == 1


def _noise(*trees: Node) -> bool:
    return any("noisy" in operations(tree) for tree in trees)


def _samples(trees: tuple[Node, Node]) -> Iterator[tuple[Any, Any]]:
    """Values of both trees, at as many points as it takes to tell; a pair of `None` last where there are too few."""
    names = sorted(symbols(trees[0]) | symbols(trees[1]))
    used = operations(trees[0]) | operations(trees[1])
    is_complex = "i" in used or not names
    wanted, undecided = _POINTS if names else 1, 0
    for point in _points(names, used):
        try:
            pair = tuple(_Evaluation(point, is_complex).of(tree) for tree in trees)
        except Undefined:
            continue
        except TooMuch:
            break
        except Undecided:
            undecided += 1
            if undecided > _PATIENCE:
                break
            continue
        yield pair
        wanted -= 1
        if not wanted:
            return
    yield None, None


def _points(names: list[str], used: frozenset[str]) -> Iterator[dict[str, Fraction]]:
    draw = random.Random(20)
    whole = bool(used & _COUNTING) or bool(used & _ROUNDING and _COUNTING_NAMES.issuperset(names))
    # Letters under one root or logarithm share a sign by convention, so at most one of them is negative at a time.
    rooted = bool(used & _ROOTED) and not whole
    point: dict[str, Fraction] = {}
    for turn in range(_TRIES if names else 1):
        if whole:
            yield {name: Fraction(draw.randint(1, 5 + turn)) for name in names}
            continue
        scale = _SCALES[turn // 2 % len(_SCALES)]
        if turn % 2 and not rooted:  # both sides of a corner
            yield {name: -value for name, value in point.items()}
            continue
        point = {name: Fraction(draw.randint(1, 60) * scale, 7) for name in names}
        if rooted:
            turned = (None, *names)[turn % (len(names) + 1)]
            if turned is not None:
                point[turned] = -point[turned]
        else:
            point = {name: value * draw.choice((-1, 1)) for name, value in point.items()}
        yield point


def _same_number(a: Any, b: Any, noisy: bool, tolerance: float) -> bool | None:
    if a is None or b is None:
        return None
    if type(a) is Fraction and type(b) is Fraction:
        if a == b:
            return True
        limit = max(tolerance, _NOISE if noisy else 0.0)
        return bool(limit) and abs(a - b) <= Fraction(limit) * max(abs(a), abs(b))
    a, b = _to_mp(a), _to_mp(b)
    scale = max(abs(a), abs(b))
    gap = abs(a - b)
    if scale == 0 or gap <= max(_SAME, tolerance, _NOISE if noisy else 0.0) * scale:
        return True
    return False if scale > _VANISHING and gap > _DIFFERENT * scale else None


def _vanishes(value: Any) -> bool:
    return abs(value) < _VANISHING


def _context() -> Any:
    """A context of this thread: nobody else's precision reaches it, and a change of its own reaches nobody."""
    if not hasattr(_OF_THREAD, "context"):
        from mpmath import MPContext

        _OF_THREAD.context = MPContext()
        _OF_THREAD.context.dps = _DIGITS
    return _OF_THREAD.context


def _complex_type() -> type:
    return _context().mpc


def _to_mp(value: Any) -> Any:
    return _context().mpf(value.numerator) / value.denominator if type(value) is Fraction else value


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise Undecided("too many digits")
    return value


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise Pole("division by zero")
    if type(a) is Fraction and type(b) is Fraction:
        return _bounded(a / b)
    return _to_mp(a) / _to_mp(b)


class _Evaluation:
    """One expression at one point."""

    def __init__(self, point: dict[str, Fraction], is_complex: bool = True):
        self.point = point
        self.is_complex = is_complex
        self.work = 0

    def of(self, tree: Node) -> Any:
        """The value of a whole tree; every failure to compute one is [`Undefined`] or [`Undecided`]."""
        try:
            return self.value(tree)
        except (Undefined, Undecided):
            raise
        except (ArithmeticError, ValueError) as error:  # of mpmath, at the edge of what it computes
            raise Undecided(str(error)) from error

    def value(self, node: Node) -> Any:
        self.work += 1
        if self.work > _MAX_WORK:
            raise TooMuch("too much work")
        kind = node[0]
        if kind in ("number", "noisy"):
            return node[1]
        if kind == "symbol":
            return self.point[node[1]]
        if kind in ("sum", "product"):
            return self.series(*node)
        if kind == "apply":
            return _stand_in(node[1], [self.value(part) for part in node[2:]])
        return getattr(self, kind)(*map(self.value, node[1:]))

    def series(self, kind: str, index: Node, first: Node, last: Node, body: Node) -> Any:
        low, high = _whole(self.value(first)), _whole(self.value(last))
        if high - low > _MAX_TERMS:
            raise TooMuch("too many terms")
        name, total = index[1], Fraction(kind == "product")
        outer = self.point.get(name)
        for step in range(low, high + 1):
            self.point[name] = Fraction(step)
            term = self.value(body)
            total = self.add(total, term) if kind == "sum" else self.multiply(total, term)
        self.point.pop(name, None)
        if outer is not None:
            self.point[name] = outer
        return total

    def exact(self, value: Fraction) -> Fraction:
        self.work += (value.numerator.bit_length() + value.denominator.bit_length()) // _BITS_PER_OPERATION
        return _bounded(value)

    def pi(self) -> Any:
        return +_context().pi

    def e(self) -> Any:
        return +_context().e

    def i(self) -> Any:
        return _context().j

    def add(self, a: Any, b: Any) -> Any:
        return self.exact(a + b) if type(a) is type(b) is Fraction else _to_mp(a) + _to_mp(b)

    def subtract(self, a: Any, b: Any) -> Any:
        return self.add(a, -b)

    def negate(self, a: Any) -> Any:
        return -a

    def multiply(self, a: Any, b: Any) -> Any:
        return self.exact(a * b) if type(a) is type(b) is Fraction else _to_mp(a) * _to_mp(b)

    def divide(self, a: Any, b: Any) -> Any:
        return _divide(a, b)

    def abs(self, a: Any) -> Any:
        return abs(a)

    def power(self, base: Any, exponent: Any) -> Any:
        if base == 0:
            if type(exponent) is not Fraction or exponent < 0:
                raise Undefined("a power of zero")
            return Fraction(exponent == 0)
        if type(exponent) is not Fraction:
            return self.general_power(base, exponent)
        if exponent.denominator == 1:
            return self.whole_power(base, exponent.numerator)
        if type(base) is Fraction and base < 0:
            if exponent.denominator == 2:
                return self.whole_power(self.root(base, Fraction(2)), exponent.numerator)
            raise Undefined("a broken power of a negative") if self.point else Undecided("its branch")
        if exponent.denominator > _MAX_FACTORIAL:
            return self.general_power(base, exponent)
        return self.whole_power(self.root(base, Fraction(exponent.denominator)), exponent.numerator)

    def whole_power(self, base: Any, exponent: int) -> Any:
        if abs(exponent) > _MAX_EXPONENT:
            raise Undecided("an exponent that large")
        if type(base) is Fraction:
            bits = base.numerator.bit_length() + base.denominator.bit_length()
            if bits * abs(exponent) > _MAX_BITS and abs(base) != 1:
                raise Undecided("too many digits")
            return base**exponent
        return base**exponent

    def general_power(self, base: Any, exponent: Any) -> Any:
        if type(base) is _complex_type() or type(exponent) is _complex_type() or base < 0:
            raise Undecided("a power with several values")
        return self.exp(_to_mp(exponent) * _context().ln(_to_mp(base)))

    def root(self, a: Any, index: Any) -> Any:
        degree = _whole(index)
        if not 2 <= degree <= _MAX_FACTORIAL:
            raise Undecided("a root of that degree")
        if type(a) is _complex_type():
            if degree != 2:
                raise Undecided("a root with several values")
            return _context().sqrt(a)
        if a < 0:
            if degree % 2:
                return -self.root(-a, index)
            if not self.is_complex:
                raise Undefined("an even root of a negative")
            if degree != 2:
                raise Undecided("a root with several values")
            return self.multiply(self.i(), self.root(-a, index))
        if type(a) is Fraction:
            above, below = _exact_root(a.numerator, degree), _exact_root(a.denominator, degree)
            if above is not None and below is not None:
                return Fraction(above, below)
        return _context().root(_to_mp(a), degree) if degree > 2 else _context().sqrt(_to_mp(a))

    def exp(self, a: Any) -> Any:
        if a == 0:
            return Fraction(1)
        if abs(a) > _MAX_EXPONENT:
            raise Undecided("an exponent that large")
        return _context().exp(_to_mp(a))

    def ln(self, a: Any) -> Any:
        if type(a) is _complex_type():
            raise Undecided("a logarithm with several values")
        if a <= 0:
            raise Undefined("a logarithm of what is not positive")
        return Fraction(0) if a == 1 else _context().ln(_to_mp(a))

    def _real(self, a: Any) -> Any:
        if type(a) is _complex_type() or abs(a) > _MAX_EXPONENT:
            raise Undecided("an angle that is not real, or far out")
        return _to_mp(a)

    def sin(self, a: Any) -> Any:
        return _context().sin(self._real(a))

    def cos(self, a: Any) -> Any:
        return _context().cos(self._real(a))

    def tan(self, a: Any) -> Any:
        return _divide(self.sin(a), self._away_from_zero(self.cos(a)))

    def cot(self, a: Any) -> Any:
        return _divide(self.cos(a), self._away_from_zero(self.sin(a)))

    def sec(self, a: Any) -> Any:
        return _divide(Fraction(1), self._away_from_zero(self.cos(a)))

    def csc(self, a: Any) -> Any:
        return _divide(Fraction(1), self._away_from_zero(self.sin(a)))

    def _away_from_zero(self, a: Any) -> Any:
        if abs(a) < _VANISHING:
            raise Pole("a pole")
        return a

    def asin(self, a: Any) -> Any:
        return _context().asin(self._within_one(a))

    def acos(self, a: Any) -> Any:
        return _context().acos(self._within_one(a))

    def _within_one(self, a: Any) -> Any:
        if abs(self._real(a)) > 1:
            raise Undefined("the inverse of a sine above one")
        return _to_mp(a)

    def atan(self, a: Any) -> Any:
        return _context().atan(self._real(a))

    def sinh(self, a: Any) -> Any:
        return _context().sinh(self._real(a))

    def cosh(self, a: Any) -> Any:
        return _context().cosh(self._real(a))

    def tanh(self, a: Any) -> Any:
        return _context().tanh(self._real(a))

    def floor(self, a: Any) -> Any:
        return self._rounded(a, math.floor)

    def ceil(self, a: Any) -> Any:
        return self._rounded(a, math.ceil)

    def _rounded(self, a: Any, rounding: Any) -> Fraction:
        if type(a) is Fraction:
            return Fraction(rounding(a))
        if type(a) is _complex_type() or abs(a) > 1e30:
            raise Undecided("rounding of such a number")
        nearest = Fraction(int(_context().nint(a)))
        if abs(a - int(nearest)) < 1e-20:
            raise Undecided("rounding next to a whole number")
        return Fraction(int(_context().floor(a)) + (rounding is math.ceil))

    def factorial(self, a: Any) -> Fraction:
        n = _whole(a)
        if n < 0:
            raise Undefined("the factorial of a negative")
        if n > _MAX_FACTORIAL:
            raise Undecided("a factorial that large")
        return Fraction(math.factorial(n))

    def binomial(self, a: Any, b: Any) -> Fraction:
        n, k = _whole(a), _whole(b)
        if n < 0 or k < 0:
            raise Undefined("a binomial of negatives")
        if n > 2 * _MAX_FACTORIAL:
            raise Undecided("a binomial that large")
        return Fraction(math.comb(n, k))

    def gcd(self, *values: Any) -> Fraction:
        return Fraction(math.gcd(*map(_whole, values)))

    def lcm(self, *values: Any) -> Fraction:
        return _bounded(Fraction(math.lcm(*map(_whole, values))))

    def max(self, *values: Any) -> Any:
        return max(values, key=self._real)

    def min(self, *values: Any) -> Any:
        return min(values, key=self._real)


def _stand_in(name: str, arguments: list[Any]) -> Fraction:
    """A value for `f(x)` or `a_n` of which nothing is known but that it is the same for the same arguments."""
    written = [str(value) if type(value) is Fraction else _context().nstr(value, _DIGITS // 2) for value in arguments]
    return Fraction(random.Random(f"{name}({', '.join(written)})").randint(1, 10_000), 97)


def _whole(value: Any) -> int:
    if type(value) is not Fraction or value.denominator != 1:
        raise Undefined("not a whole number")
    return value.numerator


def _exact_root(value: int, degree: int) -> int | None:
    if value.bit_length() > 1000:
        return None
    root = math.isqrt(value) if degree == 2 else round(value ** (1 / degree))
    return root if root**degree == value else None
