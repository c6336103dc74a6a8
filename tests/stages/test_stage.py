import os

import psutil
import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_json
from trl_grpo_ext.stages.driver_watch import is_running
from trl_grpo_ext.stages.stage import Stage, require_columns


def test_a_folder_without_stage_json_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no stage\.json"):
        Stage.load(tmp_path)


def test_missing_inputs_are_named(make_stage):
    stage = make_stage("sft", {})
    with pytest.raises(ConfigError, match=r"'the_sft' needs `init_from`"):
        _ = stage.model
    with pytest.raises(ConfigError, match=r"'the_sft' needs `data`"):
        stage.rows("sft.jsonl")


def test_a_split_without_rows_is_refused(make_stage, tmp_path):
    stage = make_stage("sft", {}, inputs={"data": str(tmp_path)})
    with pytest.raises(DataError, match=r"sft\.jsonl, which has no rows; check `sizes`"):
        stage.rows("sft.jsonl")


def test_columns_are_counted():
    rows = [{"prompt": "p", "answer": "1"}, {"prompt": "p", "answer": ""}, {"prompt": "p"}]
    require_columns(rows, ["prompt"], "rows")
    with pytest.raises(DataError, match=r"2 of 3 rows have no 'answer'"):
        require_columns(rows, ["prompt", "answer"], "rows")


def test_an_answer_of_zero_is_an_answer():
    require_columns([{"answer": 0}], ["answer"], "rows")


def test_only_rank_0_writes_progress(make_stage, monkeypatch):
    stage = make_stage("eval", {})
    monkeypatch.setenv("RANK", "1")
    stage.progress(1, 2)
    assert not (stage.dir / "progress.json").exists()
    monkeypatch.setenv("RANK", "0")
    stage.progress(1, 2, "half")
    assert read_json(stage.dir / "progress.json") == {"step": 1, "total": 2, "text": "half"}


def test_out_is_emptied(make_stage):
    stage = make_stage("eval", {})
    stage.fresh_out().joinpath("half.json").touch()
    assert list(stage.fresh_out().iterdir()) == []


def test_the_revision_reaches_from_pretrained(make_stage):
    assert make_stage("eval", {}, inputs={"revision": "abc"}).model_kwargs == {"revision": "abc"}
    assert make_stage("eval", {}).model_kwargs == {}


def test_a_process_is_known_by_its_start():
    created = psutil.Process().create_time()
    assert is_running(os.getpid(), created)
    assert not is_running(os.getpid(), created - 100)  # the number was given to another program since
