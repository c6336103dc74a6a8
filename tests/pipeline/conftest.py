"""Recipes to take apart, and a run that trains nothing."""

import copy
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from trl_grpo_ext.pipeline import load_recipe
from trl_grpo_ext.pipeline.runner import Runner


FAKE_STAGE = Path(__file__).parent / "fake_stage.py"

RECIPE = {
    "version": 1,
    "name": "small",
    "output_dir": "runs/${name}",
    "seed": 7,
    "template": "chatml_think",
    "base": {"from_config": {"hidden_size": 8}},
    "stages": [
        {"id": "data", "kind": "prepare", "task": "arithmetic", "sizes": {"sft": 4, "rl": 4, "eval": 4}},
        {"id": "cold", "kind": "sft", "init_from": "base", "data": "data", "train": {"learning_rate": 1e-3}},
        {
            "id": "rl",
            "kind": "grpo",
            "init_from": "cold",
            "data": "data",
            "rewards": ["math", {"name": "format", "mode": "gate"}],
            "train": {
                "advantage": "rloo",
                "num_generations": 4,
                "per_device_train_batch_size": 4,
                "logging_steps": 1,
                "max_steps": 10,
            },
        },
        {
            "id": "exam",
            "kind": "eval",
            "init_from": "rl",
            "data": "data",
            "rewards": ["math"],
            "evaluation": {"n_samples": 4, "k": [1, 4]},
        },
        {"id": "page", "kind": "report"},
    ],
}


def fake_command(accelerate_config: Path, stage_dir: Path) -> list[str]:
    return [sys.executable, "-S", str(FAKE_STAGE), str(stage_dir)]


class Workshop:
    """A recipe file in a folder of its own, and runs of it with fake stages."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.file = folder / "recipe.yaml"
        self.run_dir = folder / "run"
        self.content = copy.deepcopy(RECIPE)
        self.write()

    def write(self) -> Path:
        self.file.write_text(yaml.safe_dump(self.content, sort_keys=False))
        return self.file

    def load(self):
        return load_recipe(self.write(), output_dir=str(self.run_dir))

    def runner(self, **options) -> Runner:
        self.console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
        defaults = {"build_command": fake_command, "lock_timeout": 1.0, "grace": 2.0}
        return Runner(self.load(), console=self.console, **(defaults | options))

    def run(self, **options) -> str:
        """Run the recipe; returns what the terminal showed."""
        self.runner(**options).run()
        return self.console.export_text()

    def behave(self, stage_id: str, behaviour: str = "finish") -> None:
        (self.folder / f"behaviour-{stage_id}").write_text(behaviour)

    def starts(self) -> list[str]:
        """Ids of the stages that were started, in order."""
        file = self.folder / "starts.txt"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    def pids(self) -> list[int]:
        return [int(line.split()[1]) for line in (self.folder / "starts.txt").read_text().splitlines()]


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    return Workshop(tmp_path)
