"""Rewards from the length of a completion, to be used before advantages are computed."""

import torch

from trl_grpo_ext.advantages.groups import group_mean, group_std, is_degenerate
from trl_grpo_ext.errors import ConfigError


def kimi_length(rewards: torch.Tensor, lengths: torch.Tensor, *, success_threshold: float = 0.5) -> torch.Tensor:
    """
    Kimi k1.5's length reward: a bonus for short right completions, a malus for long ones.

        lam = 0.5 - (l - min(l)) / (max(l) - min(l)),   min and max over the group
        right  lam
        wrong  min(0, lam)

    The value is that of the length alone: add it to the outcome reward, with a weight. The paper starts with a weight
    of 0.

    Helps when answers grow longer without getting better.

    Breaks when used from the first step: shortness is easier to learn than the task. Differences of a few tokens
    between the completions of a group count as much as differences of thousands.

    Paper: https://huggingface.co/papers/2501.12599

    Source: the paper's text; open-r1 has the same.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            A completion is right if its reward is larger than this.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the length reward, in [-0.5, 0.5]; exactly 0 where all lengths of a group are
        equal, NaN for unscorable completions.
    """
    known = lengths.masked_fill(rewards.isnan(), torch.nan)
    shortest, longest = _shortest(known), -_shortest(-known)
    bonus = 0.5 - (known - shortest) / (longest - shortest)
    shaped = torch.where(rewards > success_threshold, bonus, bonus.clamp(max=0.0))
    return shaped.masked_fill(is_degenerate(known), 0.0).masked_fill(rewards.isnan(), torch.nan)


def dapo_overlong(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    max_len: int = 20480,
    cache_len: int = 4096,
    penalty: float = 1.0,
) -> torch.Tensor:
    """
    DAPO's soft overlong punishment: takes off up to `penalty` as a completion nears the longest allowed length.

        l <= max_len - cache_len    r
        up to max_len               r - penalty (l - (max_len - cache_len)) / cache_len
        longer                      r - penalty

    The defaults are the paper's: 16384 tokens expected, 4096 more tolerated.

    Helps when completions are cut off: they are told how far they went instead of all getting the same reward.

    Breaks when `max_len` is not the limit of the sampler: completions cut off below it are not punished.

    Paper: https://huggingface.co/papers/2503.14476

    Source: the paper's equation 13; TRL's `get_soft_overlong_punishment` gives the same numbers. verl goes on falling
    beyond `max_len`.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        max_len (`int`, *optional*, defaults to `20480`):
            Length from which the full penalty applies, in tokens.
        cache_len (`int`, *optional*, defaults to `4096`):
            Number of tokens before `max_len` over which the penalty grows.
        penalty (`float`, *optional*, defaults to `1.0`):
            Largest amount taken off.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the punished reward; NaN for unscorable completions.

    Raises:
        [`~errors.ConfigError`]: if `cache_len` is not in (0, `max_len`].
    """
    if not 0 < cache_len <= max_len:
        raise ConfigError(
            f"dapo_overlong: cache_len is {cache_len}; expected a number in (0, max_len], and max_len is {max_len}"
        )
    overrun = (lengths - (max_len - cache_len)) / cache_len
    return rewards - penalty * overrun.clamp(0.0, 1.0)


def shorterbetter(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    alpha: float = 2.0,
    beta: float = 0.001,
    success_threshold: float = 0.5,
) -> torch.Tensor:
    """
    ShorterBetter: rewards being right and being near the shortest right length of the group.

        target = the smallest length of a right completion, or the mean length if none is right
        reward = alpha [right] - beta |l - target|

    Replaces the outcome reward.

    Helps when a prompt has short right answers: each group finds its own target.

    Breaks when all are wrong: completions are then drawn to the mean length. A lucky guess sets the target for all.

    Paper: https://huggingface.co/papers/2504.21370

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        alpha (`float`, *optional*, defaults to `2.0`):
            Reward for being right.
        beta (`float`, *optional*, defaults to `0.001`):
            Malus for each token of distance from the target.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            A completion is right if its reward is larger than this.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the shaped reward; NaN for unscorable completions.
    """
    right = rewards > success_threshold
    known = lengths.masked_fill(rewards.isnan(), torch.nan)
    shortest = _shortest(known.masked_fill(~right, torch.nan))
    target = torch.where(shortest.isinf(), group_mean(known), shortest)
    return alpha * right - beta * (known - target).abs()


def efficient_reasoning(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    alpha: float = 0.1,
    ddof: int = 0,
    success_threshold: float = 0.5,
) -> torch.Tensor:
    """
    Efficient reasoning: the reward for being right, lowered by how long the completion is among the right ones.

        reward = [right] (1 - alpha sigmoid((l - mu) / sd)),   mu and sd over the right completions of the group

    Replaces the outcome reward.

    Helps when correctness must come first: the longest right completion still gets more than 1 - `alpha`, a wrong one
    0.

    Breaks when few completions are right: with one, or with equal lengths, all get 1 - `alpha` / 2 and length teaches
    nothing.

    Paper: https://huggingface.co/papers/2502.04463

    Source: two secondary transcriptions that agree; the paper's own text was not read, the divisor is not confirmed,
    and 0.1 is one of several values of `alpha` it tests.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Length of each completion, in tokens.
        alpha (`float`, *optional*, defaults to `0.1`):
            Largest share of the reward that length can take.
        ddof (`int`, *optional*, defaults to `0`):
            The divisor of the variance is the number of right completions minus `ddof`.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            A completion is right if its reward is larger than this.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the shaped reward, in [0, 1] for `alpha` in [0, 1]; NaN for unscorable
        completions.
    """
    right = rewards > success_threshold
    known = lengths.masked_fill(~right, torch.nan)
    relative = ((known - group_mean(known)) / group_std(known, ddof)).masked_fill(is_degenerate(known), 0.0)
    shaped = torch.where(right, 1 - alpha * relative.sigmoid(), 0.0)
    return shaped.masked_fill(rewards.isnan(), torch.nan)


def _shortest(lengths: torch.Tensor) -> torch.Tensor:
    """Smallest length of each group that is not NaN, shape (N, 1); inf if there is none."""
    return lengths.nan_to_num(nan=torch.inf).amin(dim=1, keepdim=True)
