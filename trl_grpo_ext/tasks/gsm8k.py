"""GSM8K: grade-school word problems with worked solutions (huggingface.co/papers/2110.14168)."""

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.files import is_text, read_jsonl
from trl_grpo_ext.tasks.task import Task


_CALCULATOR = re.compile(r"<<[^<>]*>>")
_FINAL = re.compile(r"^####[ \t]*(\S.*?)\s*\Z", re.MULTILINE)


class GSM8K(Task):
    """
    Word problems whose worked solutions end in a line `#### <number>`.

    The evaluation split is the test part. The train part is divided in halves between `"sft"` and `"rl"` by the id of
    the question, and what also occurs in the test part is left out, so the three never share a question, whatever the
    sizes and seeds. Demonstrations put the worked solution, without its calculator annotations (`<<48/2=24>>`),
    between `<think>` tags and the number between `<answer>` tags.

    Args:
        dataset (`str`, *optional*, defaults to `"openai/gsm8k"`):
            A local folder with `train.jsonl` and `test.jsonl` as first published; one local `.jsonl` file of that
            form, of which a tenth is held out for evaluation; or a dataset id on the Hub, which needs a connection
            when rows are drawn.
        revision (`str`, *optional*):
            Revision of the Hub dataset; local files have none.

    Raises:
        [`~errors.DataError`]: when rows are drawn, if the data is missing, or a record lacks its question or its
            final answer.
    """

    source = "openai/gsm8k"
    license = "MIT"

    def __init__(self, dataset: str = "openai/gsm8k", revision: str | None = None):
        self.dataset = dataset
        self.revision = revision

    def draw(self, split: str, n: int, seed: int) -> list[dict]:
        rows = list(self._split(split).values())
        random.Random(f"{seed}/{split}").shuffle(rows)
        return rows[:n]

    def _split(self, split: str) -> dict[str, dict]:
        if self.dataset.endswith(".jsonl"):
            rows = self._read("train", split)
            held_out = {row_id for row_id in rows if _tenth(row_id) == 0}
        else:
            held_out = set(test := self._read("test", split))
            rows = test if split == "eval" else self._read("train", split)
        if split == "eval":
            return {row_id: rows[row_id] for row_id in rows if row_id in held_out}
        half = range(0, 5) if split == "sft" else range(5, 10)
        return {row_id: rows[row_id] for row_id in rows if row_id not in held_out and _tenth(row_id) in half}

    def _read(self, part: str, split: str) -> dict[str, dict]:
        records, origin = self._records(part)
        rows = [self._parse(record, f"record {i} of {origin}", split) for i, record in enumerate(records, start=1)]
        return {row["id"]: row for row in rows}

    def _records(self, part: str) -> tuple[Iterable[dict], str]:
        path = Path(self.dataset)
        if path.is_dir():
            path = path / f"{part}.jsonl"
        if path.suffix == ".jsonl" or self.dataset.startswith((".", "/", "~")):
            return _read_file(path), str(path)
        return _read_hub(self.dataset, part, self.revision), f"{self.dataset} ({part})"

    def _parse(self, record: dict, where: str, split: str) -> dict:
        missing = [column for column in ("question", "answer") if not _is_text(record.get(column))]
        if missing:
            raise DataError(
                f"{where} has no text under {' and '.join(map(repr, missing))}, only {sorted(record)}; "
                "expected GSM8K's columns 'question' and 'answer'"
            )
        final = _FINAL.search(record["answer"])
        if final is None:
            raise DataError(
                f"{where} has no final answer: {record['answer'][-60:]!r} does not end in a line '#### <number>'"
            )
        answer = final[1].replace(",", "")
        thought = _CALCULATOR.sub("", record["answer"][: final.start()]).strip()
        demonstration = f"<think>{thought}</think>\n<answer>{answer}</answer>" if split == "sft" else None
        return self._row(record["question"].strip(), answer, demonstration)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_text(value)


def _tenth(row_id: str) -> int:
    return int(row_id, 16) % 10


def _read_file(path: Path) -> list[dict]:
    if not path.is_file():
        raise DataError(f"{path} does not exist; point `dataset` at GSM8K's train.jsonl and test.jsonl")
    rows = list(read_jsonl(path))
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


def _read_hub(dataset: str, part: str, revision: str | None) -> Iterable[dict]:
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError

    try:
        return load_dataset(dataset, "main", split=part, revision=revision)
    except (DatasetNotFoundError, OSError, ValueError) as error:
        raise DataError(
            f"cannot load {dataset!r} from the Hub ({error}); check the name and the connection, or give a local "
            "folder with train.jsonl and test.jsonl"
        ) from error
