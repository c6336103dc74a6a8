"""Group-relative advantages, verifiable rewards and R1-style pipelines for Hugging Face TRL.

Importing this package imports neither torch nor TRL: the public names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from trl_grpo_ext.advantages import estimate, list_advantages, register_advantage
    from trl_grpo_ext.rewards import get_reward, list_rewards, register_reward
    from trl_grpo_ext.trainer import GroupRelativeConfig, GroupRelativeTrainer
    from trl_grpo_ext.verdict import Verdict
    from trl_grpo_ext.verify import CodeOptions, verify_code, verify_code_batch, verify_math, verify_math_batch

_HOME = {
    "CodeOptions": "verify",
    "GroupRelativeConfig": "trainer",
    "GroupRelativeTrainer": "trainer",
    "estimate": "advantages",
    "list_advantages": "advantages",
    "register_advantage": "advantages",
    "get_reward": "rewards",
    "list_rewards": "rewards",
    "register_reward": "rewards",
    "verify_code": "verify",
    "verify_code_batch": "verify",
    "verify_math": "verify",
    "verify_math_batch": "verify",
    "Verdict": "verdict",
}

__all__ = [
    "CodeOptions",
    "GroupRelativeConfig",
    "GroupRelativeTrainer",
    "Verdict",
    "estimate",
    "get_reward",
    "list_advantages",
    "list_rewards",
    "register_advantage",
    "register_reward",
    "verify_code",
    "verify_code_batch",
    "verify_math",
    "verify_math_batch",
]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("trl-grpo-ext")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
