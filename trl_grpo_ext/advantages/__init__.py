"""Group-relative advantages by name: pure tensor functions, each with its formula and where that was read."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from trl_grpo_ext.registry import Registry


if TYPE_CHECKING:
    from trl_grpo_ext.advantages.estimation import bind_params, estimate

__all__ = ["ADVANTAGES", "FAMILIES", "bind_params", "estimate", "list_advantages", "register_advantage"]

# Module -> names of its entries. Names with a slash are not advantages: they shape rewards, select, or estimate KL.
FAMILIES: dict[str, tuple[str, ...]] = {
    "mean_std": (
        "grpo",
        "dr_grpo",
        "ppo_lite",
        "gpg",
        "maxrl",
        "treerpo_norm",
        "mapo",
        "dgae",
        "bnpo",
    ),
    "whitening": ("reinforce_pp", "reinforce_pp_kl", "reinforce_pp_baseline"),
    "baselines": ("rloo", "remax", "opo", "krpo", "js_shrinkage", "pvpo"),
    "robust": ("mc_grpo", "qae", "gopo_rank"),
    "best_of_k": ("passk_training", "max_at_k", "pkpo", "best_minus_second"),
    "risk": ("rs_grpo", "entropic", "opmd", "asymre"),
    "weighted": ("psr", "nsr", "w_reinforce", "grpo_lead", "ngrpo"),
    "conditioned": ("edge_eda", "unlikeliness", "canon", "stratified"),
    "subsets": ("pods", "gfpo"),
    "history": ("spo", "dcpo_sas", "ha_dw"),
    "steps": ("process_grpo", "gigpo"),
    "tokens": ("otb", "entropy_adv", "rl_zvp", "gtpo", "hicra", "rlsd"),
    "several_rewards": ("mo_grpo", "gdpo"),
    "shaping": ("shape/kimi_length", "shape/dapo_overlong", "shape/shorterbetter", "shape/efficient_reasoning"),
    "selection": ("select/dapo_dynamic", "select/pass_rate_window", "select/pods_mask"),
    "kl": ("kl/k1", "kl/k2", "kl/k3"),
}

ADVANTAGES: Registry[Callable] = Registry(
    kind="advantage",
    builtins={
        name: f"{__name__}.{module}:{name.rpartition('/')[2]}" for module, names in FAMILIES.items() for name in names
    },
    entry_point_group="trl_grpo_ext.advantages",
)


def list_advantages() -> list[str]:
    """Return the names of all advantage estimators, sorted; imports none of them."""
    return [name for name in ADVANTAGES.names() if "/" not in name]


def register_advantage(name: str) -> Callable:
    """
    Decorator that registers an advantage estimator under `name`.

    The signature says what the estimator needs. Its first parameter is one of

    - `rewards`: (N, G), one row for each group and NaN for unscorable completions;
    - `components`: (N, G, K), the K rewards before they are summed;
    - `step_rewards`: (N, G, S), padded with NaN.

    Further positional parameters are inputs that the trainer supplies by name (`lengths`, `entropies`, `seq_logp`, …;
    all of them: [`~advantages.inputs.INPUTS`]); one with a default is optional. Keyword-only parameters are options,
    set with `advantage_kwargs`. Every tensor is float64. The estimator returns advantages of shape (N, G), of shape
    (N, G, T) if it takes a per-token input, or (N, G, S) for step rewards. To drop completions from the loss it
    returns `(advantages, kept)` with a boolean (N, G) tensor. Unscorable completions get 0 whatever it returns.

    Raises:
        [`~errors.ConfigError`]: if the name is taken or is not lower_snake_case.

    Example:

    ```python
    from trl_grpo_ext import register_advantage

    @register_advantage("length_centred")
    def length_centred(rewards, lengths, *, factor=0.01):
        return (rewards - rewards.nanmean(1, keepdim=True)) - factor * (lengths - lengths.nanmean(1, keepdim=True))
    ```
    """
    return ADVANTAGES.register(name)


def __getattr__(name: str):
    if name in ("bind_params", "estimate"):
        return getattr(import_module(f"{__name__}.estimation"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
