"""From the rewards of a generation batch to its advantages: shaping, KL in the reward, inputs, estimator."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.estimation import Estimate, bind_params
from trl_grpo_ext.advantages.steps import step_to_token
from trl_grpo_ext.advantages.tables import to_table
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.rewards.steps import StepReward
from trl_grpo_ext.trainer.collection import InputCollector, Rollouts, completion_lengths
from trl_grpo_ext.trainer.gathering import grouped, grouped_objects
from trl_grpo_ext.trainer.history import HISTORY_INPUTS, History, prompt_key
from trl_grpo_ext.trainer.inputs import LEVELS, find_sources
from trl_grpo_ext.trainer.kl import sequence_kl
from trl_grpo_ext.trainer.policy import loss_mask, token_logps_and_entropies
from trl_grpo_ext.trainer.rollouts import greedy_rewards, reference_rewards


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


@dataclass(frozen=True)
class Scored:
    """
    A scored generation batch.

    Attributes:
        rewards (`torch.Tensor` of shape `(N, G)`):
            What was compared, of all processes; NaN where a completion could not be judged.
        advantages (`torch.Tensor` of shape `(B,)` or `(B, T)`):
            Of the rows of this process.
        means (`torch.Tensor` of shape `(N * G,)`):
            Advantage of each completion of all processes, averaged over its tokens.
        dropped (`torch.Tensor` of shape `(N * G,)` or `None`):
            Which completions the estimator drops from the loss; `None` if it never does.
    """

    rewards: torch.Tensor
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
        step_rewards = [reward for reward in trainer.reward_funcs if isinstance(reward, StepReward)]
        self._check_rewards(len(step_rewards))
        columns = getattr(trainer.train_dataset, "column_names", None) or []
        sources = find_sources(estimator, args.input_overrides(), columns, bool(step_rewards))
        self.collector = InputCollector(trainer, sources, step_rewards[0] if step_rewards else None)
        remembered = self.collector.supplied & HISTORY_INPUTS
        self.history = History(estimator, remembered) if remembered else None
        self.reference: dict[str, list[float | None]] | None = None
        self._check_rollouts()
        sizes: list[Any] = [trainer.num_generations]
        if trainer.eval_dataset is not None:
            sizes.append(trainer.num_generations_eval)
        for size in sizes:
            self._try(size)

    def _check_rewards(self, step_rewards: int) -> None:
        name, layout = self.trainer.args.advantage, self.estimator.layout
        count = len(self.trainer.reward_funcs)
        if layout == "step_rewards" and (step_rewards != 1 or count != 1):
            raise ConfigError(
                f"advantage {name!r} compares the steps of one step reward and nothing else; got {count} rewards, "
                f"{step_rewards} of them step rewards. Give reward_funcs one trl_grpo_ext.rewards.StepReward"
            )
        gates = [spec.name for spec in self.trainer.composition.specs if spec.mode == "gate"]
        if layout == "components" and gates:
            raise ConfigError(
                f"advantage {name!r} compares each reward by itself, so there is no sum that the gate "
                f"{' or '.join(map(repr, gates))} could multiply; set mode: add"
            )

    def _check_rollouts(self) -> None:
        extra = self.collector.supplied & {"greedy_reward", "ref_rewards"}
        trainer: Any = self.trainer
        if extra and (trainer.rollout_func is not None or trainer.tools or trainer.environment_factories is not None):
            raise ConfigError(
                f"advantage {trainer.args.advantage!r} samples completions of its own for {' and '.join(extra)}, "
                "which does not work with rollout_func, tools or environments; give a dataset column of that name"
            )
        if "ref_rewards" in extra and not hasattr(trainer.train_dataset, "__len__"):
            raise ConfigError(
                f"advantage {trainer.args.advantage!r} samples reference rollouts of every prompt before the first "
                "step, and a streamed dataset has no end; give it a column 'ref_rewards'"
            )

    def _try(self, group_size: int) -> None:
        """Run the estimator once on made-up groups, so that a parameter that does not fit shows before training."""
        if self.trainer.args.advantage == "mc_grpo" and group_size % 2 == 0:
            raise ConfigError(
                f"advantage 'mc_grpo' samples one completion more, the pivot, so that the median is one of them: "
                f"num_generations={group_size} must be odd, such as {group_size + 1}"
            )
        if not set(self.collector.sources) <= LEVELS.keys():
            return  # the shape of what a function of the user's returns is not known
        rewards = torch.arange(2.0 * group_size).remainder(3).remainder(2).view(2, group_size)
        shapes = {"G": (2, group_size), "T": (2, group_size, 3), "N": (2,), "-": ()}
        made_up = {name: torch.ones(shapes[LEVELS[name]]) for name in self.collector.sources}
        if self.estimator.layout == "components":
            weights = self.trainer.composition.weights
            rewards, made_up["weights"] = rewards.unsqueeze(2).expand(-1, -1, len(weights)), torch.tensor(weights)
        elif self.estimator.layout == "step_rewards":
            rewards = rewards.unsqueeze(2).expand(-1, -1, 3)
        if "ref_rewards" in made_up:
            made_up["ref_rewards"] = torch.ones(2, group_size)
        self.estimator(rewards, **made_up)

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
            known = self._reference_rewards()
            tables["ref_rewards"] = to_table([known[key] for key in keys], "ref_rewards", dims=2)
        return {name: table.to(self.trainer.accelerator.device) for name, table in tables.items()}

    def _keys(self, prompts: list, group_size: int) -> list[str]:
        return [group[0] for group in grouped_objects([prompt_key(prompt) for prompt in prompts], group_size)]

    def _reference_rewards(self) -> dict[str, list[float | None]]:
        if self.reference is None:
            trainer: Any = self.trainer
            evaluated = trainer.eval_dataset if trainer.args.eval_strategy != "no" else None
            splits = list(evaluated.values()) if isinstance(evaluated, dict) else [evaluated]
            rows = [row for split in (trainer.train_dataset, *splits) if split is not None for row in split]
            batch = trainer.args.per_device_train_batch_size
            self.reference = reference_rewards(trainer, rows, trainer.num_generations, batch)
        return self.reference

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
        group_size = self.trainer.group_size
        inputs = {**sampled, **self.collector.collect(output, rollouts, group_size)}
        if self.history is not None:
            keys = self._keys(rollouts.prompts, group_size)
            remembered = self.history.inputs(keys)
            inputs |= {name: table.to(matrix.device) for name, table in remembered.items()}
        rewards = _without_missing(self._rewards(output, rollouts, matrix), inputs)  # (N, G)
        estimate = self._estimate(rewards, matrix, rollouts, inputs)
        if self.history is not None and self.trainer.is_training:
            self.history.update(self.trainer, keys, rewards, output)
        return self._scored(output, rollouts, rewards, estimate)

    def _rewards(self, output: dict[str, Any], rollouts: Rollouts, matrix: torch.Tensor) -> torch.Tensor:
        """Combined rewards of all processes, shaped and less the KL penalty: (N, G)."""
        accelerator, group_size = self.trainer.accelerator, self.trainer.group_size
        rewards = self.trainer.combine(matrix).view(-1, group_size).double()
        if self.shapers:
            lengths = grouped(accelerator, completion_lengths(loss_mask(output), rollouts).double(), group_size)
            for shaper in self.shapers:
                rewards = shaper(rewards, lengths)
        if self.trainer.args.kl_in == "reward" and "token_kl" not in self.estimator.inputs:
            rewards = rewards - self.trainer.beta * grouped(accelerator, self._sequence_kl(output), group_size)
        return rewards

    def _sequence_kl(self, output: dict[str, Any]) -> torch.Tensor:
        """KL to the reference of each completion of this process, (B,)."""
        logps = output.get("old_per_token_logps")
        if logps is None:
            logps, _ = token_logps_and_entropies(self.trainer, output)
        kl = sequence_kl(self.kl(logps.double(), output["ref_per_token_logps"].double()), loss_mask(output))
        self.trainer.record_metric("kl_in_reward", self.trainer.accelerator.gather(kl).mean().item())
        return kl

    def _estimate(
        self, rewards: torch.Tensor, matrix: torch.Tensor, rollouts: Rollouts, inputs: dict[str, torch.Tensor]
    ) -> Estimate:
        table, group_size = rewards, self.trainer.group_size
        if self.estimator.layout == "components":
            components = self.trainer.composition.clip(matrix)  # (N * G, K)
            table = components.view(-1, group_size, components.size(1)).double()
            inputs["weights"] = table.new_tensor(self.trainer.composition.weights)
        elif self.estimator.layout == "step_rewards":
            table = self.collector.table(rollouts.step_rewards, "step_rewards", group_size)
        if table.dim() == 3:
            table = table.masked_fill(rewards.isnan().unsqueeze(2), torch.nan)
        estimate = self.estimator(table, **inputs)
        if not estimate.values.isfinite().all():
            group = int((~estimate.values.isfinite()).flatten(1).any(dim=1).nonzero()[0])
            raise DataError(
                f"advantage {self.trainer.args.advantage!r} gave {estimate.values[group].tolist()} for the rewards "
                f"{table[group].tolist()}; every advantage must be finite"
            )
        return estimate

    def _scored(self, output: dict[str, Any], rollouts: Rollouts, rewards: torch.Tensor, estimate: Estimate) -> Scored:
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
        return Scored(rewards, mine.to(output["advantages"].dtype), means, dropped)

    @property
    def remembers(self) -> bool:
        """Whether something must survive in a checkpoint."""
        return self.history is not None or "ref_rewards" in self.collector.supplied

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive in a checkpoint, as JSON takes it. Every process calls."""
        return self.history.state_dict(self.trainer) if self.history is not None else self.reference or {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what [`state_dict`] returned."""
        if self.history is not None:
            self.history.load_state_dict(state)
        else:
            self.reference = state


def _without_missing(rewards: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return (N, G) rewards with NaN for completions of which an input is missing: they cannot be compared."""
    for name, table in inputs.items():
        level = LEVELS.get(name)
        if level == "G" or (level is None and table.shape == rewards.shape):
            rewards = rewards.masked_fill(table.isnan(), torch.nan)
        elif level == "N":
            missing = table.view(table.size(0), -1).isnan().all(dim=1, keepdim=True)
            rewards = rewards.masked_fill(missing, torch.nan)
    return rewards
