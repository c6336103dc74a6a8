"""The result of judging one completion."""

import math
from dataclasses import dataclass
from typing import Literal, get_args


VerdictKind = Literal[
    "correct",
    "wrong",
    "no_answer",
    "malformed",
    "truncated",
    "timeout",
    "memory",
    "cheating",
    "unscorable",
    "infra_error",
]

_KINDS = frozenset(get_args(VerdictKind))
_NOT_JUDGED = frozenset({"unscorable", "infra_error"})


@dataclass(frozen=True)
class Verdict:
    """
    What a judge says about one completion.

    Args:
        value (`float` or `None`):
            Score in [0, 1]. `None` if and only if the judge itself could not decide (`kind` is `"unscorable"`: the
            reference answer is unusable; or `"infra_error"`: the judging machinery failed). `None` is never "wrong".
        kind (`str`):
            One of `correct, wrong, no_answer, malformed, truncated, timeout, memory, cheating, unscorable,
            infra_error`.
        answer (`str`, *optional*):
            The answer that was read from the completion, as it was compared.
        reason (`str`, *optional*, defaults to `""`):
            Why, in one line.
        seconds (`float`, *optional*, defaults to `0.0`):
            Wall-clock time the judgement took.

    Raises:
        `ValueError`: if `kind` is unknown, or `value` is `None` for a kind that was judged (or the reverse).
    """

    value: float | None
    kind: VerdictKind
    answer: str | None = None
    reason: str = ""
    seconds: float = 0.0

    def __post_init__(self):
        if self.kind not in _KINDS:
            raise ValueError(f"unknown verdict kind {self.kind!r}; expected one of {sorted(_KINDS)}")
        if (self.value is None) != (self.kind in _NOT_JUDGED):
            raise ValueError(
                f"value {self.value!r} does not fit kind {self.kind!r}: None is for {sorted(_NOT_JUDGED)}"
            )

    def __bool__(self) -> bool:
        """Whether the completion is right, so that `if verify_math(...)` means it; not judged is not right."""
        return self.value == 1.0

    def __float__(self) -> float:
        """The value; NaN if there is none."""
        return math.nan if self.value is None else self.value
