"""What the steps of the judge say, about a pair and to a reader who asks why."""

from dataclasses import dataclass

from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """
    What one rung of the ladder decided. A rung that has nothing to say about a pair returns `None` instead.

    Args:
        equal (`bool` or `None`):
            Whether the answer is the reference; `None` if only the algebra can tell.
        reason (`str`):
            Why, in a few words.
    """

    equal: bool | None
    reason: str


@dataclass(frozen=True)
class Rung:
    """
    One step of an explanation.

    Args:
        name (`str`):
            What the step is called: `"extract gold"`, `"extract answer"`, `"normalise"`, `"numbers"`, …
        saw (`str`):
            What it looked at.
        decided (`str`):
            What it made of it; `"passed on"` if it had nothing to say.
    """

    name: str
    saw: str
    decided: str


@dataclass(frozen=True)
class Explanation:
    """
    How a verdict came about.

    Args:
        verdict ([`~trl_grpo_ext.verdict.Verdict`]):
            The verdict, the same that [`verify_math`] gives.
        rungs (`tuple[Rung]`):
            The steps that led to it, in order.
    """

    verdict: Verdict
    rungs: tuple[Rung, ...]
