"""Compare a value that a function returned with the one that was expected: plain data on both sides.

The conventions:

- A tuple equals a list of the same members: JSON knows only lists. Sets equal sets, and no list.
- `True` and `False` equal only themselves: neither 1 nor `"true"` is a boolean.
- An expected integer equals the same integer, or a float of exactly its value: 6.0 is 6, and 6.000000001 is not,
  whatever the tolerance.
- An expected float equals a number within the tolerance. Where none is stated, rounding noise is forgiven, nothing
  more: the last digits depend on the order of the additions, and benchmarks that compare them exactly refuse right
  programs.
- NaN equals nothing.
- Keys of dictionaries are compared as JSON writes them: `{1: 2}` is `{"1": 2}`.
- Everything else has to be of the same type and equal.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any


NOISE = 1e-9  # relative; sums of thousands of terms stay far below it
NOISE_AT_ZERO = 1e-12  # absolute; what is left of numbers near 1 that should cancel
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)
_MAX_KEY_BITS = 2_000  # Python refuses to write integers of more than 4300 digits


def equal(expected: Any, got: Any, tolerance: float | None = None) -> bool:
    """
    Compare two values. Never recurses, so no depth of nesting is too deep, and takes no longer than `expected` is
    large.

    Args:
        expected:
            The expected value, as JSON holds it.
        got:
            The returned value, of exact builtin types.
        tolerance (`float`, *optional*):
            Tolerance of expected floats: `|a - b| <= tolerance * max(1, |expected|)`.

    Returns:
        `bool`
    """
    pairs = [(expected, got)]
    while pairs:
        one, other = pairs.pop()
        if type(one) in _SEQUENCES:
            if type(other) not in _SEQUENCES or len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif type(one) is dict:
            members = _members(one, other) if type(other) is dict else None
            if members is None:
                return False
            pairs.extend(members)
        elif not _same_leaf(one, other, tolerance):
            return False
    return True


def _members(expected: Mapping, got: Mapping) -> Sequence[tuple[Any, Any]] | None:
    """The values under equal keys, or nothing if the keys differ."""
    if len(expected) != len(got):
        return None
    wanted, found = ({_key(key): value for key, value in side.items()} for side in (expected, got))
    if len(found) != len(got) or wanted.keys() != found.keys():
        return None
    return [(value, found[key]) for key, value in wanted.items()]


def _key(key: Any) -> Any:
    """The key as JSON writes it; a key that JSON does not have stays what it is."""
    if key is None or type(key) is bool:
        return {None: "null", True: "true", False: "false"}[key]
    if type(key) is float or (type(key) is int and key.bit_length() <= _MAX_KEY_BITS):
        return repr(key)
    return key


def _same_leaf(expected: Any, got: Any, tolerance: float | None) -> bool:
    if type(expected) is float and type(got) in (int, float):
        return _near(expected, got, tolerance)
    if type(expected) is int and type(got) in (int, float):
        return expected == got
    if type(expected) in _SETS and type(got) in _SETS:
        return expected == got
    return type(expected) is type(got) and expected == got


def _near(expected: float, got: int | float, tolerance: float | None) -> bool:
    if expected == got:
        return True
    if not math.isfinite(expected) or (type(got) is int and got.bit_length() > 1_000) or not math.isfinite(got):
        return False
    if tolerance is None:
        return math.isclose(expected, got, rel_tol=NOISE, abs_tol=NOISE_AT_ZERO)
    return abs(expected - got) <= tolerance * max(1, abs(expected))
