"""Advantages that differ between the tokens of a completion."""

import torch

from trl_grpo_ext.advantages.groups import group_count, is_degenerate, standardise, without_lone
from trl_grpo_ext.errors import ConfigError


def otb(
    rewards: torch.Tensor,
    logp: torch.Tensor,
    sum_pi_sq: torch.Tensor,
    *,
    eps: float = 1e-8,
    handle_zero_tail: bool = False,
) -> torch.Tensor:
    """
    Optimal token baseline: the reward minus a baseline of its own at every position.

        w_t = 1 - 2 p_t + sum over the vocabulary of p^2      the squared norm of the gradient of the logits
        W_t = w_1 + ... + w_t
        A_t = r - sum_i(r_i W_i,t) / (sum_i W_i,t + eps),   over the completions still running at t

    The baseline with the least variance weighs each completion by the squared norm of its gradient so far, for which
    the logits stand in.

    Helps when completions are long and of different lengths: the baseline at a position knows which are still running.

    Breaks when one completion outlasts the others: it alone is then its baseline and its tail gets almost nothing,
    or, with `handle_zero_tail`, the bare reward. A completion is part of its own baseline, so it is not unbiased.

    Paper: https://huggingface.co/papers/2602.07078

    Source: the authors' code, whose default of `handle_zero_tail` has been both; this is its first.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        logp (`torch.Tensor` of shape `(N, G, T)`):
            Log-probability of each token under the policy that sampled it, in nats; padded with NaN.
        sum_pi_sq (`torch.Tensor` of shape `(N, G, T)`):
            Sum of the squared probabilities of the vocabulary at each token; padded with NaN.
        eps (`float`, *optional*, defaults to `1e-8`):
            Added to the sum of the weights.
        handle_zero_tail (`bool`, *optional*, defaults to `False`):
            Whether there is no baseline where a single completion is still running.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions and for groups of one. Constant
        groups give a remainder of the order of `eps`, and the bare reward in a tail with `handle_zero_tail`.
    """
    table = without_lone(rewards).unsqueeze(2)
    running = (~(table.isnan() | logp.isnan())).to(rewards.dtype)
    table = table.nan_to_num(nan=0.0)
    weights = (1 - 2 * logp.exp() + sum_pi_sq).nan_to_num(nan=0.0).cumsum(dim=2) * running
    total = _exact_sum(weights) + eps
    baseline = torch.where(total == 0, 0.0, _exact_sum(weights * table) / total)
    if handle_zero_tail:
        baseline = torch.where(running.sum(dim=1, keepdim=True) == 1, 0.0, baseline)
    return (table - baseline) * running


