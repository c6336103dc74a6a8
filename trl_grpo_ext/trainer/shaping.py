"""Reward shaping by name: what `reward_shaping` says, applied to the combined reward."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

import torch

from trl_grpo_ext.advantages.estimation import Estimator, bind_params
from trl_grpo_ext.errors import ConfigError


# These give a bonus to add to the reward; the others give the reward itself.
BONUSES = ("shape/kimi_length",)


@dataclass(frozen=True)
class Shaper:
    """
    One step of shaping.

    Args:
        estimator ([`Estimator`]):
            The entry `shape/…` with its parameters.
        weight (`float`, *optional*, defaults to `1.0`):
            Factor of a bonus.
    """

    estimator: Estimator
    weight: float = 1.0

    def __call__(self, rewards: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Shape (N, G) rewards, given (N, G) lengths in tokens; NaN stays NaN."""
        inputs = {"lengths": lengths} if "lengths" in self.estimator.inputs else {}
        shaped = self.estimator(rewards, **inputs).values
        return rewards + self.weight * shaped if self.estimator.name in BONUSES else shaped


def parse_shaping(entries: Sequence[str | dict[str, Any]] | None, max_completion_length: int | None) -> list[Shaper]:
    """
    Read `reward_shaping`.

    Args:
        entries (`Sequence`, *optional*):
            Names (`"dapo_overlong"` or `"shape/dapo_overlong"`), or mappings with `name`, the parameters of the entry,
            and for a bonus its `weight`; text in braces is JSON.
        max_completion_length (`int`, *optional*):
            TRL's limit, against which lengths are checked.

    Raises:
        [`~errors.ConfigError`]: if a name or a parameter is unknown, or a penalty could never apply.
    """
    if not isinstance(entries, (list, tuple, NoneType)):
        raise ConfigError(f"reward_shaping={entries!r} is not a list; write [{entries!r}]")
    return [_parse(entry, max_completion_length) for entry in entries or ()]


def _parse(entry: str | dict[str, Any], max_completion_length: int | None) -> Shaper:
    if isinstance(entry, str) and entry.lstrip().startswith("{"):
        try:
            entry = json.loads(entry)
        except ValueError as error:
            raise ConfigError(f"reward_shaping: {entry!r} is not JSON ({error})") from error
    params = dict(entry) if isinstance(entry, dict) else {"name": entry}
    name = params.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"reward_shaping: {entry!r} has no name")
    path = name if "." in name or ":" in name or name.startswith("shape/") else f"shape/{name}"
    weight = params.pop("weight", 1.0) if path in BONUSES else 1.0
    if not isinstance(weight, (int, float)) or not math.isfinite(weight):
        raise ConfigError(f"reward_shaping: weight={weight!r} of {name!r} is not a finite number")
    shaper = Shaper(bind_params(path, params), float(weight))
    for needed in shaper.estimator.inputs:
        if needed != "lengths":
            raise ConfigError(f"reward_shaping: {name!r} needs {needed!r}; shapers get rewards and lengths")
    _check_overlong(shaper.estimator, max_completion_length)
    return shaper


def _check_overlong(estimator: Estimator, limit: int | None) -> None:
    if estimator.name != "shape/dapo_overlong" or limit is None:
        return
    longest, cache = estimator.option("max_len"), estimator.option("cache_len")
    if longest - cache >= limit:
        raise ConfigError(
            f"reward_shaping: dapo_overlong punishes lengths above max_len - cache_len = {longest - cache}, which "
            f"max_completion_length={limit} never reaches; set max_len: {limit} and a cache_len below it"
        )
