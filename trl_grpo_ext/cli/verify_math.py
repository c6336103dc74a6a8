"""`trl-grpo-ext verify math`: judge one answer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trl_grpo_ext.cli.verify import make_parser, steps_table, verdict_table
from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.table import Table

    from trl_grpo_ext.verdict import Verdict
    from trl_grpo_ext.verify.math.decision import Rung

_TEXTS = ("--gold", "--answer", "--completion", "--thinking_end")
_EPILOG = r"""exit codes:
  0  judged: right, wrong, or no answer to be found
  1  not judged: the judge itself failed
  2  not judged: nothing can be compared with the gold, or an argument is wrong

examples:
  trl-grpo-ext verify math --gold '\frac{1}{3}' --answer 0.33
  trl-grpo-ext verify math --gold '50\%' --completion 'So it is half. \boxed{0.5}' --explain
  trl-grpo-ext verify code --help
"""


def judge(command: str, argv: list[str]) -> "Verdict":
    """Print the verdict and return it."""
    arguments = _parser(command).parse_args(_joined(argv))

    from rich.console import Console

    from trl_grpo_ext.cli.option_flags import read_options
    from trl_grpo_ext.verify.math import MathOptions, explain_math

    completion = arguments.completion if arguments.answer is None else f"\\boxed{{{arguments.answer}}}"
    options = read_options(arguments, MathOptions)
    explanation = explain_math(arguments.gold, completion, options=options, timeout=arguments.timeout)
    console = Console(highlight=False)
    if arguments.explain:
        console.print(_rungs_table(explanation.rungs))
    console.print(verdict_table(explanation.verdict))
    return explanation.verdict


def _parser(command: str) -> Parser:
    from trl_grpo_ext.cli.option_flags import add_option_flags
    from trl_grpo_ext.verify.math import MathOptions
    from trl_grpo_ext.verify.math.judge import DEFAULT_TIMEOUT

    parser = make_parser(command, _EPILOG)
    parser.add_argument("--gold", required=True, metavar="TEXT", help="The reference, as a dataset holds it.")
    judged = parser.add_mutually_exclusive_group(required=True)
    judged.add_argument("--answer", metavar="TEXT", help="The final answer alone; judged as if it stood in a box.")
    judged.add_argument("--completion", metavar="TEXT", help="All that a model wrote.")
    parser.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"How long the algebra may take; {DEFAULT_TIMEOUT:g} by default.",
    )
    add_option_flags(parser, MathOptions, "conventions of the maths judge")
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


def _rungs_table(rungs: "Sequence[Rung]") -> "Table":
    from rich.text import Text

    table = steps_table("step", "saw", "decided")
    shown = None
    for rung in rungs:
        saw = "" if rung.saw == shown else rung.saw  # most rungs look at the same pair
        table.add_row(*map(Text, (rung.name, saw, rung.decided)))
        shown = rung.saw
    return table
