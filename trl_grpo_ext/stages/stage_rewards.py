"""The rewards of a stage, and the column that holds the reference they compare with."""

from collections.abc import Sequence
from typing import Any

from trl_grpo_ext.rewards import FormatReward, MathReward, RewardSpec


def build_rewards(specs: Sequence[Any]) -> list[Any]:
    """
    Build the rewards that a recipe lists.

    Raises:
        [`~errors.ConfigError`]: if a name, a key or a value is wrong.
    """
    return [RewardSpec.parse(spec).resolve().func for spec in specs]


def math_of(rewards: Sequence[Any]) -> MathReward | None:
    """The math reward among `rewards`, however it was named."""
    return next((reward for reward in rewards if isinstance(reward, MathReward)), None)


def format_of(rewards: Sequence[Any]) -> FormatReward | None:
    """The format reward among `rewards`, however it was named."""
    return next((reward for reward in rewards if isinstance(reward, FormatReward)), None)


def answer_columns(rewards: Sequence[Any], columns: Sequence[str]) -> list[str]:
    """
    Columns the rewards read a reference from: one if there is a math reward, else none.

    Args:
        rewards (`Sequence`):
            The rewards.
        columns (`Sequence[str]`):
            Columns of the data: `"solution"` serves only where there is no `"answer"`.
    """
    math_reward = math_of(rewards)
    if math_reward is None:
        return []
    fallback = "solution" if "solution" in columns and "answer" not in columns else "answer"
    return [math_reward.answer_column or fallback]
