"""What the tasks about programs share: reading a dataset, dividing it, and writing its rows."""

import hashlib
import json
import logging
import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_jsonl
from trl_grpo_ext.tasks.task import Task


_logger = logging.getLogger(__name__)

_SUFFIXES = (".jsonl", ".parquet")

# Steps in which `eval_share` is kept.
_SHARES = 1000


class CodeTask(Task):
    """
    Programming problems of a published dataset, judged by their tests. Subclasses name the dataset and its adapter.

    A dataset in two parts is evaluated on its test part; of a dataset in one part, `eval_share` of the problems are
    held out. The others are divided in halves between `"sft"` and `"rl"`, or all go to `"rl"` where the dataset has no
    reference solutions. To which split a problem belongs depends on its statement alone, whatever the sizes and
    seeds, and what also occurs in the held-out part is left out of training, so the three never share a problem.

    Rows have the columns of every task; `domain` is `"code"`, `case` is the JSON text of the case, and `answer` the
    reference solution, or empty text. Demonstrations put the reference solution into a fence between `<answer>` tags.
    The datasets publish no reasoning, so the thought before it is one plain sentence: such demonstrations teach the
    form of an answer, not how to think.

    Rows without a usable case are left out; a warning says how many, and why the first one.

    Args:
        dataset (`str`, *optional*):
            A local folder with `train` and `test` as `.jsonl` or `.parquet`; one local file of either kind; or an id
            on the Hub, which needs a connection when rows are drawn. Defaults to the dataset's id on the Hub.
        revision (`str`, *optional*):
            Revision of the Hub dataset; local files have none.
        eval_share (`float`, *optional*):
            Share of the problems held out for evaluation where the dataset has one part only, 0 to 1. Defaults to 1
            for benchmarks and to 0.1 for the others.

    Raises:
        [`~errors.ConfigError`]: if a parameter is out of range.
        [`~errors.DataError`]: when rows are drawn, if the data is missing, or no row of a split is usable.
    """

    hub_parts: ClassVar[tuple[str, ...]]
    statement_columns: ClassVar[tuple[str, ...]]
    hub_config: str | None = None
    hub_revision: str | None = None
    hub_files: tuple[str, ...] = ()
    eval_share: float = 0.1
    has_solutions: bool = True

    def __init__(self, dataset: str | None = None, revision: str | None = None, eval_share: float | None = None):
        if eval_share is not None:
            if not 0 <= eval_share <= 1:
                raise ConfigError(f"eval_share={eval_share!r} is out of range; use a share from 0 to 1")
            self.eval_share = eval_share
        self.dataset = dataset or self.source
        self.revision = revision

    @staticmethod
    @abstractmethod
    def case(row: Mapping[str, Any]) -> dict[str, Any]:
        """The case of a row, with its `prompt`."""

    @staticmethod
    def solution(row: Mapping[str, Any]) -> str | None:
        """The reference solution of a row in Python 3, where it has one."""
        return None

    def draw(self, split: str, n: int, seed: int) -> list[dict]:
        if split == "sft" and not self.has_solutions:
            raise DataError(
                f"{self.source!r} has no reference solutions, which split 'sft' makes demonstrations of; take "
                "another task for the cold start"
            )
        records, origin, indices = self._split(split)
        random.Random(f"{seed}/{split}").shuffle(indices)
        rows: list[dict] = []
        reasons: list[str] = []
        for index in indices:
            if len(rows) == n:
                break
            try:
                rows.append(self._record(records[index], split))
            except DataError as error:
                reasons.append(f"record {index + 1} of {origin}: {error}")
        if reasons and not rows:
            raise DataError(
                f"none of the {len(reasons)} problems in split {split!r} is usable; the first: {reasons[0]}"
            )
        if reasons:
            _logger.warning("left out %d unusable rows of split %r; the first: %s", len(reasons), split, reasons[0])
        return rows

    def _record(self, record: Mapping[str, Any], split: str) -> dict:
        case = self.case(record)
        prompt = case.pop("prompt")
        program = self.solution(record)
        demonstration = self._demonstration(program, case["entry_point"]) if split == "sft" else None
        row = self._row(prompt, program or "", demonstration)
        return {**row, "domain": "code", "case": json.dumps(case, ensure_ascii=False)}

    def _demonstration(self, program: str | None, name: str | None) -> str:
        if not program:
            raise DataError("the row has no reference solution in Python 3, which a demonstration is made of")
        if "```" in program:
            raise DataError("its reference solution holds ``` itself, so it cannot be put into a fence")
        what = f"the function {name}" if name else "a program that reads the input and prints the output"
        return (
            f"<think>\nThe task asks for {what}. I write it so that it covers every case of the task.\n</think>\n"
            f"<answer>\n```python\n{program}\n```\n</answer>"
        )

    def _split(self, split: str) -> tuple[Sequence[Mapping[str, Any]], str, list[int]]:
        training, held_out = self._parts()
        if held_out is None:
            records, origin = self._read(training)
            problems = self._problems(records, origin)
            evaluated = {key for key in problems if key % _SHARES < self.eval_share * _SHARES}
            if split == "eval":
                return records, origin, [index for key, index in problems.items() if key in evaluated]
        else:
            test, test_origin = self._read(held_out)
            test_problems = self._problems(test, test_origin)
            if split == "eval":
                return test, test_origin, list(test_problems.values())
            evaluated = set(test_problems)
            records, origin = self._read(training)
            problems = self._problems(records, origin)
        indices = [index for key, index in problems.items() if key not in evaluated and self._trains(key, split)]
        if not indices and self.eval_share == 1 and held_out is None:
            raise DataError(
                f"all problems of {self.source!r}, a benchmark, are held out for evaluation; to train on a part of "
                "them, set eval_share to the share to hold out, such as 0.1"
            )
        return records, origin, indices

    def _trains(self, key: int, split: str) -> bool:
        return not self.has_solutions or (key // _SHARES % 2 == 0) == (split == "sft")

    def _problems(self, records: Any, origin: str) -> dict[int, int]:
        """The first row of each problem, by a number made of its statement."""
        problems: dict[int, int] = {}
        for index, statement in enumerate(self._statements(records, origin)):
            key = int(hashlib.sha256(f"{self.source}\n{' '.join(statement.split())}".encode()).hexdigest(), 16)
            problems.setdefault(key, index)
        return problems

    def _statements(self, records: Any, origin: str) -> list[str]:
        # Only these columns: tests may be a thousand times as large.
        names = self.statement_columns
        if not isinstance(records, list):
            names = tuple(name for name in names if name in records.column_names)
            records = records.select_columns(list(names)) if names else [{}]
        statements = [
            next((record[name] for name in names if isinstance(record.get(name), str)), None) for record in records
        ]
        for index, statement in enumerate(statements, start=1):
            if statement is None:
                raise DataError(
                    f"record {index} of {origin} has no text under "
                    f"{' or '.join(map(repr, self.statement_columns))}; expected rows of {self.source!r}"
                )
        return [statement.encode("utf-8", "replace").decode() for statement in statements if statement is not None]

    def _parts(self) -> tuple[str, str | None]:
        """Where the rows for training are, and those held out: files, or names of parts on the Hub."""
        path = Path(self.dataset).expanduser()
        if path.is_dir():
            return _part_file(path, "train"), _part_file(path, "test")
        if path.suffix in _SUFFIXES or self.dataset.startswith((".", "/", "~")):
            return str(path), None
        first, *others = self.hub_parts
        return first, others[0] if others else None

    def _read(self, part: str) -> tuple[Any, str]:
        path = Path(part)
        if path.suffix in _SUFFIXES or part.startswith((".", "/")):
            return _read_file(path, self.source), part
        return self._read_hub(part), f"{self.dataset} ({part})"

    def _read_hub(self, part: str) -> Any:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError

        revision = self.revision or self.hub_revision
        try:
            if self.hub_files:
                at = f"@{revision}" if revision else ""
                files = [f"hf://datasets/{self.dataset}{at}/{name}" for name in self.hub_files]
                return load_dataset("json", data_files=files, split="train")
            return load_dataset(self.dataset, self.hub_config, split=part, revision=revision)
        except (DatasetNotFoundError, OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"cannot load {self.dataset!r} from the Hub ({error}); check the name and the connection, or give a "
                "local .jsonl or .parquet file"
            ) from error


def _part_file(folder: Path, part: str) -> str:
    found = [folder / f"{part}{suffix}" for suffix in _SUFFIXES if (folder / f"{part}{suffix}").is_file()]
    if not found:
        raise DataError(f"{folder} has no {part}.jsonl or {part}.parquet; add it, or point `dataset` at one file")
    return str(found[0])


def _read_file(path: Path, source: str) -> Any:
    if not path.is_file() or path.suffix not in _SUFFIXES:
        raise DataError(
            f"{path} is no .jsonl or .parquet file that exists; point `dataset` at rows of {source!r} in such a file"
        )
    if path.suffix == ".jsonl":
        rows: Any = list(read_jsonl(path))
    else:
        rows = _read_parquet(path)
    if not len(rows):
        raise DataError(f"{path} has no rows")
    return rows


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet
    from datasets import Dataset

    try:
        return Dataset(pyarrow.parquet.read_table(path))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error}); write it again") from error
