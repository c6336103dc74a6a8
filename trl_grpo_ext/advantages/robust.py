"""Advantages from order statistics: the median, a quantile, the rank."""

import torch

from trl_grpo_ext.advantages.groups import (
    group_count,
    group_std,
    rank_in_group,
    zero_unscorable,
    zero_without_signal,
)
from trl_grpo_ext.errors import ConfigError


def mc_grpo(rewards: torch.Tensor, *, eps: float = 1e-3, rescale: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """
    MC-GRPO: the reward, centred by the median of its group and scaled by the median absolute deviation.

        A = (r - med) / (MAD + eps),  med = median(r),  MAD = median(|r - med|)

    Both are lower medians, so med is always the reward of a completion: the pivot, whose advantage is 0. The method
    samples one completion more than it trains on, an odd number in all, and drops the pivot from the loss and from
    its denominators. If several completions share the median, the first of them is the pivot and the others stay, with
    advantage 0; as in the authors' trainer, a constant group loses its pivot too. With an even number of scorable
    completions none is to spare (say, because the odd one could not be scored), and none is dropped.

    Helps when groups are small and one outlier would move the mean, and with it the sign of the other advantages.

    Breaks when rewards are binary: more than half of a group share a value, MAD is 0 and the others get +-1/eps, 1000
    with the default. Pair it with clipping or a larger `eps`. Choose an odd `num_generations`.

    Paper: https://huggingface.co/papers/2601.22582

    Source: the authors' trainer.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        eps (`float`, *optional*, defaults to `1e-3`):
            Added to the median absolute deviation, in units of reward; above 0.
        rescale (`bool`, *optional*, defaults to `False`):
            Multiply each group by n / (number of advantages that are not 0), as the authors' trainer does, so that the
            completions at the median do not dilute the others.

    Returns:
        `tuple` of the advantages, a `torch.Tensor` of shape `(N, G)` that is exactly 0 for unscorable completions and
        for constant groups, and a boolean `torch.Tensor` of shape `(N, G)` that is `False` for the pivots.

    Raises:
        [`~errors.ConfigError`]: if `eps` is not above 0.
    """
    if eps <= 0:
        raise ConfigError(f"mc_grpo: eps is {eps}; it must be above 0, since the median absolute deviation can be 0")
    count = group_count(rewards)
    centred = rewards - rewards.nanmedian(dim=1, keepdim=True).values
    advantages = centred / (centred.abs().nanmedian(dim=1, keepdim=True).values + eps)
    at_median = centred == 0
    if rescale:
        advantages = advantages * count / (count - at_median.sum(dim=1, keepdim=True)).clamp(min=1)
    pivot = at_median & (at_median.cumsum(dim=1) == 1) & (count > 2) & (count % 2 == 1)
    return zero_without_signal(advantages, rewards), ~pivot


def qae(
    rewards: torch.Tensor,
    *,
    quantile: float = 0.4,
    method: str = "inverted_cdf",
    ddof: int = 1,
    eps: float = 1e-6,
) -> torch.Tensor:
    """
    QAE: the reward minus a quantile of its group, scaled by the standard deviation.

        A = (r - Q_K) / (std(r) + eps),  Q_K = inf{x : F_n(x) >= K}

    With binary rewards the quantile is a gate: while the share of successes is at most 1 - K the baseline is 0 and
    only successes move, beyond it the baseline is 1 and only failures move.

    Helps when the entropy drifts: K sets the pass rate from which a prompt trains on failures instead of successes.
    The paper takes 0.4, and 0.6 when entropy collapses.

    Breaks when nothing watches the entropy: each prompt trains with one sign only, so a badly set K drives it one way.

    Paper: https://huggingface.co/papers/2509.22611

    Source: the paper's text. The authors' code interpolates, which gives other numbers for small groups
    (`method="linear"`).

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        quantile (`float`, *optional*, defaults to `0.4`):
            K, from 0 (the lowest reward) to 1 (the highest).
        method (`str`, *optional*, defaults to `"inverted_cdf"`):
            `"inverted_cdf"`, the paper's definition, whose value is always one of the rewards; or `"linear"`, which
            interpolates between two.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `quantile` is outside of [0, 1] or `method` is unknown.
    """
    if not 0 <= quantile <= 1:
        raise ConfigError(f"qae: quantile is {quantile}; it must be between 0 and 1")
    if method == "inverted_cdf":
        baseline = _inverted_cdf(rewards, quantile)
    elif method == "linear":
        baseline = rewards.nanquantile(quantile, dim=1, keepdim=True)
    else:
        raise ConfigError(f"qae: method is {method!r}; it must be 'inverted_cdf' or 'linear'")
    return zero_without_signal((rewards - baseline) / (group_std(rewards, ddof) + eps), rewards)


def _inverted_cdf(rewards: torch.Tensor, quantile: float) -> torch.Tensor:
    count = group_count(rewards)
    steps = torch.arange(1, rewards.shape[1], dtype=rewards.dtype, device=rewards.device) / count.clamp(min=1)
    # Comparing j / n with the quantile finds the step exactly where ceil(quantile * n) may round past it.
    position = (steps < quantile).sum(dim=1, keepdim=True)
    position = torch.minimum(position, (count.long() - 1).clamp(min=0))
    return rewards.sort(dim=1).values.gather(1, position)


def gopo_rank(rewards: torch.Tensor, *, ties: str = "stable") -> torch.Tensor:
    """
    GOPO: the rank of the reward in its group, mapped to the range from 2 (best) to -2 (worst).

        A = 2 - 4 * (rank - 1) / (n - 1),  rank 1 = the best

    Only the order of the rewards counts: any increasing map of them gives the same advantages, which sum to 0.

    Helps when rewards come from a model and their differences mean little, or when a few are far off.

    Breaks when rewards tie, and so with binary ones: by default equal rewards get different advantages, by position
    in the group, and a constant group gets pure noise of full size. `ties="average"` repairs both.

    Paper: https://huggingface.co/papers/2602.03876

    Source: the authors' trainer, which breaks ties by position; `ties="average"` is an addition of this package.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        ties (`str`, *optional*, defaults to `"stable"`):
            `"stable"` ranks equal rewards by position, the first one best; `"average"` gives each the mean of their
            ranks.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups of fewer than two
        scorable ones. A constant group gets values from 2 to -2 with `ties="stable"`, exactly 0 with `"average"`.

    Raises:
        [`~errors.ConfigError`]: if `ties` is unknown.
    """
    if ties == "stable":
        better = rank_in_group(-rewards)
    elif ties == "average":
        reward, rival = rewards.unsqueeze(2), rewards.unsqueeze(1)
        better = (rival > reward).sum(dim=2) + ((rival == reward).sum(dim=2).to(rewards.dtype) - 1) / 2
    else:
        raise ConfigError(f"gopo_rank: ties is {ties!r}; it must be 'stable' or 'average'")
    return zero_unscorable(2 - 4 * better / (group_count(rewards) - 1), rewards)
