"""Run an entry of the catalogue by name, outside of a trainer or in one."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from trl_grpo_ext.advantages import ADVANTAGES
from trl_grpo_ext.advantages.inputs import level_of
from trl_grpo_ext.advantages.tables import is_ragged, to_lists, to_table
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.registry import nearest_names


# What the first parameter of an entry may be called, and how many dimensions the table then has.
REWARD_LAYOUTS = {"rewards": 2, "components": 3, "step_rewards": 3}


class Estimate(NamedTuple):
    """
    What an entry returns.

    Attributes:
        values (`torch.Tensor` of shape `(N, G)`, `(N, G, S)` or `(N, G, T)`):
            Advantages (or shaped rewards, a selection, a KL estimate), float64.
        kept (`torch.Tensor` of shape `(N, G)` or `None`):
            Boolean; `False` for completions that the entry drops from the loss and from its denominators. `None` when
            it drops none.
    """

    values: torch.Tensor
    kept: torch.Tensor | None


@dataclass(frozen=True)
class Estimator:
    """
    An entry with its parameters set. What it needs is read from its signature.

    Attributes:
        name (`str`):
            Name in the catalogue, or an import path.
        function (`Callable`):
            The entry itself.
        layout (`str` or `None`):
            Name of its first parameter: `"rewards"` (N, G), `"components"` (N, G, K) for several rewards,
            `"step_rewards"` (N, G, S); `None` for a KL estimator, which takes no rewards.
        inputs (`tuple[str, ...]`):
            Further inputs that it needs.
        optional_inputs (`tuple[str, ...]`):
            Further inputs that it can do without.
        params (`dict`):
            Parameters that differ from its defaults.
    """

    name: str
    function: Callable
    layout: str | None
    inputs: tuple[str, ...]
    optional_inputs: tuple[str, ...]
    params: dict[str, Any]

    def option(self, name: str) -> Any:
        """Value of a parameter: what was set, or else its default; `None` for one that the entry does not have."""
        known = inspect.signature(self.function).parameters
        return self.params.get(name, known[name].default if name in known else None)

    @property
    def level(self) -> str:
        """What gets a number of its own: `"completion"`, `"token"` or `"step"`."""
        if self.layout == "step_rewards":
            return "step"
        needed = (*self.inputs, *self.optional_inputs)
        return "token" if self.layout is None or any(level_of(name) == "token" for name in needed) else "completion"

    def __call__(self, rewards: torch.Tensor, **inputs: torch.Tensor) -> Estimate:
        """
        Run the entry in float64.

        Args:
            rewards (`torch.Tensor` of shape `(N, G)`, `(N, G, K)` or `(N, G, S)`):
                Rewards as `layout` says; NaN marks what could not be judged, and pads steps.
            **inputs (`torch.Tensor`):
                Further inputs by name; per-token inputs are `(N, G, T)`, padded with NaN.

        Returns:
            [`Estimate`]: exactly 0 at unscorable completions and at padding (shaped rewards stay NaN).
        """
        known = {name: value.double() for name, value in inputs.items()}
        table = rewards.double()
        if self.layout is not None:
            lacking = self.lacking_input(table, known)
            table = table.masked_fill(lacking if table.dim() == 2 else lacking.unsqueeze(2), torch.nan)
        result = self.function(*(() if self.layout is None else (table,)), **known, **self.params)
        values, kept = result if isinstance(result, tuple) else (result, None)
        self._check_shape(values, table, known)
        if self.name.startswith("shape/"):
            return Estimate(values, kept)
        unscorable = table.isnan() if table.dim() == 2 else table.isnan().all(dim=2)
        if values.dim() == 3:
            padding = table if self.layout == "step_rewards" else _per_token(known)[0]
            unscorable = unscorable.unsqueeze(2) | padding.isnan()
        return Estimate(values.to(table.dtype).masked_fill(unscorable, 0.0), kept)

    def lacking_input(self, rewards: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        Which completions cannot be compared because an input that the entry needs is missing (NaN) for them, or for
        their group: boolean of shape (N, G).
        """
        lacking = torch.zeros(rewards.shape[:2], dtype=torch.bool, device=rewards.device)
        for name in self.inputs:
            level, value = level_of(name), inputs[name]
            if level == "completion" or (level is None and value.shape == rewards.shape[:2]):
                lacking = lacking | value.isnan()
            elif level in ("token", "step"):
                lacking = lacking | (value.isnan().all(dim=2) if value.size(2) else False)
            elif level in ("group", "group_list"):
                lacking = lacking | value.view(value.size(0), -1).isnan().all(dim=1, keepdim=True)
        return lacking

    def _check_shape(self, values: torch.Tensor, table: torch.Tensor, inputs: dict[str, torch.Tensor]) -> None:
        allowed = [tuple(table.shape[:2])] if self.layout in ("rewards", "components") else []
        allowed += [tuple(table.shape)] if self.layout == "step_rewards" else []
        allowed += [tuple(value.shape) for value in _per_token(inputs)]
        if tuple(values.shape) not in allowed:
            raise DataError(
                f"{self.name!r} returned shape {tuple(values.shape)}; expected {' or '.join(map(str, allowed))}"
            )


