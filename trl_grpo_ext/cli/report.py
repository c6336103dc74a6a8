"""`trl-grpo-ext report DIR`."""

import json

from trl_grpo_ext.stages.commands.parser import Parser


def main(command: str, argv: list[str]) -> int:
    """Make the page of a run again and print its path, or print its numbers as JSON; return 0."""
    parser = Parser(f"trl-grpo-ext {command}", description="Make the report page of a run again and print its path.")
    parser.add_argument("dir", metavar="DIR", help="Directory of the run.")
    parser.add_argument("--control", metavar="DIR2", help="Directory of the control run to compare with.")
    parser.add_argument("--json", action="store_true", help="Print the numbers as JSON and make no page.")
    arguments = parser.parse_args(argv)

    from trl_grpo_ext.report import build_report, summary

    if arguments.json:
        control = {"control": summary(arguments.control)} if arguments.control else {}
        print(json.dumps(summary(arguments.dir) | control, indent=2))
    else:
        print(build_report(arguments.dir, control_dir=arguments.control))
    return 0
