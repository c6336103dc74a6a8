"""What every backend with machinery elsewhere does when that machinery fails: try again, and go on where it was."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

from trl_grpo_ext.errors import SandboxError


R = TypeVar("R")

_LONGEST_PAUSE = 30.0


class Unavailable(SandboxError):
    """The machinery failed in a way that another attempt may not."""


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
            time.sleep(_pause(failures))
    return attempt()


def resumed(attempt: Callable[[], Iterator[R]], attempts: int) -> Iterator[R]:
    """
    Do a job; where the machinery fails in the middle, do it again, and skip the results that were given already.

    Args:
        attempt (`Callable`):
            Begins the job and returns its results.
        attempts (`int`):
            How often it is begun at most.

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
            time.sleep(_pause(failures))


def _pause(failures: int) -> float:
    """Seconds to wait: twice as long after each failure, and not the same for everybody who failed together."""
    return min(0.5 * 2 ** (failures - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
