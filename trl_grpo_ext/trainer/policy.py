"""What the policy says about the tokens that it sampled, from TRL's own passes where it makes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import is_peft_model
from trl.trainer import add_fused_lm_head

from trl_grpo_ext.trainer.seams import METHODS


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer

# Keys of a scored batch that go on to the model for images and the like.
_PASS = METHODS["_get_per_token_logps_and_entropies"]
MULTIMODAL_KEYS = _PASS[_PASS.index("compute_aux_loss") + 1 :]


def loss_mask(output: dict[str, Any]) -> torch.Tensor:
    """Which completion tokens count in the loss, shape (B, T), boolean: those that the policy wrote."""
    mask = output["completion_mask"]
    return (mask * output["tool_mask"] if "tool_mask" in output else mask).bool()


def as_sampled(output: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
    """
    Undo what `mask_truncated_completions` did to a scored batch: truncated completions are still part of their group.

    TRL has then masked them altogether, for attention too, so its log-probabilities of them mean nothing.

    Args:
        output (`dict`):
            A scored batch of this process.
        lengths (`list[int]`):
            Tokens of each completion.
    """
    mask = output["completion_mask"]
    places = torch.arange(mask.size(1), device=mask.device)
    sampled = (places < torch.tensor(lengths, device=mask.device).unsqueeze(1)).to(mask.dtype)
    truncated = mask.sum(dim=1, keepdim=True) == 0
    view = {key: value for key, value in output.items() if key != "old_per_token_logps"}
    view["completion_mask"] = sampled
    if "tool_mask" in output:
        view["tool_mask"] = torch.where(truncated, sampled, output["tool_mask"])
    return view


@dataclass(frozen=True)
class TokenStatistics:
    """
    What a pass of the policy over a batch gives for each completion token, at the sampling temperature.

    Attributes:
        logps (`torch.Tensor` of shape `(B, T)`):
            Log-probability.
        entropies (`torch.Tensor` of shape `(B, T)` or `None`):
            Entropy, if it was asked for.
        squares (`torch.Tensor` of shape `(B, T)` or `None`):
            Sum over the vocabulary of the squared probability, if it was asked for.
    """

    logps: torch.Tensor
    entropies: torch.Tensor | None
    squares: torch.Tensor | None


class PolicyPasses:
    """
    Keeps what passes of the policy return, so that no pass is made twice.

    Args:
        trainer ([`GroupRelativeTrainer`]):
            The trainer whose passes are kept.
        entropies (`bool`):
            Whether passes without gradient compute entropies.
        squares (`bool`):
            Whether they compute sums of squared probabilities. The fused head of the model is then replaced by TRL's
            own with that output.
    """

    def __init__(self, trainer: "GroupRelativeTrainer", entropies: bool, squares: bool):
        self.trainer = trainer
        self.entropies = entropies
        self.newest_logps: torch.Tensor | None = None
        self._kept: list[TokenStatistics] = []
        self._own: tuple[torch.Tensor, TokenStatistics] | None = None
        self._squares: list[torch.Tensor] | None = [] if squares else None
        if squares:
            self._ask_for_squares()

    def _ask_for_squares(self) -> None:
        model: Any = self.trainer.model
        base = model.get_base_model() if is_peft_model(model) else model
        outputs = ("log_probs", "entropy", "log_sum_sq_probs")
        cast = self.trainer.args.cast_lm_head_to_fp32
        add_fused_lm_head(base, temperature=self.trainer.temperature, cast_lm_head_to_fp32=cast, outputs=outputs)
        base.register_forward_hook(self._keep_squares)

    def _keep_squares(self, module: Any, arguments: Any, output: Any) -> None:
        found = getattr(output, "log_sum_sq_probs", None)  # generation uses the plain head
        if found is not None and not torch.is_grad_enabled():
            self._squares.append(found.exp())  # type: ignore[union-attr]

    def run(self, compute: Callable, model: Any, *args: Any, **kwargs: Any) -> tuple:
        """Make a pass with `compute`, TRL's method, and keep what it returns."""
        without_gradient = model is self.trainer.model and not torch.is_grad_enabled()
        if without_gradient and self.entropies:
            kwargs["compute_entropy"] = True
        if self._squares:
            self._squares.clear()
        result = compute(model, *args, **kwargs)
        self.newest_logps = result[0]
        if without_gradient:
            squares = torch.cat(self._squares)[:, -result[0].size(1) :] if self._squares else None
            self._kept.append(TokenStatistics(result[0], result[1], squares))
        return result

    def of(self, output: dict[str, Any]) -> TokenStatistics:
        """Statistics of a scored batch: those of TRL's pass over it if there was one, or of one pass of our own."""
        for statistics in self._kept:
            if statistics.logps is output.get("old_per_token_logps"):
                return statistics
        if self._own is None or self._own[0] is not output["completion_ids"]:
            self._own = (output["completion_ids"], self.measure(output))
        return self._own[1]

    def measure(self, output: dict[str, Any]) -> TokenStatistics:
        """Make a pass over a batch without gradient."""
        args = self.trainer.args
        rows = args.per_device_train_batch_size if self.trainer.is_training else args.per_device_eval_batch_size
        with torch.no_grad():
            self.trainer._get_per_token_logps_and_entropies(
                self.trainer.model,
                torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
                torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1),
                output["completion_ids"].size(1),
                batch_size=rows,
                **{key: output[key] for key in MULTIMODAL_KEYS if key in output},
            )
        return self._kept.pop()

    def clear(self) -> None:
        """Forget the passes over the batch that was scored, or whose loss was computed."""
        self.newest_logps = None
        self._kept.clear()
        self._own = None


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode for a while."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
