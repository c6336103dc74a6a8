"""An advantage estimator that another package adds; nothing here imports trl_grpo_ext."""

import torch


def length_centred(rewards: torch.Tensor, lengths: torch.Tensor, *, factor: float = 0.01) -> torch.Tensor:
    """
    Length-centred: the reward against its group, minus what is longer than the group.

        A = r - mean(r) - factor * (l - mean(l))

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        factor (`float`, *optional*, defaults to `0.01`):
            Advantage that one more token costs.

    Returns:
        `torch.Tensor` of shape `(N, G)`: constant groups get the length term alone.
    """
    known = lengths.masked_fill(rewards.isnan(), torch.nan)
    excess = known - known.nanmean(dim=1, keepdim=True)
    return rewards - rewards.nanmean(dim=1, keepdim=True) - factor * excess
