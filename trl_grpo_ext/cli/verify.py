"""`trl-grpo-ext verify DOMAIN`: judge one completion, and show how the verdict came about."""

from importlib import import_module
from typing import TYPE_CHECKING

from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.table import Table

    from trl_grpo_ext.verdict import Verdict

EXIT_CODES = {"infra_error": 1, "unscorable": 2}  # any other verdict is one
DOMAINS = ("math", "code")


def main(command: str, argv: list[str]) -> int:
    """Print the verdict; return 0 if there is one."""
    domain = argv[0] if argv and argv[0] in DOMAINS else DOMAINS[0]
    verdict: Verdict = import_module(f"trl_grpo_ext.cli.verify_{domain}").judge(command, argv)
    return EXIT_CODES.get(verdict.kind, 0)


def make_parser(command: str, epilog: str) -> Parser:
    """A parser with what the domains have in common."""
    from argparse import RawDescriptionHelpFormatter

    parser = Parser(
        f"trl-grpo-ext {command}",
        description="Judge one completion, and show how.",
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("domain", choices=DOMAINS, help="What it is about; each has arguments of its own.")
    parser.add_argument("--explain", action="store_true", help="Show what each step or test saw and decided.")
    return parser


def verdict_table(verdict: "Verdict") -> "Table":
    """The verdict as three lines."""
    from rich.table import Table
    from rich.text import Text

    value = "not judged" if verdict.value is None else f"{verdict.value:g}"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("verdict", Text(f"{verdict.kind} ({value})", style="bold"))
    table.add_row("answer", Text("none" if verdict.answer is None else verdict.answer.rstrip(), overflow="fold"))
    table.add_row("reason", Text(verdict.reason, overflow="fold"))
    return table


def steps_table(*columns: str) -> "Table":
    """An empty table for what `--explain` shows; all columns but the first are folded."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    return table
