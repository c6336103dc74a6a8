"""What counts as the same answer, where conventions differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.verify.reading_options import read_options


@dataclass(frozen=True)
class MathOptions:
    """
    Conventions of the maths judge. The defaults are those of published benchmarks; every other value makes some
    answers right, or wrong, that are not so by default.

    Args:
        tolerance (`float`, *optional*, defaults to `0.0`):
            Relative difference between two numbers that is forgiven. With 0.0 numbers are compared exactly; a decimal
            of twelve digits or more is still the exact value it prints (float noise).
        percent (`str`, *optional*, defaults to `"optional"`):
            What 50% equals: `"optional"`: 50%, 0.5 and a bare 50; `"value"`: 50% and 0.5; `"sign"`: only what has the
            sign, too.
        units (`str`, *optional*, defaults to `"optional"`):
            `"optional"`: a unit or currency may be left out or added, a different one is wrong; `"required"`: the
            unit of the reference has to be there; `"ignored"`: any unit will do.
        ordered_lists (`bool`, *optional*, defaults to `False`):
            Whether the members of a bare list or a set have to come in the order of the reference.
        ordered_tuples (`bool`, *optional*, defaults to `True`):
            Whether the members of a tuple have to come in the order of the reference.
        strict_parts (`bool`, *optional*, defaults to `True`):
            Whether an answer has to give all members of a list. If not, some are enough, as long as none is wrong.
        fallback (`str`, *optional*, defaults to `"last_expression"`):
            What counts in a completion without box, answer tag or announced answer: `"last_expression"`: the formula
            or number it ends with; `"none"`: nothing.
        answer_tags (`tuple[str]`, *optional*, defaults to `("answer",)`):
            Names of the tags that hold the final answer, as in `<answer>…</answer>`; without any, tags are text.
        choice_text (`bool`, *optional*, defaults to `True`):
            Whether the text of an option may follow the letter, as in "(B) 5".
        thinking_end (`str`, *optional*):
            What ends the thinking: only text after its last occurrence counts. By default `</think>` and
            `<|end_of_thought|>`.
        decimal_comma (`bool`, *optional*, defaults to `False`):
            Whether a comma between digits is a decimal sign and a full stop separates thousands, as in `1.234,5`. A
            list of such numbers is separated by semicolons.

    Raises:
        [`~errors.ConfigError`]: if a value is none of these.

    Example:
    ```python
    >>> from trl_grpo_ext.verify.math import MathOptions, verify_math

    >>> verify_math("50\\\\%", "\\\\boxed{50}", options=MathOptions(percent="value")).value
    0.0
    ```
    """

    tolerance: float = 0.0
    percent: Literal["optional", "value", "sign"] = "optional"
    units: Literal["optional", "required", "ignored"] = "optional"
    ordered_lists: bool = False
    ordered_tuples: bool = True
    strict_parts: bool = True
    fallback: Literal["last_expression", "none"] = "last_expression"
    answer_tags: Sequence[str] = ("answer",)
    choice_text: bool = True
    thinking_end: str | None = None
    decimal_comma: bool = False

    def __post_init__(self):
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type is bool and not isinstance(value, bool):
                raise ConfigError(f"{item.name} is {value!r}; expected true or false")
            if get_origin(item.type) is Literal and value not in get_args(item.type):
                raise ConfigError(f"{item.name} is {value!r}; expected {_listed(get_args(item.type))}")
        number = isinstance(self.tolerance, (int, float)) and not isinstance(self.tolerance, bool)
        if not number or not math.isfinite(self.tolerance) or not 0 <= self.tolerance < 1:
            raise ConfigError(f"tolerance is {self.tolerance!r}; expected a relative difference from 0 to below 1")
        if isinstance(self.answer_tags, list):
            object.__setattr__(self, "answer_tags", tuple(self.answer_tags))
        tags = self.answer_tags
        if not isinstance(tags, tuple) or not all(isinstance(tag, str) and tag.isidentifier() for tag in tags):
            raise ConfigError(f"answer_tags is {tags!r}; expected a list of names of tags, such as ['answer']")
        if self.thinking_end is not None and not (isinstance(self.thinking_end, str) and self.thinking_end.strip()):
            raise ConfigError(f"thinking_end is {self.thinking_end!r}; expected a mark such as '</think>'")

    @classmethod
    def parse(cls, options: "MathOptions | dict[str, Any] | None") -> "MathOptions":
        """
        Read options from what callers and recipes write.

        Args:
            options ([`MathOptions`] or `dict`, *optional*):
                Options, a mapping with the names of this class, or nothing for the defaults.

        Returns:
            [`MathOptions`]

        Raises:
            [`~errors.ConfigError`]: if a name is unknown (the message names the nearest) or a value is out of range.
        """
        return read_options("maths", DEFAULT_OPTIONS, options)


DEFAULT_OPTIONS = MathOptions()


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
