"""What a recipe may say inside a stage: TRL's keys, rewards, and batches that hold whole groups."""

import dataclasses
import math
from typing import Any, TypeVar

from trl_grpo_ext.advantages import list_advantages
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.pipeline.annotations import fits
from trl_grpo_ext.pipeline.launch import world_size
from trl_grpo_ext.pipeline.mistakes import misfit, unknown
from trl_grpo_ext.pipeline.recipe import EvalStage, GrpoStage, PrepareStage, Recipe, SftStage, Stage, resolved
from trl_grpo_ext.pipeline.train_fields import OWNED_BY_PIPELINE, TrainKind, train_fields
from trl_grpo_ext.planner.batch import check_group_batch
from trl_grpo_ext.rewards import RewardSpec, list_rewards
from trl_grpo_ext.tasks import build_task, list_tasks


_COUNTS = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "generation_batch_size",
    "steps_per_generation",
    "num_generations",
    "max_completion_length",
    "max_length",
)
_POSITIVE = ("learning_rate", "temperature", "num_train_epochs")
EVALUATED_REWARDS = ("math", "code", "format")
# The values that TRL's config takes for itself; with others the trainer would refuse, hours later.
_WITHOUT_EFFECT = {"scale_rewards": ("group", True), "multi_objective_aggregation": ("sum_then_normalize",)}

AnyStage = TypeVar("AnyStage", bound=Stage)


def check_stage(stage: AnyStage, where: str) -> AnyStage:
    """
    Check what stands in a stage and return it with its rewards as mappings.

    Args:
        stage (`Stage`):
            The stage.
        where (`str`):
            Its place in the recipe, for messages (`"stages[2]"`).

    Raises:
        [`~errors.ConfigError`]: if a name, a key or a value is wrong.
    """
    if isinstance(stage, PrepareStage):
        _check_registered(stage.task, "task", list_tasks(), f"{where}.task")
        if min(stage.sizes.sft, stage.sizes.rl, stage.sizes.eval) < 0:
            raise ConfigError(f"{where}.sizes: a number of rows is negative: {resolved(stage.sizes)}")
        _check_task(stage, where)
    if isinstance(stage, SftStage | GrpoStage):
        _check_train(stage, where)
    if isinstance(stage, GrpoStage) and not stage.rewards:
        raise ConfigError(f"{where}.rewards: a grpo stage needs at least one reward, such as `rewards: [math]`")
    if isinstance(stage, GrpoStage | EvalStage):
        stage = dataclasses.replace(stage, rewards=_rewards(stage.rewards, f"{where}.rewards"))
    if isinstance(stage, EvalStage):
        _check_eval_rewards(stage, where)
    return stage


def check_launch(recipe: Recipe, stage: Stage, where: str) -> None:
    """
    Check that the stage's accelerate config exists, and that its processes make up whole groups.

    Raises:
        [`~errors.ConfigError`]: if not.
    """
    try:
        world = world_size(recipe.accelerate_config(stage))
    except ConfigError as error:
        raise ConfigError(f"{where}.accelerate: {error}") from error
    if isinstance(stage, GrpoStage):
        try:
            _check_groups(stage, world)
        except ConfigError as error:
            raise ConfigError(f"{where}.train: {error}") from error


def _check_groups(stage: GrpoStage, world: int) -> None:
    fields = train_fields("grpo")

    def setting(name: str) -> Any:
        value = stage.train.get(name)
        return fields[name].default if value is None else value

    per_device = setting("per_device_train_batch_size")
    batch, steps = setting("generation_batch_size"), setting("steps_per_generation")
    if batch is not None and steps is not None:
        raise ConfigError("give generation_batch_size or steps_per_generation, not both")
    if batch is not None and batch % (per_device * world):
        raise ConfigError(
            f"generation_batch_size={batch} is no multiple of per_device_train_batch_size={per_device} x "
            f"processes={world}"
        )
    if batch is not None:
        steps = batch // (per_device * world)
    check_group_batch(per_device, world, steps or setting("gradient_accumulation_steps"), setting("num_generations"))


def _check_train(stage: SftStage | GrpoStage, where: str) -> None:
    kind: TrainKind = "grpo" if isinstance(stage, GrpoStage) else "sft"
    fields = train_fields(kind)
    own = {item.name for item in dataclasses.fields(stage)} - {"train"}
    for key, value in stage.train.items():
        place = f"{where}.train.{key}"
        if key in OWNED_BY_PIPELINE:
            raise ConfigError(f"{place}: the pipeline sets it: {OWNED_BY_PIPELINE[key]}")
        if key in own:
            raise ConfigError(f"{place}: {key!r} belongs to the stage, one level up")
        if key not in fields:
            raise ConfigError(f"{place}: {unknown('key', key, list(fields))}")
        if not fits(fields[key].annotation, value):
            raise ConfigError(f"{place}: {misfit(fields[key].annotation, value)}")
        if key in _COUNTS and value is not None and value < 1:
            raise ConfigError(f"{place}: {value} is not above 0")
        if key in _POSITIVE and value is not None and not 0 < value < math.inf:
            raise ConfigError(f"{place}: {value} is not a finite number above 0")
        if key == "max_steps" and value < 1 and value != -1:
            raise ConfigError(f"{place}: {value} is not above 0; leave it out to train by epochs")
        if kind == "grpo" and value not in _WITHOUT_EFFECT.get(key, (value,)):
            raise ConfigError(
                f"{place}: {value!r} has no effect, since the advantage scales and aggregates by its own definition; "
                "set `advantage` (dr_grpo does not scale)"
            )
    if stage.train.get("save_total_limit") == 1:
        raise ConfigError(
            f"{where}.train.save_total_limit: 1 deletes the last checkpoint before the next one is known to be "
            "whole, so that a kill in between loses both; use 2 or more"
        )
    if kind == "grpo" and "advantage" in stage.train:
        _check_registered(stage.train["advantage"], "advantage", list_advantages(), f"{where}.train.advantage")


def _check_task(stage: PrepareStage, where: str) -> None:
    try:
        build_task(stage.task, **stage.task_params)
    except ConfigError as error:
        raise ConfigError(f"{where}.task_params: {error}") from error


def _check_eval_rewards(stage: EvalStage, where: str) -> None:
    for reward in stage.rewards:
        if reward["name"] not in EVALUATED_REWARDS:
            raise ConfigError(
                f"{where}.rewards: an evaluation counts right answers, and well-formed ones; it takes "
                f"{', '.join(EVALUATED_REWARDS)}, not {reward['name']!r}"
            )


def _rewards(entries: list, where: str) -> list[dict[str, Any]]:
    normal: list[dict[str, Any]] = []
    registered = list_rewards()
    for index, entry in enumerate(entries):
        place = f"{where}[{index}]"
        if not isinstance(entry, str | dict):
            raise ConfigError(f"{place}: expected a name or a mapping with `name`, got {entry!r}")
        try:
            spec = RewardSpec.parse(entry)
            if spec.name in registered:
                spec.resolve()  # checks its params; an import path is left to the stage, for it may import anything
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from error
        _check_registered(spec.name, "reward", registered, place)
        normal.append({"name": entry} if isinstance(entry, str) else entry)
    return normal


def _check_registered(name: str, what: str, known: list[str], where: str) -> None:
    if name not in known and not any(mark in name for mark in ".:/"):  # an import path, or a reward model
        raise ConfigError(f"{where}: {unknown(what, name, known)}")
