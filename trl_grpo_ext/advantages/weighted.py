"""Advantages that weight successes and failures differently, or by the difficulty of the prompt."""

import torch

from trl_grpo_ext.advantages.groups import group_count, standardise
from trl_grpo_ext.errors import ConfigError


def psr(rewards: torch.Tensor) -> torch.Tensor:
    """
    PSR: positive-sample reinforcement, successes only.

        A = r      (1 for a right completion, 0 for a wrong one)

    There is no baseline and no scale, so a single completion is served too.

    Helps when greedy accuracy is all that counts.

    Breaks when diversity matters: every success sharpens the policy, and the paper finds that pass@k degrades for
    large k.

    Paper: https://huggingface.co/papers/2506.01347

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of 0 or 1, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. An all-right group gets 1, an all-wrong one 0.
    """
    return rewards.nan_to_num(nan=0.0)


def nsr(rewards: torch.Tensor) -> torch.Tensor:
    """
    NSR: negative-sample reinforcement, failures only.

        A = r - 1      (0 for a right completion, -1 for a wrong one)

    There is no baseline and no scale, so a single completion is served too. Pushing failures down hands their
    probability to whatever else the policy finds likely.

    Helps when pass@k for large k, or the entropy, has to survive training.

    Breaks when training is long or prompts are too hard: nothing is ever pushed up, and a policy that fails
    everywhere is only told what not to write. Rewards above 1 turn into positive advantages.

    Paper: https://huggingface.co/papers/2506.01347

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of 0 or 1, one row for each group; NaN marks an unscorable completion. Graded rewards are
            taken by the same formula.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. An all-right group gets 0, an all-wrong one -1.
    """
    return (rewards - 1).nan_to_num(nan=0.0)


def w_reinforce(rewards: torch.Tensor, *, positive_weight: float = 0.1) -> torch.Tensor:
    """
    Weighted REINFORCE: failures in full, successes with a small weight.

        A = positive_weight * r + (r - 1)      (positive_weight for a right completion, -1 for a wrong one)

    The sum of psr, weighted, and nsr. There is no baseline and no scale, so a single completion is served too.

    Helps when both greedy accuracy and pass@k matter.

    Breaks when prompts are hard: nearly all advantages are -1, and only the small weight of the rare successes says
    where to go.

    Paper: https://huggingface.co/papers/2506.01347

    Source: the authors' code, which is defined for rewards of 0 and 1; for graded ones the sum above is taken.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of 0 or 1, one row for each group; NaN marks an unscorable completion.
        positive_weight (`float`, *optional*, defaults to `0.1`):
            Advantage of a right completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: 0 for unscorable completions. An all-right group gets `positive_weight`, an
        all-wrong one -1.

    Raises:
        [`~errors.ConfigError`]: if `positive_weight` is negative.
    """
    if positive_weight < 0:
        raise ConfigError(f"w_reinforce: positive_weight is {positive_weight}; below 0 it would punish right answers")
    return positive_weight * psr(rewards) + nsr(rewards)


def grpo_lead(
    rewards: torch.Tensor,
    *,
    A: float = 0.4,
    B: float = 1.5,
    rho0: float = 0.75,
    k: float = 10.0,
    ddof: int = 1,
    eps: float = 1e-6,
) -> torch.Tensor:
    """
    GRPO-LEAD: GRPO's advantage, weighted by the difficulty of the prompt.

        z = (r - mean(r)) / (std(r) + eps)
        w(x) = A + (B - A) / (1 + exp(k * (x - rho0)))
        advantage = z * w(rho) if z > 0, z * w(1 - rho) otherwise;  rho = share of positive rewards

    A success counts more on a hard prompt (small rho), a failure more on an easy one. The paper's length penalty for
    right completions is a reward and not part of this.

    Helps when easy prompts dominate the batch: with the defaults their successes weigh 0.4 and those of hard prompts
    up to 1.5.

    Breaks when rewards are shifted, say by a penalty: rho counts rewards above 0. Advantages no longer sum to 0.

    Paper: https://huggingface.co/papers/2504.09696

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion. Above 0 is a success.
        A (`float`, *optional*, defaults to `0.4`):
            Weight that w falls to for large x.
        B (`float`, *optional*, defaults to `1.5`):
            Weight that w rises to for small x.
        rho0 (`float`, *optional*, defaults to `0.75`):
            Share at which w is halfway between the two.
        k (`float`, *optional*, defaults to `10.0`):
            Steepness of the step between them.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    scores = standardise(rewards, ddof, eps)
    rho = (rewards > 0).sum(dim=1, keepdim=True) / group_count(rewards).clamp(min=1)
    share = torch.where(scores > 0, rho, 1 - rho)
    return scores * (A + (B - A) * torch.sigmoid(k * (rho0 - share)))


def ngrpo(rewards: torch.Tensor, *, max_reward: float = 1.0, ddof: int = 1, eps: float = 1e-6) -> torch.Tensor:
    """
    NGRPO: GRPO's advantage in a group that a virtual completion of the highest reward has joined.

        A = (r - mean') / (std' + eps),  mean' and std' over the n rewards and `max_reward`

    An all-wrong group is no longer constant and is pushed down; an all-right one still gives 0. A single completion
    is served too. The paper adds asymmetric clipping, which belongs to the loss.

    Helps when many groups are all wrong and would teach nothing.

    Breaks when `max_reward` is not the highest reward there is: set too low, it turns into one more mediocre
    completion; set too high, it pushes all-right groups down. Advantages of a group sum to less than 0.

    Paper: https://huggingface.co/papers/2509.18851

    Source: the authors' code. Two ports divide the variance by n (`ddof=0`).

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        max_reward (`float`, *optional*, defaults to `1.0`):
            The highest reward a completion can get.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n + 1 - `ddof`.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for groups that all have
        `max_reward`; negative for other constant groups below it.
    """
    virtual = rewards.new_full((len(rewards), 1), max_reward)
    return standardise(torch.cat([rewards, virtual], dim=1), ddof, eps)[:, :-1]
