"""What an advantage estimator needs beside the rewards, and where the trainer gets it from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import import_path, nearest_names


# What the trainer supplies by itself, by level. `G` completion, `T` token, `N` group, `-` once for the batch.
SUPPLIED: dict[str, tuple[str, str]] = {
    "lengths": ("G", "tokens of the completion that the policy wrote"),
    "seq_logp": ("G", "log-probability of the completion, the sum over its tokens"),
    "seq_entropy": ("G", "mean entropy of the completion's tokens"),
    "logp": ("T", "log-probability of each token"),
    "entropies": ("T", "entropy of the distribution that each token was sampled from"),
    "token_kl": ("T", "log-ratio of policy and reference policy at each token; needs `beta` above 0"),
    "sum_pi_sq": ("T", "sum over the vocabulary of the squared probability at each token; one more forward pass"),
    "weights": ("-", "weights of the rewards"),
    "greedy_reward": ("N", "reward of one greedy completion of the prompt"),
    "ref_rewards": ("N", "rewards of G completions of the prompt by the policy that training started from"),
    "alpha": ("N", "successes of the prompt's earlier completions, discounted; kept with the checkpoint"),
    "beta": ("N", "failures of the prompt's earlier completions, discounted; kept with the checkpoint"),
    "times": ("N", "earlier visits of the prompt; kept with the checkpoint"),
    "old_mean": ("N", "mean reward over the prompt's earlier visits; kept with the checkpoint"),
    "old_std": ("N", "standard deviation of the reward over them; kept with the checkpoint"),
    "anchor": ("-", "smoothed pass rate of the earlier batches; kept with the checkpoint"),
}
# What comes from a step reward.
FROM_STEPS = {"anchors": ("T", "state that each step started from; from a step reward")}
# What a step reward gives beside them.
STEP_TABLES = {"step_rewards": ("T", "rewards of the steps"), "step_ends": ("T", "tokens up to the end of each step")}
# What only a user can supply, with a function or a dataset column; level and meaning.
FROM_USER = {
    "metric": ("G", "what splits the group in two halves, such as seq_entropy or lengths"),
    "strata": ("G", "number or name of the stratum, such as the number of tool calls"),
    "correct": ("G", "whether the completion is right; by default decided by the reward"),
    "planning_mask": ("T", "1 at planning tokens"),
    "teacher_logp": ("T", "log-probability of each token under the teacher"),
}
LEVELS = {name: level for name, (level, _) in {**SUPPLIED, **FROM_STEPS, **STEP_TABLES, **FROM_USER}.items()}

Kind = Literal["supplied", "function", "column", "steps"]


@dataclass(frozen=True)
class InputSource:
    """
    Where one input comes from.

    Args:
        kind (`str`):
            `"supplied"` by the trainer, `"function"` of the user, `"column"` of the dataset, or `"steps"` for what a
            step reward returns.
        name (`str`):
            Which of the supplied inputs, or which column.
        function (`Callable`, *optional*):
            For kind `"function"`: takes what TRL gives a reward function (`prompts`, `completions`, `completion_ids`
            and the columns of the dataset) and returns a value, or a list of one value for each token, for each
            completion; `None` for a completion that it cannot judge.
    """

    kind: Kind
    name: str
    function: Callable | None = None


def find_sources(
    estimator: Estimator, overrides: dict[str, str], columns: Sequence[str], steps: bool
) -> dict[str, InputSource]:
    """
    Decide where each input of an estimator comes from.

    Args:
        estimator ([`Estimator`]):
            The estimator.
        overrides (`dict[str, str]`):
            `advantage_inputs`: input to the name of a supplied input, or to the import path of a function.
        columns (`Sequence[str]`):
            Columns of the dataset.
        steps (`bool`):
            Whether there is a step reward.

    Raises:
        [`~errors.ConfigError`]: if an input has no source, or an override names nothing.
    """
    known = (*estimator.inputs, *estimator.optional_inputs)
    for name in overrides:
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise ConfigError(f"advantage_inputs: advantage {estimator.name!r} takes no input {name!r}; {takes}")
    sources = {}
    for name in known:
        source = _source(name, overrides, columns, steps)
        if source is not None:
            sources[name] = source
        elif name in estimator.inputs:
            meaning = FROM_USER.get(name, FROM_STEPS.get(name, ("", "")))[1]
            raise ConfigError(
                f"advantage {estimator.name!r} needs {name!r}{f' ({meaning})' if meaning else ''}, which the trainer "
                f"cannot supply. Set advantage_inputs: {{{name}: <import path of a function>}}, or add a column "
                f"{name!r} to the dataset" + ("; or give a step reward" if name in FROM_STEPS else "")
            )
    return sources


def _source(name: str, overrides: dict[str, str], columns: Sequence[str], steps: bool) -> InputSource | None:
    if name in overrides:
        return _override(name, overrides[name])
    if name in columns:
        return InputSource("column", name)
    if name in SUPPLIED:
        return InputSource("supplied", name)
    if name in FROM_STEPS and steps:
        return InputSource("steps", name)
    return None


def _override(name: str, value: str) -> InputSource:
    if value in SUPPLIED:
        return InputSource("supplied", value)
    if "." not in value and ":" not in value:
        nearest = nearest_names(value, list(SUPPLIED))
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"supplied are: {', '.join(SUPPLIED)}"
        raise ConfigError(f"advantage_inputs: {name}={value!r} is neither supplied nor an import path; {hint}")
    function = import_path(value)
    if not callable(function):
        raise ConfigError(f"advantage_inputs: {name}={value!r} is a {type(function).__name__}, not a function")
    return InputSource("function", value, function)
