"""What tasks share that make up their problems: which split a problem belongs to."""

import hashlib


# Draws per requested row before a split counts as exhausted: the rarest kind of row is a few per cent of all problems.
DRAWS_PER_ROW = 1000

# Share of the problem space per split, in tenths. The evaluation split is chosen by the problem alone, so no seed and
# no size can move a held-out problem into training.
_TENTHS = {"eval": range(0, 1), "sft": range(1, 6), "rl": range(6, 10)}


def in_split(problem: str, split: str) -> bool:
    """
    Whether a problem belongs to a split.

    Args:
        problem (`str`):
            The problem, written the same way whenever it is the same.
        split (`str`):
            One of `"sft"`, `"rl"`, `"eval"`.
    """
    return int(hashlib.sha256(problem.encode()).hexdigest(), 16) % 10 in _TENTHS[split]
