"""A stage directory as the runner leaves it before it starts the stage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trl_grpo_ext.files import write_json, write_jsonl, write_text
from trl_grpo_ext.stages.stage import Stage
from trl_grpo_ext.tasks import build_task, load_template


@pytest.fixture
def make_stage(tmp_path) -> Callable[..., Stage]:
    """Build `<tmp_path>/01-<id>` with its `stage.json`; keyword arguments replace entries of the record."""

    def make(kind: str, config: dict, **record) -> Stage:
        folder = tmp_path / f"01-{kind}"
        write_text(tmp_path / "template.jinja", load_template("arithmetic_think"))
        inputs = {"init_from": None, "revision": None, "data": None, **record.pop("inputs", {})}
        write_json(
            folder / "stage.json",
            {
                "id": f"the_{kind}",
                "kind": kind,
                "config": {"id": f"the_{kind}", "kind": kind, **config},
                "seed": 7,
                "run_dir": str(tmp_path),
                "inputs": {**inputs, "template": str(tmp_path / "template.jinja")},
                "base": {"model": "unused"},
                "control": None,
                **record,
            },
        )
        return Stage.load(folder)

    return make


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory) -> str:
    """What a prepare stage leaves: arithmetic rows in three files."""
    out: Path = tmp_path_factory.mktemp("data")
    task = build_task("arithmetic")
    for split, name in (("sft", "sft.jsonl"), ("rl", "rl_prompts.jsonl"), ("eval", "eval.jsonl")):
        write_jsonl(out / name, task.rows(split, 24, seed=1))
    return str(out)
