"""What an evaluation measures. Imports nothing heavy: recipes are checked with it before anything starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.errors import ConfigError


@dataclass(frozen=True)
class Evaluation:
    """
    The `evaluation` block of a stage.

    Args:
        n_samples (`int`, *optional*, defaults to `4`):
            Sampled completions for each problem, besides the greedy one; 0 for greedy decoding only.
        temperature (`float`, *optional*, defaults to `1.0`):
            Temperature of the sampled completions.
        top_p (`float`, *optional*, defaults to `1.0`):
            Nucleus of the sampled completions.
        max_completion_length (`int`, *optional*, defaults to `512`):
            Tokens after which a completion is cut, as in [`~trl.GRPOConfig`].
        k (`Sequence[int]`, *optional*, defaults to `(1,)`):
            The k of pass@k; none above `n_samples`.
        limit (`int`, *optional*):
            Evaluate the first so many problems only.
        batch_size (`int`, *optional*, defaults to `32`):
            Completions generated at once on each process.

    Raises:
        [`~errors.ConfigError`]: if a value is out of range.
    """

    n_samples: int = 4
    temperature: float = 1.0
    top_p: float = 1.0
    max_completion_length: int = 512
    k: Sequence[int] = (1,)
    limit: int | None = None
    batch_size: int = 32

    def __post_init__(self):
        for name in ("max_completion_length", "batch_size", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if self.n_samples < 0:
            raise ConfigError(f"n_samples is {self.n_samples}; use 0 for greedy decoding only")
        if self.n_samples == 0:
            return
        if self.temperature <= 0:
            raise ConfigError(f"temperature is {self.temperature}, which makes all samples equal; use a positive one")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if any(not 1 <= k <= self.n_samples for k in self.k):
            raise ConfigError(f"k is {list(self.k)}; every k must lie between 1 and n_samples, {self.n_samples}")
        if self.batch_size < self.n_samples:
            raise ConfigError(
                f"batch_size is {self.batch_size}, below n_samples, {self.n_samples}: a batch holds all samples of a "
                "problem"
            )
