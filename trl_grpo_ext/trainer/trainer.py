"""`GRPOTrainer` with the advantage estimator and the rewards chosen by name."""

import math
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from trl_grpo_ext.advantages.groups import is_degenerate
from trl_grpo_ext.errors import ConfigError, DataError, StageError
from trl_grpo_ext.rewards import Composition, RewardSpec, resolve_rewards
from trl_grpo_ext.trainer.collection import Rollouts
from trl_grpo_ext.trainer.config import GroupRelativeConfig
from trl_grpo_ext.trainer.exclusion import loss_weights, mask_rows
from trl_grpo_ext.trainer.history import load_state, save_state
from trl_grpo_ext.trainer.kl import KLCoefficient, importance_weights
from trl_grpo_ext.trainer.policy import PolicyPasses, loss_mask
from trl_grpo_ext.trainer.scoring import Scored, Scorer
from trl_grpo_ext.trainer.seams import check_attributes, check_methods, check_output


# The unscored share is judged over this many recent generation batches, once they hold enough completions for a
# share to mean something: one failure among four must not stop a run.
UNSCORED_BATCHES = 16
UNSCORED_MIN_COMPLETIONS = 64


class GroupRelativeTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] with the advantage estimator and the rewards chosen by name.

    Differs from its parent in a few methods, each of which calls the parent's: rewards are combined by their
    specifications (weight, gate, required, clip) and shaped, advantages are those of the chosen estimator, the KL
    penalty is the chosen one, and completions that could not be judged, or that the estimator drops, leave the
    statistics, the gradient and the loss denominator. With `advantage="grpo"` and 0/1 rewards the run is the
    parent's run.

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
    _reward_matrix: torch.Tensor  # (N * G, K), gathered, of the batch being scored
    _rollouts: Rollouts

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
        self._rows_removed = False
        self._unscored: deque[tuple[int, int, int]] = deque(maxlen=UNSCORED_BATCHES)
        super().__init__(model, functions or None, args, *trainer_args, **trainer_kwargs)
        check_attributes(self)
        self._settle_weights()
        self._set_up_advantages()

    def _set_up_advantages(self) -> None:
        self._scorer = Scorer(self)
        needed = self._scorer.collector.supplied
        self.passes = PolicyPasses(
            self, entropies=bool(needed & {"entropies", "seq_entropy"}), squares="sum_pi_sq" in needed
        )

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
        matrix = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # (N * G, K)
        for name, column in zip(self.reward_func_names, matrix.unbind(dim=1), strict=True):
            self.record_metric(f"rewards/{name}/unscored_frac", column.isnan().float().mean().item())
        if self.args.shuffle_rewards:
            matrix = matrix[self._permutation(matrix.size(0)).to(matrix.device)]
        self._reward_matrix = self._without_unscorable(matrix)
        self._rollouts = self._scorer.collector.record(inputs, prompts, completions, completion_ids_list)
        return self._reward_matrix

    def _without_unscorable(self, matrix: torch.Tensor) -> torch.Tensor:
        # The parent sums with `nansum`, in which a missing reward counts as 0: only a row without any is left out.
        return matrix.masked_fill(self.composition.unscorable(matrix).unsqueeze(1), math.nan)

    def judge(self, inputs: list[dict], prompts: list, completions: list, completion_ids: list) -> torch.Tensor:
        """
        Judge completions that are not trained on.

        Args:
            inputs (`list[dict]`):
                Dataset rows of this process, one for each completion.
            prompts, completions, completion_ids (`list`):
                What was asked and answered.

        Returns:
            `torch.Tensor`: combined rewards of the completions of all processes, NaN where not judged.
        """
        matrix = super()._calculate_rewards(inputs, prompts, completions, completion_ids)
        return self.combine(self._without_unscorable(matrix))

    def combine(self, matrix: torch.Tensor) -> torch.Tensor:
        """
        Combine the rewards of each completion, (N, K) -> (N,).

        Raises:
            [`~errors.DataError`]: if a reward is infinite.
        """
        # Before they are summed: infinities of both signs would cancel to NaN, which means "not judged".
        infinite = self.composition.clip(matrix).isinf().any(dim=0).tolist()
        if any(infinite):
            names = [name for name, found in zip(self.reward_func_names, infinite, strict=True) if found]
            raise DataError(
                f"{' and '.join(names)} returned an infinite reward, which would make every advantage of its group "
                "NaN; give the reward a clip: [low, high], or return None where it cannot judge"
            )
        return self.composition.combine(matrix)

    # Wraps the parent's method to replace the advantages, which it computes inline, and what it logs of them.
    def _generate_and_score_completions(self, inputs):
        sampled = self._scorer.sample_first(inputs, self.group_size)
        output = super()._generate_and_score_completions(inputs)
        check_output(output)
        scored = self._scorer.score(output, self._rollouts, self._reward_matrix, sampled)
        output["advantages"] = scored.advantages
        self.passes.clear()
        self._rewrite_logs(scored)
        self._remove_rows(output, scored)
        return output

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

    def _rewrite_logs(self, scored: Scored) -> None:
        """Replace what the parent has just logged about its own sum and its own advantages."""
        metrics = self._metrics[self._mode]
        judged = scored.rewards[~scored.rewards.isnan()]
        metrics["reward"][-1] = judged.mean().item()
        metrics["reward_std"][-1] = judged.std().item() if judged.numel() > 1 else math.nan
        metrics["frac_reward_zero_std"][-1] = is_degenerate(scored.rewards).float().mean().item()
        if scored.dropped is not None:
            self.record_metric("frac_dropped", scored.dropped.float().mean().item())
        logged = self._logs["advantages"]
        for _ in range(min(len(logged), scored.means.numel())):
            logged.pop()
        logged.extend(scored.means.tolist())

    def _remove_rows(self, output: dict[str, Any], scored: Scored) -> None:
        """Take unscored and dropped rows out of the loss; stop the run when too many could not be judged."""
        removed = scored.rewards.isnan().flatten()  # (N * G,)
        lacking = removed & ~scored.unjudged
        if lacking.any():
            self.record_metric("frac_lacking_input", lacking.float().mean().item())
        if scored.dropped is not None:
            removed = removed | scored.dropped
        # Every process sees the same gathered rewards, so all of them enter the collective call below or none does.
        self._rows_removed = bool(removed.any())
        if self._rows_removed:
            rows = output["completion_mask"].size(0)
            start = self.accelerator.process_index * rows
            tokens = mask_rows(output, ~removed[start : start + rows])
            output["num_items_in_batch"] = self.accelerator.gather(tokens).sum()
        if self.is_training:
            self._unscored.append((int(scored.unjudged.sum()), int(lacking.sum()), removed.numel()))
            self._check_unscored()

    def _check_unscored(self) -> None:
        unjudged, lacking, total = (sum(counts) for counts in zip(*self._unscored, strict=True))
        limit = self.args.max_unscored_frac
        missing = unjudged + lacking
        if missing <= limit * total or (total < UNSCORED_MIN_COMPLETIONS and missing < total):
            return
        if lacking > unjudged:
            raise StageError(
                f"{lacking} of the last {total} completions lacked an input of advantage {self.args.advantage!r} "
                f"({', '.join(self._scorer.collector.sources)}), more than max_unscored_frac={limit}. Look at what "
                "gives it; raise max_unscored_frac only if such rows are expected"
            )
        raise StageError(
            f"{unjudged} of the last {total} completions could not be judged, more than max_unscored_frac={limit}. "
            "Look at rewards/*/unscored_frac and the judge's log; raise max_unscored_frac only if such rows are "
            "expected"
        )

    # Wraps the parent's method, which shuffles the rows and splits them: only now is it known which micro-batch, and
    # so which accumulation window, a removed row belongs to.
    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        if self._rows_removed:
            self._rows_removed = False
            if self.is_training:
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

    # Wraps the parent's method to keep what it returns: the loss needs the policy's log-probabilities, which the
    # parent's loss does not return, and an estimator may need what a pass finds that the parent makes anyway.
    def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
        return self.passes.run(super()._get_per_token_logps_and_entropies, model, *args, **kwargs)

    # Wraps the parent's method to choose the KL term, and to set the denominator of a micro-batch that belongs to a
    # window with removed rows.
    def _compute_loss(self, model, inputs):
        weight = inputs.get("loss_weight", 1.0)
        beta = self.beta
        # The policy term is linear in the advantages and the KL term in `beta`. Scaling these two, and not the loss,
        # leaves alone the entropy bonus and the router loss, whose denominators are right already.
        self.beta = coefficient = self._loss_beta(inputs, beta * weight)
        try:
            loss = super()._compute_loss(model, {**inputs, "advantages": inputs["advantages"] * weight})
        finally:
            self.beta = beta
            self.passes.clear()
        if isinstance(coefficient, KLCoefficient):
            coefficient.check_used()
        return loss

    def _loss_beta(self, inputs: dict[str, Any], beta: float) -> float:
        if self.args.kl_in == "reward":
            return 0.0
        if beta == 0.0 or self.args.kl_estimator == "k3":
            return beta
        return KLCoefficient(beta, lambda: self._loss_kl(inputs))

    def _loss_kl(self, inputs: dict[str, Any]) -> torch.Tensor:
        """The chosen KL estimator on a micro-batch, (B, T), with the graph of the policy's log-probabilities."""
        logps: Any = self.passes.newest_logps
        kl = self._scorer.kl(logps, inputs["ref_per_token_logps"])
        if not self.args.use_bias_correction_kl:
            return kl
        old_logps, level = inputs.get("old_per_token_logps"), self.importance_sampling_level
        return kl * importance_weights(logps, old_logps, loss_mask(inputs), level)

    # Wraps the parent's method to save what the estimator remembers: first, so that a checkpoint that looks whole,
    # and may have been pushed, has it.
    def _save_checkpoint(self, model, trial):
        if self._scorer.remembers:
            state = self._scorer.state_dict()
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            if self.args.should_save:
                save_state(folder, self.args.advantage, state)
        super()._save_checkpoint(model, trial)

    # Wraps the parent's method, which runs whenever training resumes from a checkpoint.
    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self._scorer.remembers:
            self._scorer.load_state_dict(load_state(Path(checkpoint), self.args.advantage))

    def record_metric(self, name: str, value: float) -> None:
        """Add a value to a metric, which TRL averages over the steps between two logs."""
        self._metrics[self._mode][name].append(value)

    @property
    def group_size(self) -> int:
        """Completions for each prompt, in training or in evaluation, whichever is going on."""
        size = self.num_generations if self.is_training else self.num_generations_eval
        return size  # type: ignore[return-value]

    @property
    def is_training(self) -> bool:
        """Whether the batch at hand is one to train on, and not one of an evaluation."""
        return self.model.training  # type: ignore[union-attr]

    @property
    def _mode(self) -> str:
        return "train" if self.is_training else "eval"

    def _permutation(self, n: int) -> torch.Tensor:
        """A random order of `n` rows, the same on every process."""
        generator = torch.Generator().manual_seed(self.args.seed * 1_000_003 + self.state.global_step)
        return torch.randperm(n, generator=generator)
