"""Advantages that depend on a further property of each completion: entropy, likelihood, a metric, a stratum."""

import torch

from trl_grpo_ext.advantages.groups import (
    group_count,
    group_mean,
    rank_in_group,
    standardise,
    zero_unscorable,
    zero_without_signal,
)
from trl_grpo_ext.errors import ConfigError


def edge_eda(rewards: torch.Tensor, seq_entropy: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """
    EDGE-GRPO's entropy-driven advantage: GRPO's advantage, larger for completions of low entropy.

        A_i = (r_i - mean(r)) / (std(r) + eps) * mean(H) / H_i

    H_i is the mean token entropy of a completion. Confident and right is amplified, confident and wrong is punished
    more.

    Helps when the advantages within a group collapse to two values: completions of equal reward get different ones.

    Breaks when a completion is almost deterministic: its factor grows without bound as H_i goes to 0, so the
    advantage should be clipped. Advantages no longer sum to 0.

    Paper: https://huggingface.co/papers/2507.21848

    Source: secondary transcriptions; the paper's own text was not read. Divisor and eps are TRL's.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        seq_entropy (`torch.Tensor` of shape `(N, G)`):
            Mean entropy of the tokens of each completion, in nats. A completion of entropy 0 gets 0: where the policy
            had no choice its gradient is 0 anyway.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    entropy = seq_entropy.masked_fill(rewards.isnan(), torch.nan)
    ratio = group_mean(entropy) / entropy
    return standardise(rewards, ddof, eps) * ratio.masked_fill(~ratio.isfinite(), 0.0)


def unlikeliness(
    rewards: torch.Tensor,
    seq_logp: torch.Tensor,
    *,
    beta_rank: float = 0.25,
    ddof: int = 1,
    eps: float = 1e-6,
) -> torch.Tensor:
    """
    Unlikeliness reward: GRPO's advantage of rewards that are cut for likely completions.

        r'_i = r_i * (1 - beta_rank * below_i / n),  below_i = completions of the group less likely than i
        A = (r' - mean(r')) / (std(r') + eps)

    Among right completions the unlikely ones win. A group of equal rewards other than 0 becomes live: its unlikely
    completions go up and its likely ones down.

    Helps when pass@k for large k has to rise: GRPO mostly sharpens what is likely already.

    Breaks when unlikely completions are right by luck, or when rewards are negative: the cut then favours the likely
    ones. In all-right groups nothing but the order of likelihood is learned, at full scale however small `beta_rank`.

    Paper: https://huggingface.co/papers/2506.02355

    Source: Trinity-RFT's port of it; the paper's own text was not read. The port ranks by mean log-probability of the
    tokens; here the rank is that of the whole sequence, as the paper is reported to have it.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        seq_logp (`torch.Tensor` of shape `(N, G)`):
            Log-probability of each completion, summed over its tokens, in nats. Only its order counts.
        beta_rank (`float`, *optional*, defaults to `0.25`):
            Share of the reward that the likeliest of many completions loses; from 0 to 1.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions, for groups whose rewards are all 0, and
        for constant groups of equal likelihood; not 0 for other constant groups.

    Raises:
        [`~errors.ConfigError`]: if `beta_rank` is outside of [0, 1].
    """
    if not 0 <= beta_rank <= 1:
        raise ConfigError(f"unlikeliness: beta_rank is {beta_rank}; it must be between 0 and 1")
    logp = seq_logp.masked_fill(rewards.isnan(), torch.nan)
    below = (logp.unsqueeze(1) < logp.unsqueeze(2)).sum(dim=2)
    return standardise(rewards * (1 - beta_rank * below / group_count(rewards)), ddof, eps)


def canon(rewards: torch.Tensor, metric: torch.Tensor, *, mu: float = 0.5, alpha: float = 1.0) -> torch.Tensor:
    """
    CANON: each completion against the other half and against its own half of a group split by a metric.

        H = the n // 2 completions with the highest metric, L = the others
        inter: alpha * r_i - mean_L(r) for i in H,  r_i - alpha * mean_H(r) for i in L
        intra: r_i - mean of its own half
        A = mu * inter + (1 - mu) * intra

    The first part asks which half does better, the second who is best in each. With equal halves, `mu=0.5` and
    `alpha=1`, it is dr_grpo.

    Helps when it is not known whether more of the metric (entropy, length) is good: the half that does better decides,
    and `alpha` tips the scale towards the high half (above 1) or the low half (below 1).

    Breaks when the metric has nothing to do with the reward: comparing with half of the group only adds variance.
    Rewards have to share one scale, as nothing normalises them.

    Paper: https://huggingface.co/papers/2509.23962

    Source: the paper's equations as transcribed by others; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        metric (`torch.Tensor` of shape `(N, G)`):
            Value to split by, such as the mean entropy or the length. Of equal values the later ones count as higher.
        mu (`float`, *optional*, defaults to `0.5`):
            Weight of the comparison with the other half; from 0 to 1.
        alpha (`float`, *optional*, defaults to `1.0`):
            Weight of the high half's rewards in that comparison.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions, and for constant groups if `alpha` is 1
        or `mu` is 0; otherwise a constant group of value c gets +-mu * (alpha - 1) * c.

    Raises:
        [`~errors.ConfigError`]: if `mu` is outside of [0, 1].
    """
    if not 0 <= mu <= 1:
        raise ConfigError(f"canon: mu is {mu}; it must be between 0 and 1")
    count = group_count(rewards)
    known = metric.masked_fill(metric.isnan(), -torch.inf).masked_fill(rewards.isnan(), torch.nan)
    high = rank_in_group(known) >= count - count.div(2, rounding_mode="floor")
    mean_high = group_mean(rewards.masked_fill(~high, torch.nan))
    mean_low = group_mean(rewards.masked_fill(high, torch.nan))
    inter = torch.where(high, alpha * rewards - mean_low, rewards - alpha * mean_high)
    intra = rewards - torch.where(high, mean_high, mean_low)
    advantages = mu * inter + (1 - mu) * intra
    if alpha == 1 or mu == 0:
        return zero_without_signal(advantages, rewards)
    return zero_unscorable(advantages, rewards)


def stratified(
    rewards: torch.Tensor,
    strata: torch.Tensor,
    *,
    alpha: float = 1.0,
    ddof: int = 1,
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    Stratified GRPO: GRPO's advantage among the completions of the same stratum, blended with that of the group.

        A = alpha * z_stratum + (1 - alpha) * z_group,  z = (r - mean(r)) / (std(r) + eps)

    Helps when completions of one prompt are of different kinds, such as agents that made different numbers of search
    calls: each is compared with its like, and a kind that scores higher on the whole does not drown the others.

    Breaks when strata are small: a completion alone in its stratum gets 0 from it, and in a pair only the order
    counts. With `alpha=1` nothing teaches the policy which stratum is the better one.

    Paper: https://huggingface.co/papers/2510.06214

    Source: secondary transcriptions; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        strata (`torch.Tensor` of shape `(N, G)`):
            Stratum of each completion; completions of a group with the same number belong together.
        alpha (`float`, *optional*, defaults to `1.0`):
            Weight of the comparison within the stratum; from 0 to 1.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`, n being the size of the stratum or of the group.
        eps (`float`, *optional*, defaults to `1e-8`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups; a constant
        stratum gives exactly 0 to the first part.

    Raises:
        [`~errors.ConfigError`]: if `alpha` is outside of [0, 1].
    """
    if not 0 <= alpha <= 1:
        raise ConfigError(f"stratified: alpha is {alpha}; it must be between 0 and 1")
    local = _standardise_in_strata(rewards, strata, ddof, eps)
    return zero_unscorable(alpha * local + (1 - alpha) * standardise(rewards, ddof, eps), rewards)


def _standardise_in_strata(rewards: torch.Tensor, strata: torch.Tensor, ddof: int, eps: float) -> torch.Tensor:
    unscorable = rewards.isnan().unsqueeze(1)
    same = (strata.unsqueeze(2) == strata.unsqueeze(1)) & ~unscorable  # (N, G, G), j in the stratum of i
    live = (same & (rewards.unsqueeze(2) != rewards.unsqueeze(1))).any(dim=2)
    weights = same.to(rewards.dtype)

    def sum_in_stratum(values: torch.Tensor) -> torch.Tensor:
        return (weights @ values.nan_to_num(nan=0.0).unsqueeze(2)).squeeze(2)

    count = weights.sum(dim=2)
    centred = rewards - sum_in_stratum(rewards) / count
    std = (sum_in_stratum(centred.square()) / (count - ddof).clamp(min=0)).sqrt()
    return torch.where(live, centred / (std + eps), 0.0)
