"""Where the trainer gets each input of an advantage estimator from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.advantages.inputs import INPUTS
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import import_path, nearest_names


SUPPLIED = [name for name, item in INPUTS.items() if item.origin == "trainer"]
# Both cost rollouts, so a dataset that holds them saves them. Other columns never stand in for what the trainer knows
# better: `lengths` is an ordinary name.
PREFERRED_COLUMNS = ("greedy_reward", "ref_rewards")

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
            Which of the supplied inputs, which function, or which column.
        function (`Callable`, *optional*):
            For kind `"function"`: takes what TRL gives a reward function (`prompts`, `completions`, `completion_ids`
            and the columns of the dataset) and returns a value, or a list of one value for each token, for each
            completion; `None` for a completion that it cannot judge.
    """

    kind: Kind
    name: str
    function: Callable | None = None


def find_sources(
    estimator: Estimator, overrides: dict[str, str], columns: Sequence[str] | None, steps: bool
) -> dict[str, InputSource]:
    """
    Decide where each input of an estimator comes from.

    Args:
        estimator ([`Estimator`]):
            The estimator.
        overrides (`dict[str, str]`):
            `advantage_inputs`: input to the name of a supplied input, or to the import path of a function.
        columns (`Sequence[str]` or `None`):
            Columns that every split of the dataset has; `None` if they are not known, as in a stream.
        steps (`bool`):
            Whether there is a step reward.

    Raises:
        [`~errors.ConfigError`]: if an input has no source, or an override names nothing that fits.
    """
    known = (*estimator.inputs, *estimator.optional_inputs)
    for name in overrides:
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise ConfigError(f"advantage_inputs: advantage {estimator.name!r} takes no input {name!r}; {takes}")
    sources = {}
    for name in known:
        source = _source(name, overrides, columns, steps, optional=name in estimator.optional_inputs)
        if source is not None:
            sources[name] = source
        elif name in estimator.inputs:
            meaning = f" ({INPUTS[name].meaning})" if name in INPUTS else ""
            from_steps = name in INPUTS and INPUTS[name].origin == "step_reward"
            raise ConfigError(
                f"advantage {estimator.name!r} needs {name!r}{meaning}, which the trainer cannot supply. Set "
                f"advantage_inputs: {{{name}: <import path of a function>}}, or add a column {name!r} to every split "
                f"of the dataset" + ("; or give a step reward" if from_steps else "")
            )
    return sources


def _source(
    name: str, overrides: dict[str, str], columns: Sequence[str] | None, steps: bool, optional: bool
) -> InputSource | None:
    if name in overrides:
        return _override(name, overrides[name])
    if name in SUPPLIED and not (name in PREFERRED_COLUMNS and name in (columns or ())):
        return InputSource("supplied", name)
    if optional:
        return None  # a column of that name may be there for another reason
    if columns is not None and name in columns:
        return InputSource("column", name)
    if steps and name in INPUTS and INPUTS[name].origin == "step_reward":
        return InputSource("steps", name)
    return InputSource("column", name) if columns is None else None


def _override(name: str, value: str) -> InputSource:
    if value in SUPPLIED:
        if name in INPUTS and INPUTS[name].level != INPUTS[value].level:
            raise ConfigError(
                f"advantage_inputs: {name}={value!r} has one value for each {INPUTS[value].level}, and {name!r} needs "
                f"one for each {INPUTS[name].level}"
            )
        return InputSource("supplied", value)
    if "." not in value and ":" not in value:
        nearest = nearest_names(value, SUPPLIED)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"supplied are: {', '.join(SUPPLIED)}"
        raise ConfigError(f"advantage_inputs: {name}={value!r} is neither supplied nor an import path; {hint}")
    function = import_path(value)
    if not callable(function):
        raise ConfigError(f"advantage_inputs: {name}={value!r} is a {type(function).__name__}, not a function")
    return InputSource("function", value, function)
