"""Statistics of groups: rows of a (N, G) float64 tensor in which NaN marks an unscorable completion."""

import torch


def group_mean(rewards: torch.Tensor) -> torch.Tensor:
    """Mean of the scorable rewards of each group, shape (N, 1); NaN for a group without any."""
    return rewards.nanmean(dim=1, keepdim=True)


def group_count(rewards: torch.Tensor) -> torch.Tensor:
    """Number of scorable rewards of each group, shape (N, 1), in the dtype of `rewards`."""
    return (~rewards.isnan()).sum(dim=1, keepdim=True).to(rewards.dtype)


def group_std(rewards: torch.Tensor, ddof: int) -> torch.Tensor:
    """Standard deviation of each group with divisor n - `ddof`, shape (N, 1); NaN where n <= `ddof`."""
    squares = (rewards - group_mean(rewards)).square().nansum(dim=1, keepdim=True)
    return (squares / (group_count(rewards) - ddof).clamp(min=0)).sqrt()


def is_degenerate(rewards: torch.Tensor) -> torch.Tensor:
    """
    Which groups can teach nothing, boolean of shape (N, 1): all scorable rewards equal, or fewer than two of them.

    Decided on the rewards themselves. The standard deviation of equal floats is often not 0 (their mean is off by a
    unit in the last place), and dividing that residue by a small number gives advantages of any size.
    """
    missing = rewards.isnan()
    highest = rewards.masked_fill(missing, -torch.inf).amax(dim=1, keepdim=True)
    lowest = rewards.masked_fill(missing, torch.inf).amin(dim=1, keepdim=True)
    return highest <= lowest


def without_lone(rewards: torch.Tensor) -> torch.Tensor:
    """Return `rewards` with NaN for groups of fewer than two scorable completions, which enter no statistic."""
    return rewards.masked_fill(group_count(rewards) < 2, torch.nan)


def zero_without_signal(advantages: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """Return `advantages` with exact zeros for unscorable completions and degenerate groups."""
    return advantages.masked_fill(rewards.isnan() | is_degenerate(rewards), 0.0)


def zero_unscorable(advantages: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """Return `advantages` with exact zeros for unscorable completions and for groups of fewer than two scorable."""
    return advantages.masked_fill(without_lone(rewards).isnan(), 0.0)


def standardise(rewards: torch.Tensor, ddof: int, eps: float) -> torch.Tensor:
    """Return (r - mean(r)) / (std(r) + eps) of each group, shape (N, G); exactly 0 in degenerate groups."""
    return zero_without_signal((rewards - group_mean(rewards)) / (group_std(rewards, ddof) + eps), rewards)


def whiten(values: torch.Tensor, ddof: int, eps: float) -> torch.Tensor:
    """Return (v - mean) / (std + eps) over all values that are not NaN; exactly 0 if they are all equal or too few."""
    flat = values.reshape(1, -1)
    return standardise(flat, ddof, eps).view_as(values)


def rank_in_group(values: torch.Tensor) -> torch.Tensor:
    """Position of each value in its sorted row, 0 for the lowest; equal values keep their order, NaN comes last."""
    return values.argsort(dim=1, stable=True).argsort(dim=1)
