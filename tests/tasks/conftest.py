from pathlib import Path

import pytest

from trl_grpo_ext.files import read_jsonl, write_jsonl


SAMPLE = Path(__file__).parents[1] / "cases" / "gsm8k_sample.jsonl"


@pytest.fixture
def gsm8k_folder(tmp_path):
    """A folder laid out as GSM8K was published, with a sample of its rows."""
    folder = tmp_path / "gsm8k"
    records = list(read_jsonl(SAMPLE))
    for part in ("train", "test"):
        rows = [{key: row[key] for key in ("question", "answer")} for row in records if row["part"] == part]
        write_jsonl(folder / f"{part}.jsonl", rows)
    return folder
