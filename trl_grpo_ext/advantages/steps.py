"""Advantages from rewards of single steps: of reasoning, or of actions in an environment."""

import torch

from trl_grpo_ext.advantages.groups import group_mean, standardise, zero_without_signal
from trl_grpo_ext.errors import ConfigError


def process_grpo(step_rewards: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """
    Process-supervised GRPO: standardised step rewards, summed from the step on.

        z_t = (r_t - mean) / (std + eps),   mean and std over all steps of all completions of the group
        A_t = z_t + z_(t+1) + ... + z_(last step)

    A token takes the value of its step; see [`step_to_token`].

    Helps when a process reward model says where a solution goes wrong.

    Breaks when the number of steps differs: steps better than average add up, so a completion can gain by splitting
    them; and the step reward is easier to fool than the outcome.

    Paper: https://huggingface.co/papers/2402.03300

    Source: section 4.1.3 of the paper; divisor and eps are not in it.

    Args:
        step_rewards (`torch.Tensor` of shape `(N, G, S)`):
            float64 reward of each step, padded with NaN; a row of NaN marks an unscorable completion.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is the number of steps of the group minus `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, S)`: exactly 0 for unscorable completions, for groups whose steps all have the
        same reward and for groups of one.
    """
    if step_rewards.shape[2] == 0:
        return step_rewards
    scores = standardise(step_rewards.flatten(1), ddof, eps).view_as(step_rewards)
    lone = _scorable(step_rewards).sum(dim=1, keepdim=True) < 2
    remaining = scores.flip(2).cumsum(2).flip(2)
    return remaining.masked_fill(step_rewards.isnan() | lone.unsqueeze(2), 0.0)


def gigpo(
    step_rewards: torch.Tensor,
    anchors: torch.Tensor,
    *,
    omega: float = 1.0,
    gamma: float = 0.95,
    fnorm: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> torch.Tensor:
    """
    GiGPO: the advantage of the episode in its group plus that of the step among the steps taken in the same state.

        A_t = z(sum of r) + omega z(R_t),   R_t = r_t + gamma r_(t+1) + gamma^2 r_(t+2) + ...

    The first z is over the completions of the group, the second over all steps of the group that share an anchor
    state, within or across completions.

    Helps when an agent comes back to the same states: the second term credits single actions without more rollouts.

    Breaks when states never repeat: a state seen once gives 0, and the first term alone is GRPO on the return.

    Paper: https://huggingface.co/papers/2505.10978

    Source: the paper and two frameworks; the defaults of omega and gamma are recalled from the authors' scripts.

    Args:
        step_rewards (`torch.Tensor` of shape `(N, G, S)`):
            float64 reward of each step, padded with NaN; a row of NaN marks an unscorable completion.
        anchors (`torch.Tensor` of shape `(N, G, S)`):
            State in which each step was taken, as a number that is equal for equal states; padded with NaN.
        omega (`float`, *optional*, defaults to `1.0`):
            Weight of the step term.
        gamma (`float`, *optional*, defaults to `0.95`):
            Discount for each step.
        fnorm (`str`, *optional*, defaults to `"std"`):
            `"std"` divides both terms by their standard deviation, `"none"` only centres them.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is the number of values minus `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, S)`: exactly 0 for unscorable completions. Where all episodes have the same
        return the first term is exactly 0; the second one is so in states whose returns are all equal.

    Raises:
        [`~errors.ConfigError`]: if `fnorm` is unknown or `gamma` is not in [0, 1].
    """
    if fnorm not in ("std", "none"):
        raise ConfigError(f"gigpo: fnorm is {fnorm!r}; expected 'std' or 'none'")
    if not 0 <= gamma <= 1:
        raise ConfigError(f"gigpo: gamma is {gamma}; expected a discount in [0, 1]")
    if step_rewards.shape[2] == 0:
        return step_rewards
    episodes = step_rewards.nansum(dim=2).masked_fill(~_scorable(step_rewards), torch.nan)
    if fnorm == "std":
        by_episode = standardise(episodes, ddof, eps)
    else:
        by_episode = zero_without_signal(episodes - group_mean(episodes), episodes)
    states = anchors.masked_fill(step_rewards.isnan(), torch.nan).flatten(1)
    returns = _discounted(step_rewards.nan_to_num(nan=0.0), gamma).flatten(1)
    by_step = _within_states(returns, states, ddof, eps, fnorm == "std").view_as(step_rewards)
    return by_episode.unsqueeze(2) + omega * by_step


def step_to_token(values: torch.Tensor, step_ends: torch.Tensor, width: int) -> torch.Tensor:
    """
    Give every token the value of the step it belongs to.

    Args:
        values (`torch.Tensor` of shape `(N, G, S)`):
            One value for each step; padding is 0 or NaN.
        step_ends (`torch.Tensor` of shape `(N, G, S)`):
            Index one past the last token of each step, ascending; padded with NaN.
        width (`int`):
            Number T of tokens.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: tokens after the end of the last step take its value; 0 for completions
        without steps.
    """
    steps = (~step_ends.isnan()).sum(dim=2, keepdim=True)
    ends = step_ends.nan_to_num(nan=torch.inf).contiguous()
    tokens = torch.arange(width, dtype=ends.dtype, device=ends.device).expand(*ends.shape[:2], width)
    step = torch.searchsorted(ends, tokens.contiguous(), right=True)
    step = torch.minimum(step, steps - 1).clamp(min=0)
    return values.nan_to_num(nan=0.0).gather(2, step).masked_fill(steps == 0, 0.0)


def _scorable(step_rewards: torch.Tensor) -> torch.Tensor:
    return ~step_rewards.isnan().all(dim=2)


def _discounted(step_rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return of every step. By recursion, so that equal futures give equal floats wherever they begin."""
    returns = step_rewards.clone()
    for step in range(step_rewards.shape[2] - 2, -1, -1):
        returns[:, :, step] += gamma * returns[:, :, step + 1]
    return returns


def _within_states(returns: torch.Tensor, states: torch.Tensor, ddof: int, eps: float, by_std: bool) -> torch.Tensor:
    """Centre (and scale) the (N, M) returns of each row among the entries of that row with the same state."""
    ordered, order = states.sort(dim=1)
    # NaN differs from everything, itself included, so padding makes states of one.
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    state = first.flatten().cumsum(0) - 1
    values = returns.gather(1, order)
    unequal = torch.zeros_like(first)
    unequal[:, 1:] = (values[:, 1:] != values[:, :-1]) & ~first[:, 1:]

    def total(summands: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(values).flatten().index_add_(0, state, summands.flatten().to(values.dtype))

    count = total(torch.ones_like(values))
    centred = values.flatten() - (total(values) / count)[state]
    if by_std:
        std = (total(centred.square()) / (count - ddof).clamp(min=0)).sqrt()
        centred = centred / (std + eps)[state]
    constant = (total(unequal) == 0)[state]
    advantages = centred.masked_fill(constant, 0.0).view_as(returns)
    return torch.zeros_like(returns).scatter_(1, order, advantages)
