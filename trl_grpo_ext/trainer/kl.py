"""The KL penalty to the reference policy: in the loss with any estimator, or in the reward."""

from collections.abc import Callable
from typing import Any

import torch

from trl_grpo_ext.errors import UpstreamError


class KLCoefficient(float):
    """
    `beta` for TRL's loss that puts another KL estimator in the place of k3.

    TRL computes k3 inline, multiplies it by `beta`, and adds the product to the loss of each token, which it then
    averages as the loss type says. Multiplying by this number gives `beta` times the chosen estimator instead, so the
    averaging stays TRL's. TRL's `kl` metric stays k3.

    Args:
        beta (`float`):
            The coefficient.
        estimate (`Callable[[], torch.Tensor]`):
            Returns the estimator's values of the current micro-batch, shape (B, T), with their graph.
    """

    estimate: Callable[[], torch.Tensor]
    used: bool

    def __new__(cls, beta: float, estimate: Callable[[], torch.Tensor]):
        coefficient = super().__new__(cls, beta)
        coefficient.estimate = estimate
        coefficient.used = False
        return coefficient

    def __mul__(self, k3: Any) -> torch.Tensor:  # type: ignore[override]
        self.used = True
        return float(self) * self.estimate()

    def check_used(self) -> None:
        """
        Check that the loss has multiplied by this number, on which the choice of the estimator rests.

        Raises:
            [`~errors.UpstreamError`]: if it has not.
        """
        if not self.used:
            raise UpstreamError(
                "GRPOTrainer._compute_loss no longer computes `self.beta * per_token_kl`, so kl_estimator would have "
                "no effect. Set kl_estimator='k3', or install a tested version of trl"
            )


def importance_weights(
    logps: torch.Tensor, old_logps: torch.Tensor | None, mask: torch.Tensor, level: str
) -> torch.Tensor:
    """
    The ratio of the policy to the one that sampled, by which `use_bias_correction_kl` multiplies the KL.

    Args:
        logps (`torch.Tensor` of shape `(B, T)`):
            Log-probabilities under the policy, with their graph.
        old_logps (`torch.Tensor` of shape `(B, T)`, *optional*):
            Those at sampling time; by default the policy's own, detached.
        mask (`torch.Tensor` of shape `(B, T)`):
            Tokens that count.
        level (`str`):
            TRL's `importance_sampling_level`.

    Returns:
        `torch.Tensor` of shape (B, T) for level `"token"`, (B, 1) for `"sequence"`.
    """
    log_ratio = logps - (logps.detach() if old_logps is None else old_logps)
    if level == "sequence":
        log_ratio = ((log_ratio * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)).unsqueeze(1)
    return log_ratio.exp()


def sequence_kl(kl: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Sum of a per-token KL over the tokens of each completion: (B, T) -> (B,)."""
    return torch.where(mask, kl, 0.0).sum(dim=1)
