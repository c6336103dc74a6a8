"""`trl-grpo-ext verify math`: judge one answer, and show how the verdict came about."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.table import Table

    from trl_grpo_ext.verdict import Verdict
    from trl_grpo_ext.verify.math.decision import Rung

EXIT_CODES = {"infra_error": 1, "unscorable": 2}  # any other verdict is one

_TEXTS = ("--gold", "--answer", "--completion", "--thinking_end")
_EPILOG = r"""exit codes:
  0  judged: right, wrong, or no answer to be found
  1  not judged: the judge itself failed
  2  not judged: nothing can be compared with the gold, or an argument is wrong

examples:
  trl-grpo-ext verify math --gold '\frac{1}{3}' --answer 0.33
  trl-grpo-ext verify math --gold '50\%' --completion 'So it is half. \boxed{0.5}' --explain
"""


def main(command: str, argv: list[str]) -> int:
    """Print the verdict; return 0 if there is one."""
    arguments = _parser(command).parse_args(_joined(argv))

    from rich.console import Console

    from trl_grpo_ext.cli.math_options import read_options
    from trl_grpo_ext.verify.math import explain_math

    completion = arguments.completion if arguments.answer is None else f"\\boxed{{{arguments.answer}}}"
    explanation = explain_math(arguments.gold, completion, options=read_options(arguments), timeout=arguments.timeout)
    console = Console(highlight=False)
    if arguments.explain:
        console.print(_rungs_table(explanation.rungs))
    console.print(_verdict_table(explanation.verdict))
    return EXIT_CODES.get(explanation.verdict.kind, 0)


def _parser(command: str) -> Parser:
    from argparse import RawDescriptionHelpFormatter

    from trl_grpo_ext.cli.math_options import add_option_flags
    from trl_grpo_ext.verify.math.judge import DEFAULT_TIMEOUT

    parser = Parser(
        f"trl-grpo-ext {command}",
        description="Judge one answer, and show how.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("domain", choices=("math",), help="What the answer is about.")
    parser.add_argument("--gold", required=True, metavar="TEXT", help="The reference, as a dataset holds it.")
    judged = parser.add_mutually_exclusive_group(required=True)
    judged.add_argument("--answer", metavar="TEXT", help="The final answer alone; judged as if it stood in a box.")
    judged.add_argument("--completion", metavar="TEXT", help="All that a model wrote.")
    parser.add_argument("--explain", action="store_true", help="Show what each step saw and decided.")
    parser.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"How long the algebra may take; {DEFAULT_TIMEOUT:g} by default.",
    )
    add_option_flags(parser)
    return parser


def _joined(argv: Sequence[str]) -> list[str]:
    r"""Write `--gold -\frac{1}{2}` as `--gold=-\frac{1}{2}`: argparse would take the value for an option."""
    joined: list[str] = []
    for argument in argv:
        if joined and joined[-1] in _TEXTS:
            joined[-1] = f"{joined[-1]}={argument}"
        else:
            joined.append(argument)
    return joined


def _verdict_table(verdict: "Verdict") -> "Table":
    from rich.table import Table
    from rich.text import Text

    value = "not judged" if verdict.value is None else f"{verdict.value:g}"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("verdict", Text(f"{verdict.kind} ({value})", style="bold"))
    table.add_row("answer", Text("none" if verdict.answer is None else verdict.answer, overflow="fold"))
    table.add_row("reason", Text(verdict.reason, overflow="fold"))
    return table


def _rungs_table(rungs: "Sequence[Rung]") -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("step", no_wrap=True)
    table.add_column("saw", overflow="fold")
    table.add_column("decided", overflow="fold")
    shown = None
    for rung in rungs:
        saw = "" if rung.saw == shown else rung.saw  # most rungs look at the same pair
        table.add_row(*map(Text, (rung.name, saw, rung.decided)))
        shown = rung.saw
    return table
