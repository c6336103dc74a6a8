"""Group-relative advantages by name: pure tensor functions, each exact to its paper."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from trl_grpo_ext.registry import Registry


if TYPE_CHECKING:
    from trl_grpo_ext.advantages.estimation import bind_params, estimate

__all__ = ["ADVANTAGES", "bind_params", "estimate", "list_advantages", "register_advantage"]

ADVANTAGES: Registry[Callable] = Registry(
    kind="advantage",
    builtins={name: f"trl_grpo_ext.advantages.mean_std:{name}" for name in ("grpo", "dr_grpo", "rloo")},
    entry_point_group="trl_grpo_ext.advantages",
)


def list_advantages() -> list[str]:
    """Return the names of all advantage estimators, sorted; imports none of them."""
    return ADVANTAGES.names()


def register_advantage(name: str) -> Callable:
    """
    Decorator that registers an advantage estimator under `name`.

    The function takes `rewards`, a float64 tensor of shape (N, G) with one row for each group and NaN for unscorable
    completions, and keyword-only parameters with defaults; it returns advantages of the same shape.

    Raises:
        [`~errors.ConfigError`]: if the name is taken or is not lower_snake_case.

    Example:

    ```python
    from trl_grpo_ext import register_advantage

    @register_advantage("twice_centred")
    def twice_centred(rewards, *, factor=2.0):
        return factor * (rewards - rewards.nanmean(dim=1, keepdim=True)).nan_to_num(nan=0.0)
    ```
    """
    return ADVANTAGES.register(name)


def __getattr__(name: str):
    if name in ("bind_params", "estimate"):
        return getattr(import_module(f"{__name__}.estimation"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
