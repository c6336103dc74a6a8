"""
The keys that `train:` takes: the fields of TRL's own configs.

They are read from the installed sources with `ast`: importing TRL imports torch, which the pipeline never does.
"""

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from trl_grpo_ext.errors import UpstreamError


TrainKind = Literal["sft", "grpo"]

_TRAINING_ARGUMENTS = ("transformers", "training_args.py", "TrainingArguments")
_BASE_CONFIG = ("trl", "trainer/base_config.py", "_BaseConfig")
_SOURCES: dict[TrainKind, list[tuple[str, str, str]]] = {  # parents first: a child overrides the defaults
    "sft": [_TRAINING_ARGUMENTS, _BASE_CONFIG, ("trl", "trainer/sft_config.py", "SFTConfig")],
    "grpo": [
        _TRAINING_ARGUMENTS,
        _BASE_CONFIG,
        ("trl", "trainer/grpo_config.py", "GRPOConfig"),
        ("trl_grpo_ext", "trainer/config.py", "GroupRelativeConfig"),
    ],
}

_EVAL_STAGE = "evaluation is a stage of its own (kind: eval)"
_ACCELERATE = "it belongs in the accelerate config that the stage names"
_STAGE_KIND = "the kind of the stage says it"

OWNED_BY_PIPELINE = {
    "output_dir": "each stage writes into its own folder of the run",
    "seed": "set `seed` of the recipe, or --seed",
    "resume_from_checkpoint": "a stage resumes from its last complete checkpoint by itself",
    "do_train": _STAGE_KIND,
    "do_eval": _STAGE_KIND,
    "do_predict": _STAGE_KIND,
    "eval_strategy": _EVAL_STAGE,
    "eval_on_start": _EVAL_STAGE,
    "load_best_model_at_end": _EVAL_STAGE,
    "reward_weights": "give each entry of `rewards` its `weight`",
    "shuffle_rewards": "run the recipe with --control shuffled-rewards",
    "chat_template_path": "set `template` of the recipe",
    "push_to_hub": "no stage pushes; push the out/ folder of the finished stage",
    "save_only_model": "a checkpoint without the optimizer cannot be resumed",
    "auto_find_batch_size": "a batch that shrinks no longer holds whole groups, and no longer is what the recipe says",
    "local_rank": "accelerate sets it",
    "deepspeed": _ACCELERATE,
    "fsdp": _ACCELERATE,
    "fsdp_config": _ACCELERATE,
}


@dataclass(frozen=True)
class TrainField:
    """A key of `train:` with the source text of its annotation and its default (`None` where that is no literal)."""

    annotation: str
    default: Any


@cache
def train_fields(kind: TrainKind) -> dict[str, TrainField]:
    """
    The fields of the config that a stage of `kind` trains with.

    Raises:
        [`~errors.UpstreamError`]: if the installed TRL or transformers keeps its config elsewhere.
    """
    fields: dict[str, TrainField] = {}
    for source in _SOURCES[kind]:
        fields.update(_dataclass_fields(*source))
    if kind == "grpo":  # annotated as str; TRL still takes the older True and False
        fields["scale_rewards"] = TrainField("str | bool", fields["scale_rewards"].default)
        # Annotated for the command line, which yields text; a recipe may hold mappings.
        fields["reward_shaping"] = TrainField("list[str | dict] | None", None)
    return fields


def _dataclass_fields(package: str, file: str, class_name: str) -> dict[str, TrainField]:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    path = next((path for folder in folders if (path := Path(folder) / file).is_file()), None)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return {
                item.target.id: TrainField(ast.unparse(item.annotation), _default(item.value))
                for item in node.body
                if isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and not item.target.id.startswith("_")
            }
    raise UpstreamError(
        f"{package} keeps no class {class_name} in {package}/{file}, from which the keys of `train:` are read; "
        "tested with trl 1.16 and transformers 5.24"
    )


def _default(value: ast.expr | None) -> Any:
    if isinstance(value, ast.Call):  # field(default=…)
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    try:
        return ast.literal_eval(value) if value is not None else None
    except ValueError:
        return None