def _per_token(inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [value for value in inputs.values() if value.dim() == 3]


def bind_params(variant: str, params: dict[str, Any] | None = None) -> Estimator:
    """
    Return the entry called `variant` with its parameters set.

    Args:
        variant (`str`):
            Name of the entry, or an import path.
        params (`dict`, *optional*):
            Parameters that differ from the entry's defaults.

    Raises:
        [`~errors.ConfigError`]: if the entry or one of the parameters is unknown.
    """
    function = ADVANTAGES.get(variant)
    if not callable(function):
        raise ConfigError(f"advantage {variant!r} is a {type(function).__name__}, not a function")
    parameters = inspect.signature(function).parameters
    known = {p.name: p.default for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for name, value in (params or {}).items():
        if not isinstance(name, str) or name not in known:
            nearest = nearest_names(str(name), list(known))
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it takes: {', '.join(known) or 'none'}"
            raise ConfigError(f"advantage {variant!r} has no parameter {name!r}; {hint}")
        _check_type(variant, name, value, known[name])
    _check_divisor(variant, params or {})
    inputs = [p for p in parameters.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    layout = inputs.pop(0).name if inputs and inputs[0].name in REWARD_LAYOUTS else None
    if layout is None and not variant.startswith("kl/"):
        raise ConfigError(
            f"{variant!r} is no advantage estimator: its first parameter must be called one of "
            f"{', '.join(REWARD_LAYOUTS)}"
        )
    return Estimator(
        name=variant,
        function=function,
        layout=layout,
        inputs=tuple(p.name for p in inputs if p.default is inspect.Parameter.empty),
        optional_inputs=tuple(p.name for p in inputs if p.default is not inspect.Parameter.empty),
        params=dict(params or {}),
    )


def estimate(
    variant: str,
    rewards: torch.Tensor | list,
    *,
    params: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
) -> torch.Tensor | list:
    """
    Run any entry of the catalogue: an advantage estimator, a reward shaper (`"shape/…"`), a selector (`"select/…"`) or
    a KL estimator (`"kl/…"`).

    Args:
        variant (`str`):
            Name of the entry; see [`list_advantages`].
        rewards (`torch.Tensor` of shape `(N, G)` or `list[list[float | None]]`):
            One row for each group of G completions; NaN or `None` marks an unscorable completion. For estimators of
            several rewards each reward is a list of K components, for those of steps a list of step rewards (tensors
            of shape `(N, G, K)` and `(N, G, S)`, padded with NaN).
        params (`dict`, *optional*):
            Parameters of the entry that differ from its defaults.
        extra (`dict`, *optional*):
            Inputs beside the rewards that some entries need: one value for each completion, laid out like `rewards`; a
            list of values for each completion, one for each token (as a tensor: `(N, G, T)`, padded with NaN); or one
            value for each group.

    Returns:
        Advantages in the layout (and, for a tensor, the dtype and device) of `rewards`; computed in float64. Per-token
        entries give a list of values for each completion, or a `(N, G, T)` tensor. Shapers give rewards (`None` or
        NaN where there was none), selectors 1 to keep and 0 to drop.

    Raises:
        [`~errors.ConfigError`]: if the entry or a parameter is unknown, or a parameter has a value it cannot have.
        [`~errors.DataError`]: if `rewards` or an extra is not laid out as described, is missing, or is infinite.

    Example:

    ```python
    >>> from trl_grpo_ext import estimate
    >>> estimate("rloo", [[1.0, 0.0, 0.0, 0.0], [1.0, None, 1.0, 1.0]])
    [[1.0, -0.3333333333333333, -0.3333333333333333, -0.3333333333333333], [0.0, 0.0, 0.0, 0.0]]
    ```
    """
    estimator = bind_params(variant, params)
    dims = REWARD_LAYOUTS.get(estimator.layout or "rewards", 2)
    as_tensor = isinstance(rewards, torch.Tensor)
    table = rewards if isinstance(rewards, torch.Tensor) else to_table(rewards, "rewards", dims, text=False)
    _check_rewards(table, dims)
    if 0 in table.shape[:2]:
        return rewards
    inputs = {
        name: (value if isinstance(value, torch.Tensor) else to_table(value, name)).to(table.device)
        for name, value in (extra or {}).items()
    }
    _check_inputs(estimator, inputs, table)
    values = estimator(table, **inputs).values
    if as_tensor:
        return values.to(table.dtype)
    if values.dim() == 2:
        return to_lists(values)
    ragged = rewards if estimator.layout == "step_rewards" else next(filter(is_ragged, (extra or {}).values()), None)
    return to_lists(values, like=ragged)  # type: ignore[arg-type]


def _check_type(variant: str, name: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than the default: a flag, a number, or text."""
    for kinds in (bool, (int, float), str):
        if isinstance(default, kinds):
            # A flag is a number to Python, and never what was meant.
            if isinstance(value, kinds) and isinstance(value, bool) == isinstance(default, bool):
                break
            hint = "; YAML reads 1e-6 as text, write 1.0e-6" if isinstance(value, str) else ""
            raise ConfigError(
                f"advantage {variant!r}: {name}={value!r} is a {type(value).__name__}, and the default is "
                f"{default!r}{hint}"
            )
    if isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max:
        raise ConfigError(f"advantage {variant!r}: {name}={value!r:.40} is not a finite number")


def _check_divisor(variant: str, params: dict[str, Any]) -> None:
    if params.get("ddof", 0) not in (0, 1):
        raise ConfigError(f"advantage {variant!r}: ddof={params['ddof']!r}; the divisor is n - ddof, with 0 or 1")
    if params.get("eps", 0) < 0:
        raise ConfigError(f"advantage {variant!r}: eps={params['eps']!r} is below 0")


def _check_rewards(table: torch.Tensor, dims: int) -> None:
    if table.dim() != dims:
        layout = "(number of groups, group size" + (", components or steps)" if dims == 3 else ")")
        raise DataError(f"rewards have shape {tuple(table.shape)}; expected {layout}")
    if not table.is_floating_point():
        raise DataError(f"rewards have dtype {table.dtype}; expected a floating-point tensor")
    if table.isinf().any():
        raise DataError("rewards hold an infinite value; clip them before advantages are computed")


def _check_inputs(estimator: Estimator, inputs: dict[str, torch.Tensor], table: torch.Tensor) -> None:
    known = (*estimator.inputs, *estimator.optional_inputs)
    for name in inputs:
        if name not in known:
            raise DataError(f"{estimator.name!r} takes no input {name!r}; it takes: {', '.join(known) or 'none'}")
    for name in estimator.inputs:
        if name not in inputs:
            raise DataError(f"{estimator.name!r} needs the input {name!r}; give it in extra")
    for name, value in inputs.items():
        if value.isinf().any():
            raise DataError(f"{name} holds an infinite value")
        level = level_of(name)
        per_completion = value.dim() == 3 or (value.dim() == 2 and level != "group_list")
        leading = table.shape[:2] if per_completion else table.shape[:1]
        if value.dim() and level != "batch" and value.shape[: len(leading)] != leading:
            raise DataError(f"{name} has shape {tuple(value.shape)}; expected it to start with {tuple(leading)}")
