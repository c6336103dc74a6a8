"""`trl-grpo-ext validate DATASET`: what the judge makes of every reference, before a GPU hour is spent on them."""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from argparse import Namespace

    from datasets import Dataset
    from rich.console import Console
    from rich.table import Table

    from trl_grpo_ext.verify.validation import Domain, Finding

EXIT_CLEAN = 0
EXIT_WASTEFUL = 1

_PROMPT_COLUMNS = ("prompt", "question", "problem")
_BATCH = 200

_EPILOG = """Every gold is judged against itself, which has to be right, and against golds of
other rows, most of which have to be wrong. A row whose prompt was there before
is compared with the first that has it. Row numbers start at 0, as in dataset[0].

findings:
{findings}

exit codes:
  0    nothing that would waste a run; duplicates may be listed
  1    rows that cannot be judged, are right too easily, or contradict each other
  2    something has to be changed: an argument, a file that cannot be read
  130  interrupted

examples:
  trl-grpo-ext validate train.jsonl
  trl-grpo-ext validate openai/gsm8k --dataset_config main --output findings.parquet
"""


@dataclass
class Summary:
    """
    How many findings there are of each kind, and the first of them.

    Args:
        show (`int`):
            How many findings of each kind to keep.
    """

    show: int
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, "list[Finding]"] = field(default_factory=dict)

    def add(self, findings: "Sequence[Finding]") -> None:
        """Count findings; keep the first ones."""
        for finding in findings:
            self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
            kept = self.first.setdefault(finding.kind, [])
            if len(kept) < self.show:
                kept.append(finding)


@dataclass(frozen=True)
class Columns:
    """
    Which columns of a dataset hold what.

    Args:
        gold (`str`):
            The references.
        solution (`str` or `None`):
            The reference solutions, where references are no answers.
        prompt (`str` or `None`):
            The prompts.
    """

    gold: str
    solution: str | None
    prompt: str | None

    def named(self) -> list[str]:
        """Their names, each once."""
        return list(dict.fromkeys(name for name in (self.gold, self.solution, self.prompt) if name))


def main(command: str, argv: list[str]) -> int:
    """Print what is to be looked at in a dataset; return 0, or 1 if training on it would waste a run."""
    arguments = _arguments(command, argv)

    from rich.console import Console

    from trl_grpo_ext.cli.option_flags import read_options
    from trl_grpo_ext.verify.validation import DOMAINS, KINDS, make_domain

    options: object = read_options(arguments, DOMAINS[arguments.domain].options)
    domain = make_domain(arguments.domain, options, getattr(arguments, "sandbox", None))
    dataset = _load(arguments)
    columns = _columns(dataset, domain, arguments)
    rows = _rows(dataset, arguments)
    summary = Summary(arguments.show)
    with _findings_file(arguments.output) as write, _progress(len(rows)) as advance:
        for done, findings in _check(domain, dataset, rows, columns, arguments):
            summary.add(findings)
            write(findings)
            advance(done)
    console = Console(highlight=False)
    of_all = "" if len(rows) == len(dataset) else f" of {len(dataset)}"
    _show(console, summary, f"{arguments.dataset}: {len(rows)}{of_all} rows")
    if columns.solution is None and domain.solution_columns:
        text = f"no column {_listed(domain.solution_columns)}: no solutions were judged"
        console.print(text, markup=False)
    if columns.prompt is None:
        console.print(f"no column {_listed(_PROMPT_COLUMNS)}: duplicates were not looked for", markup=False)
    return EXIT_WASTEFUL if any(KINDS[kind].wasteful for kind in summary.counts) else EXIT_CLEAN


def _arguments(command: str, argv: list[str]) -> "Namespace":
    from trl_grpo_ext.verify.validation import DEFAULT_DOMAIN, make_domain

    first = Parser(f"trl-grpo-ext {command}", add_help=False)
    first.add_argument("--domain", default=DEFAULT_DOMAIN)
    domain = first.parse_known_args(argv)[0].domain  # it decides what other arguments there are
    make_domain(domain)
    return _parser(command, domain).parse_args(argv)


