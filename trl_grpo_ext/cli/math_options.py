"""The options of the maths judge as arguments of a command: one for each field of `MathOptions`."""

import argparse
import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints


if TYPE_CHECKING:
    from trl_grpo_ext.verify.math.options import MathOptions


def add_option_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each option; the help is what the docstring says of it."""
    from trl_grpo_ext.verify.math.options import MathOptions

    group = parser.add_argument_group("conventions of the maths judge")
    meanings = described_arguments(MathOptions)
    for name, type_ in get_type_hints(MathOptions).items():
        text = meanings[name].replace("`", "").replace("%", "%%")
        group.add_argument(f"--{name}", default=argparse.SUPPRESS, help=text, **_reading(type_))


def read_options(arguments: argparse.Namespace) -> "MathOptions":
    """
    The options that were given; defaults for the others.

    Raises:
        [`~errors.ConfigError`]: if a value is out of range.
    """
    from trl_grpo_ext.verify.math.options import MathOptions

    given = vars(arguments)
    return MathOptions.parse({item.name: given[item.name] for item in fields(MathOptions) if item.name in given})


def described_arguments(documented: type) -> dict[str, str]:
    """What the docstring of a class says of each of its arguments, in one line each."""
    section = (inspect.getdoc(documented) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+) \(.*?\):\n((?:        .*\n?)+)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _reading(type_: Any) -> dict[str, Any]:
    """How `add_argument` reads a value of a field."""
    if type_ is bool:
        return {"nargs": "?", "const": True, "type": _truth, "metavar": "BOOL"}
    if get_origin(type_) is Literal:
        return {"choices": get_args(type_)}
    if get_origin(type_) is Sequence:
        return {"type": _names, "metavar": "NAME,…"}
    return {"type": float, "metavar": "NUMBER"} if type_ is float else {"metavar": "TEXT"}


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
