"""`trl-grpo-ext sft`, `grpo`, `eval`, `convert-gguf`: a step without a recipe; arguments are those of its command."""

from importlib import import_module


def main(command: str, argv: list[str]) -> int:
    """Hand `argv` to the command in `trl_grpo_ext.stages.commands` and return its exit code."""
    return import_module(f"trl_grpo_ext.stages.commands.{command.replace('-', '_')}").main(argv) or 0
