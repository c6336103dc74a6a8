"""Which completions of a batch are worth a gradient: boolean tables, `True` for what is kept."""

import torch

from trl_grpo_ext.advantages.groups import group_mean, is_degenerate
from trl_grpo_ext.advantages.subsets import max_variance_subset
from trl_grpo_ext.errors import ConfigError


def dapo_dynamic(rewards: torch.Tensor) -> torch.Tensor:
    """
    DAPO's dynamic sampling: keep the groups whose rewards are not all equal.

        keep a group if max(r) > min(r)

    The rule that decides; sampling further prompts until the batch is full is up to the caller.

    Helps when many prompts are solved always or never: they only shrink the gradient of the others.

    Breaks when live groups are rare: each batch needs many rounds of generation. Give it the accuracy, as DAPO does,
    and not a shaped reward: a length penalty alone makes every group live.

    Paper: https://huggingface.co/papers/2503.14476

    Source: the authors' recipe for verl. The recipe keeps groups that were sampled with one completion; here a single
    scorable completion is dropped, as it has nothing to be compared with.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards or accuracies, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: boolean; `False` for constant groups and for unscorable completions.
    """
    return ~is_degenerate(rewards) & ~rewards.isnan()


def pass_rate_window(
    rewards: torch.Tensor, *, low: float = 0.1, high: float = 0.95, inclusive: bool = False
) -> torch.Tensor:
    """
    Pass-rate window: keep the groups whose mean reward is neither too low nor too high.

        keep a group if low < mean(r) < high      (<= if `inclusive`)

    Unscorable completions do not count towards the mean.

    Helps when a few successes in very hard prompts, or a few failures in very easy ones, are mostly luck or
    mistakes of the verifier.

    Breaks when groups are small: the mean of few rewards says little about the prompt, so what is dropped is partly
    chance. `low` and `high` have to be in the scale of the rewards.

    Paper: https://huggingface.co/papers/2504.03380

    Source: the code of ROLL (`difficulty_mask`), whose bounds are the defaults; the paper is reported to use a
    symmetric window.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards or accuracies, one row for each group; NaN marks an unscorable completion.
        low (`float`, *optional*, defaults to `0.1`):
            Lower bound of the mean, in units of reward.
        high (`float`, *optional*, defaults to `0.95`):
            Upper bound of the mean, in units of reward.
        inclusive (`bool`, *optional*, defaults to `False`):
            Whether a mean equal to a bound is kept.

    Returns:
        `torch.Tensor` of shape `(N, G)`: boolean; `False` for groups outside of the window and for unscorable
        completions. A constant group is kept if its value lies in the window.

    Raises:
        [`~errors.ConfigError`]: if no mean lies between `low` and `high`.
    """
    if low > high or (low == high and not inclusive):
        raise ConfigError(f"pass_rate_window: {low=} and {high=} leave no mean between them; low must be below high")
    lowest = rewards.masked_fill(rewards.isnan(), torch.inf).amin(dim=1, keepdim=True)
    # Measured from the lowest reward, the mean of equal floats is that float, and not one unit in the last place off.
    rate = lowest + group_mean(rewards - lowest)
    inside = (rate >= low) & (rate <= high) if inclusive else (rate > low) & (rate < high)
    return inside & ~rewards.isnan()


def pods_mask(rewards: torch.Tensor, *, m: int = 4) -> torch.Tensor:
    """
    PODS's down-sampling: keep the m completions of each group whose rewards have the largest variance.

        keep the m of n completions with the largest variance of r

    The choice that [`~subsets.pods`] makes, for use with another advantage.

    Helps when generating is cheap and training on completions is not: many are sampled, few are trained on.

    Breaks when rewards are noisy: the extremes are where the noise is largest. Statistics of what is kept are not
    those of the policy.

    Paper: https://huggingface.co/papers/2504.13818

    Source: secondary transcriptions; the paper's own text was not read. `m` depends on the task, and its default is a
    placeholder. Ties are broken as [`~subsets.pods`] says.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion, which is never kept.
        m (`int`, *optional*, defaults to `4`):
            Number of completions to keep. Groups of fewer scorable ones keep all of them.

    Returns:
        `torch.Tensor` of shape `(N, G)`: boolean; `False` for the completions left out and for unscorable ones.
        Constant groups keep m completions too.

    Raises:
        [`~errors.ConfigError`]: if `m` is not a whole number of at least 1.
    """
    return max_variance_subset(rewards, m)
