"""Advantages of a chosen part of each group; the other completions leave the loss."""

import torch

from trl_grpo_ext.advantages.groups import group_count, group_mean, rank_in_group, standardise
from trl_grpo_ext.errors import ConfigError


def pods(rewards: torch.Tensor, *, m: int = 4, ddof: int = 1, eps: float = 1e-4) -> tuple[torch.Tensor, torch.Tensor]:
    """
    PODS: GRPO's advantage of the m completions whose rewards have the largest variance.

        S = the m of n completions with the largest variance of r
        A = (r - mean_S(r)) / (std_S(r) + eps) for i in S, 0 for the others

    S always consists of the lowest and the highest rewards, so only m + 1 splits have to be compared. Completions
    outside of S leave the loss and its denominators.

    Helps when generating is cheap and training on completions is not: many are sampled, few are trained on.

    Breaks when rewards are noisy: the extremes are where the noise is largest. The mean of S is not that of the
    policy, so the estimator is biased. With `m=1` there is nothing to compare, and all advantages are 0.

    Paper: https://huggingface.co/papers/2504.13818

    Source: secondary transcriptions; the paper's own text was not read. `m` depends on the task, and its default is a
    placeholder. The paper is reported to have no rule for ties: here more of the highest rewards are taken if two
    splits have the same variance, and position decides which of equal rewards.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion, which is never chosen.
        m (`int`, *optional*, defaults to `4`):
            Number of completions to keep. Groups of fewer scorable ones keep all of them.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance that scales the advantages is the number kept - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation, in units of reward.

    Returns:
        `tuple` of the advantages, a `torch.Tensor` of shape `(N, G)` that is exactly 0 for completions that are not
        kept and for constant groups, and a boolean `torch.Tensor` of shape `(N, G)` that is `True` for the kept ones.

    Raises:
        [`~errors.ConfigError`]: if `m` is not a whole number of at least 1.
    """
    kept = max_variance_subset(rewards, m)
    return standardise(rewards.masked_fill(~kept, torch.nan), ddof, eps), kept


def max_variance_subset(rewards: torch.Tensor, m: int) -> torch.Tensor:
    """
    Which m completions of each group have the largest variance of rewards, boolean of shape (N, G).

    The choice behind [`pods`] and [`~selection.pods_mask`]; all scorable completions if there are no more than m.

    Raises:
        [`~errors.ConfigError`]: if `m` is not a whole number of at least 1.
    """
    _check_size("pods", "m", m)
    m = min(int(m), rewards.shape[1])
    count = group_count(rewards).long()
    rank = rank_in_group(rewards)
    # Centred, so that the differences of sums below lose nothing next to the spread of the group.
    values = (rewards - group_mean(rewards)).nan_to_num(nan=0.0)
    values = torch.zeros_like(values).scatter(1, rank, values)
    lowest = torch.arange(m + 1, device=rewards.device)
    first_high = (count - m + lowest).clamp(min=0)  # (N, m + 1): with the k lowest go the m - k highest

    def sum_of_split(values: torch.Tensor) -> torch.Tensor:
        sums = torch.nn.functional.pad(values.cumsum(dim=1), (1, 0))
        return sums[:, : m + 1] + sums[:, -1:] - sums.gather(1, first_high)

    squares = values.square()
    spread = sum_of_split(squares) - sum_of_split(values).square() / m
    # Splits that tie but for rounding are told apart by their order, not by the last bit.
    rounding = 1e-13 * squares.sum(dim=1, keepdim=True)
    best = (spread >= spread.amax(dim=1, keepdim=True) - rounding).int().argmax(dim=1, keepdim=True)
    return ((rank < best) | (rank >= count - m + best)) & (rank < count)


def gfpo(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    k: int = 4,
    metric: str = "length",
    ddof: int = 1,
    eps: float = 1e-4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    GFPO: GRPO's advantage of the k shortest, or most token-efficient, completions of the group.

        S = the k of n completions with the smallest length, or with the largest r / length
        A = (r - mean_S(r)) / (std_S(r) + eps) for i in S, 0 for the others

    Completions outside of S leave the loss and its denominators.

    Helps when completions grow longer than the task needs: the policy only ever learns from concise ones.

    Breaks when hard prompts need long completions: they are filtered out even where they alone are right. If the kept
    ones are equal the group teaches nothing, although it is not constant. With `k=1` all advantages are 0.

    Paper: https://huggingface.co/papers/2508.09726

    Source: secondary transcriptions; the paper's own text was not read. `k` depends on the task.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion, which is never chosen.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        k (`int`, *optional*, defaults to `4`):
            Number of completions to keep. Groups of fewer scorable ones keep all of them; of equal completions the
            first are kept.
        metric (`str`, *optional*, defaults to `"length"`):
            `"length"` keeps the shortest, `"efficiency"` those with the most reward for each token (an empty
            completion counts as one token).
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is the number kept - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation, in units of reward.

    Returns:
        `tuple` of the advantages, a `torch.Tensor` of shape `(N, G)` that is exactly 0 for completions that are not
        kept and where all kept ones are equal, and a boolean `torch.Tensor` of shape `(N, G)` that is `True` for the
        kept ones.

    Raises:
        [`~errors.ConfigError`]: if `k` is not a whole number of at least 1, or `metric` is unknown.
    """
    _check_size("gfpo", "k", k)
    if metric == "length":
        cost = lengths
    elif metric == "efficiency":
        cost = -rewards / lengths.clamp(min=1)
    else:
        raise ConfigError(f"gfpo: metric is {metric!r}; it must be 'length' or 'efficiency'")
    unscorable = rewards.isnan()
    kept = (rank_in_group(cost.masked_fill(unscorable, torch.nan)) < k) & ~unscorable
    return standardise(rewards.masked_fill(~kept, torch.nan), ddof, eps), kept


def _check_size(entry: str, name: str, value: int) -> None:
    if value < 1 or value != int(value):
        raise ConfigError(f"{entry}: {name} is {value}; it must be a whole number of completions, at least 1")
