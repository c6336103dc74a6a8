"""What sandboxes do when their machinery fails: try again, and go on where they were."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

from trl_grpo_ext.errors import SandboxError


R = TypeVar("R")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class Unavailable(SandboxError):
    """The machinery failed in a way that another attempt may not. Other errors stay what they are."""


def repeated(attempt: Callable[[], R], attempts: int) -> R:
    """
    Return what `attempt` returns; where the machinery fails, ask again, later each time.

    Args:
        attempt (`Callable`):
            What to do.
        attempts (`int`):
            How often it is done at most.

    Raises:
        [`Unavailable`]: if the last attempt failed, too.
        [`~errors.SandboxError`]: as soon as it is one that another attempt would not help.
    """
    for failures in range(1, attempts):
        try:
            return attempt()
        except Unavailable:
            time.sleep(_pause(failures, _FIRST_PAUSE))
    return attempt()


def resumed(attempt: Callable[[], Iterator[R]], attempts: int, pause: float = _FIRST_PAUSE) -> Iterator[R]:
    """
    Do a job; where the machinery fails in the middle, do it again, and skip the results that were given already.

    Args:
        attempt (`Callable`):
            Begins the job and returns its results.
        attempts (`int`):
            How often it is begun at most.
        pause (`float`, *optional*, defaults to `0.5`):
            Seconds before the second attempt, and twice as many before each later one. Machinery that is this
            process's own needs none.

    Raises:
        [`Unavailable`]: if the last attempt failed, too.
        [`~errors.SandboxError`]: as soon as it is one that another attempt would not help.
    """
    given = 0
    for failures in range(1, attempts + 1):
        try:
            with closing(attempt()) as results:  # type: ignore[type-var]
                for index, result in enumerate(results):
                    if index >= given:
                        given += 1
                        yield result
            return
        except Unavailable:
            if failures == attempts:
                raise
            time.sleep(_pause(failures, pause))


def _pause(failures: int, first: float) -> float:
    """Seconds to wait: twice as long after each failure, and not the same for everybody who failed together."""
    return min(first * 2 ** (failures - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
