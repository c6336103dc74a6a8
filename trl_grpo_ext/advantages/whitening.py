"""REINFORCE++: returns whitened over the whole batch instead of the group."""

import torch

from trl_grpo_ext.advantages.groups import group_mean, without_lone, zero_unscorable, zero_without_signal
from trl_grpo_ext.errors import ConfigError


def reinforce_pp(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    weighting: str = "token",
    var_mode: str = "clamp",
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    REINFORCE++: the reward, whitened over the batch; no baseline from the group.

        A = (r - M) / S,  M and S = mean and standard deviation of r over the batch

    Every token of a completion has the reward as its return, so by default M and S count a completion once for each of
    its tokens.

    Helps when prompts have few completions, or one: no group is needed, and a group of equal rewards still moves by
    its distance from the batch.

    Breaks when prompts differ in difficulty: a right answer to an easy prompt is pushed as hard as one to a hard
    prompt, and all answers to a prompt that none solves are pushed down.

    Paper: https://huggingface.co/papers/2501.03262

    Source: the code of OpenRLHF (`var_mode="clamp"`) and of verl (`var_mode="inside"`).

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Tokens of each completion.
        weighting (`str`, *optional*, defaults to `"token"`):
            `"token"` to count a completion as often as it has tokens, `"sequence"` to count each once.
        var_mode (`str`, *optional*, defaults to `"clamp"`):
            What S is: `"clamp"` for the root of the variance, which is at least `eps`; `"inside"` for the root of
            (variance with Bessel's correction + `eps`); `"outside"` for the standard deviation + `eps`.
        eps (`float`, *optional*, defaults to `1e-8`):
            Keeps S above 0; in units of reward squared, for `var_mode="outside"` in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the same for all tokens of a completion. Exactly 0 for unscorable completions
        and if the whole batch is constant; a constant group gets its distance from the batch. The only scorable
        completion of a group takes part like any other.

    Raises:
        [`~errors.ConfigError`]: if `weighting` or `var_mode` is unknown.
    """
    return _whiten(rewards, _weights(rewards, lengths, weighting), var_mode, eps)


def reinforce_pp_kl(
    rewards: torch.Tensor,
    token_kl: torch.Tensor,
    *,
    kl_coef: float = 0.01,
    var_mode: str = "clamp",
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    REINFORCE++ with the KL penalty in the return: the reward minus the KL still to come, whitened over all tokens.

        R_t = r - kl_coef * sum of (log pi_u - log pi_ref_u) over u >= t
        A_t = (R_t - M) / S,  M and S = mean and standard deviation of R over the tokens of the batch

    Do not add another KL term to the loss.

    Helps when the policy must stay near the reference: each token answers for the drift that follows it.

    Breaks when completions are long: the sum grows with the length, so early tokens are punished for it, and
    differences between prompts stay in the advantage as in [`reinforce_pp`].

    Paper: https://huggingface.co/papers/2501.03262

    Source: the code of OpenRLHF. `kl_coef` depends on the task, and its default is a placeholder.

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        token_kl (`torch.Tensor` of shape `(N, G, T)`):
            Log-ratio of policy and reference policy at each token, padded with NaN.
        kl_coef (`float`, *optional*, defaults to `0.01`):
            Weight of the log-ratio, in units of reward.
        var_mode (`str`, *optional*, defaults to `"clamp"`):
            What S is: `"clamp"` for the root of the variance, which is at least `eps`; `"inside"` for the root of
            (variance with Bessel's correction + `eps`); `"outside"` for the standard deviation + `eps`.
        eps (`float`, *optional*, defaults to `1e-8`):
            Keeps S above 0; in units of reward squared, for `var_mode="outside"` in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G, T)`: exactly 0 for unscorable completions, at padding, and if all returns of
        the batch are equal; a constant group gets its distance from the batch. The only scorable completion of a group
        takes part like any other.

    Raises:
        [`~errors.ConfigError`]: if `var_mode` is unknown.
    """
    kl = token_kl.nan_to_num(nan=0.0)
    to_come = kl.sum(dim=2, keepdim=True) - kl.cumsum(dim=2) + token_kl  # NaN at padding
    returns = rewards.unsqueeze(2) - kl_coef * to_come
    return _whiten(returns, (~returns.isnan()).to(returns.dtype), var_mode, eps)


def reinforce_pp_baseline(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    *,
    weighting: str = "token",
    var_mode: str = "clamp",
    eps: float = 1e-8,
) -> torch.Tensor:
    """
    REINFORCE++-baseline: the reward, centred by its group and whitened over the batch.

        x = r - mean(r) of the group
        A = (x - M) / S,  M and S = mean and standard deviation of x over the batch

    By default M and S count a completion once for each of its tokens. The paper pairs it with a KL term in the loss:
    combine with `kl_estimator="k2"`.

    Helps when a group's own standard deviation is too noisy to divide by.

    Breaks when lengths and rewards go together: with `weighting="token"` M is then not 0, so that even constant groups
    are pushed.

    Paper: https://huggingface.co/papers/2501.03262

    Source: the code of OpenRLHF (`var_mode="clamp"`) and of verl (`var_mode="inside"`).

    Args:
        rewards (`torch.Tensor` of shape `(N, G)`):
            float64 rewards, one row for each group; NaN marks an unscorable completion.
        lengths (`torch.Tensor` of shape `(N, G)`):
            Tokens of each completion.
        weighting (`str`, *optional*, defaults to `"token"`):
            `"token"` to count a completion as often as it has tokens, `"sequence"` to count each once; M is then 0.
        var_mode (`str`, *optional*, defaults to `"clamp"`):
            What S is: `"clamp"` for the root of the variance, which is at least `eps`; `"inside"` for the root of
            (variance with Bessel's correction + `eps`); `"outside"` for the standard deviation + `eps`.
        eps (`float`, *optional*, defaults to `1e-8`):
            Keeps S above 0; in units of reward squared, for `var_mode="outside"` in units of reward.

    Returns:
        `torch.Tensor` of shape `(N, G)`: the same for all tokens of a completion. Exactly 0 for unscorable
        completions, for the only scorable completion of a group, and if all groups are constant. Beside live groups a
        constant group gets -M / S, which is exactly 0 with `weighting="sequence"` only.

    Raises:
        [`~errors.ConfigError`]: if `weighting` or `var_mode` is unknown.
    """
    rewards = without_lone(rewards)
    centred = zero_without_signal(rewards - group_mean(rewards), rewards).masked_fill(rewards.isnan(), torch.nan)
    weights = _weights(centred, lengths, weighting)
    # Each group sums to 0, and computing that sum would leave a residue in constant groups.
    whitened = _whiten(centred, weights, var_mode, eps, zero_mean=weighting == "sequence")
    return zero_unscorable(whitened, rewards)


def _weights(values: torch.Tensor, lengths: torch.Tensor, weighting: str) -> torch.Tensor:
    """How often each completion counts, (N, G); 0 for unscorable ones."""
    if weighting not in ("token", "sequence"):
        raise ConfigError(f"REINFORCE++: weighting is {weighting!r}; it must be 'token' or 'sequence'")
    weights = lengths.nan_to_num(nan=0.0) if weighting == "token" else torch.ones_like(values)
    return weights.masked_fill(values.isnan(), 0.0)


def _whiten(
    values: torch.Tensor, weights: torch.Tensor, var_mode: str, eps: float, *, zero_mean: bool = False
) -> torch.Tensor:
    """(v - M) / S with the weighted M and S of all values but NaN; `zero_mean` says that M is known to be 0."""
    total = weights.sum().clamp(min=1)
    if zero_mean:
        centred = values.nan_to_num(nan=0.0)
    else:
        # Relative to the highest value: equal values are then 0, and so is their mean, without a residue of rounding.
        shifted = (values - values.nan_to_num(nan=-torch.inf).amax()).nan_to_num(nan=0.0)
        centred = shifted - (weights * shifted).sum() / total
    squares = (weights * centred.square()).sum()
    if var_mode == "clamp":
        scale = (squares / total).clamp(min=eps).sqrt()
    elif var_mode == "inside":
        scale = (squares / (total - 1).clamp(min=1) + eps).sqrt()
    elif var_mode == "outside":
        scale = (squares / total).sqrt() + eps
    else:
        raise ConfigError(f"REINFORCE++: var_mode is {var_mode!r}; it must be 'clamp', 'inside' or 'outside'")
    return centred * torch.where(scale > 0, 1 / scale, 0.0)
