"""What cannot work is refused when the trainer is built, and not at its first step."""

from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.advantages.inputs import level_of
from trl_grpo_ext.advantages.robust import mc_grpo
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.rewards.steps import StepReward
from trl_grpo_ext.trainer.inputs import InputSource


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


def check_rewards(trainer: "GroupRelativeTrainer", estimator: Estimator) -> None:
    """
    Check that the rewards are such as the estimator compares.

    Raises:
        [`~errors.ConfigError`]: if it compares steps or single rewards and they are not.
    """
    specs = trainer.composition.specs
    stepwise = [isinstance(reward, StepReward) for reward in trainer.reward_funcs]
    if estimator.layout == "step_rewards":
        if stepwise != [True]:
            raise ConfigError(
                f"advantage {estimator.name!r} compares the steps of one step reward and nothing else; got "
                f"{len(stepwise)} rewards, {sum(stepwise)} of them step rewards. Give reward_funcs one "
                "trl_grpo_ext.rewards.StepReward"
            )
        spec = specs[0]
        if spec.weight != 1.0 or spec.clip is not None or spec.mode != "add":
            raise ConfigError(
                f"advantage {estimator.name!r} compares the rewards of steps, which weight={spec.weight}, "
                f"clip={spec.clip} and mode={spec.mode!r} do not reach; drop them"
            )
    gates = [spec.name for spec in specs if spec.mode == "gate"]
    if estimator.layout == "components" and gates:
        raise ConfigError(
            f"advantage {estimator.name!r} compares each reward by itself, so there is no sum that the gate "
            f"{' or '.join(map(repr, gates))} could multiply; set mode: add"
        )


def check_rollouts(trainer: Any, estimator: Estimator, supplied: set[str]) -> None:
    """
    Check that the trainer can sample the completions that an estimator needs for itself.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer.
        estimator ([`Estimator`]):
            The estimator.
        supplied (`set[str]`):
            Supplied inputs that it needs.

    Raises:
        [`~errors.ConfigError`]: if it cannot.
    """
    sampled = supplied & {"greedy_reward", "ref_rewards"}
    if sampled and (trainer.rollout_func is not None or trainer.tools or trainer.environment_factories is not None):
        raise ConfigError(
            f"advantage {estimator.name!r} samples completions of its own for {' and '.join(sampled)}, which does not "
            "work with rollout_func, tools or environments; give a dataset column of that name"
        )
    if "ref_rewards" in sampled and not hasattr(trainer.train_dataset, "__len__"):
        raise ConfigError(
            f"advantage {estimator.name!r} samples reference rollouts of every prompt before the first step, and a "
            "streamed dataset has no end; give it a column 'ref_rewards'"
        )


def check_reference(estimator: Estimator, supplied: set[str], beta: float) -> None:
    """
    Check that there is a reference policy if the estimator compares with one.

    Raises:
        [`~errors.ConfigError`]: if there is none.
    """
    if "token_kl" in supplied and beta == 0.0:
        raise ConfigError(
            f"advantage {estimator.name!r} needs 'token_kl', for which there is no reference with beta=0"
        )


def check_group_size(
    estimator: Estimator, sources: dict[str, InputSource], weights: list[float], group_size: int
) -> None:
    """
    Run the estimator once on made-up groups, so that parameters that do not fit, or leave nothing to learn, show.

    Args:
        estimator ([`Estimator`]):
            The estimator.
        sources (`dict[str, InputSource]`):
            Its inputs.
        weights (`list[float]`):
            Weights of the rewards.
        group_size (`int`):
            G.

    Raises:
        [`~errors.ConfigError`]: if the estimator refuses, or wants an odd group.
    """
    if estimator.function is mc_grpo and group_size % 2 == 0:
        raise ConfigError(
            f"advantage 'mc_grpo' samples one completion more, the pivot, so that the median is one of them: "
            f"num_generations={group_size} must be odd, such as {group_size + 1}"
        )
    if any(level_of(name) is None for name in sources):
        return  # the shape of what a function of the user's returns is not known
    # One group for each number of right completions but none and all.
    right = torch.arange(group_size).unsqueeze(0) <= torch.arange(group_size - 1).unsqueeze(1)
    rewards = right.double() if group_size > 1 else torch.ones(1, 1)
    groups = rewards.size(0)
    shapes: dict[str, tuple[int, ...]] = {
        "completion": (groups, group_size),
        "token": (groups, group_size, 3),
        "step": (groups, group_size, 3),
        "group": (groups,),
        "group_list": (groups, group_size),
        "batch": (),
    }
    generator = torch.Generator().manual_seed(0)
    made_up = {name: torch.rand(shapes[level_of(name) or ""], generator=generator) for name in sources}
    for name in made_up:
        if level_of(name) == "completion":  # two kinds of completions: strata of one give nothing
            made_up[name] = (torch.arange(group_size) % 2 + 1.0).expand(groups, -1)
    if "weights" in made_up:
        made_up["weights"] = torch.tensor(weights)
    if estimator.layout == "components":
        rewards = rewards.unsqueeze(2).expand(-1, -1, len(weights))
    elif estimator.layout == "step_rewards":
        rewards = rewards.unsqueeze(2).expand(-1, -1, 3)
    values = estimator(rewards, **made_up).values
    if group_size > 1 and not values.any():
        raise ConfigError(
            f"advantage {estimator.name!r} with {estimator.params} gives 0 to every completion of a group of "
            f"{group_size}, whatever its rewards: nothing would be learned"
        )
