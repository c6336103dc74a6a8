"""One-line functions for a very small model, demonstrated by pupils of whom most copy what they read."""

import json
import random

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks.generated import DRAWS_PER_ROW, in_split
from trl_grpo_ext.tasks.task import Task


# Two different functions of this task agree on at most one of these.
_INPUTS = (0, 1, 2, -3, 10)

_SECONDS = 2.0


class TinyPrograms(Task):
    """
    Functions of one variable, generated on the spot: no download, any number of rows, the same for the same seed.

    A prompt is a formula as one writes it in mathematics, `x+12-7` or `12x-34`; the answer is the Python function:

    ````
    ```py
    def f(x):
     return 12*x-34
    ```
    ````

    The demonstrations are deliberately of mixed quality, as scraped code is. *Careful* pupils write the product out;
    *careless* ones copy the formula as it stands, which is right for sums and is not even Python for `12x-34`. A model
    trained on them knows both ways and by default answers as the majority does. What is left for reinforcement
    learning is to find out, from the tests alone, that the `*` pays.

    Prompts have at most a dozen characters and completions fewer than 50, all of them ASCII: what the embedded model
    of the quickstart can read and write, with the template `arithmetic_think`. Two formulas of the same function
    always belong to the same split.

    Args:
        digits (`int`, *optional*, defaults to `2`):
            Largest number of digits of a number in a formula, 1 to 3.
        product (`float`, *optional*, defaults to `0.7`):
            Share of formulas with a product.
        careful (`float`, *optional*, defaults to `0.35`):
            Share of demonstrations by careful pupils.

    Raises:
        [`~errors.ConfigError`]: if a parameter is out of range.
    """

    source = "tiny_programs"
    license = "Apache-2.0"

    def __init__(self, digits: int = 2, product: float = 0.7, careful: float = 0.35):
        if not 1 <= digits <= 3:
            raise ConfigError(f"tiny_programs: digits={digits!r} is out of range; use 1 to 3")
        for name, share in (("product", product), ("careful", careful)):
            if not 0 <= share <= 1:
                raise ConfigError(f"tiny_programs: {name}={share!r} is out of range; use a share from 0 to 1")
        self.digits = digits
        self.product = product
        self.careful = careful

    def draw(self, split: str, n: int, seed: int) -> list[dict]:
        rng = random.Random(f"{seed}/{split}")
        rows: list[dict] = []
        seen: set[str] = set()
        while len(rows) < n:
            drawn = self._unseen(split, rng, seen)
            if drawn is None:
                break
            formula, slope, offset = drawn
            seen.add(formula)
            rows.append(self._program_row(formula, slope, offset, rng if split == "sft" else None))
        return rows

    def _unseen(self, split: str, rng: random.Random, seen: set[str]) -> tuple[str, int, int] | None:
        wants_product = rng.random() < self.product
        for _ in range(DRAWS_PER_ROW):
            formula, slope, offset = self._formula(wants_product, rng)
            if formula not in seen and in_split(f"{slope}x{offset:+d}", split):
                return formula, slope, offset
        return None

    def _formula(self, product: bool, rng: random.Random) -> tuple[str, int, int]:
        largest = 10**self.digits - 1
        offset = rng.choice((1, -1)) * rng.randint(1, largest)
        if product:
            slope = rng.randint(2, largest)
            return f"{slope}x{offset:+d}", slope, offset
        second = rng.choice((1, -1)) * rng.randint(1, largest)
        return f"x{offset:+d}{second:+d}", 1, offset + second

    def _program_row(self, formula: str, slope: int, offset: int, pupils: random.Random | None) -> dict:
        right = formula.replace("x", "*x") if slope != 1 else formula
        demonstration = None
        if pupils is not None:
            demonstration = f"```py\n{program(right if pupils.random() < self.careful else formula)}\n```"
        calls = {
            "fn_name": "f",
            "inputs": [[x] for x in _INPUTS],
            "outputs": [slope * x + offset for x in _INPUTS],
        }
        case = {"format": "function_call", "tests": calls, "entry_point": "f", "time_limit": _SECONDS}
        row = self._row(formula, program(right), demonstration)
        return {**row, "domain": "code", "case": json.dumps(case)}


def program(expression: str) -> str:
    """The function that returns an expression, in as few characters as Python allows."""
    return f"def f(x):\n return {expression}"
