"""Advantages for the best of k completions instead of the average one."""

import math

import torch

from trl_grpo_ext.advantages.groups import group_count, group_std, zero_unscorable, zero_without_signal
from trl_grpo_ext.errors import ConfigError


def passk_training(rewards: torch.Tensor, *, k: int = 4, eps: float = 1e-6) -> torch.Tensor:
    """
    Pass@k Training: the standardised reward of a set of k completions, averaged over the sets a completion is in.

        rho = 1 - C(W, k) / C(n, k),  sigma = sqrt(rho (1 - rho)),  W = wrong completions of n
        A = (1 - rho) / (sigma + eps) if right
        A = (1 - rho - C(W - 1, k - 1) / C(n - 1, k - 1)) / (sigma + eps) if wrong

    rho is the unbiased estimate of pass@k, the mean over all sets of k of whether one of the set is right.

    Helps when a policy should keep several ways to an answer: once k tries nearly always hold a right one, the prompt
    stops pushing.

    Breaks when only the first answer counts: prompts with fewer than k wrong completions get 0, solved or not. Needs
    groups that are clearly larger than k.

    Paper: https://huggingface.co/papers/2508.10751

    Source: the authors' code. `k` depends on the task, and its default is a placeholder.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of 0 or 1, one row for each group; NaN marks an unscorable completion. Graded rewards count
            as right above 1/2.
        k (`int`, *optional*, defaults to `4`):
            Size of the sets, at most G.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions, for constant groups and for those with
        fewer than k wrong completions.

    Raises:
        [`~errors.ConfigError`]: if `k` is not a whole number from 1 to G.
    """
    _check_k("passk_training", k, rewards.shape[1])
    right = rewards > 0.5
    count = group_count(rewards)
    wrong = count - right.sum(dim=1, keepdim=True)
    sets = _sets(rewards, k, k)
    all_wrong = sets[wrong.long()] / sets[count.long()]
    # C(W - 1, k - 1) / C(n - 1, k - 1) is all_wrong * n / W.
    deviation = torch.where(right, all_wrong, -all_wrong * (count - wrong) / wrong)
    sigma = (all_wrong * (1 - all_wrong)).sqrt()
    return zero_without_signal(torch.where(sigma > 0, deviation / (sigma + eps), 0.0), rewards)


def max_at_k(rewards: torch.Tensor, *, k: int = 4) -> torch.Tensor:
    """
    max@k: the best reward of a set of k completions, averaged over all sets and credited to those a completion is in.

        A_i = sum of (max of r over I) over the sets I of k completions that hold i, / C(n, k)

    Computed from the sorted rewards. There is no baseline. The weights belong to a sum over the group: multiply the
    loss by G if it averages over completions.

    Helps when the best of k answers is what will be used, and rewards are graded.

    Breaks when rewards are all of one sign: without a baseline every completion is pushed the same way, which adds
    variance; see [`pkpo`].

    Paper: https://huggingface.co/papers/2510.23393

    Source: the paper's text, equation 9. `k` depends on the task, and its default is a placeholder.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        k (`int`, *optional*, defaults to `4`):
            Size of the sets, at most G. With 1 the advantage is r / n.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups of fewer than k or of
        fewer than two scorable completions. A constant group gets (k / n) r.

    Raises:
        [`~errors.ConfigError`]: if `k` is not a whole number from 1 to G.
    """
    _check_k("max_at_k", k, rewards.shape[1])
    return zero_unscorable(_credit_in_sets(rewards, k, None), rewards)


def pkpo(rewards: torch.Tensor, *, k: int = 4, baseline: str = "loo_minus_one") -> torch.Tensor:
    """
    PKPO: max@k with a baseline from the other completions.

        s_i = sum of (max of r over I) over the sets I of k completions that hold i, / C(n, k)
        A_i = s_i                                                baseline="none"
        A_i = s_i - (k / n) * rho(r without i, k)                baseline="loo"
        A_i = s_i - (k / n) * rho(r without i, k - 1)            baseline="loo_minus_one"

    where rho(x, k) is the mean of the maximum over all sets of k. With `"loo_minus_one"` A_i is what the sets gain by
    holding i: the sum of (max over I - max over I without i) over those sets, / C(n, k). Neither baseline depends on
    r_i, so the estimate of the gradient of E[max of k] is unbiased. The weights belong to a sum over the group:
    multiply the loss by G if it averages over completions.

    Helps when the best of k answers is what will be used: `k` above 1 keeps the policy exploring where mean reward
    would settle.

    Breaks when k is large for the group: most sets hold the best completion, and it takes the credit. With 0/1 rewards
    `"loo_minus_one"` moves right completions only, and none of them if fewer than k - 1 are wrong.

    Paper: https://huggingface.co/papers/2505.15201

    Source: the paper's text, equations 19, 29 and 33. `k` depends on the task, and its default is a placeholder.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        k (`int`, *optional*, defaults to `4`):
            Size of the sets: at most G, for `"loo"` below G, for `"loo_minus_one"` at least 2.
        baseline (`str`, *optional*, defaults to `"loo_minus_one"`):
            `"loo_minus_one"` (the paper's choice), `"loo"` or `"none"`.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions, for groups of too few scorable
        completions and, with a baseline, for constant groups. Without one a constant group gets (k / n) r.

    Raises:
        [`~errors.ConfigError`]: if `baseline` is unknown, or `k` is not a whole number in the range above.
    """
    size = rewards.shape[1]
    if baseline not in ("none", "loo", "loo_minus_one"):
        raise ConfigError(f"pkpo: baseline is {baseline!r}; it must be 'none', 'loo' or 'loo_minus_one'")
    _check_k("pkpo", k, size)
    if baseline == "loo" and k == size:
        raise ConfigError(f"pkpo: k is {k} and the groups hold {size}; baseline='loo' needs k below the group size")
    if baseline == "loo_minus_one" and k == 1:
        raise ConfigError("pkpo: k is 1; baseline='loo_minus_one' needs k of at least 2, or take baseline='loo'")
    if baseline == "none":
        return zero_unscorable(_credit_in_sets(rewards, k, None), rewards)
    return zero_without_signal(_credit_in_sets(rewards, k, k if baseline == "loo" else k - 1), rewards)


