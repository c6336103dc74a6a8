"""From the rewards of a generation batch to its advantages: shaping, KL in the reward, inputs, estimator."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.estimation import Estimate, bind_params
from trl_grpo_ext.advantages.steps import step_to_token
from trl_grpo_ext.advantages.tables import to_table
from trl_grpo_ext.errors import DataError
from trl_grpo_ext.rewards.steps import StepReward
from trl_grpo_ext.trainer.checks import check_group_size, check_reference, check_rewards, check_rollouts
from trl_grpo_ext.trainer.collection import InputCollector, Rollouts
from trl_grpo_ext.trainer.gathering import grouped, grouped_objects
from trl_grpo_ext.trainer.history import HISTORY_INPUTS, History, prompt_key
from trl_grpo_ext.trainer.inputs import find_sources
from trl_grpo_ext.trainer.kl import sequence_kl
from trl_grpo_ext.trainer.policy import as_sampled, loss_mask
from trl_grpo_ext.trainer.rollouts import greedy_rewards, reference_rewards


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


@dataclass(frozen=True)
class Scored:
    """
    A scored generation batch.

    Attributes:
        rewards (`torch.Tensor` of shape `(N, G)`):
            What was compared, of all processes; NaN where a completion could not be judged or lacks an input.
        unjudged (`torch.Tensor` of shape `(N * G,)`):
            Which completions could not be judged.
        advantages (`torch.Tensor` of shape `(B,)` or `(B, T)`):
            Of the rows of this process.
        means (`torch.Tensor` of shape `(N * G,)`):
            Advantage of each completion of all processes, averaged over its tokens.
        dropped (`torch.Tensor` of shape `(N * G,)` or `None`):
            Which completions the estimator drops from the loss; `None` if it never does.
    """

    rewards: torch.Tensor
    unjudged: torch.Tensor
    advantages: torch.Tensor
    means: torch.Tensor
    dropped: torch.Tensor | None


class Scorer:
    """
    Scores generation batches for a trainer.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer, built but for this.

    Raises:
        [`~errors.ConfigError`]: if the estimator needs what the trainer cannot supply, or cannot work with the group
        size or the rewards.
    """

    def __init__(self, trainer: "GroupRelativeTrainer"):
        args = trainer.args
        estimator = args.bind_advantage()
        if "token_kl" in estimator.inputs:
            estimator = replace(estimator, params={**estimator.params, "kl_coef": args.beta})
        self.trainer = trainer
        self.estimator = estimator
        self.shapers = args.shapers()
        self.kl = bind_params(f"kl/{args.kl_estimator}").function
        check_rewards(trainer, estimator)
        step_reward = next((reward for reward in trainer.reward_funcs if isinstance(reward, StepReward)), None)
        sources = find_sources(estimator, args.input_overrides(), _columns(trainer), step_reward is not None)
        self.collector = InputCollector(trainer, sources, step_reward)
        remembered = self.collector.supplied & HISTORY_INPUTS
        self.history = History(estimator, remembered) if remembered else None
        self.reference: dict[str, list[float | None]] | None = None
        check_rollouts(trainer, estimator, self.collector.supplied)
        check_reference(estimator, self.collector.supplied, args.beta)
        sizes: list[Any] = [trainer.num_generations]
        if trainer.eval_dataset is not None:
            sizes.append(trainer.num_generations_eval)
        for size in sizes:
            check_group_size(estimator, sources, trainer.composition.weights, size)

    def sample_first(self, inputs: list[dict], group_size: int) -> dict[str, torch.Tensor]:
        """
        Return the inputs that come from rollouts of their own, sampled before those that are trained on.

        Args:
            inputs (`list[dict]`):
                Dataset rows of this process, one for each completion to come.
            group_size (`int`):
                G.
        """
        tables = {}
        if "greedy_reward" in self.collector.supplied:
            tables["greedy_reward"] = greedy_rewards(self.trainer, inputs, group_size).double()
        if "ref_rewards" in self.collector.supplied:
            keys = self._keys([row["prompt"] for row in inputs], group_size)
            tables["ref_rewards"] = to_table(self._reference_rewards(keys), "ref_rewards", dims=2)
        return {name: table.to(self.trainer.accelerator.device) for name, table in tables.items()}

    def _keys(self, prompts: list, group_size: int) -> list[str]:
        return [group[0] for group in grouped_objects([prompt_key(prompt) for prompt in prompts], group_size)]

    def _reference_rewards(self, keys: list[str]) -> list[list[float | None]]:
        trainer = self.trainer
        if self.reference is None:
            rows: Any = trainer.train_dataset
            together: Any = trainer.args.generation_batch_size
            batch = together // trainer.accelerator.num_processes
            self.reference = reference_rewards(trainer, list(rows), trainer.num_generations or 0, batch)
        # Prompts of an evaluation are not sampled for: they have no baseline, and leave the loss.
        unknown: list[float | None] = [None] * (trainer.num_generations or 0)
        if trainer.is_training and not self.reference.keys() >= set(keys):
            raise DataError(
                f"advantage {self.estimator.name!r} has no reference rollouts of some prompts: the checkpoint was "
                "saved with another training set. Resume with that one, or start afresh"
            )
        return [self.reference.get(key, unknown) for key in keys]

    def score(
        self, output: dict[str, Any], rollouts: Rollouts, matrix: torch.Tensor, sampled: dict[str, torch.Tensor]
    ) -> Scored:
        """
        Turn the rewards of a batch into advantages.

        Args:
            output (`dict`):
                The scored batch of this process.
            rollouts ([`Rollouts`]):
                What was recorded of it.
            matrix (`torch.Tensor` of shape `(N * G, K)`):
                Rewards of all processes, NaN in rows that could not be judged.
            sampled (`dict[str, torch.Tensor]`):
                What [`sample_first`] returned.

        Raises:
            [`~errors.DataError`]: if a reward is infinite, or an advantage not finite.
        """
        seen = as_sampled(output, rollouts.lengths) if self.trainer.args.mask_truncated_completions else output
        supplied = {**sampled, "weights": matrix.new_tensor(self.trainer.composition.weights).double()}
        keys = self._keys(rollouts.prompts, self.trainer.group_size) if self.history is not None else []
        if self.history is not None:
            supplied |= {name: table.to(matrix.device) for name, table in self.history.inputs(keys).items()}
        inputs = self.collector.collect(seen, rollouts, supplied)
        judged = self._rewards(seen, matrix)  # (N, G)
        rewards = judged.masked_fill(self.estimator.lacking_input(judged, inputs), torch.nan)
        estimate = self._estimate(rewards, matrix, rollouts, inputs, output["advantages"].dtype)
        if self.history is not None and self.trainer.is_training:
            self.history.update(self.trainer, keys, rewards, seen)
        return self._scored(output, rollouts, rewards, judged.isnan().flatten(), estimate)

    def _rewards(self, output: dict[str, Any], matrix: torch.Tensor) -> torch.Tensor:
        """Combined rewards of all processes, shaped and less the KL penalty: (N, G)."""
        accelerator, group_size = self.trainer.accelerator, self.trainer.group_size
        rewards = self.trainer.combine(matrix).view(-1, group_size).double()
        if self.shapers:
            lengths = grouped(accelerator, loss_mask(output).sum(dim=1).double(), group_size)
            for shaper in self.shapers:
                rewards = shaper(rewards, lengths)
        if self.trainer.args.kl_in == "reward":
            kl = grouped(accelerator, self._sequence_kl(output), group_size)
            self.trainer.record_metric("kl_in_reward", kl.mean().item())
            if "token_kl" not in self.estimator.inputs:  # which takes it out of the return of each token
                rewards = rewards - self.trainer.beta * kl
        return rewards

    def _sequence_kl(self, output: dict[str, Any]) -> torch.Tensor:
        """KL to the reference of each completion of this process, (B,)."""
        logps = self.trainer.passes.of(output).logps
        return sequence_kl(self.kl(logps.double(), output["ref_per_token_logps"].double()), loss_mask(output))

    def _estimate(
        self,
        rewards: torch.Tensor,
        matrix: torch.Tensor,
        rollouts: Rollouts,
        inputs: dict[str, torch.Tensor],
        dtype: torch.dtype,
    ) -> Estimate:
        table = rewards
        if self.estimator.layout == "components":
            components = self.trainer.composition.clip(matrix)  # (N * G, K)
            table = components.view(*rewards.shape, -1).double()
        elif self.estimator.layout == "step_rewards":
            table = self.collector.table(rollouts.step_rewards, "step_rewards", rewards.size(1))
        if table.dim() == 3:
            table = table.masked_fill(rewards.isnan().unsqueeze(2), torch.nan)
        estimate = self.estimator(table, **inputs)
        finite = estimate.values.to(dtype).isfinite()
        if not finite.all():
            group, place, *_ = (~finite).nonzero()[0].tolist()
            raise DataError(
                f"advantage {self.estimator.name!r} gave {estimate.values[group, place].tolist()} to completion "
                f"{place} of a group with the rewards {rewards[group].tolist()}; it must be a finite {dtype}"
            )
        return estimate

    def _scored(
        self,
        output: dict[str, Any],
        rollouts: Rollouts,
        rewards: torch.Tensor,
        unjudged: torch.Tensor,
        estimate: Estimate,
    ) -> Scored:
        accelerator = self.trainer.accelerator
        mask = loss_mask(output)
        start = accelerator.process_index * mask.size(0)
        local = slice(start, start + mask.size(0))
        values = estimate.values.flatten(0, 1)  # (N * G,), or (N * G, T or S)
        if self.estimator.layout == "step_rewards":
            ends = self.collector.table(rollouts.step_ends, "step_ends", rewards.size(1)).flatten(0, 1)
            mine = step_to_token(values[local].unsqueeze(0), ends[local].unsqueeze(0), mask.size(1)).squeeze(0)
        else:
            mine = values[local] if values.dim() == 1 else values[local, : mask.size(1)]
        means = values
        if mine.dim() == 2:
            means = accelerator.gather((mine * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1))
        dropped = None if estimate.kept is None else ~estimate.kept.flatten() & ~rewards.isnan().flatten()
        return Scored(rewards, unjudged, mine.to(output["advantages"].dtype), means, dropped)

    @property
    def remembers(self) -> bool:
        """Whether something must survive in a checkpoint."""
        return self.history is not None or "ref_rewards" in self.collector.supplied

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive in a checkpoint, as JSON takes it. Every process calls."""
        history = self.history.state_dict(self.trainer) if self.history is not None else None
        return {"history": history, "reference": self.reference}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what [`state_dict`] returned."""
        if self.history is not None:
            self.history.load_state_dict(state["history"])
        self.reference = state["reference"]


def _columns(trainer: Any) -> list[str] | None:
    """Columns that the training set and every set of an evaluation have; `None` if one of them does not tell."""
    evaluated = trainer.eval_dataset
    splits = [trainer.train_dataset, *(evaluated.values() if isinstance(evaluated, dict) else [evaluated])]
    names = [getattr(split, "column_names", None) for split in splits if split is not None]
    if None in names:
        return None
    return sorted(set.intersection(*(set(columns) for columns in names if columns is not None)))
