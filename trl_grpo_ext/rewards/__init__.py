"""Rewards by name: verifiers adapted to TRL's reward-function contract, and how several rewards become one.

Every reward is a picklable callable with TRL's signature. It returns one number per completion, or `None` for a row it
could not judge; an unjudgeable row is never a zero. Importing this package imports neither torch nor TRL.
"""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import Registry, import_path, nearest_names


if TYPE_CHECKING:
    from trl_grpo_ext.rewards.accuracy import MathReward
    from trl_grpo_ext.rewards.composition import Composition
    from trl_grpo_ext.rewards.format import FormatReward
    from trl_grpo_ext.rewards.judged import JudgedReward
    from trl_grpo_ext.rewards.language import LanguageReward
    from trl_grpo_ext.rewards.length import LengthReward
    from trl_grpo_ext.rewards.program import CodeFractionReward, CodeReward
    from trl_grpo_ext.rewards.spec import RewardSpec, resolve_rewards
    from trl_grpo_ext.rewards.steps import StepReward, Steps

    code_reward: CodeReward
    code_fraction_reward: CodeFractionReward
    math_reward: MathReward
    format_reward: FormatReward
    length_reward: LengthReward
    language_reward: LanguageReward

REWARDS: Registry[Any] = Registry(
    "reward",
    builtins={
        "code": "trl_grpo_ext.rewards.program:CodeReward",
        "code_fraction": "trl_grpo_ext.rewards.program:CodeFractionReward",
        "format": "trl_grpo_ext.rewards.format:FormatReward",
        "language": "trl_grpo_ext.rewards.language:LanguageReward",
        "length": "trl_grpo_ext.rewards.length:LengthReward",
        "math": "trl_grpo_ext.rewards.accuracy:MathReward",
    },
    entry_point_group="trl_grpo_ext.rewards",
)

_HOME = {
    "CodeFractionReward": "trl_grpo_ext.rewards.program:CodeFractionReward",
    "CodeReward": "trl_grpo_ext.rewards.program:CodeReward",
    "Composition": "trl_grpo_ext.rewards.composition:Composition",
    "FormatReward": "trl_grpo_ext.rewards.format:FormatReward",
    "JudgedReward": "trl_grpo_ext.rewards.judged:JudgedReward",
    "LanguageReward": "trl_grpo_ext.rewards.language:LanguageReward",
    "LengthReward": "trl_grpo_ext.rewards.length:LengthReward",
    "MathReward": "trl_grpo_ext.rewards.accuracy:MathReward",
    "RewardSpec": "trl_grpo_ext.rewards.spec:RewardSpec",
    "StepReward": "trl_grpo_ext.rewards.steps:StepReward",
    "Steps": "trl_grpo_ext.rewards.steps:Steps",
    "resolve_rewards": "trl_grpo_ext.rewards.spec:resolve_rewards",
}
_READY = {f"{name}_reward": name for name in ("code", "code_fraction", "format", "language", "length", "math")}

__all__ = [
    "REWARDS",
    "CodeFractionReward",
    "CodeReward",
    "Composition",
    "FormatReward",
    "JudgedReward",
    "LanguageReward",
    "LengthReward",
    "MathReward",
    "RewardSpec",
    "StepReward",
    "Steps",
    "code_fraction_reward",
    "code_reward",
    "format_reward",
    "get_reward",
    "language_reward",
    "length_reward",
    "list_rewards",
    "math_reward",
    "register_reward",
    "resolve_rewards",
]


def get_reward(name: str, **params: Any) -> Callable:
    """
    Return a reward by name, ready to be given to a trainer.

    Args:
        name (`str`):
            A registered name (see [`list_rewards`]) or a dotted path.
        **params:
            Given to the constructor of a reward class, or bound to a reward function.

    Returns:
        `Callable`: A reward with TRL's signature.

    Raises:
        [`~errors.ConfigError`]: if the name or a parameter is unknown, or the object is not callable.

    Example:
    ```python
    >>> from trl_grpo_ext import get_reward

    >>> get_reward("length", max_completion_length=100, cache=20)(completion_ids=[[0] * 90])
    [-0.5]
    ```
    """
    return build_reward(name, REWARDS.get(name), params)


def build_reward(name: str, reward: Any, params: dict[str, Any]) -> Callable:
    """Make a reward callable out of what a name stands for: a class is constructed, a function gets bound `params`."""
    if not callable(reward):
        raise ConfigError(f"reward {name!r} is a {type(reward).__name__}; expected a function or a class")
    if not inspect.isclass(reward):
        return partial(reward, **params) if params else reward
    known = list(inspect.signature(reward).parameters)
    for param in params:
        if param not in known:
            nearest = nearest_names(param, known)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it takes {', '.join(known) or 'none'}"
            raise ConfigError(f"reward {name!r} has no parameter {param!r}; {hint}")
    return cast(Callable, reward(**params))


def list_rewards() -> list[str]:
    """Return the names of all rewards: built in, registered, and from installed packages."""
    return REWARDS.names()


def register_reward(name: str) -> Callable:
    """
    Decorator that registers a reward function or a reward class under `name`.

    Args:
        name (`str`):
            A free name in lower_snake_case.

    Raises:
        [`~errors.ConfigError`]: if the name is taken or is not lower_snake_case.

    Example:
    ```python
    >>> from trl_grpo_ext import register_reward


    >>> @register_reward("short")
    ... def short_reward(completions, **kwargs):
    ...     return [float(len(completion) < 100) for completion in completions]
    ```
    """
    return REWARDS.register(name)


@cache
def _ready(name: str) -> Callable:
    return get_reward(_READY[name])


def __getattr__(name: str):
    if name in _READY:
        return _ready(name)
    if name in _HOME:
        return import_path(_HOME[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
