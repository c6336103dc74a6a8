"""The options of a judge as arguments of a command: one for each field of the class that holds them."""

import argparse
import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints


Options = TypeVar("Options")


def add_option_flags(parser: argparse.ArgumentParser, options: type, title: str) -> None:
    """Add a flag for each field of a class of options; the help is what its docstring says of it."""
    group = parser.add_argument_group(title)
    meanings = described_arguments(options)
    for name, type_ in get_type_hints(options).items():
        text = meanings[name].replace("`", "").replace("%", "%%")
        group.add_argument(f"--{name}", default=argparse.SUPPRESS, help=text, **_reading(type_))


def add_sandbox_flag(parser: argparse.ArgumentParser) -> None:
    """Add a flag that says where programs run."""
    parser.add_argument(
        "--sandbox",
        type=_sandbox,
        metavar="NAME|JSON",
        help="Where programs run: a name, or name and options; `local` by default.",
    )


def is_json_object(text: str) -> bool:
    """Whether an argument is meant as a JSON object and not as a name."""
    return text.lstrip().startswith("{")


def _sandbox(text: str) -> str | dict[str, Any]:
    if not is_json_object(text):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON ({error})") from error


def read_options(arguments: argparse.Namespace, options: type[Options]) -> Options:
    """
    The options that were given; defaults for the others.

    Raises:
        [`~errors.ConfigError`]: if a value is out of range.
    """
    given = vars(arguments)
    names = [item.name for item in fields(options) if item.name in given]  # type: ignore[arg-type]
    return options(**{name: given[name] for name in names})


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
    return {"type": float, "metavar": "NUMBER"} if float in (type_, *get_args(type_)) else {"metavar": "TEXT"}


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
