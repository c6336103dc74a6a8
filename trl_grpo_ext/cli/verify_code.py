"""`trl-grpo-ext verify code`: run one program against the tests of a task."""

from pathlib import Path
from typing import TYPE_CHECKING

from trl_grpo_ext.cli.verify import make_parser, steps_table, verdict_table
from trl_grpo_ext.errors import DataError
from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.table import Table

    from trl_grpo_ext.verdict import Verdict
    from trl_grpo_ext.verify.code import Explanation

_EPILOG = """exit codes:
  0    judged: it passes, it fails, or there is no program to be found
  1    not judged: the sandbox failed
  2    not judged: the tests are unusable, or an argument is wrong
  130  interrupted

examples:
  trl-grpo-ext verify code --case case.json --program solution.py --explain
  trl-grpo-ext verify code --completion "$(cat answer.md)" \\
    --case '{"format": "stdio", "tests": [{"input": "7", "output": "14"}]}'
"""


def judge(command: str, argv: list[str]) -> "Verdict":
    """Print the verdict and return it."""
    arguments = _parser(command).parse_args(argv)

    from rich.console import Console

    from trl_grpo_ext.cli.option_flags import is_json_object, read_options
    from trl_grpo_ext.verify.code import Case, CodeOptions, explain_code, fenced, verify_code

    case = Case.parse(arguments.case if is_json_object(arguments.case) else _read(arguments.case, "--case"))
    if arguments.program is None:
        completion = arguments.completion
    else:
        completion = fenced(_read(arguments.program, "--program"), case.language)
    options = read_options(arguments, CodeOptions)
    console = Console(highlight=False)
    if not arguments.explain:
        verdict = verify_code(completion, case, options=options, sandbox=arguments.sandbox)
    else:
        explanation = explain_code(completion, case, options=options, sandbox=arguments.sandbox)
        console.print(_tests_table(explanation))
        verdict = explanation.verdict
    console.print(verdict_table(verdict))
    return verdict


def _parser(command: str) -> Parser:
    from trl_grpo_ext.cli.option_flags import add_option_flags, add_sandbox_flag
    from trl_grpo_ext.verify.code import CodeOptions

    parser = make_parser(command, _EPILOG)
    parser.add_argument(
        "--case", required=True, metavar="FILE|JSON", help="The tests: a JSON file, or JSON text that begins with {."
    )
    judged = parser.add_mutually_exclusive_group(required=True)
    judged.add_argument("--completion", metavar="TEXT", help="All that a model wrote.")
    judged.add_argument("--program", metavar="FILE", help="A program alone; judged as if it stood in a fence.")
    add_sandbox_flag(parser)
    add_option_flags(parser, CodeOptions, "conventions of the judge of programs")
    return parser


def _read(path: str, argument: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{argument} {path!r} cannot be read ({error}); give a text file") from error


def _tests_table(explanation: "Explanation") -> "Table":
    from itertools import zip_longest

    from rich.text import Text

    table = steps_table("test", "what is asked", "what came of it")
    for number, (asked, outcome) in enumerate(zip_longest(explanation.tests, explanation.outcomes), 1):
        if outcome is None:
            told = "not run: the program was ended before"
        elif outcome.score == 1.0:
            told = "passed"
        else:
            told = f"{outcome.kind}: {outcome.reason.removeprefix(f'{asked}: ')}"
        table.add_row(*map(Text, (str(number), asked, told)))
    return table
