import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.stages.statistics import bootstrap_interval, pass_at_k, wilson_interval


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(4, 0, 1, 0.0), (4, 4, 4, 1.0), (4, 1, 1, 0.25), (4, 1, 4, 1.0), (4, 2, 2, 1 - 1 / 6), (5, 2, 3, 1 - 1 / 10)],
)
def test_pass_at_k_by_hand(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-15)


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_k_subsets_with_a_success(n, data):
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    outcomes = [1] * c + [0] * (n - c)
    subsets = list(itertools.combinations(outcomes, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0)])
def test_pass_at_k_refuses_impossible_counts(n, c, k):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, c, k)


def test_wilson_by_hand():
    # z = 1.959964; p = 0.8, n = 10: centre (0.8 + 0.192073) / 1.384146 = 0.716740, half width 0.226577
    low, high = wilson_interval(8, 10)
    assert low == pytest.approx(0.490162, abs=1e-6)
    assert high == pytest.approx(0.943318, abs=1e-6)


def test_wilson_at_the_ends_is_not_a_point():
    z_squared = 1.959963984540054**2
    assert wilson_interval(0, 20) == pytest.approx((0.0, z_squared / (20 + z_squared)))
    assert wilson_interval(20, 20) == pytest.approx((20 / (20 + z_squared), 1.0))


@given(st.integers(1, 500), st.data())
def test_wilson_is_symmetric_and_holds_the_estimate(n, data):
    successes = data.draw(st.integers(0, n))
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    mirrored_low, mirrored_high = wilson_interval(n - successes, n)
    assert (low, high) == (pytest.approx(1 - mirrored_high), pytest.approx(1 - mirrored_low))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=40))
def test_bootstrap_is_deterministic_and_in_range(values):
    low, high = bootstrap_interval(values, resamples=200)
    assert (low, high) == bootstrap_interval(values, resamples=200)
    assert min(0, *values) <= low <= high <= 1


def test_bootstrap_is_close_to_the_normal_interval_on_many_problems():
    generator = random.Random(3)
    values = [generator.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(400)]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    low, high = bootstrap_interval(values)
    half = 1.96 * deviation / math.sqrt(len(values))
    assert low == pytest.approx(mean - half, abs=0.1 * half)
    assert high == pytest.approx(mean + half, abs=0.1 * half)


def test_bootstrap_of_all_right_says_more_than_a_point():
    assert bootstrap_interval([1.0] * 50) == wilson_interval(50, 50)
    assert bootstrap_interval([0.0] * 50)[1] > 0.05


def test_intervals_refuse_no_data():
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval([])
    with pytest.raises(ValueError, match="n >= 1"):
        wilson_interval(0, 0)
