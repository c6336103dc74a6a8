"""What a recipe says about one reward, and how names become callables."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names
from trl_grpo_ext.rewards import REWARDS, build_reward, list_rewards
from trl_grpo_ext.rewards.composition import Composition


_MODES = ("add", "gate")


@dataclass(frozen=True)
class RewardSpec:
    """
    One reward among several.

    Args:
        name (`str`):
            A registered name, a dotted path, or a reward model (a Hub id or a local folder).
        weight (`float`, *optional*, defaults to `1.0`):
            Factor of an added reward; a gate has none.
        mode (`str`, *optional*):
            `"add"`, or `"gate"`: the sum of the added rewards is multiplied by this one. `None` takes the default of
            the reward's class (the format reward gates, others add).
        required (`bool`, *optional*):
            Whether a row this reward could not judge has no reward at all. `None` takes the default of the reward's
            class (the math reward is required, others are not). A gate is always required.
        clip (`list[float]`, *optional*):
            `[low, high]` to which the reward is clipped before it is weighted.
        params (`dict`, *optional*):
            Parameters of the reward.
        func (`Callable`, *optional*):
            The reward itself, where it was given as an object. Not a key of recipes.

    Raises:
        [`~errors.ConfigError`]: if a value is out of range.
    """

    name: str
    weight: float = 1.0
    mode: Literal["add", "gate"] | None = None
    required: bool | None = None
    clip: tuple[float, float] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    func: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"a reward's name is {self.name!r}; expected a name, a dotted path or a model id")
        number = isinstance(self.weight, (int, float)) and not isinstance(self.weight, bool)
        if not (number and math.isfinite(self.weight)):
            raise ConfigError(f"reward {self.name!r}: weight is {self.weight!r}; expected a finite number")
        if self.mode is not None and self.mode not in _MODES:
            raise ConfigError(f"reward {self.name!r}: mode is {self.mode!r}; expected 'add' or 'gate'")
        if self.required is not None and not isinstance(self.required, bool):
            raise ConfigError(f"reward {self.name!r}: required is {self.required!r}; expected true or false")
        if not isinstance(self.params, dict):
            raise ConfigError(f"reward {self.name!r}: params is {self.params!r}; expected a mapping")
        if self.clip is not None:
            object.__setattr__(self, "clip", self._checked_clip())

    def _checked_clip(self) -> tuple[float, float]:
        clip: Any = self.clip
        pair = isinstance(clip, (list, tuple)) and [isinstance(end, (int, float)) for end in clip] == [True, True]
        if not pair or not clip[0] < clip[1]:
            raise ConfigError(f"reward {self.name!r}: clip is {clip!r}; expected [low, high] with low < high")
        return (float(clip[0]), float(clip[1]))

    @classmethod
    def parse(cls, obj: "str | dict | RewardSpec | Callable") -> "RewardSpec":
        """
        Read a spec from what callers and recipes write.

        Args:
            obj (`str`, `dict`, [`RewardSpec`] or `Callable`):
                A name, a mapping with the keys of this class, a spec, or a reward itself.

        Returns:
            [`RewardSpec`]

        Raises:
            [`~errors.ConfigError`]: if a key is unknown (the message names the nearest) or a value is out of range.
        """
        if isinstance(obj, cls):
            return obj
        if isinstance(obj, str):
            return cls(obj)
        if isinstance(obj, dict):
            return cls(**_checked_keys(cls, obj))
        if callable(obj):
            return cls(_name_of(obj), func=obj)
        raise ConfigError(f"a reward is {obj!r}; expected a name, a mapping with a name, or a callable")

    def resolve(self) -> "RewardSpec":
        """
        Return this spec with its callable (or reward-model path) in `func`, and with mode and required decided.

        Raises:
            [`~errors.ConfigError`]: if the name is unknown or the parameters do not fit.
        """
        func = self._func() if self.func is None else self.func
        mode = self.mode or getattr(func, "default_mode", "add")
        required = getattr(func, "default_required", False) if self.required is None else self.required
        if mode == "gate" and self.weight != 1.0:
            raise ConfigError(
                f"reward {self.name!r}: weight={self.weight} has no effect on a gate, which multiplies; drop it, or "
                "set mode: add"
            )
        return replace(self, func=func, mode=mode, required=required)

    def _func(self) -> Any:
        if self.name not in list_rewards() and ("/" in self.name or Path(self.name).is_dir()):
            if self.params:
                raise ConfigError(f"reward model {self.name!r} takes no params; got {self.params!r}")
            return self.name  # a reward model: the trainer loads it
        return build_reward(self.name, REWARDS.get(self.name), self.params)


def resolve_rewards(reward_funcs: Any) -> tuple[list[Any], Composition]:
    """
    Turn what a user passes as `reward_funcs` into what TRL takes, and into how the rewards combine.

    Args:
        reward_funcs (`str`, `dict`, `Callable`, or a list of these):
            Registered names, dotted paths, reward models (a Hub id or local folder, left for TRL to load), mappings
            with the keys of [`RewardSpec`], callables or modules.

    Returns:
        `tuple[list, Composition]`: What to give to TRL, in order, and the composition of the same rewards.

    Raises:
        [`~errors.ConfigError`]: if a name, a key or a value is wrong; the message names the nearest.
    """
    if reward_funcs is None:
        reward_funcs = []
    if not isinstance(reward_funcs, (list, tuple)):
        reward_funcs = [reward_funcs]
    specs = [RewardSpec.parse(reward).resolve() for reward in reward_funcs]
    return [spec.func for spec in specs], Composition(specs)


def _checked_keys(cls: type, mapping: dict) -> dict:
    known = [item.name for item in fields(cls) if item.name != "func"]
    for key in mapping:
        if key not in known:
            nearest = nearest_names(str(key), known)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known keys: {', '.join(known)}"
            raise ConfigError(f"a reward has the unknown key {key!r}; {hint}")
    if "name" not in mapping:
        raise ConfigError(f"the reward {mapping!r} has no name")
    return mapping


def _name_of(func: Any) -> str:
    return getattr(func, "__name__", type(func).__name__)