def _parser(command: str, domain: str) -> Parser:
    from argparse import RawDescriptionHelpFormatter

    from trl_grpo_ext.cli.option_flags import add_option_flags, add_sandbox_flag
    from trl_grpo_ext.verify.validation import DEFAULT_DOMAIN, DOMAINS, KINDS, make_domain

    usual = make_domain(domain)
    parser = Parser(
        f"trl-grpo-ext {command}",
        description="Find the rows of a dataset that would waste a run, before it starts.",
        epilog=_EPILOG.format(findings="\n".join(f"  {name:<18}{kind.meaning}" for name, kind in KINDS.items())),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dataset", metavar="DATASET", help="A .jsonl, .json, .parquet or .csv file, a folder, a Hub id."
    )
    parser.add_argument("--dataset_config", metavar="NAME", help="Configuration of a Hub dataset that has several.")
    parser.add_argument("--split", help="Split to check; `train`, or the only one, by default.")
    parser.add_argument(
        "--domain",
        default=DEFAULT_DOMAIN,
        help=f"What the rows are about, {_listed(list(DOMAINS))}; {DEFAULT_DOMAIN} by default. If the dataset has a "
        "column `domain` in which that name occurs, only those rows are checked.",
    )
    columns = _listed(usual.columns)
    parser.add_argument("--column", help=f"Column of the golds; {columns} by default, as for the reward.")
    if usual.solution_columns:
        parser.add_argument(
            "--solution_column",
            metavar="COLUMN",
            help=f"Column of the reference solutions, if there is one; {_listed(usual.solution_columns)} by default.",
        )
    parser.add_argument(
        "--prompt_column",
        metavar="COLUMN",
        help="Column of the prompts; "
        f"{_listed(_PROMPT_COLUMNS)} by default. Without one, duplicates are not looked for.",
    )
    parser.add_argument("--limit", type=_whole(1), metavar="N", help="Check the first N rows only.")
    parser.add_argument(
        "--other_golds",
        type=_whole(0),
        default=4,
        metavar="N",
        help="Golds of other rows to compare each with; 4 by default.",
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the choice of those; 0 by default.")
    parser.add_argument(
        "--show", type=_whole(0), default=5, metavar="N", help="Findings of each kind to print; 5 by default."
    )
    parser.add_argument("--output", metavar="FILE", help="Parquet file for all findings: row, kind, gold, reason.")
    if DOMAINS[domain].runs_programs:
        add_sandbox_flag(parser)
    add_option_flags(parser, DOMAINS[domain].options, f"conventions of the judge of domain {domain}")
    return parser


def _whole(least: int) -> Callable[[str], int]:
    from argparse import ArgumentTypeError

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return int(text)

    return parse


def _listed(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _load(arguments: "Namespace") -> "Dataset":
    import datasets

    from trl_grpo_ext.stages.commands.datasets import load_named, split

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what it says of a broken file is in the error, too
    loaded = load_named(arguments.dataset, arguments.dataset_config)
    only = next(iter(loaded)) if len(loaded) == 1 else "train"
    return split(loaded, arguments.split or only)


def _column(dataset: "Dataset", chosen: str | None, usual: Sequence[str], what: str) -> str:
    names = [chosen] if chosen else usual
    for name in names:
        if name in dataset.column_names:
            return name
    option = "" if chosen else "; name it with --column"
    raise DataError(
        f"the dataset has no column {_listed(names)} ({what}); its columns are {sorted(dataset.column_names)}{option}"
    )


def _columns(dataset: "Dataset", domain: "Domain", arguments: "Namespace") -> Columns:
    judge = f"what the {arguments.domain} judge compares with"
    solution = getattr(arguments, "solution_column", None)
    return Columns(
        _column(dataset, arguments.column, domain.columns, judge),
        _optional_column(dataset, solution, domain.solution_columns, "the reference solutions"),
        _optional_column(dataset, arguments.prompt_column, _PROMPT_COLUMNS, "the prompts"),
    )


def _optional_column(dataset: "Dataset", chosen: str | None, usual: Sequence[str], what: str) -> str | None:
    if chosen:
        return _column(dataset, chosen, (), what)
    return next((name for name in usual if name in dataset.column_names), None)


def _rows(dataset: "Dataset", arguments: "Namespace") -> Sequence[int]:
    rows: Sequence[int] = range(len(dataset))
    if "domain" in dataset.column_names:
        rows = [row for row, domain in enumerate(dataset["domain"]) if domain == arguments.domain] or rows
    rows = rows[: arguments.limit]
    if not rows:
        raise DataError(f"the dataset {arguments.dataset!r} has no rows")
    return rows


def _check(
    domain: "Domain", dataset: "Dataset", rows: Sequence[int], columns: Columns, arguments: "Namespace"
) -> "Iterator[tuple[int, list[Finding]]]":
    """For one batch after another, how many rows it had and what was found in them."""
    from trl_grpo_ext.verify.validation import Validator, draw_rows

    dataset = dataset.select_columns(columns.named())

    def golds(batch: "dict[str, list]") -> list:
        references = batch[columns.gold]
        solutions = batch[columns.solution] if columns.solution else [None] * len(references)
        return list(map(domain.join, references, solutions))

    drawn = [rows[index] for index in draw_rows(len(rows), arguments.seed)]
    validator = Validator(
        domain,
        dict(zip(drawn, golds(dataset.select(drawn)[:]), strict=True)),
        lambda row: golds(dataset[row : row + 1])[0],
        other_golds=arguments.other_golds,
        seed=arguments.seed,
    )
    remaining = iter(rows)
    while numbers := list(islice(remaining, _BATCH)):
        batch = dataset.select(numbers)[:]
        yield len(numbers), validator.check(numbers, golds(batch), batch[columns.prompt] if columns.prompt else None)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("judging golds", total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def _findings_file(output: str | None) -> "Iterator[Callable[[Sequence[Finding]], None]]":
    """Write findings as they come, to a file that takes its name when it is complete."""
    if output is None:
        yield lambda findings: None
        return

    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    path = Path(output)
    if path.is_dir():
        raise DataError(f"--output {output!r} is a folder; give the name of a .parquet file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    text = pa.string()
    schema = pa.schema([("row", pa.int64()), ("kind", text), ("gold", text), ("reason", text)])
    try:
        with ParquetWriter(temporary, schema) as writer:

            def write(findings: "Sequence[Finding]") -> None:
                if findings:
                    writer.write_table(pa.Table.from_pylist(list(map(asdict, findings)), schema))

            yield write
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _show(console: "Console", summary: Summary, title: str) -> None:
    from rich.text import Text

    from trl_grpo_ext.verify.validation import KINDS

    counted = {kind: summary.counts[kind] for kind in KINDS if kind in summary.counts}
    if not counted:
        console.print(f"{title}, nothing to look at", markup=False, soft_wrap=True)
        return
    for kind, count in counted.items():
        if summary.first[kind]:
            more = f", the first {len(summary.first[kind])}" if count > len(summary.first[kind]) else ""
            console.print(Text(f"{kind}: {KINDS[kind].meaning} ({count}{more})", style="bold"))
            console.print(_findings_table(summary.first[kind]))
    console.print(title, markup=False, soft_wrap=True)
    console.print(_counts_table(counted))


def _empty_table() -> "Table":
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _findings_table(findings: "Sequence[Finding]") -> "Table":
    from rich.text import Text

    table = _empty_table()
    table.add_column("row", justify="right", no_wrap=True)
    table.add_column("gold", max_width=30, no_wrap=True, overflow="ellipsis")
    table.add_column("reason", overflow="fold")
    for finding in findings:
        table.add_row(str(finding.row), Text(finding.gold.replace("\n", " ")), Text(finding.reason))
    return table


def _counts_table(counted: dict[str, int]) -> "Table":
    from trl_grpo_ext.verify.validation import KINDS

    table = _empty_table()
    table.add_column("kind", no_wrap=True)
    table.add_column("findings", justify="right", no_wrap=True)
    table.add_column("wastes a run", no_wrap=True)
    for kind, count in counted.items():
        table.add_row(kind, str(count), "yes" if KINDS[kind].wasteful else "no")
    return table
