"""Collects the inputs of an advantage estimator for one generation batch, over all processes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.tables import to_table
from trl_grpo_ext.errors import DataError
from trl_grpo_ext.rewards.steps import StepReward
from trl_grpo_ext.trainer.gathering import grouped, grouped_objects
from trl_grpo_ext.trainer.inputs import LEVELS, InputSource
from trl_grpo_ext.trainer.policy import loss_mask, sum_of_squared_probabilities, token_logps_and_entropies


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer

POLICY_INPUTS = {"seq_logp", "seq_entropy", "logp", "entropies", "token_kl"}


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

    @property
    def supplied(self) -> set[str]:
        """Names of the supplied inputs that are needed."""
        return {source.name for source in self.sources.values() if source.kind == "supplied"}

    @property
    def needs_entropies(self) -> bool:
        """Whether the entropies of the policy are needed."""
        return bool(self.supplied & {"entropies", "seq_entropy"})

    def record(self, inputs: list[dict], prompts: list, completions: list, completion_ids: list) -> Rollouts:
        """Keep what the reward functions saw of this process's batch, and call the user's functions on it."""
        rollouts = Rollouts(prompts=list(prompts), lengths=[len(ids) for ids in completion_ids])
        reserved = ("prompt", "completion", "completion_ids")
        columns = {key: [row[key] for row in inputs] for key in inputs[0] if key not in reserved}
        if self.step_reward is not None:
            steps = self.step_reward.latest
            rollouts.step_rewards = [None if one is None else list(one.rewards) for one in steps]
            rollouts.step_ends = [None if one is None else list(one.ends) for one in steps]
            columns["anchors"] = [None if one is None else one.anchors for one in steps]
        for name, source in self.sources.items():
            if source.function is not None:
                values = source.function(
                    prompts=prompts, completions=completions, completion_ids=completion_ids, **columns
                )
                if len(values) != len(prompts):
                    raise DataError(f"{source.name} returned {len(values)} values for {len(prompts)} completions")
                rollouts.values[name] = list(values)
            elif source.kind != "supplied":
                rollouts.values[name] = columns[source.name]
        return rollouts

    def collect(self, output: dict[str, Any], rollouts: Rollouts, group_size: int) -> dict[str, torch.Tensor]:
        """
        Return the inputs by name, as float64 tensors over all processes.

        Args:
            output (`dict`):
                The scored batch of this process.
            rollouts ([`Rollouts`]):
                What was recorded of it.
            group_size (`int`):
                G.
        """
        local = self._from_policy(output, rollouts)
        tables = {}
        for name, source in self.sources.items():
            if source.kind != "supplied":
                tables[name] = self.table(rollouts.values[name], name, group_size)
            elif source.name in local:
                tables[name] = grouped(self.trainer.accelerator, local[source.name].double(), group_size)
        return tables

    def table(self, values: list, name: str, group_size: int) -> torch.Tensor:
        """Gather a number, or a list of numbers, for each completion: (N, G), (N, G, T), or (N, M) for a group's."""
        groups = grouped_objects(values, group_size)
        level = LEVELS.get(name)
        if level == "N":
            groups = [group[0] for group in groups]  # a column repeats the prompt's value for each completion
        # Lists of which none is left would otherwise look like numbers.
        dims = {"G": 2, "T": 3}.get(level or "")
        return to_table(groups, name, dims).to(self.trainer.accelerator.device)

    def _from_policy(self, output: dict[str, Any], rollouts: Rollouts) -> dict[str, torch.Tensor]:
        """Supplied inputs of this process's completions: (B,), or (B, T) with NaN outside of the completion."""
        needed = self.supplied
        mask = loss_mask(output)
        tables = {"lengths": completion_lengths(mask, rollouts)}
        if needed & POLICY_INPUTS:
            logps, entropies = self._logps_and_entropies(output)
            tables["logp"] = torch.where(mask, logps, torch.nan)
            tables["seq_logp"] = torch.where(mask, logps, 0.0).sum(dim=1)
            if entropies is not None:
                tables["entropies"] = torch.where(mask, entropies, torch.nan)
                tables["seq_entropy"] = tables["entropies"].nanmean(dim=1)
            if "token_kl" in needed:
                tables["token_kl"] = torch.where(mask, logps - output["ref_per_token_logps"], torch.nan)
        if "sum_pi_sq" in needed:
            tables["sum_pi_sq"] = torch.where(mask, sum_of_squared_probabilities(self.trainer, output), torch.nan)
        return {name: table for name, table in tables.items() if name in needed}

    def _logps_and_entropies(self, output: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Those of the pass that TRL has made of this batch if it has, or of one of our own."""
        for logps, entropies in self.trainer.newest_passes:
            if logps is output.get("old_per_token_logps"):
                return logps, entropies
        return token_logps_and_entropies(self.trainer, output)


def completion_lengths(mask: torch.Tensor, rollouts: Rollouts) -> torch.Tensor:
    """
    Tokens of each completion that the policy wrote, shape (B,).

    A truncated completion that `mask_truncated_completions` has masked altogether counts with all its tokens.
    """
    written = mask.sum(dim=1)
    sampled = torch.tensor(rollouts.lengths, device=mask.device)
    return torch.where(written > 0, written, sampled)
