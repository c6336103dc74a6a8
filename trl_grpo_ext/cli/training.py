"""`trl-grpo-ext sft`, `grpo` and `eval`: a stage without a recipe. Its arguments are those of the stage's command."""

from importlib import import_module


def main(command: str, argv: list[str]) -> int:
    """Hand `argv` to the command in `trl_grpo_ext.stages.commands` and return its exit code."""
    return import_module(f"trl_grpo_ext.stages.commands.{command}").main(argv) or 0
