"""Printed output against the expected one."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.verify.code.output import same_output


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("7\n", "7\n"),
        ("7\n", "7"),
        ("7", "7\r\n"),
        ("7\n", "7\n\n\n"),
        ("7\n", "\n\n7\n"),
        ("1 2 3\n", "1 2 3 \n"),
        ("1 2 3\n", "  1  2\t3\n"),
        ("1\n2\n", "1 \r\n2\r\n"),
        ("a\n\nb\n", "a\n  \nb"),
        ("", ""),
        ("\n", "  \n\n"),
        ("nan", "nan"),
    ],
)
def test_the_same(expected, got):
    assert same_output(expected, got) == (True, "")


@pytest.mark.parametrize(
    ("expected", "got", "where"),
    [
        ("7\n", "8\n", "line 1: expected '7', got '8'"),
        ("7\n", "", "line 1: expected '7', got ''"),
        ("", "7\n", "line 1: expected '', got '7'"),
        ("1\n2\n3\n", "1\n", "line 2: expected '2', got the end"),
        ("1\n", "1\n2\n3\n", "line 2: expected the end, got '2'"),
        ("1\n2\n3\n", "1 2 3\n", "line 1: expected '1', got '1 2 3'"),
        ("1 2 3\n", "1\n2\n3\n", "line 1: expected '1 2 3', got '1'"),
        ("1\n2\n", "2\n1\n", "line 1: expected '1', got '2'"),
        ("a\nb\n", "a\n\nb\n", "line 2: expected 'b', got ''"),
        ("ab\n", "a b\n", "line 1: expected 'ab', got 'a b'"),
        ("a b\n", "ab\n", "line 1: expected 'a b', got 'ab'"),
        ("Yes\n", "YES\n", "line 1: expected 'Yes', got 'YES'"),
        ("7\n", "07\n", "line 1: expected '7', got '07'"),
        ("2\n", "2.0\n", "line 1: expected '2', got '2.0'"),
        ("0.50\n", "0.5\n", "line 1: expected '0.50', got '0.5'"),
        ("1\n", "x\x1b[2J\x00\n", r"line 1: expected '1', got 'x\x1b[2J\x00'"),
        ("1\n", "\ud800\n", r"line 1: expected '1', got '\ud800'"),
        ("1\n", "9" * 99, f"line 1: expected '1', got '{'9' * 40}'…"),
    ],
)
def test_different(expected, got, where):
    assert same_output(expected, got) == (False, where)


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("0.333333333333\n", "0.333333\n"),
        ("2.0", "2"),
        ("2.50", "2.5"),
        ("1e3", "1000.0000001"),
        ("1.5E+6 x", "1500000 x"),
        ("1000000.0", "1000000.9"),
        ("-.5", "-0.5"),
        ("0.0", "-0.0"),
        ("nan", "nan"),
    ],
)
def test_near_enough(expected, got):
    assert same_output(expected, got, 1e-6)[0]


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("0.333333333333", "0.33"),
        ("50000000000000001", "50000000000000000"),
        ("2", "2.0"),
        ("2", "2.0000001"),
        ("1000000000000000007", "1e18"),
        ("0.5", "nan"),
        ("0.5", "inf"),
        ("0.5", "1e999999"),
        ("1e999999", "2e999999"),
        ("1e400", "1e401"),
        ("nan", "NaN"),
        ("inf", "Infinity"),
        ("0.5", "0.5x"),
        ("0.5", "0,5"),
        ("0.5", "1_0.5"),
        ("e", "E"),
        ("0.5", "٠.٥"),
        ("0." + "1" * 500, "0." + "1" * 501),
    ],
)
def test_not_near_enough(expected, got):
    assert not same_output(expected, got, 1e-6)[0]


def test_a_tolerance_of_nothing_compares_values():
    assert same_output("0.50", "0.5", 0.0)[0]
    assert not same_output("0.50", "0.5000000001", 0.0)[0]


M = 1_000_000


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("1\n", "\n" * 16 * M),
        ("1\n", "1" + "\n" * 16 * M + "x"),
        ("1\n", " " * 16 * M),
        ("1\n", "12 " * 5 * M),
        ("1\n", "9" * 16 * M),
        ("9" * M, "9" * M + "8"),
        ("0.5", "0." + "5" * 16 * M),
        ("1 " * M, "1  " * M),
        ("1\n" * M, "1 \n" * M),
        ("0.5 " * (M // 4), "0.50 " * (M // 4)),
    ],
    ids=range(10),
)
def test_large_outputs_take_no_time(expected, got):
    started = time.process_time()
    same_output(expected, got, 1e-6)
    assert time.process_time() - started < 5.0


WORDS = st.lists(st.lists(st.text(alphabet="ab01.-e", min_size=1, max_size=6), min_size=1, max_size=4), max_size=5)


@settings(max_examples=150, deadline=None)
@given(WORDS, WORDS, st.sampled_from([None, 1e-6]))
def test_it_is_the_comparison_of_words_line_by_line(lines, other, tolerance):
    expected = "\n".join(map(" ".join, lines))
    assert same_output(expected, "\n" + "\r\n".join(map("\t".join, lines)) + " \n\n", tolerance)[0]
    same, where = same_output(expected, "\n".join(map(" ".join, other)))
    assert same == (lines == other)
    assert same == (where == "")


@settings(max_examples=150, deadline=None)
@given(st.text(), st.text(), st.sampled_from([None, 0.5]))
def test_nothing_raises(expected, got, tolerance):
    same, where = same_output(expected, got, tolerance)
    assert where.isprintable()
    assert len(where) < 1200
    assert same or where.startswith("line ")
