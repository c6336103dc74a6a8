"""Advantages that compare a group with what was seen of the prompt, or of the data, before."""

import torch

from trl_grpo_ext.advantages.groups import (
    group_mean,
    group_std,
    is_degenerate,
    standardise,
    whiten,
    zero_unscorable,
    zero_without_signal,
)


# Keeps exp() finite where rewards are not in [0, 1]; pass rates never come near it.
LARGEST_EXPONENT = 600.0


def spo(
    rewards: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor, *, ddof: int = 1, eps: float = 1e-8
) -> torch.Tensor:
    """
    SPO: the reward minus the tracked success rate of the prompt, whitened over the batch.

        A = (d - mean(d)) / (std(d) + eps),   d = r - alpha / (alpha + beta),   mean and std over the batch

    `alpha` and `beta` are those of a Beta tracker of the prompt before it has seen these rewards; see
    [`~advantages.trackers.SuccessTracker`].

    Helps when one completion for each prompt is all that can be paid for: the baseline comes from earlier visits, so
    groups of one work.

    Breaks when prompts are seen once: the baseline is then the prior. A constant group moves by its distance from the
    baseline and from the mean of the batch.

    Paper: https://huggingface.co/papers/2509.13232

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards in [0, 1], one row for each group; NaN marks an unscorable completion.
        alpha (`torch.Tensor` of shape `(N,)`):
            Discounted number of successes of each prompt.
        beta (`torch.Tensor` of shape `(N,)`):
            Discounted number of failures of each prompt.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is the number of completions in the batch minus `ddof`.
        eps (`float`, *optional*, defaults to `1e-8`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions; constant groups give 0 only if the
        whole batch is at the same distance from its baselines.
    """
    seen = alpha + beta
    baseline = torch.where(seen > 0, alpha / seen, 0.0)
    return whiten(rewards - baseline.unsqueeze(1), ddof, eps)


def dcpo_sas(
    rewards: torch.Tensor, times: torch.Tensor, old_mean: torch.Tensor, old_std: torch.Tensor, *, ddof: int = 1
) -> torch.Tensor:
    """
    DCPO's smooth advantage standardisation: the z-score of the group mixed with that of all visits of the prompt.

        z_now = (r - m) / s
        z_cum = (r - M') / S',   M' and S' over this and the t earlier visits
        A = the smaller in magnitude of  z_cum / i + (1 - 1/i) z_now  and  z_now / i + (1 - 1/i) z_cum,   i = t + 1

        M' = (t M + m) / (t + 1)
        S'^2 = (t S^2 + s^2 + t / (t + 1) (m - M)^2) / (t + 1)

    A standard deviation of 0 contributes 0; there is no eps. At the first visit this is the plain z-score. See
    [`~advantages.trackers.MomentTracker`] for the state.

    Helps when many groups are constant: earlier visits of the prompt tell whether all right is better than usual, so
    such a group still gives a gradient.

    Breaks when the policy moves fast: the history then describes another policy.

    Paper: https://huggingface.co/papers/2509.02333

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        times (`torch.Tensor` of shape `(N,)`):
            Number t of earlier visits of each prompt; 0 ignores `old_mean` and `old_std`.
        old_mean (`torch.Tensor` of shape `(N,)`):
            Mean M over these visits.
        old_std (`torch.Tensor` of shape `(N,)`):
            Standard deviation S over these visits.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance of a group is n - `ddof`.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups of prompts that
        never had another reward; other constant groups move by their distance from the history.
    """
    mean, std = group_moments(rewards, ddof)
    visits = times.unsqueeze(1)
    total_mean, total_std = add_visit(
        visits,
        torch.where(visits > 0, old_mean.unsqueeze(1), mean),
        torch.where(visits > 0, old_std.unsqueeze(1), 0.0),
        mean,
        std,
    )
    now = _scaled(rewards - mean, std)
    cumulative = _scaled(rewards - total_mean, total_std)
    share = 1 / (visits + 1)
    towards_now = cumulative * share + now * (1 - share)
    towards_history = now * share + cumulative * (1 - share)
    smaller = torch.where(towards_now.abs() <= towards_history.abs(), towards_now, towards_history)
    return zero_unscorable(smaller, rewards)


def ha_dw(
    rewards: torch.Tensor,
    anchor: torch.Tensor,
    *,
    lambda_scale: float = 1.3,
    normalize: bool = True,
    ddof: int = 1,
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    HA-DW: the z-score, reweighted by how much harder the prompt is than the data has been so far.

        A = z lambda_scale exp(-sign(z) d),   d = mean(r) - anchor

    Prompts harder than the anchor (d < 0) get larger positive and smaller negative advantages, easier prompts the
    opposite. The paper derives it as a correction of the bias of a group mean that is only looked at when the group
    is not constant. See [`~advantages.trackers.PassRateAnchor`] for the anchor.

    Helps when hard prompts matter and groups are small.

    Breaks when rewards are not in [0, 1]: d is then no difference of pass rates, and its exponential dominates.

    Paper: https://huggingface.co/papers/2601.08521

    Source: a secondary transcription of the paper's equations 13 to 16; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards in [0, 1], one row for each group; NaN marks an unscorable completion.
        anchor (`torch.Tensor` of shape `()`):
            Smoothed pass rate of the batches so far; NaN (no batch yet) leaves only the factor `lambda_scale`.
        lambda_scale (`float`, *optional*, defaults to `1.3`):
            Factor on every advantage.
        normalize (`bool`, *optional*, defaults to `True`):
            Whether to divide by the standard deviation of the group; if not, z is the centred reward.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-8`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    mean = group_mean(rewards)
    advantages = standardise(rewards, ddof, eps) if normalize else zero_without_signal(rewards - mean, rewards)
    exponent = -advantages.sign() * (mean - anchor).nan_to_num(nan=0.0)
    return advantages * lambda_scale * exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()


def group_moments(rewards: torch.Tensor, ddof: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of each group, both (N, 1); of a constant group exactly its value and 0."""
    constant = is_degenerate(rewards)
    value = rewards.nan_to_num(nan=-torch.inf).amax(dim=1, keepdim=True)
    return torch.where(constant, value, group_mean(rewards)), group_std(rewards, ddof).masked_fill(constant, 0.0)


def add_visit(times, old_mean, old_std, mean, std):
    """
    Mean and standard deviation over `times` + 1 visits from those over the first `times` and those of the last one.
    Takes numbers or tensors.
    """
    # Incremental, so that a prompt whose reward never changes keeps exactly that mean and a deviation of exactly 0.
    step = (mean - old_mean) / (times + 1)
    variance = (times * old_std**2 + std**2) / (times + 1) + times * step**2
    return old_mean + step, variance**0.5


def _scaled(centred: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    return torch.where(std > 0, centred / std, 0.0)
