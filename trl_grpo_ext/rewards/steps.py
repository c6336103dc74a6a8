"""Rewards for the steps of a completion, next to the one number per completion that TRL takes."""

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.errors import DataError


@dataclass(frozen=True)
class Steps:
    """
    The judged steps of one completion.

    Args:
        rewards (`Sequence[float]`):
            One reward for each step, in order.
        ends (`Sequence[int]`):
            For each step, the number of completion tokens up to and with its last one; rising. Tokens after the last
            end count to the last step.
        anchors (`Sequence[str]`, *optional*):
            For each step, the state it started from; steps of a group that share a state are compared (gigpo).

    Raises:
        [`~errors.DataError`]: if there is no step, the sequences differ in length, or the ends do not rise.
    """

    rewards: Sequence[float]
    ends: Sequence[int]
    anchors: Sequence[str] | None = None

    def __post_init__(self):
        count = len(self.rewards)
        if count == 0:
            raise DataError("Steps without a step; return None for a completion that cannot be judged")
        if len(self.ends) != count or (self.anchors is not None and len(self.anchors) != count):
            raise DataError(f"Steps with {count} rewards, {len(self.ends)} ends and anchors {self.anchors!r}")
        if not all(isinstance(reward, (int, float)) and math.isfinite(reward) for reward in self.rewards):
            raise DataError(f"step rewards {list(self.rewards)}; expected finite numbers")
        if list(self.ends) != sorted(set(self.ends)) or self.ends[0] < 1:
            raise DataError(f"step ends {list(self.ends)} do not rise from at least 1 token")


class StepReward:
    """
    A reward function that judges steps: for TRL a reward like any other, whose value is the sum over the steps.

    Estimators of step rewards (process_grpo, gigpo) read the steps of the newest batch from `latest`.

    Args:
        function (`Callable`):
            Takes what TRL gives a reward function and returns, for each completion, [`Steps`] or `None`.

    Example:

    ```python
    from trl_grpo_ext.rewards import StepReward, Steps

    @StepReward
    def each_token(completion_ids, **kwargs):
        return [Steps(rewards=[0.1] * len(ids), ends=range(1, len(ids) + 1)) for ids in completion_ids]
    ```
    """

    def __init__(self, function: Callable[..., list[Steps | None]]):
        if inspect.iscoroutinefunction(function):
            raise DataError(f"step reward {function.__name__!r} is async; write an ordinary function")
        self.function = function
        self.latest: list[Steps | None] = []
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __reduce__(self) -> Any:
        # Used as a decorator it has taken the function's name, by which pickle would look for the function.
        module, name = self.function.__module__, self.function.__qualname__
        if getattr(importlib.import_module(module), name, None) is self:
            return _by_name, (module, name)
        return StepReward, (self.function,)

    def __call__(self, **columns: Any) -> list[float | None]:
        """
        Judge a batch.

        Raises:
            [`~errors.DataError`]: if the function returns something else than [`Steps`] or `None`.
        """
        self.latest = list(self.function(**columns))
        for steps in self.latest:
            if steps is not None and not isinstance(steps, Steps):
                raise DataError(f"step reward {self.__name__!r} returned {steps!r}; expected Steps or None")
        return [None if steps is None else float(sum(steps.rewards)) for steps in self.latest]


def _by_name(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
