"""Advantages that weigh high rewards and low rewards differently."""

import math

import torch

from trl_grpo_ext.advantages.groups import (
    group_count,
    group_mean,
    zero_unscorable,
    zero_without_signal,
)
from trl_grpo_ext.errors import ConfigError


# Advantages reach the loss in float32 or less, so that is where an unbounded one ends.
LARGEST = torch.finfo(torch.float32).max


def rs_grpo(rewards: torch.Tensor, *, beta: float = 2.0) -> torch.Tensor:
    """
    RS-GRPO: the exponential of the reward, relative to its mean over the group.

        A = (exp(beta r) / mean(exp(beta r)) - 1) / beta

    Large groups approach the gradient of the risk-sensitive objective log(E[exp(beta r)]) / beta.

    Helps when a policy should keep looking for rare high rewards: with `beta` above 0 the best completions take most
    of the push. Below 0 it avoids low rewards instead of seeking high ones.

    Breaks when rewards are noisy: with a large `beta` one lucky completion rules its group. `beta` is tied to the
    scale of the rewards.

    Paper: https://huggingface.co/papers/2509.24261

    Source: the authors' code.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        beta (`float`, *optional*, defaults to `2.0`):
            Sensitivity to risk, in units of 1 / reward; 0 gives the limit, [`~mean_std.dr_grpo`].

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `beta` is not finite.
    """
    _check_finite("rs_grpo", "beta", beta)
    if beta == 0:
        return zero_without_signal(rewards - group_mean(rewards), rewards)
    excess = _exponents(rewards, beta).expm1()
    mean = group_mean(excess)
    return zero_without_signal((excess - mean) / (1 + mean) / beta, rewards)


def entropic(
    rewards: torch.Tensor,
    *,
    beta: float = 2.0,
    adaptive: bool = False,
    target_kl: float = math.log(2),
    beta_max: float = 1e6,
) -> torch.Tensor:
    """
    Entropic advantage: the exponential of the reward, relative to its mean over the other completions.

        A_i = exp(b r_i) / mean(exp(b r_j), j != i) - 1

    with b = `beta`, or with `adaptive=True` the b of each group for which KL(softmax(b r) || uniform) is `target_kl`.
    Where no b up to `beta_max` reaches it, as where several completions share the best reward, b = `beta_max`.

    Helps when one excellent completion matters more than a good average, as in a search for a single solution.
    `adaptive=True` makes it independent of the scale of the rewards.

    Breaks when one completion is far ahead: its advantage has no bound but the largest float32, at which it ends. With
    `adaptive=True` groups of so few scorable completions that the target is out of their reach get 0.

    Paper: https://huggingface.co/papers/2601.16175

    Source: two ports of the authors' code that agree; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        beta (`float`, *optional*, defaults to `2.0`):
            Sensitivity to risk, in units of 1 / reward; not used with `adaptive=True`.
        adaptive (`bool`, *optional*, defaults to `False`):
            Find b for each group; needs G of at least 4.
        target_kl (`float`, *optional*, defaults to `0.6931471805599453`):
            KL divergence to reach, in nats; below log(G).
        beta_max (`float`, *optional*, defaults to `1e6`):
            Largest b, in units of 1 / reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `beta` is 0 or not finite; with `adaptive=True` if G is below 4, `target_kl` is not
            in (0, log(G)) or `beta_max` is not above 0 and finite.
    """
    if adaptive:
        _check_adaptive(rewards.shape[1], target_kl, beta_max)
        exponents = _adapted_exponents(rewards, target_kl, beta_max)
    else:
        _check_finite("entropic", "beta", beta)
        if beta == 0:
            raise ConfigError("entropic: beta is 0, which makes every advantage 0; choose a positive one")
        exponents = _exponents(rewards, beta)
    return zero_without_signal(_over_others(exponents), rewards)


def opmd(rewards: torch.Tensor, *, tau: float = 1.0) -> torch.Tensor:
    """
    OPMD: the reward minus a soft maximum of its group.

        A = r - tau * log(mean(exp(r / tau)))

    The baseline is the group's estimate of the value of the policy that is optimal under a KL penalty of weight tau.
    It lies between the mean (large `tau`) and the maximum (small `tau`).

    Helps when data are off-policy and the loss regularises towards the policy that wrote them, with the same `tau`.

    Breaks when `tau` is small against the spread of the rewards: the baseline reaches the best reward, and all others
    are pushed down.

    Paper: https://huggingface.co/papers/2505.17826

    Source: the code of Trinity-RFT, the framework that the paper describes.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        tau (`float`, *optional*, defaults to `1.0`):
            Temperature of the soft maximum, in units of reward; above 0.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `tau` is not above 0 and finite.
    """
    if not 0 < tau < math.inf:
        raise ConfigError(f"opmd: tau is {tau}; it must be above 0 and finite")
    below_best = rewards - _highest(rewards)
    soft_maximum = tau * group_mean((below_best / tau).expm1()).log1p()
    return zero_without_signal(below_best - soft_maximum, rewards)