def best_minus_second(
    rewards: torch.Tensor, *, normalize: bool = True, ddof: int = 1, eps: float = 1e-6
) -> torch.Tensor:
    """
    Best minus second: only the best completion of a group moves, by its lead over the second best.

        A = (max(r) - second(r)) / (std(r) + eps) for the best completion, 0 for the others

    The lead is what the best of the group gains by this completion: [`pkpo`] with k = n, but for the scale.

    Helps when the best of many answers is what will be used.

    Breaks when rewards are binary: two right answers tie, and the group gets 0, so only prompts with a single success
    teach. Nothing is ever pushed down.

    Paper: https://huggingface.co/papers/2503.19595

    Source: the code of verl (`grpo_passk`).

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        normalize (`bool`, *optional*, defaults to `True`):
            Divide by the standard deviation of the group.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions, for all but the best of a group, for
        groups in which two share the best reward, and so for constant groups.
    """
    if rewards.shape[1] < 2:
        return torch.zeros_like(rewards)
    best, order = rewards.masked_fill(rewards.isnan(), -torch.inf).topk(2, dim=1)
    lead = best[:, :1] - best[:, 1:]
    if normalize:
        scale = group_std(rewards, ddof) + eps
        lead = torch.where(scale > 0, lead / scale, 0.0)
    return zero_without_signal(torch.zeros_like(rewards).scatter(1, order[:, :1], lead), rewards)


def _credit_in_sets(rewards: torch.Tensor, k: int, baseline: int | None) -> torch.Tensor:
    """
    PKPO's advantages with rho(r without i, `baseline`) as the baseline; 0 for groups that have too few for it.

    With the rewards sorted and g_m the gap between the m-th and the next, the maximum of a set is the highest reward
    minus the gaps above all of the set. Both terms of the advantage are then sums over gaps, weighted by the number of
    sets that lie below each: no large sums are subtracted, and equal rewards get equal advantages.
    """
    size, count = rewards.shape[1], group_count(rewards)
    values, order = rewards.sort(dim=1)  # NaN comes last
    gaps = values.diff(dim=1).nan_to_num(nan=0.0)
    # Weights of gap m for completions below it and above it. A set that holds i, below the gap, stays below it if its
    # other k - 1 completions are among the m - 1 others there.
    below_gap = -_sets(rewards, k - 1, k)[: size - 1].expand_as(gaps)
    above_gap = torch.zeros_like(gaps)
    if baseline is not None:
        factor = k / (count - k) if baseline == k else 1.0
        sets = _sets(rewards, baseline, k)
        below_gap = below_gap + factor * sets[: size - 1]
        above_gap = above_gap + factor * sets[1:size]
    start = gaps.new_zeros(len(gaps), 1)
    credit = torch.cat([start, (above_gap * gaps).cumsum(dim=1)], dim=1)
    credit = credit + torch.cat([(below_gap * gaps).flip(1).cumsum(dim=1).flip(1), start], dim=1)
    credit = credit / _sets(rewards, k, k)[count.long()]
    if baseline is None:
        credit = credit + k / count * rewards.masked_fill(rewards.isnan(), -torch.inf).amax(dim=1, keepdim=True)
    enough = count > k if baseline == k else count >= k
    return torch.zeros_like(rewards).scatter(1, order, torch.where(enough, credit, 0.0))


def _sets(like: torch.Tensor, size: int, k: int) -> torch.Tensor:
    """C(m, `size`) for m = 0 ... G in units of C(G, `k`), which keeps large groups within the range of floats."""
    total = like.shape[1]
    return like.new_tensor([math.comb(m, size) / math.comb(total, k) for m in range(total + 1)])


def _check_k(name: str, k: int, size: int) -> None:
    if not (isinstance(k, int) and 1 <= k <= size):
        raise ConfigError(f"{name}: k is {k!r} and the groups hold {size}; it must be a whole number from 1 to {size}")
