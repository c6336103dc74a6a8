"""Advantages from a baseline other than the plain mean of the group."""

import math

import torch

from trl_grpo_ext.advantages.groups import (
    group_count,
    group_mean,
    group_std,
    is_degenerate,
    zero_unscorable,
    zero_without_signal,
)
from trl_grpo_ext.errors import ConfigError


def rloo(rewards: torch.Tensor) -> torch.Tensor:
    """
    RLOO: the reward minus the mean reward of the other completions of its group.

        A_i = r_i - mean(r_j, j != i) = n / (n - 1) * (r_i - mean(r))

    The baseline of a completion does not depend on its own reward, so the estimator is unbiased. The paper puts the
    KL penalty into the reward: combine with `kl_in="reward"` and `kl_estimator="k1"`.

    Helps when an unbiased gradient is wanted from small groups.

    Breaks when rewards have different scales: nothing normalises them.

    Paper: https://huggingface.co/papers/2402.14740

    Source: the code of TRL and of verl.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    count = group_count(rewards)
    advantages = (rewards - group_mean(rewards)) * count / (count - 1)
    return zero_without_signal(advantages, rewards)


def remax(rewards: torch.Tensor, greedy_reward: torch.Tensor) -> torch.Tensor:
    """
    ReMax: the reward minus the reward of one greedy completion of the same prompt.

        A_i = r_i - r_greedy

    The baseline comes from outside of the group, so a single completion is served too.

    Helps when groups are small, down to one completion: the greedy completion costs one more generation and needs no
    group to compare with.

    Breaks when the greedy completion is not typical of the samples: with a high temperature nearly every sample may
    score below it, and with a lucky or a truncated greedy completion the whole group is pushed one way.

    Paper: https://huggingface.co/papers/2310.10505

    Source: the code of verl.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        greedy_reward (`torch.Tensor` of shape `(N,)`):
            Reward of the greedy completion of each prompt. A group whose greedy completion is unscorable (NaN) has no
            baseline and gets 0.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. A constant group of value c gets c - r_greedy,
        which is 0 only if the greedy completion scores the same.
    """
    return (rewards - greedy_reward.unsqueeze(1)).nan_to_num(nan=0.0)


def opo(rewards: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    OPO: the reward minus the mean reward of its group, weighted by length.

        A = r - b,  b = sum(l_i * r_i) / sum(l_i)

    The baseline of least variance if the squared norm of a completion's gradient grows with its length. With equal
    lengths it is dr_grpo. The paper trains strictly on-policy, without a KL penalty and without an entropy bonus.

    Helps when lengths differ a lot within a group: the baseline follows the completions that dominate the gradient.

    Breaks when length and reward go together: the advantages no longer sum to 0, so a group whose long completions
    are wrong pushes up more than it pushes down.

    Paper: https://huggingface.co/papers/2505.23585

    Source: the code of verl.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens. Those of unscorable completions are not used.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    weights = lengths.masked_fill(rewards.isnan() | lengths.isnan(), 0.0)
    total = weights.sum(dim=1, keepdim=True)
    # Only empty completions: no length outweighs another, which leaves the plain mean.
    weighted = (weights * rewards.nan_to_num(nan=0.0)).sum(dim=1, keepdim=True) / total
    baseline = torch.where(total > 0, weighted, group_mean(rewards))
    return zero_without_signal(rewards - baseline, rewards)


def krpo(
    rewards: torch.Tensor,
    *,
    process_var: float = 1e-5,
    meas_var: float = 1e-2,
    init_mean: float = 0.0,
    init_var: float = 1.0,
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    KRPO: the reward against a scalar Kalman filter that runs over the group.

        x = init_mean, P = init_var; for each completion, in order:
            P' = P + process_var,  K = P' / (P' + meas_var),  x = x + K * (r - x),  P = (1 - K) * P'
            A = (r - x) / (sqrt(P) + eps)

    x is the filter's estimate of the mean once it has seen the completion, P the variance of that estimate. A single
    completion is served too.

    Helps when a smoothed baseline with an explicit noise model is wanted. `meas_var` should be of the size of the
    variance of the rewards.

    Breaks when the order of completions should not matter, as it does here: the first one moves the estimate nearly
    onto its own reward and gets next to nothing. The estimate contains each completion's own reward, so it is biased.
    P depends on the parameters and not on the spread of the rewards: the defaults fit rewards of size 1 only.

    Paper: https://huggingface.co/papers/2505.07527

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion, which the filter passes over.
        process_var (`float`, *optional*, defaults to `1e-5`):
            Variance added before each completion, in squared units of reward.
        meas_var (`float`, *optional*, defaults to `1e-2`):
            Variance of the noise of one reward, in squared units of reward; above 0.
        init_mean (`float`, *optional*, defaults to `0.0`):
            Estimate before the first completion.
        init_var (`float`, *optional*, defaults to `1.0`):
            Variance of that estimate, in squared units of reward.
        eps (`float`, *optional*, defaults to `1e-8`):
            Added to the square root of P.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. Constant groups and single completions get what
        the filter has not yet closed of the distance from `init_mean`, and 0 only where that distance is 0.

    Raises:
        [`~errors.ConfigError`]: if a variance or `eps` is negative, `meas_var` is 0, or both other variances are 0.
    """
    if min(process_var, init_var, eps) < 0 or meas_var <= 0 or process_var + init_var == 0:
        raise ConfigError(
            f"krpo: variances are {process_var=}, {meas_var=}, {init_var=} and {eps=}; "
            "meas_var must be above 0, and one of process_var and init_var; none may be negative"
        )
    # P and K do not depend on the rewards, only on how many of them have been seen.
    gains, scales = [], []
    var = init_var
    for _ in range(rewards.shape[1]):
        predicted = var + process_var
        gains.append(predicted / (predicted + meas_var))
        var = gains[-1] * meas_var
        # meas_var / (predicted + meas_var) is 1 - K without its cancellation.
        scales.append(meas_var / (predicted + meas_var) / (math.sqrt(var) + eps))
    seen = ((~rewards.isnan()).cumsum(dim=1) - 1).clamp(min=0)
    mean = rewards.new_full(rewards.shape[:1], init_mean)
    innovations = []
    for reward, gain in zip(rewards.unbind(dim=1), rewards.new_tensor(gains)[seen].unbind(dim=1), strict=True):
        innovations.append((reward - mean).nan_to_num(nan=0.0))
        mean = mean + gain * innovations[-1]
    return torch.stack(innovations, dim=1) * rewards.new_tensor(scales)[seen]


