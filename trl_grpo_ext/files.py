"""Small files written so that a kill at any moment leaves either the old content or the new one."""

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import DataError


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` atomically: a temporary file in the same folder, fsync, rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` to `path` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_jsonl(path: str | Path, rows: Iterable[dict]) -> None:
    """Write one JSON object per line to `path`, atomically."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_jsonl(path: str | Path) -> Iterator[dict]:
    """
    Yield the objects of a JSON-lines file, skipping empty lines.

    Raises:
        [`~errors.DataError`]: if there is no such file, or a line is no JSON object; the message names it.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _parse_object(line, f"{path}, line {number}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def is_text(value: str) -> bool:
    """Whether a string can be written as UTF-8; half a surrogate pair, which JSON allows, cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parse_object(line: bytes, where: str) -> dict:
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # the first includes undecodable text
        raise DataError(f"{where} is not JSON in UTF-8: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{where} holds a {type(value).__name__}; expected an object with named columns")
    return value
