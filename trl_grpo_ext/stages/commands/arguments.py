"""Command lines of the training commands: TRL's arguments, and mistakes in them reported in one line."""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import yaml
from trl import TrlParser

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names


class TrainingParser(TrlParser):
    """
    [`~trl.TrlParser`] that raises [`~errors.ConfigError`] instead of printing hundreds of arguments.

    Args:
        dataclass_types (`Sequence[type]`):
            The dataclasses whose fields are the arguments.
        prog (`str`):
            The command, as the help shows it.
    """

    def __init__(self, dataclass_types: Sequence[Any], prog: str):
        super().__init__(dataclass_types, prog=prog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise [`~errors.ConfigError`] with the message."""
        raise ConfigError(f"{message}; `{self.prog} --help` shows the arguments")

    def parse(self, argv: Sequence[str] | None) -> tuple[Any, ...]:
        """
        Parse arguments and the file of `--config` into instances of the dataclasses.

        Raises:
            [`~errors.ConfigError`]: if an argument is unknown (the message names the nearest), malformed, or refused.
        """
        try:
            with warnings.catch_warnings():  # transformers warns about defaults of TRL's, which nobody has set
                warnings.simplefilter("ignore", FutureWarning)
                return tuple(self.parse_args_and_config(argv))
        except ConfigError:
            raise
        except IndexError as error:
            raise ConfigError("--config needs the path of a YAML file") from error
        except (ValueError, TypeError, OSError, yaml.YAMLError, argparse.ArgumentTypeError) as error:
            raise ConfigError(f"{self.prog}: {' '.join(str(error).split())}") from error

    # The next two wrap what TRL calls before it builds the dataclasses: a misspelt argument left at its default could
    # otherwise fail there, with a message about another one.
    def parse_known_args(self, args=None, namespace=None):
        """As in [`~trl.TrlParser`], but an unknown argument is an error."""
        parsed, unknown = super().parse_known_args(args, namespace)
        self._refuse(unknown)
        return parsed, unknown

    def set_defaults_with_config(self, **kwargs):
        """As in [`~trl.TrlParser`], but an unknown key is an error."""
        unknown = super().set_defaults_with_config(**kwargs)
        self._refuse(unknown)
        return unknown

    def _refuse(self, unknown: Sequence[str]) -> None:
        if not unknown:
            return
        name = next((string for string in unknown if string.startswith("--")), unknown[0])
        known = [option for action in self._actions for option in action.option_strings]
        nearest = nearest_names(name, known)
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"`{self.prog} --help` shows the arguments"
        raise ConfigError(f"unknown argument {name!r}; {hint}")


def require_model(model: Any) -> None:
    """Raise [`~errors.ConfigError`] if the model arguments (`trl.ModelConfig`) name no model."""
    if model.model_name_or_path is None:
        raise ConfigError("no model given; use --model_name_or_path with a Hub id or a folder")
