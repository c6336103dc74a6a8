"""The options of a judge, read from what callers and recipes write."""

from dataclasses import fields
from typing import Any, TypeVar

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names


Options = TypeVar("Options")


def read_options(kind: str, default: Options, options: Any) -> Options:
    """
    Return options from a mapping of them.

    Args:
        kind (`str`):
            What a message calls them, such as `"code"`.
        default (`Options`):
            What nothing stands for: an instance of the class of the options, a dataclass.
        options (`Options` or `dict`, *optional*):
            Options, a mapping with the names of their class, or nothing for the defaults.

    Returns:
        `Options`

    Raises:
        [`~errors.ConfigError`]: if a name is unknown (the message names the nearest) or a value is out of range.
    """
    cls = type(default)
    if options is None:
        return default
    if isinstance(options, cls):
        return options
    if not isinstance(options, dict):
        raise ConfigError(f"options is {options!r}; expected {cls.__name__} or a mapping")
    known = [item.name for item in fields(default)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            nearest = nearest_names(str(name), known)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
            raise ConfigError(f"there is no {kind} option {name!r}; {hint}")
    return cls(**options)