def asymre(rewards: torch.Tensor, *, baseline_shift: float = -0.1) -> torch.Tensor:
    """
    AsymRE: the reward minus a baseline a little off the mean of its group.

        A = r - (mean(r) + baseline_shift)

    A baseline below the mean learns more from successes than from failures.

    Helps when data are off-policy: failures of an older policy say little about the present one, and pushing them down
    can make training collapse.

    Breaks when the baseline is above the mean off-policy. A shift also raises the probability of every completion of a
    constant group, wrong ones too.

    Paper: https://huggingface.co/papers/2506.20520

    Source: the code of Trinity-RFT.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        baseline_shift (`float`, *optional*, defaults to `-0.1`):
            Added to the baseline, in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: exactly 0 for unscorable completions and for the only scorable completion of
        a group; exactly `-baseline_shift` for all completions of a constant group.

    Raises:
        [`~errors.ConfigError`]: if `baseline_shift` is not finite.
    """
    _check_finite("asymre", "baseline_shift", baseline_shift)
    centred = zero_without_signal(rewards - group_mean(rewards), rewards)
    return zero_unscorable(centred - baseline_shift, rewards)


def _over_others(exponents: torch.Tensor) -> torch.Tensor:
    """exp(x_i) / mean(exp(x_j), j != i) - 1 of each row; the largest x must be 0, NaN is left out."""
    weights = exponents.exp().nan_to_num(nan=0.0)
    # The sum over the others of the largest is summed without it: subtracting it would leave nothing of a small sum.
    largest = weights.argmax(dim=1, keepdim=True)
    rest = weights.scatter(1, largest, 0.0)
    others = rest.sum(dim=1, keepdim=True) - rest + torch.ones_like(rest).scatter(1, largest, 0.0)
    excess = exponents.expm1()
    advantages = group_count(exponents) * (excess - group_mean(excess)) / others
    return advantages.clamp(max=LARGEST)


def _adapted_exponents(rewards: torch.Tensor, target_kl: float, beta_max: float) -> torch.Tensor:
    """b (r - max(r)) of each group, with the b up to `beta_max` for which softmax(b r) is `target_kl` from uniform."""
    best = _highest(rewards)
    spread = best + _highest(-rewards)
    below_best = (rewards - best) / spread  # in [-1, 0], which makes the search independent of the scale
    # A weight of exp(-huge) is 0, and so are its products.
    x, log_count = below_best.nan_to_num(nan=-torch.finfo(rewards.dtype).max), group_count(rewards).log()
    beta = _solve_beta(x, log_count, target_kl, beta_max * spread)
    return (beta * below_best).masked_fill(log_count <= target_kl * (1 + 1e-12), 0.0)


def _solve_beta(x: torch.Tensor, log_count: torch.Tensor, target_kl: float, limit: torch.Tensor) -> torch.Tensor:
    """
    The b at which the divergence is `target_kl`, or else `limit`, (N, 1): bisection in log b, then Newton's method.

    The number of steps is fixed, so that nothing waits for the device. Six bisections narrow the bracket to less than
    a factor of 2; without them Newton's method gets stuck where nearly equal rewards make the divergence a staircase.
    """
    # The variance of values in [-1, 0] is at most 1/4, so the divergence is at most b^2 / 8.
    low, high = torch.full_like(limit, math.sqrt(8 * target_kl)).minimum(limit), limit
    beta = (low * high).sqrt()
    for step in range(13):
        value, slope = _divergence(x, log_count, beta)
        below = value < target_kl
        low, high = torch.where(below, beta, low), torch.where(below, high, beta)
        # Where all weight is on the best the slope is 0, or a residue of any sign.
        newton_step = (target_kl - value) / slope.clamp(min=1e-300)
        beta = (low * high).sqrt() if step < 6 else (beta + newton_step).clamp(low, high)
    return beta


def _divergence(x: torch.Tensor, log_count: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """KL(softmax(b x) || uniform) of each row, (N, 1), and its derivative with respect to b."""
    weights = (b * x).exp()
    weighted = weights * x
    total = weights.sum(dim=1, keepdim=True)
    mean = weighted.sum(dim=1, keepdim=True) / total
    variance = (weighted * x).sum(dim=1, keepdim=True) / total - mean.square()
    return b * mean - total.log() + log_count, b * variance


def _exponents(rewards: torch.Tensor, beta: float) -> torch.Tensor:
    """beta r of each group, shifted so that the largest is 0."""
    leader = _highest(rewards) if beta > 0 else -_highest(-rewards)
    return beta * (rewards - leader)


def _highest(rewards: torch.Tensor) -> torch.Tensor:
    """Highest scorable reward of each group, (N, 1); -inf if there is none."""
    return rewards.masked_fill(rewards.isnan(), -torch.inf).amax(dim=1, keepdim=True)


def _check_finite(name: str, parameter: str, value: float) -> None:
    if not math.isfinite(value):
        raise ConfigError(f"{name}: {parameter} is {value}; it must be finite")


def _check_adaptive(size: int, target_kl: float, beta_max: float) -> None:
    if size < 4:
        raise ConfigError(f"entropic: adaptive=True needs groups of at least 4 completions, and these hold {size}")
    if not 0 < target_kl < math.log(size):
        raise ConfigError(
            f"entropic: target_kl is {target_kl}; groups of {size} reach values above 0 and below {math.log(size):.4g}"
        )
    if not 0 < beta_max < math.inf:
        raise ConfigError(f"entropic: beta_max is {beta_max}; it must be above 0 and finite")
