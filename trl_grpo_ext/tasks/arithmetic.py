"""Sums of two numbers, demonstrated by pupils of whom most are in a hurry."""

import random

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks.generated import DRAWS_PER_ROW, in_split
from trl_grpo_ext.tasks.task import Task


class Arithmetic(Task):
    """
    Addition of two whole numbers, generated on the spot: no download, any number of rows, the same for the same seed.

    The demonstrations are deliberately of mixed quality, as scraped working is. Two kinds of pupil wrote them:

    - *careful* ones add digit by digit from the right and write each carry down
      (`<think>7+8=15,3+4+1=8</think><answer>85</answer>`); their answers are right;
    - *hurried* ones copy the sum and write the digit sums from the left, forgetting every carry
      (`<think>37+48</think><answer>75</answer>`); their answers are right only when no carry is needed.

    A model trained on them learns the answer format, learns to add both ways, and by default answers as the majority
    does: in a hurry. What is left for reinforcement learning is to find out, from a 0/1 reward on the final answer
    alone, that the longer working pays. Answers are exact; nothing in the prompts or the reward says which working is
    wanted.

    A problem and its mirror image (`37+48`, `48+37`) always belong to the same split.

    Args:
        digits (`int`, *optional*, defaults to `2`):
            Number of digits of both operands, 2 to 6.
        carry (`float`, *optional*, defaults to `0.7`):
            Share of problems that need at least one carry.
        careful (`float`, *optional*, defaults to `0.35`):
            Share of demonstrations by careful pupils.

    Raises:
        [`~errors.ConfigError`]: if a parameter is out of range.
    """

    source = "arithmetic"
    license = "Apache-2.0"

    def __init__(self, digits: int = 2, carry: float = 0.7, careful: float = 0.35):
        if not 2 <= digits <= 6:
            raise ConfigError(f"arithmetic: digits={digits!r} is out of range; use 2 to 6")
        for name, share in (("carry", carry), ("careful", careful)):
            if not 0 <= share <= 1:
                raise ConfigError(f"arithmetic: {name}={share!r} is out of range; use a share from 0 to 1")
        self.digits = digits
        self.carry = carry
        self.careful = careful

    def draw(self, split: str, n: int, seed: int) -> list[dict]:
        rng = random.Random(f"{seed}/{split}")
        rows = []
        seen: set[tuple[int, int]] = set()
        for _ in range(n):
            pair = self._unseen_pair(split, rng, seen)
            if pair is None:
                break
            seen.add(pair)
            a, b = pair
            working = self._demonstration(a, b, rng) if split == "sft" else None
            rows.append(self._row(f"{a}+{b}=?", str(a + b), working))
        return rows

    def _unseen_pair(self, split: str, rng: random.Random, seen: set[tuple[int, int]]) -> tuple[int, int] | None:
        wants_carry = rng.random() < self.carry
        low, high = 10 ** (self.digits - 1), 10**self.digits - 1
        for _ in range(DRAWS_PER_ROW):
            a, b = rng.randint(low, high), rng.randint(low, high)
            if needs_carry(a, b) == wants_carry and (a, b) not in seen and in_split(_problem(a, b), split):
                return a, b
        return None

    def _demonstration(self, a: int, b: int, rng: random.Random) -> str:
        thought, answer = careful_working(a, b) if rng.random() < self.careful else hurried_working(a, b)
        return f"<think>{thought}</think><answer>{answer}</answer>"


def needs_carry(a: int, b: int) -> bool:
    """Whether some column but the first sums to more than 9, so that forgetting carries gives a wrong sum."""
    return hurried_working(a, b)[1] != a + b


def careful_working(a: int, b: int) -> tuple[str, int]:
    """Return the column-by-column working from the right, with carries, and the sum."""
    columns, carry = [], 0
    for x, y in _columns(a, b):
        total = x + y + carry
        columns.append(f"{x}+{y}+1={total}" if carry else f"{x}+{y}={total}")
        carry = total // 10
    return ",".join(columns), a + b


def hurried_working(a: int, b: int) -> tuple[str, int]:
    """Return the bare sum as working, and the answer without any carry between columns."""
    columns = _columns(a, b)
    answer = sum((x + y) % 10 * 10**place for place, (x, y) in enumerate(columns[:-1]))
    x, y = columns[-1]
    return f"{a}+{b}", answer + (x + y) * 10 ** (len(columns) - 1)


def _columns(a: int, b: int) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in zip(reversed(str(a)), reversed(str(b)), strict=True)]


def _problem(a: int, b: int) -> str:
    return f"{min(a, b)}+{max(a, b)}"
