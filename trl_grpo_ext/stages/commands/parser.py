"""The argument parser of the commands that take no TRL arguments."""

import argparse
from typing import Any, NoReturn

from trl_grpo_ext.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """
    An `ArgumentParser` that raises [`~errors.ConfigError`] instead of printing its usage.

    Args:
        prog (`str`):
            The command, as the help shows it.
        kwargs:
            As for `ArgumentParser`.
    """

    def __init__(self, prog: str, **kwargs: Any):
        super().__init__(prog=prog, allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Raise [`~errors.ConfigError`] with the message."""
        raise ConfigError(f"{message}; `{self.prog} --help` shows the arguments")
