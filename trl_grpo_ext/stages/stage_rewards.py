"""The rewards of a stage, and the columns that hold the references they compare with."""

from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.rewards import FormatReward, JudgedReward, RewardSpec
from trl_grpo_ext.verify.validation import DEFAULT_DOMAIN


def build_rewards(specs: Sequence[Any]) -> list[Any]:
    """
    Build the rewards that a recipe lists.

    Raises:
        [`~errors.ConfigError`]: if a name, a key or a value is wrong.
    """
    return [RewardSpec.parse(spec).resolve().func for spec in specs]


def default_reward(row: Mapping[str, Any]) -> str:
    """The reward of a stage that lists none, from a row of its data: the judge of the row's domain."""
    return "code" if row.get("domain") == "code" else DEFAULT_DOMAIN


def judge_of(rewards: Sequence[Any], row: Mapping[str, Any]) -> JudgedReward:
    """The first judge among `rewards`; where there is none, the one for such a row."""
    return next(iter(judges_of(rewards) or build_rewards([default_reward(row)])))


def judges_of(rewards: Sequence[Any]) -> list[JudgedReward]:
    """Those of `rewards` that ask a judge about the answer, however they were named."""
    return [reward for reward in rewards if isinstance(reward, JudgedReward)]


def format_of(rewards: Sequence[Any]) -> FormatReward | None:
    """The format reward among `rewards`, however it was named."""
    return next((reward for reward in rewards if isinstance(reward, FormatReward)), None)


def answer_columns(rewards: Sequence[Any], columns: Sequence[str]) -> list[str]:
    """
    Columns the rewards read a reference from, each once.

    Args:
        rewards (`Sequence`):
            The rewards.
        columns (`Sequence[str]`):
            Columns of the data.
    """
    return list(dict.fromkeys(judge.column_of(columns) for judge in judges_of(rewards)))
