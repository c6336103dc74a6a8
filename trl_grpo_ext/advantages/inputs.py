"""What entries may take beside rewards, by name: the level of each input, what it is, and who can supply it."""

from typing import Literal, NamedTuple


# One value for each completion (N, G), each token (N, G, T), each step (N, G, S), each group (N,), a list for each
# group (N, M), or one for the batch.
Level = Literal["completion", "token", "step", "group", "group_list", "batch"]
Origin = Literal["trainer", "step_reward", "user"]


class Input(NamedTuple):
    """
    An input of that name.

    Attributes:
        level (`str`):
            `"completion"`, `"token"`, `"step"`, `"group"`, `"group_list"` or `"batch"`.
        meaning (`str`):
            What it is.
        origin (`str`):
            `"trainer"` if the trainer supplies it by itself, `"step_reward"` if a step reward does, `"user"` if only
            the user can.
        cost (`str`):
            What supplying it costs; empty if nothing to speak of.
    """

    level: Level
    meaning: str
    origin: Origin = "trainer"
    cost: str = ""


_PASS = "a forward pass for each generation batch, unless TRL makes one (num_iterations > 1, vLLM, …)"
_KEPT = "kept with the checkpoint"

INPUTS: dict[str, Input] = {
    "lengths": Input("completion", "tokens of the completion that the policy wrote"),
    "seq_logp": Input("completion", "log-probability of the completion, the sum over its tokens", cost=_PASS),
    "seq_entropy": Input("completion", "mean entropy of the completion's tokens", cost=_PASS),
    "logp": Input("token", "log-probability of each token", cost=_PASS),
    "entropies": Input("token", "entropy of the distribution that each token was sampled from", cost=_PASS),
    "token_kl": Input(
        "token", "log-ratio of policy and reference policy at each token; needs `beta` above 0", cost=_PASS
    ),
    "sum_pi_sq": Input("token", "sum over the vocabulary of the squared probability at each token", cost=_PASS),
    "weights": Input("batch", "weights of the rewards"),
    "greedy_reward": Input(
        "group", "reward of one greedy completion of the prompt", cost="one more completion for each prompt"
    ),
    "ref_rewards": Input(
        "group_list",
        "rewards of completions of the prompt by the policy that training started from",
        cost="G completions of every prompt of the training set before the first step",
    ),
    "alpha": Input(
        "group",
        f"successes of the prompt's earlier completions, discounted; {_KEPT}",
        cost="two forward passes over 32 completions of each process for each generation batch",
    ),
    "beta": Input(
        "group", f"failures of the prompt's earlier completions, discounted; {_KEPT}", cost="the same two passes"
    ),
    "times": Input("group", f"earlier visits of the prompt; {_KEPT}"),
    "old_mean": Input("group", f"mean reward over the prompt's earlier visits; {_KEPT}"),
    "old_std": Input("group", f"standard deviation of the reward over them; {_KEPT}"),
    "anchor": Input("batch", f"smoothed pass rate of the earlier batches; {_KEPT}"),
    "anchors": Input("step", "state that each step started from", "step_reward"),
    "step_rewards": Input("step", "rewards of the steps", "step_reward"),
    "step_ends": Input("step", "tokens up to the end of each step", "step_reward"),
    "metric": Input("completion", "what splits the group in two halves, such as seq_entropy or lengths", "user"),
    "strata": Input("completion", "number or name of the stratum, such as the number of tool calls", "user"),
    "correct": Input("completion", "whether the completion is right; by default decided by the reward", "user"),
    "planning_mask": Input("token", "1 at planning tokens", "user"),
    "teacher_logp": Input("token", "log-probability of each token under the teacher", "user"),
}


def level_of(name: str) -> Level | None:
    """Level of the input called `name`; `None` for a name that is not known here."""
    return INPUTS[name].level if name in INPUTS else None
