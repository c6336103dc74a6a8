"""Advantages from the mean and the standard deviation of a group."""

import math

import torch

from trl_grpo_ext.advantages.groups import (
    group_count,
    group_mean,
    group_std,
    is_degenerate,
    standardise,
    without_lone,
    zero_without_signal,
)
from trl_grpo_ext.errors import ConfigError


def grpo(rewards: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """
    GRPO: the reward, centred and scaled by its group.

        A = (r - mean(r)) / (std(r) + eps)

    The paper names neither the divisor nor eps; the defaults are TRL's.

    Helps when rewards differ in scale between prompts.

    Breaks when most prompts are very easy or very hard: their standard deviation is smallest, so they get the largest
    weights. Invariant to the scale of the rewards only for `eps=0`.

    Paper: https://huggingface.co/papers/2402.03300

    Source: the paper's text and the code of TRL.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    return standardise(rewards, ddof, eps)


def dr_grpo(rewards: torch.Tensor) -> torch.Tensor:
    """
    Dr. GRPO: the reward, centred by its group and not scaled.

        A = r - mean(r)

    The paper's other half is the loss: combine with `loss_type="dr_grpo"`.

    Helps when prompts differ in difficulty: dividing by the standard deviation would put the largest weights on the
    easiest and the hardest.

    Breaks when rewards have different scales: the largest scale takes the gradient.

    Paper: https://huggingface.co/papers/2503.20783

    Source: the code of TRL and of verl.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    return zero_without_signal(rewards - group_mean(rewards), rewards)


def ppo_lite(rewards: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """
    Lite PPO: the reward, centred by its group and scaled by the whole batch.

        A = (r - mean(r)) / (S + eps),  S = std of all rewards of the batch

    S is the spread of the rewards themselves, not of the centred ones, so differences between prompts count in it, and
    so does the only scorable completion of a group, which gets no advantage. TRL calls this `scale_rewards="batch"`.

    Helps when the standard deviation of one group is too noisy to divide by: all prompts share one scale.

    Breaks when prompts differ much in their mean reward: that spread is in S, and shrinks every advantage.

    Paper: https://huggingface.co/papers/2508.08221

    Source: the code of TRL.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is the number of scorable completions of the batch - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    batch_std = group_std(rewards.reshape(1, -1), ddof)
    return zero_without_signal(_ratio(rewards - group_mean(rewards), batch_std + eps), rewards)


def gpg(rewards: torch.Tensor, *, f_norm: float = 1.0, alpha_mode: str = "groups") -> torch.Tensor:
    """
    GPG: the reward, centred by its group and scaled up by the share of groups without a signal.

        A = alpha * (r - mean(r)) / f_norm
        alpha = B / (B - M),  M of the B groups are constant

    alpha makes up for the groups that add nothing to the gradient but do count in its denominator.

    Helps when many groups are constant: the size of the step no longer depends on how many.

    Breaks when few groups are live: a noisy gradient from them is scaled up. Combine with selection of groups.

    Paper: https://huggingface.co/papers/2504.02546

    Source: the authors' trainer; `alpha_mode="verl_nonzero_scores"` is the code of verl.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        f_norm (`float`, *optional*, defaults to `1.0`):
            What the centred rewards are divided by, in units of reward; above 0.
        alpha_mode (`str`, *optional*, defaults to `"groups"`):
            `"groups"` as above; `"verl_nonzero_scores"` for alpha = completions / completions with a reward other than
            0, another number: it counts the wrong answers of live groups too. Both leave out groups of fewer than two
            scorable completions.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `f_norm` is not above 0 or `alpha_mode` is unknown.
    """
    if not f_norm > 0:
        raise ConfigError(f"gpg: f_norm is {f_norm}; it must be above 0")
    counted = without_lone(rewards)
    if alpha_mode == "groups":
        total, live = group_count(counted) > 0, ~is_degenerate(rewards)
    elif alpha_mode == "verl_nonzero_scores":
        total, live = ~counted.isnan(), counted.nan_to_num(nan=0.0) != 0
    else:
        raise ConfigError(f"gpg: alpha_mode is {alpha_mode!r}; it must be 'groups' or 'verl_nonzero_scores'")
    alpha = total.sum(dtype=rewards.dtype) / live.sum(dtype=rewards.dtype).clamp(min=1)
    return zero_without_signal(alpha * (rewards - group_mean(rewards)) / f_norm, rewards)


def maxrl(rewards: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor:
    """
    MaxRL: the reward, centred by its group and divided by the mean reward.

        A = (r - mean(r)) / (mean(r) + eps)

    With 0/1 rewards and `eps=0`, the mean of A grad log pi over a group has the expectation of the gradient of a
    truncated log-likelihood of a right answer, -sum of (1 - p)^k / k for k < n: larger groups come closer to maximum
    likelihood, where GRPO's kin follow the pass rate p.

    Helps when prompts are hard: a rare success weighs 1/p.

    Breaks when rewards can be negative: the mean then measures no likelihood, and a group whose mean is not above 0
    gets 0. Advantages reach n - 1, so clip if one lucky completion must not rule a batch.

    Paper: https://huggingface.co/papers/2602.02710

    Source: the paper's equation 10 and the code of SkyRL.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of at least 0, one row for each group; NaN marks an unscorable completion.
        eps (`float`, *optional*, defaults to `1e-6`):
            Added to the mean reward, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    return zero_without_signal(_over_mean(rewards, eps), rewards)


def treerpo_norm(rewards: torch.Tensor) -> torch.Tensor:
    """
    TreeRPO's normalisation: the reward, centred by its group and divided by the variance of a 0/1 reward.

        A = (r - mean(r)) / (mean(r) * (1 - mean(r)))

    With 0/1 rewards a right answer gets 1/p and a wrong one -1/(1 - p), p being the pass rate. The tree of rollouts
    that gives the method its name is a sampler and is not part of this entry.

    Helps when rewards are graded in [0, 1]: the scale comes from the mean, which is less noisy than a standard
    deviation of few values.

    Breaks when the group is almost all right or almost all wrong: advantages reach the group's size. A group whose
    mean is not inside of (0, 1) gets 0.

    Paper: https://huggingface.co/papers/2506.05183

    Source: a figure of the MAPO paper that quotes the formula; TreeRPO's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards in [0, 1], one row for each group; NaN marks an unscorable completion.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    mean = group_mean(rewards)
    return zero_without_signal(_ratio(rewards - mean, mean * (1 - mean)), rewards)


def mapo(
    rewards: torch.Tensor,
    correct: torch.Tensor | None = None,
    *,
    ddof: int = 0,
    eps: float = 0.0,
    success_threshold: float = 0.5,
) -> torch.Tensor:
    """
    MAPO: a mix of scaling by the standard deviation and by the mean, according to the certainty of the group.

        A = (1 - lam) * (r - mean(r)) / (std(r) + eps) + lam * (r - mean(r)) / (mean(r) + eps)
        lam = 1 - 4 p (1 - p),  p = share of right completions

    At p = 1/2 this is GRPO; the surer the outcome, the more the deviation is measured against the mean.

    Helps when groups are nearly all right or all wrong, where dividing by their small standard deviation exaggerates.

    Breaks when rewards can be negative: the second term is left out for groups whose mean is not above 0.

    Paper: https://huggingface.co/papers/2509.18849

    Source: the paper's text, equations 2 and 4 to 6. It is about 0/1 rewards; `eps` and the threshold for graded
    rewards are additions.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards of at least 0, one row for each group; NaN marks an unscorable completion.
        correct (`torch.Tensor` of shape `(N, G)`, *optional*):
            1 for right completions, 0 for wrong ones. Without it, and where it is NaN, those with a reward above
            `success_threshold` are right.
        ddof (`int`, *optional*, defaults to `0`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `0.0`):
            Added to the standard deviation and to the mean, in units of reward.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            Rewards above it count as right; in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    right = (rewards > success_threshold).to(rewards.dtype)
    if correct is not None:
        right = torch.where(correct.isnan(), right, correct)
    share = group_mean(right.masked_fill(rewards.isnan(), torch.nan))
    lam = 1 - 4 * share * (1 - share)
    scaled = _ratio(rewards - group_mean(rewards), group_std(rewards, ddof) + eps)
    return zero_without_signal((1 - lam) * scaled + lam * _over_mean(rewards, eps), rewards)


def dgae(rewards: torch.Tensor, *, eps: float = 0.0) -> torch.Tensor:
    """
    DGAE: the reward, centred by its group and scaled by the mean absolute deviation.

        A = (r - mean(r)) / (mean(|r - mean(r)|) + eps)

    The sum of |A| is n in every live group (for `eps=0`), so no difficulty gets more of the gradient than another.

    Helps when GRPO's preference for prompts of medium difficulty is unwanted: with 0/1 rewards its sum of |A| is
    largest at a pass rate of one half.

    Breaks when rewards of a group differ by noise only: that noise gets a full share of the gradient.

    Paper: https://huggingface.co/papers/2601.20614

    Source: secondary transcriptions; the paper's own text was not read. Its weights by difficulty are not part of this
    entry.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        eps (`float`, *optional*, defaults to `0.0`):
            Added to the mean absolute deviation, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.
    """
    centred = rewards - group_mean(rewards)
    return zero_without_signal(_ratio(centred, group_mean(centred.abs()) + eps), rewards)


def bnpo(
    rewards: torch.Tensor, *, min_value: float = 0.0, max_value: float = 1.0, max_weight: float = 1e6
) -> torch.Tensor:
    """
    BNPO: the reward, centred by its group and divided by the density of such pass rates in the batch.

        q = mean(r) of a group, mu and v = mean and sample variance of q over the prompts of the batch
        c = mu (1 - mu) / v - 1,  alpha = max(1, 1 + c mu / 3),  beta = max(1, 1 + c (1 - mu) / 3)
        A = (r - q) * min(1 / BetaPDF(q; alpha, beta), max_weight)

    with rewards mapped from [`min_value`, `max_value`] to [0, 1]. With one prompt, and where v is 0, alpha = beta = 1
    and A = r - q. TRL's `loss_type="bnpo"` is something else: a way to average the loss.

    Helps when a batch holds prompts of many difficulties: unusual pass rates weigh more than common ones.

    Breaks when the prompts of a batch have nearly the same pass rate: the density is high at all of them and every
    advantage shrinks, until at equality the weight jumps to 1. Outliers reach `max_weight`.

    Paper: https://huggingface.co/papers/2506.02864

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        min_value (`float`, *optional*, defaults to `0.0`):
            Reward that is mapped to 0.
        max_value (`float`, *optional*, defaults to `1.0`):
            Reward that is mapped to 1. The density counts a mean reward beyond the two as the nearer of them.
        max_weight (`float`, *optional*, defaults to `1e6`):
            Largest factor; it also stands for 1/0, where the density is 0.

    Returns:
        `torch.Tensor` of shape `(N, G)`: in units of the mapped rewards; exactly 0 for unscorable completions and for
        constant groups.

    Raises:
        [`~errors.ConfigError`]: if `max_value` is not above `min_value`, or `max_weight` is not above 0 and finite.
    """
    if not max_value > min_value:
        raise ConfigError(f"bnpo: {min_value=} and {max_value=}; max_value must be above min_value")
    if not 0 < max_weight < math.inf:
        raise ConfigError(f"bnpo: max_weight is {max_weight}; it must be above 0 and finite")
    mapped = (rewards - min_value) / (max_value - min_value)
    q = group_mean(mapped)
    density = _log_beta_density(q.clamp(0.0, 1.0), group_mean(without_lone(mapped)))
    return zero_without_signal((mapped - q) * (-density).exp().clamp(max=max_weight), rewards)


def _log_beta_density(q: torch.Tensor, prompts: torch.Tensor) -> torch.Tensor:
    """Log density at `q` of BNPO's Beta distribution, fitted to the `prompts` (both (N, 1), NaN left out)."""
    mean = prompts.nanmean()
    spread = (prompts - mean).square().nansum()
    variance = spread / ((~prompts.isnan()).sum() - 1).clamp(min=1)
    # Means that differ by rounding alone are equal; their variance is a residue that would make c any size.
    missing = prompts.isnan()
    highest, lowest = prompts.masked_fill(missing, -torch.inf).amax(), prompts.masked_fill(missing, torch.inf).amin()
    flat = highest - lowest <= 8 * torch.finfo(prompts.dtype).eps * highest.abs()
    c = torch.where(flat, 0.0, mean * (1 - mean) / variance - 1).clamp(min=0, max=1e300)
    a, b = c * mean / 3, c * (1 - mean) / 3
    # The density relative to its mode, which is the mean: log Gamma of large a and b would cancel.
    at_mode = (
        (1 + a + b).log()
        + (_stirling_error(a + b) - _stirling_error(a) - _stirling_error(b))
        - 0.5 * (math.log(2 * math.pi) + a.log() + b.log() - (a + b).log())
    )
    relative = a * ((q - mean) / mean).log1p() + b * ((mean - q) / (1 - mean)).log1p()
    return torch.where(c > 0, at_mode + relative, 0.0)


def _stirling_error(z: torch.Tensor) -> torch.Tensor:
    """Log Gamma(z + 1) minus Stirling's approximation of it, for z > 0."""
    x = z.clamp(min=16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * x**2)) / x**2) / x**2) / x**2) / x
    return torch.where(z > 16, series, (z + 1).lgamma() - (z + 0.5) * z.log() + z - 0.5 * math.log(2 * math.pi))


def _over_mean(rewards: torch.Tensor, eps: float) -> torch.Tensor:
    """(r - mean(r)) / (mean(r) + eps); 0 in groups whose mean is not above 0."""
    mean = group_mean(rewards)
    return _ratio(rewards - mean, torch.where(mean > 0, mean + eps, 0.0))


def _ratio(values: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """`values` / `divisor`; 0 where the divisor is not above 0."""
    return torch.where(divisor > 0, values / divisor, 0.0)
