"""`trl-grpo-ext status DIR`."""

from trl_grpo_ext.stages.commands.parser import Parser


def main(command: str, argv: list[str]) -> int:
    """Print a line for each stage of a run; return 0."""
    parser = Parser(f"trl-grpo-ext {command}", description="Show how far a run is, stage by stage.")
    parser.add_argument("dir", metavar="DIR", help="Directory of the run.")
    arguments = parser.parse_args(argv)

    from pathlib import Path

    from rich.console import Console

    from trl_grpo_ext.pipeline.display import show_status

    show_status(Console(), Path(arguments.dir))
    return 0
