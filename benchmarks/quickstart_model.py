"""The quickstart's model after its cold start, and trainers of its RL stage, for the other benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import yaml
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer, get_reward
from trl_grpo_ext.shipped import recipe_path


def prepare(folder: Path) -> None:
    """Run the recipe's stages up to the cold start in `folder`, unless they are there."""
    if (folder / "02-cold_sft" / "out" / "model.safetensors").exists():
        return
    recipe = yaml.safe_load(recipe_path("quickstart").read_text(encoding="utf-8"))
    recipe["stages"] = [stage for stage in recipe["stages"] if stage["id"] in ("data", "cold_sft")]
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f"{folder.name}.yaml")
    path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "trl_grpo_ext", "run", str(path), "--output_dir", str(folder)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def build(folder: Path, output_dir: Path, ours: bool = True, **overrides):
    """A trainer of the recipe's RL stage: ours, or TRL's with the same arguments and a plain sum of the rewards."""
    recipe = yaml.safe_load(recipe_path("quickstart").read_text(encoding="utf-8"))
    stage = next(stage for stage in recipe["stages"] if stage["id"] == "reason_rl")
    lines = (folder / "01-data" / "out" / "rl_prompts.jsonl").read_text(encoding="utf-8").splitlines()
    config_class, trainer_class = (GroupRelativeConfig, GroupRelativeTrainer) if ours else (GRPOConfig, GRPOTrainer)
    own = {"output_dir": str(output_dir), "report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True}
    arguments = config_class(**{**stage["train"], **own, "save_strategy": "no", **overrides})
    return trainer_class(
        model=str(folder / "02-cold_sft" / "out"),
        reward_funcs=stage["rewards"] if ours else [get_reward("math"), get_reward("format")],
        args=arguments,
        train_dataset=Dataset.from_list([json.loads(line) for line in lines]),
    )
