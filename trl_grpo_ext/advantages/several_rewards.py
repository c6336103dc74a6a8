"""Advantages from several rewards for each completion, normalised before they are added."""

import torch

from trl_grpo_ext.advantages.groups import is_degenerate, standardise, whiten, without_lone


def mo_grpo(
    components: torch.Tensor, weights: torch.Tensor | None = None, *, ddof: int = 1, eps: float = 1e-4
) -> torch.Tensor:
    """
    MO-GRPO: standardises each reward within the group, then adds them.

        A = sum_k w_k (r_k - mean(r_k)) / (std(r_k) + eps)

    A component that is missing for a completion counts 0 there and is left out of the statistics of that component.

    Helps when rewards differ in scale or spread: summed first, the one with the largest variance would decide alone.

    Breaks when a component is almost constant: its rare deviations weigh as much as any other reward. It also grows
    with the number of components that are live in a group.

    Paper: https://huggingface.co/papers/2509.22047

    Source: two secondary transcriptions that agree; the paper's own text was not read. The rule for missing components
    is ours.

    Args:
        components (`torch.Tensor` of shape `(N, G, K)`):
            float64 rewards of each completion; NaN marks a missing one, a row of NaN an unscorable completion.
        weights (`torch.Tensor` of shape `(K,)`, *optional*):
            Weight of each reward; 1 by default.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups in which every component
        is constant.
    """
    by_component = _by_component(components)
    scores = standardise(by_component.flatten(0, 1), ddof, eps).view_as(by_component)
    return (scores if weights is None else scores * weights.view(-1, 1)).sum(dim=1)


def gdpo(
    components: torch.Tensor, weights: torch.Tensor | None = None, *, ddof: int = 1, eps: float = 1e-4
) -> torch.Tensor:
    """
    GDPO: [`mo_grpo`], whitened over the batch.

        A = (S - mean(S)) / (std(S) + eps),   S = sum_k w_k z(r_k),   mean and std over the batch

    This is TRL's `multi_objective_aggregation="normalize_then_sum"`. Other libraries differ: verl whitens over tokens,
    NeMo-RL uses leave-one-out baselines.

    Helps when the number of rewards changes, or their weights do: the size of the update stays the same.

    Breaks when few groups of a batch are live: they are scaled up until the whole batch has a deviation of 1.

    Paper: https://huggingface.co/papers/2601.05242

    Source: the paper's text, and TRL's code, which gives the same numbers.

    Args:
        components (`torch.Tensor` of shape `(N, G, K)`):
            float64 rewards of each completion; NaN marks a missing one, a row of NaN an unscorable completion.
        weights (`torch.Tensor` of shape `(K,)`, *optional*):
            Weight of each reward; 1 by default.
        ddof (`int`, *optional*, defaults to `1`):
            The divisors of the variances are n - `ddof`, in the group and in the batch.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to both standard deviations.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups in which every component
        is constant (the mean of the batch is 0 but for rounding, so nothing is lost by that).
    """
    by_component = _by_component(components)
    sums = mo_grpo(components, weights, ddof=ddof, eps=eps)
    unscorable = components.isnan().all(dim=2)
    advantages = whiten(without_lone(sums.masked_fill(unscorable, torch.nan)), ddof, eps)
    constant = is_degenerate(by_component.flatten(0, 1)).view(by_component.shape[:2]).all(dim=1, keepdim=True)
    return advantages.masked_fill(constant, 0.0)


def _by_component(components: torch.Tensor) -> torch.Tensor:
    return components.transpose(1, 2).contiguous()  # (N, K, G)
