"""A soft penalty for completions that come close to the length limit."""

from collections.abc import Callable
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError


class LengthReward:
    """
    Soft overlong punishment of DAPO (https://huggingface.co/papers/2503.14476), equation 13, in tokens. With
    `L = max_completion_length`, `C = cache` and `n` tokens:

        0                  if n <= L - C
        ((L - C) - n) / C  if L - C < n <= L
        -1                 if n > L

    It never rewards being short. Set `max_completion_length` to the trainer's own limit.

    Args:
        max_completion_length (`int`, *optional*, defaults to `20480`):
            Tokens from which the penalty is full. The default is the paper's.
        cache (`int`, *optional*, defaults to `4096`):
            Tokens before that over which the penalty grows. The default is the paper's.

    Raises:
        [`~errors.ConfigError`]: unless `0 < cache <= max_completion_length`.

    Example:
    ```python
    >>> from trl_grpo_ext.rewards import LengthReward

    >>> LengthReward(max_completion_length=100, cache=20)(completion_ids=[[0] * 70, [0] * 90])
    [0.0, -0.5]
    ```
    """

    __name__ = "length_reward"
    default_mode = "add"
    default_required = False

    def __init__(self, max_completion_length: int = 20480, cache: int = 4096):
        if not 0 < cache <= max_completion_length:
            raise ConfigError(
                f"length reward: cache is {cache} and max_completion_length is {max_completion_length}; "
                "cache must be positive and at most max_completion_length"
            )
        self.max_completion_length = max_completion_length
        self.cache = cache

    def __call__(
        self,
        prompts: list | None = None,
        completions: list | None = None,
        completion_ids: list[list[int]] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """
        Score a batch.

        Raises:
            [`~errors.DataError`]: if `completion_ids` is missing; lengths are counted in tokens, never in characters.
        """
        if completion_ids is None:
            raise DataError("the length reward counts tokens and got no completion_ids; pass the token ids")
        return [self._penalty(len(ids)) for ids in completion_ids]

    def _penalty(self, tokens: int) -> float:
        free = self.max_completion_length - self.cache
        if tokens <= free:
            return 0.0
        return max(-1.0, (free - tokens) / self.cache)
