"""Estimates and confidence intervals for sampled accuracies. Pure Python."""

import math
import random
from collections.abc import Sequence
from statistics import NormalDist


def pass_at_k(n: int, c: int, k: int) -> float:
    """
    Unbiased estimate of the chance that at least one of `k` samples is correct, `1 - C(n - c, k) / C(n, k)`.

    Introduced in https://huggingface.co/papers/2107.03374.

    Args:
        n (`int`):
            Number of samples drawn.
        c (`int`):
            How many of them are correct.
        k (`int`):
            Number of tries the estimate is for, at most `n`.

    Raises:
        `ValueError`: if not `0 <= c <= n` or not `1 <= k <= n`.
    """
    if not 0 <= c <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n, got c={c} and n={n}")
    if not 1 <= k <= n:
        raise ValueError(f"pass@k needs 1 <= k <= n, got k={k} and n={n}: draw at least k samples per problem")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """
    Wilson score interval for a proportion; it stays inside [0, 1] and is sensible at 0 and at `n` successes.

    Args:
        successes (`float`):
            Number of successes among `n` independent trials.
        n (`int`):
            Number of trials, at least 1.
        confidence (`float`, *optional*, defaults to `0.95`):
            Coverage of the interval.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"a proportion needs n >= 1 and 0 <= successes <= n, got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Rounding can push the exact bounds 0 and 1 past the end or past the estimate itself.
    return max(0.0, min(centre - half, p)), min(1.0, max(centre + half, p))


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """
    Percentile bootstrap interval for the mean of per-problem values.

    Samples of one problem are not independent of each other, so whole problems are resampled: `values` holds one
    number per problem (its sampled accuracy, or its pass@k), never one per sample. When every problem has the same
    value the resamples cannot vary and say nothing; for such values in {0, 1} the Wilson interval is returned instead.

    Args:
        values (`Sequence[float]`):
            One value per problem, at least one.
        confidence (`float`, *optional*, defaults to `0.95`):
            Coverage of the interval.
        resamples (`int`, *optional*, defaults to `2000`):
            Number of bootstrap resamples.
        seed (`int`, *optional*, defaults to `0`):
            Seed of the resampling, so that the same scores always give the same interval.
    """
    if not values:
        raise ValueError("a bootstrap interval needs at least one value")
    n = len(values)
    if all(value == values[0] for value in values) and values[0] in (0, 1):
        return wilson_interval(sum(values), n, confidence)
    generator = random.Random(seed)
    means = sorted(math.fsum(generator.choices(values, k=n)) / n for _ in range(resamples))
    tail = (1 - confidence) / 2
    return means[math.floor(tail * resamples)], means[math.ceil((1 - tail) * resamples) - 1]
