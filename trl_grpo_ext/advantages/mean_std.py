"""Advantages from the mean and the standard deviation of a group."""

import torch

from trl_grpo_ext.advantages.groups import group_count, group_mean, group_std, zero_without_signal


def grpo(rewards: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """
    GRPO: the reward, centred and scaled by its group.

        A = (r - mean(r)) / (std(r) + eps)

    The paper names neither the divisor nor eps; the defaults are TRL's. Helps when rewards differ in scale between
    prompts. Very easy and very hard prompts get the largest weights, since their standard deviation is smallest.

    Paper: https://huggingface.co/papers/2402.03300

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    advantages = (rewards - group_mean(rewards)) / (group_std(rewards, ddof) + eps)
    return zero_without_signal(advantages, rewards)


def dr_grpo(rewards: torch.Tensor) -> torch.Tensor:
    """
    Dr. GRPO: the reward, centred by its group and not scaled.

        A = r - mean(r)

    Removes the weight that dividing by the standard deviation puts on very easy and very hard prompts. The paper's
    other half is the loss: combine with `loss_type="dr_grpo"`.

    Paper: https://huggingface.co/papers/2503.20783

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    return zero_without_signal(rewards - group_mean(rewards), rewards)


def rloo(rewards: torch.Tensor) -> torch.Tensor:
    """
    RLOO: the reward minus the mean reward of the other completions of its group.

        A_i = r_i - mean(r_j, j != i) = n / (n - 1) * (r_i - mean(r))

    The baseline of a completion does not depend on its own reward, so the estimator is unbiased. The paper puts the
    KL penalty into the reward; here it stays in the loss (`beta`).

    Paper: https://huggingface.co/papers/2402.14740

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    count = group_count(rewards)
    advantages = (rewards - group_mean(rewards)) * count / (count - 1)
    return zero_without_signal(advantages, rewards)
