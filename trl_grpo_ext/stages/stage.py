"""One stage as its own process sees it: what to do (`stage.json`), where to write, and which rank this is."""

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import is_text, read_json, read_jsonl, write_json
from trl_grpo_ext.stages.processes import process_state


@dataclass(frozen=True)
class Stage:
    """
    A stage directory and the `stage.json` in it.

    Args:
        dir (`Path`):
            The stage directory.
        record (`dict`):
            Content of `stage.json`: `id`, `kind`, `config`, `seed`, `inputs`, `base`, `control`.
    """

    dir: Path
    record: dict[str, Any]

    @classmethod
    def load(cls, stage_dir: str | Path) -> "Stage":
        """
        Read a stage directory.

        Raises:
            [`~errors.ConfigError`]: if there is no `stage.json` in it.
        """
        path = Path(stage_dir).absolute() / "stage.json"
        if not path.is_file():
            raise ConfigError(
                f"no stage.json in {path.parent}; `trl-grpo-ext run RECIPE` writes it and starts the stage"
            )
        return cls(path.parent, read_json(path))

    @property
    def kind(self) -> str:
        return self.record["kind"]

    @property
    def config(self) -> dict[str, Any]:
        return self.record["config"]

    @property
    def seed(self) -> int:
        return self.record["seed"]

    @property
    def out(self) -> Path:
        return self.dir / "out"

    @property
    def checkpoints(self) -> Path:
        return self.dir / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.dir / "logs"

    @property
    def rank(self) -> int:
        return int(os.environ.get("RANK", "0"))

    @property
    def world_size(self) -> int:
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def template(self) -> str:
        return Path(self.record["inputs"]["template"]).read_text(encoding="utf-8")

    @property
    def model(self) -> str:
        """Folder or Hub id of the model this stage starts from."""
        model = self.record["inputs"]["init_from"]
        if model is None:
            raise ConfigError(f"stage {self.record['id']!r} needs `init_from`: an earlier stage, or `base`")
        return model

    @cached_property
    def model_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of `from_pretrained` that pin the model this stage starts from."""
        revision = self.record["inputs"].get("revision")
        return {"revision": revision} if revision else {}

    def rows(self, file_name: str) -> list[dict]:
        """
        Rows of a file of the stage named by `data`.

        Raises:
            [`~errors.DataError`]: if the file is missing or has no rows.
        """
        folder = self.record["inputs"]["data"]
        if folder is None:
            raise ConfigError(f"stage {self.record['id']!r} needs `data`: an earlier stage of kind prepare")
        path = Path(folder) / file_name
        rows = list(read_jsonl(path)) if path.is_file() else []
        if not rows:
            raise DataError(
                f"stage {self.record['id']!r} reads {path}, which has no rows; check `sizes` of that stage"
            )
        return rows

    def progress(self, step: int, total: int, text: str = "") -> None:
        """Tell the runner's progress bar how far this stage is (rank 0 only)."""
        if self.rank == 0:
            write_json(self.dir / "progress.json", {"step": step, "total": total, "text": text})

    def fresh_out(self) -> Path:
        """Empty `out/` (a killed attempt may have left half of it) and return it."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        return self.out

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.world_size > 1:
            process_state().wait_for_everyone()


def require_prompts(rows: list[dict], what: str) -> None:
    """
    Check that every prompt is a text, or messages of which one at least says something.

    Raises:
        [`~errors.DataError`]: naming the first that is not.
    """
    for number, row in enumerate(rows, start=1):
        prompt = row["prompt"]
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        sound = all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages)
        if not sound or not any(_says_something(message.get("content")) for message in messages):
            raise DataError(
                f"{what}: the prompt of row {number} is {str(prompt)[:60]!r}; expected a text, or a list of messages "
                "with 'role' and 'content'"
            )


def _says_something(content: Any) -> bool:
    """Whether the content of a message is a text with anything in it, or a list of parts (text, images)."""
    if isinstance(content, str):
        return bool(content.strip()) and is_text(content)
    return isinstance(content, list) and bool(content)


def require_columns(rows: list[dict], columns: list[str], what: str) -> None:
    """
    Check that every row has every column.

    Raises:
        [`~errors.DataError`]: if a row lacks a column or has nothing in it; the message counts them.
    """
    for column in columns:
        lacking = [row for row in rows if row.get(column) in (None, "", [])]
        if lacking:
            raise DataError(
                f"{what}: {len(lacking)} of {len(rows)} rows have no {column!r}; the first of them has the columns "
                f"{sorted(lacking[0])}"
            )