def js_shrinkage(rewards: torch.Tensor) -> torch.Tensor:
    """
    James-Stein shrinkage: the leave-one-out mean of the group, drawn towards the mean of the other prompts.

        v = mean over the other prompts k of s_k^2 / n_k      (s_k^2 with divisor n_k - 1)
        t = mean over the other prompts of their means m_k,  s = mean of (m_k - t)^2
        lam = (N - 1) / N * v / (v + s)
        A_i = r_i - [(1 - lam) * mean(r_j, j != i) + lam * t]

    Prompt and completion are both left out of what they are compared with, so the baseline never sees r_i and the
    estimator is unbiased. Nothing has to be tuned. With one prompt it is rloo.

    Helps when groups are small and prompts alike: the mean of few rewards is noisy, and the other prompts say where
    it should be.

    Breaks when a batch mixes tasks of different reward levels: t then describes no prompt, although lam shrinks as
    the prompts drift apart. Memory grows with the square of the number of prompts.

    Paper: https://huggingface.co/papers/2511.03710

    Source: secondary transcriptions of eqs 10-16; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion. Groups of fewer than two
            scorable completions do not count as prompts.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups of fewer than two
        scorable ones. A constant group of value c gets lam * (c - t).
    """
    count = group_count(rewards)
    usable = (count >= 2).to(rewards.dtype)
    others = (usable.sum() - usable).clamp(min=1)
    means = group_mean(rewards).masked_fill(count < 2, 0.0)
    noise = (group_std(rewards, ddof=1).square() / count).masked_fill(is_degenerate(rewards), 0.0)
    within = _sum_of_others(noise) / others
    target = _sum_of_others(means) / others
    between = (means.T - target).square().fill_diagonal_(0.0) @ usable / others
    shrinkage = others / (others + 1) * within / (within + between)
    shrinkage = shrinkage.masked_fill(within == 0, 0.0)
    advantages = (1 - shrinkage) * rloo(rewards) + shrinkage * (rewards - target)
    return zero_unscorable(advantages, rewards)


def _sum_of_others(column: torch.Tensor) -> torch.Tensor:
    # Not the sum minus the row's own value, which would bury the others under an outlier's rounding.
    before = column.cumsum(dim=0).roll(1, dims=0)
    after = column.flip(0).cumsum(dim=0).roll(1, dims=0).flip(0)
    before[:1] = 0
    after[-1:] = 0
    return before + after


def pvpo(rewards: torch.Tensor, ref_rewards: torch.Tensor) -> torch.Tensor:
    """
    PVPO: the reward minus the mean reward of a fixed reference policy on the same prompt.

        A_i = r_i - mean(reference rewards)

    The reference rollouts are made once, so the baseline costs nothing during training and does not depend on the
    group: a single completion is served too.

    Helps when prompts are visited often and groups must stay small.

    Breaks when the policy has left the reference behind: then nearly all advantages have one sign, and the baseline
    no longer reduces the variance.

    Paper: https://huggingface.co/papers/2508.21104

    Source: secondary transcriptions; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        ref_rewards (`torch.Tensor` of shape `(N, M)`):
            Rewards of M rollouts of the reference policy for each prompt; NaN marks an unscorable one. A group
            without any has no baseline and gets 0.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. A constant group of value c gets c minus the
        reference mean.
    """
    return (rewards - ref_rewards.nanmean(dim=1, keepdim=True)).nan_to_num(nan=0.0)
