"""
The command line, `trl-grpo-ext`.

`--help` and `--version` answer at once: a command's module, and what it needs, is imported when the command is called.
"""

import os
import sys
from importlib import import_module

from trl_grpo_ext.errors import ConfigError, ExtError, StageError
from trl_grpo_ext.registry import nearest_names


EXIT_STAGE = 1
EXIT_USER = 2
EXIT_INTERRUPTED = 130

_COMMANDS = {
    "run": "run a recipe, or go on with it",
    "status": "show how far a run is",
    "report": "make the report page of a run again, or print its numbers",
    "list": "list recipes, rewards, advantages, tasks and accelerate configs",
    "advantages": "compare what advantage estimators make of the same rewards",
    "validate": "find the rows of a dataset that would waste a run",
    "verify": "judge one answer or program, and show how",
    "doctor": "look at what is installed, and at how well programs can be isolated",
    "sft": "supervised fine-tuning without a recipe",
    "grpo": "GRPO training without a recipe",
    "eval": "evaluate a model without a recipe",
    "convert-gguf": "make an ordinary model folder of a GGUF file",
}
_MODULES = {"list": "listing", **dict.fromkeys(("sft", "grpo", "eval", "convert-gguf"), "step")}

_HELP = f"""usage: trl-grpo-ext COMMAND ...

Group-relative advantages, verifiable rewards and R1-style pipelines for Hugging Face TRL.

commands:
{chr(10).join(f"  {name:<14}{text}" for name, text in _COMMANDS.items())}

options:
  -h, --help   show this help; `trl-grpo-ext COMMAND --help` shows that of a command
  --version    show the version

exit codes:
  0    all went well
  1    a stage, or the training, failed; `validate` found rows that would waste a run; `doctor` found what is missing
  2    something has to be changed: an argument, the recipe, the data (one line says what)
  130  interrupted; `run` goes on where it stopped when it is called again
"""


def main(argv: list[str] | None = None) -> int:
    """
    Run the command line.

    Args:
        argv (`list[str]`, *optional*):
            Arguments without the program's name; those of the process by default.

    Returns:
        `int`: the exit code, as `--help` explains it.
    """
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # a closed pipe shows here, where it can be caught
        return code
    except ExtError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_STAGE if isinstance(error, StageError) else EXIT_USER
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted. Python flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USER


def _dispatch(argv: list[str]) -> int:
    if not argv:
        raise ConfigError("no command given; `trl-grpo-ext --help` lists them")
    name, arguments = argv[0], argv[1:]
    if name in ("-h", "--help"):
        print(_HELP, end="")
        return 0
    if name == "--version":
        from trl_grpo_ext import __version__  # reads the metadata of the installed package

        print(f"trl-grpo-ext {__version__}")
        return 0
    if name not in _COMMANDS:
        nearest = nearest_names(name, list(_COMMANDS))
        hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"known: {', '.join(_COMMANDS)}"
        raise ConfigError(f"unknown command {name!r}; {hint}")
    module = import_module(f"trl_grpo_ext.cli.{_MODULES.get(name, name)}")
    return module.main(name, arguments)
