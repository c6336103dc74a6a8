"""Collects the inputs of an advantage estimator for one generation batch, over all processes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.inputs import level_of
from trl_grpo_ext.advantages.tables import to_table
from trl_grpo_ext.errors import DataError
from trl_grpo_ext.rewards.steps import StepReward
from trl_grpo_ext.trainer.gathering import grouped, grouped_objects
from trl_grpo_ext.trainer.inputs import InputSource
from trl_grpo_ext.trainer.policy import loss_mask


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer

POLICY_INPUTS = {"seq_logp", "seq_entropy", "logp", "entropies", "token_kl", "sum_pi_sq"}
_DIMS = {"completion": 2, "token": 3, "step": 3}


@dataclass
class Rollouts:
    """
    A generation batch of this process before it becomes tensors, as the reward functions saw it.

    Attributes:
        prompts (`list`):
            Prompts, one for each completion.
        lengths (`list[int]`):
            Tokens of each completion.
        values (`dict[str, list]`):
            For each input from a function, a column or a step reward, a value for each completion.
        step_rewards (`list[list[float] | None]`):
            Rewards of each completion's steps; empty without a step reward.
        step_ends (`list[list[int] | None]`):
            Tokens up to the end of each step.
    """

    prompts: list
    lengths: list[int]
    values: dict[str, list] = field(default_factory=dict)
    step_rewards: list = field(default_factory=list)
    step_ends: list = field(default_factory=list)


class InputCollector:
    """
    Collects the inputs that need neither rollouts nor history of their own.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer that owns it.
        sources (`dict[str, InputSource]`):
            Input to source.
        step_reward ([`~rewards.StepReward`], *optional*):
            The step reward of the trainer.
    """

    def __init__(
        self, trainer: "GroupRelativeTrainer", sources: dict[str, InputSource], step_reward: StepReward | None
    ):
        self.trainer = trainer
        self.sources = sources
        self.step_reward = step_reward
        self._dims: dict[str, int] = {}

    @property
    def supplied(self) -> set[str]:
        """Names of the supplied inputs that are needed."""
        return {source.name for source in self.sources.values() if source.kind == "supplied"}

    def record(self, inputs: list[dict], prompts: list, completions: list, completion_ids: list) -> Rollouts:
        """
        Keep what the reward functions see of this process's batch, and call the user's functions on it.

        Raises:
            [`~errors.DataError`]: if a column is missing, or what a function, a column or a step reward gives does not
            have one value for each completion (token, step).
        """
        rollouts = Rollouts(prompts=list(prompts), lengths=[len(ids) for ids in completion_ids])
        reserved = ("prompt", "completion", "completion_ids")
        columns = {key: [row[key] for row in inputs] for key in inputs[0] if key not in reserved}
        steps = self.step_reward.latest if self.step_reward is not None else []
        rollouts.step_rewards = [None if one is None else list(one.rewards) for one in steps]
        rollouts.step_ends = [None if one is None else list(one.ends) for one in steps]
        for name, source in self.sources.items():
            if source.function is not None:
                found = source.function(
                    prompts=prompts, completions=completions, completion_ids=completion_ids, **columns
                )
                rollouts.values[name] = _checked(source.name, found, len(prompts))
            elif source.kind == "steps":
                rollouts.values[name] = [None if one is None else one.anchors for one in steps]
            elif source.kind == "column":
                if name not in columns:
                    raise DataError(f"advantage input {name!r}: the dataset has no column of that name")
                rollouts.values[name] = columns[name]
            if source.kind != "supplied":
                self._check_lengths(name, rollouts)
        return rollouts

    def _check_lengths(self, name: str, rollouts: Rollouts) -> None:
        """Values for tokens must be as many as tokens, and those for steps as many as steps."""
        expected: list
        if level_of(name) == "token":
            expected, unit = rollouts.lengths, "tokens"
        elif level_of(name) == "step":
            expected, unit = [None if one is None else len(one) for one in rollouts.step_rewards], "steps"
        else:
            return
        for values, count in zip(rollouts.values[name], expected, strict=True):
            if count is None or (values is None and unit == "tokens"):
                continue
            if values is None or not hasattr(values, "__len__") or len(values) != count:
                raise DataError(f"advantage input {name!r}: got {values!r:.80} for a completion of {count} {unit}")

    def collect(
        self, output: dict[str, Any], rollouts: Rollouts, supplied: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """
        Return the inputs by name, as float64 tensors over all processes.

        Args:
            output (`dict`):
                The scored batch of this process, as it was sampled.
            rollouts ([`Rollouts`]):
                What was recorded of it.
            supplied (`dict[str, torch.Tensor]`):
                Supplied inputs that do not come from the policy: rollouts of their own, history, weights.
        """
        group_size = self.trainer.group_size
        supplied = {**supplied, **self._from_policy(output, group_size)}
        return {
            name: supplied[source.name]
            if source.kind == "supplied"
            else self.table(rollouts.values[name], name, group_size)
            for name, source in self.sources.items()
        }

    def table(self, values: list, name: str, group_size: int) -> torch.Tensor:
        """Gather a number, or a list of numbers, for each completion: (N, G), (N, G, T), or (N, M) for a group's."""
        groups = grouped_objects(values, group_size)
        level = level_of(name)
        if level in ("group", "group_list"):
            groups = [group[0] for group in groups]  # a column repeats the prompt's value for each completion
        # Lists of which none is left would otherwise look like numbers: a level that is not known is remembered.
        dims = _DIMS.get(level or "", self._dims.get(name))
        # Text is a name of something, and nothing that can be computed with.
        table = to_table(groups, name, dims, text=name in ("strata", "anchors") or level is None)
        if name == "ref_rewards" and table.dim() != 2:
            raise DataError(f"advantage input {name!r}: expected a list of rewards for each prompt, got {groups[0]!r}")
        if not table.isnan().all():
            self._dims.setdefault(name, table.dim())
        return table.to(self.trainer.accelerator.device)

    def _from_policy(self, output: dict[str, Any], group_size: int) -> dict[str, torch.Tensor]:
        """Supplied inputs of the completions: (N, G), or (N, G, T) with NaN outside of the completion."""
        needed = self.supplied
        mask = loss_mask(output)
        tables = {"lengths": mask.sum(dim=1)} if "lengths" in needed else {}
        if needed & POLICY_INPUTS:
            found = self.trainer.passes.of(output)
            tables["logp"] = torch.where(mask, found.logps, torch.nan)
            tables["seq_logp"] = torch.where(mask, found.logps, 0.0).sum(dim=1)
            if found.entropies is not None:
                tables["entropies"] = torch.where(mask, found.entropies, torch.nan)
                tables["seq_entropy"] = tables["entropies"].nanmean(dim=1)
            if found.squares is not None:
                tables["sum_pi_sq"] = torch.where(mask, found.squares, torch.nan)
            if "token_kl" in needed:
                tables["token_kl"] = torch.where(mask, found.logps - output["ref_per_token_logps"], torch.nan)
        accelerator = self.trainer.accelerator
        return {name: grouped(accelerator, tables[name].double(), group_size) for name in tables if name in needed}


def _checked(name: str, values: Any, count: int) -> list:
    if not isinstance(values, (list, tuple)) and not hasattr(values, "tolist"):
        raise DataError(f"{name} returned a {type(values).__name__}; expected a list of {count} values")
    found = list(values)
    if len(found) != count:
        raise DataError(f"{name} returned {len(found)} values for {count} completions")
    return found
