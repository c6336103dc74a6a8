"""Run an advantage estimator by name, outside of a trainer or in one."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from trl_grpo_ext.advantages import ADVANTAGES
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.registry import nearest_names


def bind_params(variant: str, params: dict[str, Any] | None = None) -> Callable[..., torch.Tensor]:
    """
    Return the estimator called `variant` with its parameters set.

    Args:
        variant (`str`):
            Name of the estimator, or an import path.
        params (`dict`, *optional*):
            Parameters that differ from the estimator's defaults.

    Raises:
        [`~errors.ConfigError`]: if the estimator or one of the parameters is unknown.
    """
    function = ADVANTAGES.get(variant)
    known = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name in params or {}:
        if name not in known:
            nearest = nearest_names(name, list(known))
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it takes: {', '.join(known) or 'none'}"
            raise ConfigError(f"advantage {variant!r} has no parameter {name!r}; {hint}")
    return functools.partial(function, **(params or {}))


def estimate(
    variant: str,
    rewards: torch.Tensor | list[list[float | None]],
    *,
    params: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
) -> torch.Tensor | list[list[float]]:
    """
    Compute group-relative advantages.

    Args:
        variant (`str`):
            Name of the estimator; see [`list_advantages`].
        rewards (`torch.Tensor` of shape `(N, G)` or `list[list[float | None]]`):
            One row for each group of G completions; NaN or `None` marks an unscorable completion.
        params (`dict`, *optional*):
            Parameters of the estimator that differ from its defaults.
        extra (`dict`, *optional*):
            Inputs beside the rewards that some estimators need, laid out like `rewards`.

    Returns:
        Advantages in the layout (and, for a tensor, the dtype and device) of `rewards`; computed in float64.

    Raises:
        [`~errors.ConfigError`]: if the estimator or a parameter is unknown.
        [`~errors.DataError`]: if `rewards` is not rectangular, or holds an infinite value.

    Example:

    ```python
    >>> from trl_grpo_ext import estimate
    >>> estimate("rloo", [[1.0, 0.0, 0.0, 0.0], [1.0, None, 1.0, 1.0]])
    [[1.0, -0.3333333333333333, -0.3333333333333333, -0.3333333333333333], [0.0, 0.0, 0.0, 0.0]]
    ```
    """
    function = bind_params(variant, params)
    table = rewards if isinstance(rewards, torch.Tensor) else _to_tensor(rewards)
    if table.dim() != 2:
        raise DataError(f"rewards have shape {tuple(table.shape)}; expected (number of groups, group size)")
    if table.isinf().any():
        raise DataError("rewards hold an infinite value; clip them before advantages are computed")
    advantages = function(table.double(), **(extra or {}))
    return advantages.to(rewards.dtype) if isinstance(rewards, torch.Tensor) else advantages.tolist()


def _to_tensor(rewards: list[list[float | None]]) -> torch.Tensor:
    sizes = {len(group) for group in rewards}
    if len(sizes) > 1:
        raise DataError(f"groups have different sizes {sorted(sizes)}; every group needs the same number of rewards")
    filled = [[float("nan") if reward is None else float(reward) for reward in group] for group in rewards]
    return torch.tensor(filled, dtype=torch.float64)
