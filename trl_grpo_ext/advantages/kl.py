"""Estimators of the KL divergence from a reference policy, from the log-probabilities of sampled tokens."""

import torch


# Below this difference the closed form of k3 cancels; seven terms of its series are then exact to 4e-14.
SERIES_BELOW = 0.03
# exp(60) times any difference stays finite in float32. Beyond it k3 goes on along its tangent, so that the gradient
# keeps its sign.
LARGEST_EXPONENT = 60.0


def k1(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    """
    k1: the log-ratio itself.

        k1 = logp - ref_logp

    Its mean over samples of the policy is KL(policy || reference), but single values may be negative.

    Helps when it is part of the reward, summed over the completion, as in RLOO.

    Breaks when it is a term of the loss: the expected gradient is 0, so it only adds noise.

    Source: Schulman's note of 2020, "Approximating KL divergence" (http://joschu.net/blog/kl-approx.html).

    Args:
        logp (`torch.Tensor`):
            Log-probability of each token under the policy that sampled it, in nats; any shape.
        ref_logp (`torch.Tensor`):
            Log-probability under the reference, same shape.

    Returns:
        `torch.Tensor` of that shape: 0 where both agree.
    """
    return logp - ref_logp


def k2(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    """
    k2: half the squared log-ratio.

        k2 = (logp - ref_logp)^2 / 2

    Its gradient, (logp - ref_logp) times that of `logp`, is in expectation the gradient of KL(policy || reference).

    Helps when it is a term of the loss: the right gradient with less variance than k1 in the reward.

    Breaks when its value is read as a KL divergence: it is biased, but for small differences.

    Source: Schulman's note of 2020, "Approximating KL divergence" (http://joschu.net/blog/kl-approx.html).

    Args:
        logp (`torch.Tensor`):
            Log-probability of each token under the policy that sampled it, in nats; any shape.
        ref_logp (`torch.Tensor`):
            Log-probability under the reference, same shape.

    Returns:
        `torch.Tensor` of that shape: never negative, 0 where both agree.
    """
    return (logp - ref_logp).square() / 2


def k3(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    """
    k3: the log-ratio with a control variate, never negative.

        k3 = exp(-d) - 1 + d,   d = logp - ref_logp

    Its mean over samples of the policy is KL(policy || reference), with less variance than k1. Its gradient as a term
    of the loss is in expectation that of KL(reference || policy).

    Helps when the divergence is to be measured, and as the penalty that GRPO and TRL use.

    Breaks when the policy gives a sampled token far less probability than the reference: exp(-d) explodes. For d below
    -60 it is continued linearly, which keeps values finite in float32 too.

    Source: Schulman's note of 2020, "Approximating KL divergence" (http://joschu.net/blog/kl-approx.html).

    Args:
        logp (`torch.Tensor`):
            Log-probability of each token under the policy that sampled it, in nats; any shape.
        ref_logp (`torch.Tensor`):
            Log-probability under the reference, same shape.

    Returns:
        `torch.Tensor` of that shape: never negative, 0 where both agree.
    """
    x = ref_logp - logp
    capped = x.clamp(max=LARGEST_EXPONENT)
    closed = capped.expm1() * (1 + x - capped) - capped
    small = x.clamp(-SERIES_BELOW, SERIES_BELOW)
    factor = 1 + small / 3 * (1 + small / 4 * (1 + small / 5 * (1 + small / 6 * (1 + small / 7))))
    return torch.where(x.abs() < SERIES_BELOW, x.square() / 2 * factor, closed)
