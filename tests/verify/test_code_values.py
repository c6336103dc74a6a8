"""Returned values against expected ones."""

import math
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.verify.code.values import equal


NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (None, None),
        (True, True),
        ("ab", "ab"),
        ("", ""),
        (6, 6),
        (6, 6.0),
        (10**400, 10**400),
        (0, -0.0),
        (0.3, 0.1 + 0.2),
        (1.0, 1),
        (0.0, math.sin(math.pi)),
        (INF, INF),
        ([1, 3], (1, 3)),
        ([[1], []], [(1,), ()]),
        ((1, 2), [1, 2]),
        ([], ()),
        ({"a": [1.0]}, {"a": (1,)}),
        ({"1": 2, "3": 4}, {3: 4, 1: 2}),
        ({"true": 1, "null": 2, "1.5": 3}, {True: 1, None: 2, 1.5: 3}),
        ({1: 2}, {"1": 2}),
        ({(1, 2): 3}, {(1, 2): 3}),
        ({}, {}),
        ({1, 2}, frozenset({1, 2})),
    ],
)
def test_equal(expected, got):
    assert equal(expected, got)


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (None, 0),
        (None, False),
        (0, None),
        (True, 1),
        (1, True),
        (0, False),
        (1.0, True),
        (True, "true"),
        (True, "True"),
        (3, "3"),
        ("3", 3),
        ("ab", b"ab"),
        ("ab", "AB"),
        ("ab", ["a", "b"]),
        (6, 6 + 1e-9),
        (6, 7),
        (1267650600228229401496703205377, 1267650600228229401496703205376),
        (1267650600228229401496703205377, 1.2676506002282294e30),
        (10**400, INF),
        (0.3, 0.3001),
        (0.5, "0.5"),
        (0.5, 10**400),
        (1e300, 10**3000),
        (INF, 1e308),
        (INF, -INF),
        (NAN, NAN),
        (0.5, NAN),
        (6, NAN),
        (1.5, 1.5 + 0j),
        (1, 1 + 0j),
        (6, Decimal(6)),
        (0.5, Fraction(1, 2)),
        ([NAN], [NAN]),
        ([1, 2], [2, 1]),
        ([1, 2], [1, 2, 3]),
        ([1, 2], {1, 2}),
        ([], {}),
        ([], set()),
        ([], None),
        ([], ""),
        ([1], 1),
        ([[1]], [1]),
        ([0, 1, 1], {0: 0, 1: 1, 2: 1}),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"1": 2}, {1: 2, "1": 2}),
        ({"1": 2, "2": 2}, {1: 2, "1": 2}),
        ({"a": 1}, [["a", 1]]),
        ({"a": 1}, "a"),
        ({"1": 2}, {(1,): 2}),
        ({"1": 2}, {10**5000: 2}),
        ({1, 2}, [1, 2]),
    ],
)
def test_different(expected, got):
    assert not equal(expected, got)


def test_the_tolerance_is_for_expected_floats():
    assert equal([0.3, 0.6], [0.30000001, 0.6], 1e-6)
    assert equal(1e9, 1e9 + 10, 1e-6)
    assert equal(0.0, 5e-7, 1e-6)
    assert equal(2.0, 2, 0.0)
    assert not equal(0.3, 0.31, 1e-6)
    assert not equal(0.3, 0.1 + 0.2, 0.0)
    assert not equal(6, 6 + 1e-9, 1e-6)
    assert not equal(6, 6.0000001, 0.5)
    assert not equal(0.5, NAN, 0.5)
    assert not equal(0.5, INF, 0.5)


def test_rounding_noise_is_forgiven_and_nothing_more():
    assert equal(1e20, sum([0.1] * 10) * 1e20)
    assert not equal(1.0, 1.0 + 1e-8)
    assert not equal(1e-5, 1.00001e-5)
    assert not equal(0.0, 1e-9)


def nested(wrap, depth: int):
    value = []
    for _ in range(depth):
        value = wrap(value)
    return value


def test_no_depth_is_too_deep():
    assert equal(nested(lambda value: [value], 200_000), nested(lambda value: (value,), 200_000))
    assert not equal([[1]], nested(lambda value: [value], 200_000))
    assert equal(nested(lambda value: {"k": value}, 100_000), nested(lambda value: {"k": value}, 100_000))


def test_large_values_take_no_time():
    started = time.process_time()
    assert equal(list(range(300_000)), tuple(range(300_000)))
    assert not equal([1], list(range(1_000_000)))
    assert not equal({"a": 1}, dict.fromkeys(range(1_000_000)))
    assert not equal(7, 10**3_000_000)
    assert time.process_time() - started < 10.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(JSON, JSON)
def test_every_value_equals_itself_and_little_else(one, other):
    assert equal(one, one)
    if equal(one, other):
        assert type(one) is type(other) or {type(one), type(other)} == {int, float}
