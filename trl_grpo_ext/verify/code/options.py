"""What earns credit, and what counts as the program, where conventions differ."""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verify.reading_options import read_options


@dataclass(frozen=True)
class CodeOptions:
    """
    Conventions of the judge of programs. The defaults are those of published benchmarks.

    Args:
        credit (`str`, *optional*, defaults to `"all"`):
            What a program earns that passes some tests: `"all"`: nothing; `"fraction"`: the share of the tests it
            passes; `"weighted"`: the share of their `weights`, or of the tests where the case has no weights. With
            `"all"` the first failure ends the run.
        fence (`str`, *optional*, defaults to `"required"`):
            Whether a program has to stand in a fenced block. With `"optional"`, a text without any fence that looks
            like code is the program.
        float_tolerance (`float`, *optional*):
            Tolerance of decimal numbers for cases that state none: `|a - b| <= tolerance * max(1, |expected|)`.
            Without one, printed numbers are compared as text, and returned floats up to rounding noise.
        thinking_end (`str`, *optional*):
            What ends the thinking: only text after its last occurrence counts. By default `</think>` and
            `<|end_of_thought|>`.

    Raises:
        [`~errors.ConfigError`]: if a value is none of these.

    Example:
    ```python
    >>> from trl_grpo_ext.verify.code import CodeOptions

    >>> CodeOptions.parse({"credit": "fraction"}).credit
    'fraction'
    ```
    """

    credit: Literal["all", "fraction", "weighted"] = "all"
    fence: Literal["required", "optional"] = "required"
    float_tolerance: float | None = None
    thinking_end: str | None = None

    def __post_init__(self):
        for item in fields(self):
            value = getattr(self, item.name)
            if get_origin(item.type) is Literal and value not in get_args(item.type):
                allowed = ", ".join(map(repr, get_args(item.type)))
                raise ConfigError(f"{item.name} is {value!r}; expected one of {allowed}")
        if self.float_tolerance is not None and not is_tolerance(self.float_tolerance):
            raise ConfigError(f"float_tolerance is {self.float_tolerance!r}; expected a number from 0 to below 1")
        if self.thinking_end is not None and not (isinstance(self.thinking_end, str) and self.thinking_end.strip()):
            raise ConfigError(f"thinking_end is {self.thinking_end!r}; expected a mark such as '</think>'")

    @classmethod
    def parse(cls, options: "CodeOptions | dict[str, Any] | None") -> "CodeOptions":
        """
        Read options from what callers and recipes write.

        Args:
            options ([`CodeOptions`] or `dict`, *optional*):
                Options, a mapping with the names of this class, or nothing for the defaults.

        Returns:
            [`CodeOptions`]

        Raises:
            [`~errors.ConfigError`]: if a name is unknown (the message names the nearest) or a value is out of range.
        """
        return read_options("code", DEFAULT_OPTIONS, options)


def is_tolerance(value: object) -> bool:
    """Whether this is a number that a tolerance can be: from 0 to below 1."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1


DEFAULT_OPTIONS = CodeOptions()
