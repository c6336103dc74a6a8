"""`GRPOTrainer` with the advantage estimator and the rewards chosen by name."""

import math
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from trl import GRPOTrainer

from trl_grpo_ext.advantages.groups import is_degenerate
from trl_grpo_ext.errors import ConfigError, DataError, StageError
from trl_grpo_ext.rewards import Composition, RewardSpec, resolve_rewards
from trl_grpo_ext.trainer.config import GroupRelativeConfig
from trl_grpo_ext.trainer.exclusion import loss_weights, mask_rows
from trl_grpo_ext.trainer.seams import check_attributes, check_methods, check_output


# The unscored share is judged over this many recent generation batches, once they hold enough completions for a
# share to mean something: one failure among four must not stop a run.
UNSCORED_BATCHES = 16
UNSCORED_MIN_COMPLETIONS = 64


class GroupRelativeTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] with the advantage estimator and the rewards chosen by name.

    Differs from its parent in four methods, each of which calls the parent's: rewards are combined by their
    specifications (weight, gate, required, clip), advantages are those of the chosen estimator, and completions that
    could not be judged leave the statistics, the gradient and the loss denominator. With `advantage="grpo"` and 0/1
    rewards the run is the parent's run.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or `peft.PeftModel`):
            As for [`~trl.GRPOTrainer`].
        reward_funcs (`str`, `dict`, `Callable` or a list of these, *optional*):
            Registered names (`"math"`), specifications (`{"name": "format", "mode": "gate"}`), import paths, or
            whatever [`~trl.GRPOTrainer`] takes: functions, reward models.
        args ([`GroupRelativeConfig`], *optional*):
            Configuration; by default one that writes to `<model name>-GRPO`.
        *trainer_args, **trainer_kwargs:
            Further arguments of [`~trl.GRPOTrainer`], unchanged: `train_dataset`, `processing_class`, `peft_config`,
            …

    Raises:
        [`~errors.ConfigError`]: if `args` is a plain `GRPOConfig`, a reward is unknown, or weights are given twice.
        [`~errors.UpstreamError`]: if the installed TRL has moved a part that is relied on.

    Example:

    ```python
    from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer

    trainer = GroupRelativeTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=["math", {"name": "format", "mode": "gate"}],
        args=GroupRelativeConfig(output_dir="out", advantage="rloo"),
        train_dataset=dataset,
    )
    trainer.train()
    ```
    """

    _tag_names = [*GRPOTrainer._tag_names, "trl-grpo-ext"]  # noqa: RUF012

    args: GroupRelativeConfig
    _logs: dict[str, Any]
    _buffered_inputs: list[dict[str, Any]]  # type: ignore[assignment]
    _reward_matrix: torch.Tensor  # (N, K), gathered, of the batch being scored

    def __init__(
        self,
        model,
        reward_funcs=None,
        args: GroupRelativeConfig | None = None,
        *trainer_args,
        **trainer_kwargs,
    ):
        check_methods()
        if args is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            args = GroupRelativeConfig(output_dir=f"{name.split('/')[-1]}-GRPO")
        if not isinstance(args, GroupRelativeConfig):
            raise ConfigError(f"args is a {type(args).__name__}; expected a GroupRelativeConfig (same arguments)")
        functions, self.composition = resolve_rewards(reward_funcs)
        self._estimator = args.bind_advantage()
        self._rows_removed = False
        self._unscored: deque[tuple[int, int]] = deque(maxlen=UNSCORED_BATCHES)
        super().__init__(model, functions or None, args, *trainer_args, **trainer_kwargs)
        check_attributes(self)
        self._settle_weights()

    def _settle_weights(self) -> None:
        """Give TRL and the composition the same weights: the specifications', or TRL's `reward_weights`."""
        specs = self.composition.specs
        # An environment that owns its reward appends one of its own.
        specs += [RewardSpec(name, mode="add", required=False) for name in self.reward_func_names[len(specs) :]]
        if self.args.reward_weights is not None:
            if any(spec.weight != 1.0 for spec in specs):
                raise ConfigError(
                    f"weights are given twice: reward_weights={self.args.reward_weights} and "
                    f"{[spec.weight for spec in specs]} in the reward specifications; keep one of them"
                )
            weights = self.reward_weights.tolist()
            specs = [replace(spec, weight=weight) for spec, weight in zip(specs, weights, strict=True)]
        self.composition = Composition(specs)
        self.reward_weights = torch.tensor(self.composition.weights, dtype=torch.float32)

    # Wraps the parent's method to keep the matrix of all processes, which the parent gathers here and nowhere else.
    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        matrix = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # (N, K)
        for name, column in zip(self.reward_func_names, matrix.unbind(dim=1), strict=True):
            self._metrics[self._mode][f"rewards/{name}/unscored_frac"].append(column.isnan().float().mean().item())
        if self.args.shuffle_rewards:
            matrix = matrix[self._permutation(matrix.size(0)).to(matrix.device)]
        # The parent sums with `nansum`, in which a missing reward counts as 0: only a row without any is left out.
        self._reward_matrix = matrix.masked_fill(self.composition.unscorable(matrix).unsqueeze(1), math.nan)
        return self._reward_matrix

    # Wraps the parent's method to replace the advantages, which it computes inline, and what it logs of them.
    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        check_output(output)
        rewards = self._combined_rewards()  # (N,)
        group_size = self.num_generations if self._mode == "train" else self.num_generations_eval
        groups = rewards.view(-1, group_size)  # type: ignore[arg-type]
        advantages = self._advantages(groups).to(output["advantages"])  # (N,)
        self._rewrite_logs(rewards, advantages, is_degenerate(groups))
        start = self.accelerator.process_index * len(inputs)
        local = slice(start, start + len(inputs))
        output["advantages"] = advantages[local]
        self._remove_unscored(output, rewards.isnan(), local)
        return output

    def _combined_rewards(self) -> torch.Tensor:
        rewards = self.composition.combine(self._reward_matrix)
        if rewards.isinf().any():
            infinite = self._reward_matrix.isinf().any(dim=0).tolist()
            names = [name for name, found in zip(self.reward_func_names, infinite, strict=True) if found]
            raise DataError(
                f"{' and '.join(names)} returned an infinite reward, which would make every advantage of its group "
                "NaN; give the reward a clip: [low, high], or return None where it cannot judge"
            )
        return rewards

    def _advantages(self, groups: torch.Tensor) -> torch.Tensor:
        """Advantages of (number of groups, group size) rewards, flattened to (N,); 0 where there is no reward."""
        advantages = self._estimator(groups.double()).masked_fill(groups.isnan(), 0.0)
        if not advantages.isfinite().all():
            group = int((~advantages.isfinite()).any(dim=1).nonzero()[0])
            raise DataError(
                f"advantage {self.args.advantage!r} gave {advantages[group].tolist()} for the rewards "
                f"{groups[group].tolist()}; every advantage must be finite"
            )
        return advantages.view(-1)

    def recent_completions(self, count: int) -> list[dict[str, Any]]:
        """
        Return completions of the newest generation batch, spread over it (neighbours answer the same prompt).

        Args:
            count (`int`):
                Most completions to return.

        Returns:
            `list[dict]` with `prompt` and `completion` as TRL keeps them, `rewards` (name to value, NaN where it could
            not judge) and `advantage`.
        """
        kept = self._logs
        stride = max(1, -(-len(kept["prompt"]) // count))
        return [
            {
                "prompt": kept["prompt"][i],
                "completion": kept["completion"][i],
                "rewards": {name: values[i] for name, values in kept["rewards"].items()},
                "advantage": kept["advantages"][i],
            }
            for i in range(0, len(kept["prompt"]), stride)
        ]

    def _rewrite_logs(self, rewards: torch.Tensor, advantages: torch.Tensor, degenerate: torch.Tensor) -> None:
        """Replace what the parent has just logged about its own sum and its own advantages."""
        metrics = self._metrics[self._mode]
        scored = rewards[~rewards.isnan()]
        metrics["reward"][-1] = scored.mean().item()
        metrics["reward_std"][-1] = scored.std().item() if scored.numel() > 1 else math.nan
        metrics["frac_reward_zero_std"][-1] = degenerate.float().mean().item()
        logged = self._logs["advantages"]
        for _ in range(min(len(logged), advantages.numel())):
            logged.pop()
        logged.extend(advantages.tolist())

    def _remove_unscored(self, output: dict[str, Any], unscored: torch.Tensor, local: slice) -> None:
        """Take unscored rows out of the loss; stop the run when there are too many of them."""
        # Every process sees the same gathered rewards, so all of them enter the collective call below or none does.
        self._rows_removed = bool(unscored.any())
        if self._rows_removed:
            tokens = mask_rows(output, ~unscored[local])
            output["num_items_in_batch"] = self.accelerator.gather(tokens).sum()
        if self._mode == "train":
            self._unscored.append((int(unscored.sum()), unscored.numel()))
            self._check_unscored()

    def _check_unscored(self) -> None:
        missing, total = (sum(counts) for counts in zip(*self._unscored, strict=True))
        if missing > self.args.max_unscored_frac * total and (total >= UNSCORED_MIN_COMPLETIONS or missing == total):
            raise StageError(
                f"{missing} of the last {total} completions could not be judged, more than max_unscored_frac="
                f"{self.args.max_unscored_frac}. Look at rewards/*/unscored_frac and the judge's log; raise "
                "max_unscored_frac only if such rows are expected"
            )

    # Wraps the parent's method, which shuffles the rows and splits them: only now is it known which micro-batch, and
    # so which accumulation window, a removed row belongs to.
    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        if self._rows_removed:
            self._rows_removed = False
            if self._mode == "train":
                self._set_loss_weights(self._buffered_inputs, self.args.gradient_accumulation_steps)
            else:
                self._set_loss_weights([inputs], 1)
        return inputs

    def _set_loss_weights(self, micro_batches: list[dict[str, Any]], window: int) -> None:
        kept = torch.stack([batch["row_kept"].sum() for batch in micro_batches]).unsqueeze(0)  # (1, S)
        kept = self.accelerator.gather(kept)  # (P, S)
        weights = loss_weights(kept, micro_batches[0]["row_kept"].size(0), window, self.loss_type)
        for batch, weight in zip(micro_batches, weights, strict=True):
            batch["loss_weight"] = weight

    # Wraps the parent's method to set the denominator of a micro-batch that belongs to a window with removed rows.
    def _compute_loss(self, model, inputs):
        weight = inputs.get("loss_weight", 1.0)
        if weight == 1.0:
            return super()._compute_loss(model, inputs)
        with self._scaled_beta(weight):
            return super()._compute_loss(model, {**inputs, "advantages": inputs["advantages"] * weight})

    @contextmanager
    def _scaled_beta(self, weight: float):
        """
        Scale the KL term as the advantages are scaled.

        The policy term is linear in the advantages and the KL term in `beta`; scaling these two, and not the loss,
        leaves alone the entropy bonus and the router loss, whose denominators are right already.
        """
        beta, self.beta = self.beta, self.beta * weight
        try:
            yield
        finally:
            self.beta = beta

    @property
    def _mode(self) -> str:
        return "train" if self.model.training else "eval"  # type: ignore[union-attr]

    def _permutation(self, n: int) -> torch.Tensor:
        """A random order of `n` rows, the same on every process."""
        generator = torch.Generator().manual_seed(self.args.seed * 1_000_003 + self.state.global_step)
        return torch.randperm(n, generator=generator)