def entropy_adv(
    rewards: torch.Tensor,
    entropies: torch.Tensor,
    *,
    alpha: float = 0.4,
    kappa: float = 2.0,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """
    Entropy-shaped advantage: GRPO's, raised at tokens where the policy was unsure.

        A_t = z + min(alpha H_t, |z| / kappa)

    For `kappa` above 1 the sign of z never changes. The entropy is a constant here: nothing pulls it up.

    Helps when training narrows to short, certain answers: unsure tokens of right completions are reinforced more,
    those of wrong completions punished less.

    Breaks when high entropy is noise, as at a high sampling temperature. The paper uses `alpha=0.4` with GRPO and 0.1
    with PPO.

    Paper: https://huggingface.co/papers/2506.14758

    Source: the paper's equations 5 and 6.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        entropies (`torch.Tensor` of shape `(N, G, T)`):
            Entropy of the policy at each token, in nats; padded with NaN.
        alpha (`float`, *optional*, defaults to `0.4`):
            Weight of the entropy.
        kappa (`float`, *optional*, defaults to `2.0`):
            The bonus is at most |z| / `kappa`.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `alpha` is negative or `kappa` is not positive.
    """
    if alpha < 0:
        raise ConfigError(f"entropy_adv: alpha is {alpha}; expected a weight of at least 0")
    if kappa <= 0:
        raise ConfigError(f"entropy_adv: kappa is {kappa}; expected a positive number")
    scores = standardise(rewards, ddof, eps).unsqueeze(2)
    # A computed entropy can be a rounding error below 0, which would move constant groups.
    bonus = torch.minimum(alpha * entropies.clamp(min=0.0), scores.abs() / kappa)
    return scores + bonus


def rl_zvp(
    rewards: torch.Tensor,
    entropies: torch.Tensor,
    *,
    alpha: float = 0.1,
    success_threshold: float = 0.5,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """
    RL-ZVP: GRPO, with a gradient from the entropy of the tokens for groups that are all right or all wrong.

        live group           A_t = z
        constant, all right  A_t =  alpha H_t
        constant, all wrong  A_t = -alpha (max_u H_u - H_t),   u over the tokens of the completion

    Helps when many prompts are solved always or never: they are used instead of thrown away, and unsure tokens are
    reinforced most or punished least.

    Breaks when the entropy grows: it scales the update of constant groups, with nothing to normalise it.

    Paper: https://huggingface.co/papers/2509.21880

    Source: two secondary transcriptions that agree; the paper's own text was not read, and the default of `alpha` is
    unverified.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        entropies (`torch.Tensor` of shape `(N, G, T)`):
            Entropy of the policy at each token, in nats; padded with NaN.
        alpha (`float`, *optional*, defaults to `0.1`):
            Weight of the entropy in constant groups.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            A completion is right if its reward is larger than this.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions and for groups of one; constant
        groups move as above.
    """
    if entropies.shape[2] == 0:
        return entropies
    scores = standardise(rewards, ddof, eps).unsqueeze(2)
    highest = entropies.nan_to_num(nan=-torch.inf).amax(dim=2, keepdim=True)
    wrong = (rewards <= success_threshold).unsqueeze(2)
    constant = (is_degenerate(rewards) & (group_count(rewards) >= 2)).unsqueeze(2)
    # The scores of constant groups are exactly 0.
    return scores + alpha * (entropies - torch.where(wrong, highest, 0.0)) * constant


def gtpo(
    rewards: torch.Tensor,
    entropies: torch.Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    success_threshold: float = 0.5,
    h_eps: float = 1e-8,
    ddof: int = 0,
    eps: float = 0.0,
) -> torch.Tensor:
    """
    GTPO: token rewards from entropy, standardised separately over the right and the wrong completions of a group.

        right  q_i,t =   alpha1 + alpha2 d_t H_i,t / sum_k H_k,t
        wrong  q_i,t = -(alpha1 + alpha2 h_t (1 / H_i,t) / sum_k (1 / H_k,t)),   H + h_eps for H
        A_i,t = (q_i,t - mean(q)) / (std(q) + eps)

    k runs over the d_t right (h_t wrong) completions still running at t, mean and std over all tokens of these
    completions. `alpha1` and the size of `alpha2` cancel in the standardisation unless `eps` is positive.

    Helps when right completions differ in where they were unsure: tokens that were more open than their peers'
    gain, and in wrong completions the over-confident ones lose.

    Breaks as a signal of outcome: right and wrong completions both average 0, so what is learnt is only the entropy
    pattern within each of them.

    Paper: https://huggingface.co/papers/2508.04349

    Source: two secondary transcriptions of the paper's equations 3, 5 and 6; divisor and eps are not confirmed.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        entropies (`torch.Tensor` of shape `(N, G, T)`):
            Entropy of the policy at each token, in nats; padded with NaN.
        alpha1 (`float`, *optional*, defaults to `1.0`):
            Part of the token reward that is the same for all tokens.
        alpha2 (`float`, *optional*, defaults to `0.1`):
            Weight of the share of entropy.
        success_threshold (`float`, *optional*, defaults to `0.5`):
            A completion is right if its reward is larger than this.
        h_eps (`float`, *optional*, defaults to `1e-8`):
            Added to entropies before they are inverted.
        ddof (`int`, *optional*, defaults to `0`):
            The divisor of the variance is the number of tokens minus `ddof`.
        eps (`float`, *optional*, defaults to `0.0`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions, for groups of one, and where all
        tokens of the right (the wrong) completions have the same token reward. Constant groups move.

    Raises:
        [`~errors.ConfigError`]: if `h_eps` is negative.
    """
    if h_eps < 0:
        raise ConfigError(f"gtpo: h_eps is {h_eps}; expected at least 0")
    if entropies.shape[2] == 0:
        return entropies
    table = without_lone(rewards).unsqueeze(2)
    running = ~entropies.isnan()
    right = running & (table > success_threshold)
    wrong = running & (table <= success_threshold)
    openness = entropies.nan_to_num(nan=0.0).clamp(min=0.0)
    gained = _standardised_share(openness, right, alpha2, ddof, eps)
    lost = _standardised_share(_inverse(openness + h_eps, wrong), wrong, alpha2, ddof, eps)
    return gained - lost


def hicra(
    rewards: torch.Tensor,
    planning_mask: torch.Tensor,
    *,
    alpha: float = 0.2,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """
    HICRA: GRPO's advantage, raised at planning tokens.

        A_t = z + alpha |z|  at planning tokens,  z elsewhere

    Helps when progress comes from the steps that plan ("let me check", "instead, try") and those can be marked.

    Breaks when the mask marks a style: planning tokens of wrong completions are punished less, so they multiply.

    Paper: https://huggingface.co/papers/2509.03646

    Source: two secondary transcriptions that agree; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        planning_mask (`torch.Tensor` of shape `(N, G, T)`):
            1 for planning tokens, 0 for others; padded with NaN.
        alpha (`float`, *optional*, defaults to `0.2`):
            Share of |z| that is added.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions and for constant groups.
    """
    scores = standardise(rewards, ddof, eps).unsqueeze(2)
    return scores + alpha * scores.abs() * planning_mask


def rlsd(
    rewards: torch.Tensor,
    logp: torch.Tensor,
    teacher_logp: torch.Tensor,
    *,
    lam: float = 0.5,
    clip_range: float = 0.2,
    negative_only: bool = False,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """
    RLSD: GRPO's advantage, reweighted at each token by how much a teacher prefers it.

        A_t = z ((1 - lam) + lam clip(exp(sign(z) (teacher_logp_t - logp_t)), 1 - clip_range, 1 + clip_range))

    The teacher is the same model that has also been shown the answer. It changes sizes only, never signs.

    Helps when a completion has few decisive tokens: a right one is reinforced more where the teacher agrees, a wrong
    one punished more where the teacher would not have gone.

    Breaks when the teacher's prompt changes its style as well: the ratio then measures the style.

    Paper: https://huggingface.co/papers/2604.03128

    Source: one port of the authors' code, in ms-swift 4.6.0; the paper's own text was not read.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        logp (`torch.Tensor` of shape `(N, G, T)`):
            Log-probability of each token under the policy, in nats; padded with NaN.
        teacher_logp (`torch.Tensor` of shape `(N, G, T)`):
            Log-probability of each token under the teacher, in nats; padded with NaN.
        lam (`float`, *optional*, defaults to `0.5`):
            Share of the advantage that is reweighted, in [0, 1].
        clip_range (`float`, *optional*, defaults to `0.2`):
            How far the ratio may be from 1.
        negative_only (`bool`, *optional*, defaults to `False`):
            Whether to reweight negative advantages only.
        ddof (`int`, *optional*, defaults to `1`):
            The divisor of the variance is n - `ddof`.
        eps (`float`, *optional*, defaults to `1e-4`):
            Added to the standard deviation.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions and for constant groups.

    Raises:
        [`~errors.ConfigError`]: if `lam` is not in [0, 1] or `clip_range` is negative.
    """
    if not 0 <= lam <= 1:
        raise ConfigError(f"rlsd: lam is {lam}; expected a share in [0, 1]")
    if clip_range < 0:
        raise ConfigError(f"rlsd: clip_range is {clip_range}; expected at least 0")
    scores = standardise(rewards, ddof, eps).unsqueeze(2)
    ratio = (scores.sign() * (teacher_logp - logp)).exp().clamp(1 - clip_range, 1 + clip_range)
    weight = (1 - lam) + lam * ratio
    if negative_only:
        weight = torch.where(scores < 0, weight, 1.0)
    return scores * weight


def _exact_sum(values: torch.Tensor) -> torch.Tensor:
    """
    Sum over the completions of a group with the rounding errors added back, shape (N, 1, T).

    The baseline of a constant group differs from its reward by the order of 1e-9; a plain sum would blur that.
    """
    partial = values.cumsum(dim=1)
    before = torch.nn.functional.pad(partial[:, :-1], (0, 0, 1, 0))
    added = partial - before
    errors = (before - (partial - added)) + (values - added)
    return partial[:, -1:] + errors.sum(dim=1, keepdim=True)


def _inverse(values: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
    """1 / `values`, but for a factor at each position that makes the largest inverse 1: a 0 then divides nothing."""
    lowest = values.masked_fill(~members, torch.inf).amin(dim=1, keepdim=True)
    return (lowest / values).nan_to_num(nan=1.0)


def _standardised_share(
    amounts: torch.Tensor, members: torch.Tensor, scale: float, ddof: int, eps: float
) -> torch.Tensor:
    """
    `scale` times the share of each member in the amount at its position and the number of members there; standardised
    over all tokens of all members of the group, and 0 for others.
    """
    present = members.to(amounts.dtype)
    here = amounts * present
    total = here.sum(dim=1, keepdim=True)
    count = present.sum(dim=1, keepdim=True)
    highest = here.amax(dim=1, keepdim=True)
    lowest = (here + (1 - present) * highest).amin(dim=1, keepdim=True)
    share = here * torch.where(total > 0, count / total, 0.0)
    # Equal amounts share equally: exactly 1, which n * a / (a + ... + a) need not be in floats.
    share = torch.where((lowest == highest) & (total > 0), present, share)
    return standardise(scale * share.masked_fill(~members, torch.nan).flatten(1), ddof, eps).view_as(amounts)
