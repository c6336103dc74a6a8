"""Read a recipe. Every mistake that can be seen in the file is an error here, before anything starts."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.pipeline.annotations import fits
from trl_grpo_ext.pipeline.mistakes import misfit, unknown
from trl_grpo_ext.pipeline.recipe import (
    BASE,
    Base,
    EvalStage,
    GrpoStage,
    PrepareStage,
    Recipe,
    ReportStage,
    SftStage,
    Sizes,
    Stage,
)
from trl_grpo_ext.pipeline.stage_checks import check_launch, check_stage
from trl_grpo_ext.pipeline.strict_yaml import read_yaml
from trl_grpo_ext.pipeline.train_fields import train_fields
from trl_grpo_ext.stages.evaluation import Evaluation


VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # no hyphen: a stage's folder is called <number>-<id>
_STAGES: dict[str, type] = {stage.kind: stage for stage in (PrepareStage, SftStage, GrpoStage, EvalStage, ReportStage)}
_BLOCKS: dict[str, type] = {"Base": Base, "Sizes": Sizes, "Evaluation": Evaluation}

Block = TypeVar("Block")


def load_recipe(path: str | Path, output_dir: str | None = None, seed: int | None = None) -> Recipe:
    """
    Read and check a recipe.

    Args:
        path (`str` or `Path`):
            The YAML file.
        output_dir (`str`, *optional*):
            Takes the place of the recipe's `output_dir`.
        seed (`int`, *optional*):
            Takes the place of the recipe's `seed`.

    Raises:
        [`~errors.ConfigError`]: if anything in it is wrong; the message says where, and names the nearest right key.
    """
    path = Path(path)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no recipe: expected a mapping with `version`, `name` and `stages`")
    given = {"output_dir": output_dir, "seed": seed}
    try:
        return _recipe({**content, **{key: value for key, value in given.items() if value is not None}}, path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _recipe(content: dict, path: Path) -> Recipe:
    if content.get("version") != VERSION:
        raise ConfigError(f"version is {content.get('version')!r}, this package reads `version: {VERSION}`")
    blocks = content.get("stages")
    if not isinstance(blocks, list) or not blocks:
        raise ConfigError("stages: expected a list with at least one stage")
    _check_keys(Recipe, content, "", hidden=("path",))
    stages: list[Stage] = []
    for index, block in enumerate(blocks):
        stages.append(_stage(block, f"stages[{index}]", stages, blocks))
    recipe = dataclasses.replace(_build(Recipe, {**content, "stages": []}, ""), stages=tuple(stages), path=path)
    if not _NAME.fullmatch(recipe.name):
        raise ConfigError(f"name: {recipe.name!r} becomes part of a path; use letters, digits, '.', '_' and '-'")
    if not 0 <= recipe.seed < 2**32:
        raise ConfigError(f"seed: {recipe.seed} is out of range; NumPy takes 0 to {2**32 - 1}")
    recipe = dataclasses.replace(recipe, output_dir=_output_dir(recipe))
    _check_base(recipe)
    recipe.template_text()
    for index, stage in enumerate(stages):
        check_launch(recipe, stage, f"stages[{index}]")
    return recipe


def _output_dir(recipe: Recipe) -> str:
    expanded = recipe.output_dir.replace("${name}", recipe.name)
    if "${" in expanded:
        raise ConfigError(f"output_dir: {recipe.output_dir!r}; only ${{name}} can be filled in")
    return expanded


def _stage(block: Any, where: str, earlier: Sequence[Stage], blocks: Sequence[Any]) -> Stage:
    if not isinstance(block, dict):
        raise ConfigError(f"{where}: expected a mapping with `id` and `kind`, got {block!r}")
    kind = block.get("kind")
    if kind not in _STAGES:
        raise ConfigError(f"{where}.kind: {unknown('stage kind', kind, list(_STAGES))}")
    stage: Stage = _build(_STAGES[kind], {key: value for key, value in block.items() if key != "kind"}, where)
    _check_id(stage, f"{where}.id", earlier)
    if isinstance(stage, SftStage | GrpoStage | EvalStage):
        later = [item.get("id") for item in blocks[len(earlier) :] if isinstance(item, dict)]
        _check_reference(stage.init_from, f"{where}.init_from", (SftStage, GrpoStage), earlier, later)
        _check_reference(stage.data, f"{where}.data", (PrepareStage,), earlier, later)
    return check_stage(stage, where)


def _check_id(stage: Stage, where: str, earlier: Sequence[Stage]) -> None:
    if not _ID.fullmatch(stage.id) or stage.id == BASE:
        raise ConfigError(
            f"{where}: {stage.id!r}; expected letters, digits and '_', starting with a letter, and not '{BASE}'"
        )
    if stage.id in [other.id for other in earlier]:
        raise ConfigError(f"{where}: {stage.id!r} is the id of an earlier stage; give each stage its own")


def _build(cls: type[Block], content: Any, where: str) -> Block:
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: expected a mapping, got {content!r}")
    _check_keys(cls, content, where)
    values: dict[str, Any] = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        annotation = item.type if isinstance(item.type, str) else inspect.formatannotation(item.type)
        if item.name not in content:
            continue
        value, place = content[item.name], _at(where, item.name)
        if annotation in _BLOCKS:
            values[item.name] = _build(_BLOCKS[annotation], value, place)
        elif fits(annotation, value):
            values[item.name] = tuple(value) if isinstance(value, list) and annotation != "list" else value
        else:
            raise ConfigError(f"{place}: {misfit(annotation, value)}")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _check_keys(cls: type, content: Mapping[Any, Any], where: str, hidden: tuple[str, ...] = ()) -> None:
    fields = [item for item in dataclasses.fields(cls) if item.name not in hidden]  # type: ignore[arg-type]
    known = [item.name for item in fields]
    for key in content:
        if key not in known:
            raise ConfigError(f"{_at(where, key)}: {_unknown_key(cls, key, known)}")
    for item in fields:
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and item.name not in content:
            raise ConfigError(f"{_at(where, item.name)} is missing; it is required")


def _unknown_key(cls: type, key: Any, known: list[str]) -> str:
    kind = getattr(cls, "kind", None)
    if kind in ("sft", "grpo") and key in train_fields(kind):
        return f"{key!r} belongs under `train:`"
    return unknown("key", key, known)


def _check_reference(
    name: str, where: str, kinds: tuple[type, ...], earlier: Sequence[Stage], later: Sequence[Any]
) -> None:
    takes_base = SftStage in kinds
    if takes_base and name == BASE:
        return
    fitting = [stage.id for stage in earlier if isinstance(stage, kinds)]
    if name in fitting:
        return
    wanted = " or ".join(kind for kind, cls in _STAGES.items() if cls in kinds)
    choices = ([BASE] if takes_base else []) + fitting
    hint = f"can be {', '.join(choices)}" if choices else f"there is no {wanted} stage before this one"
    for stage in earlier:
        if stage.id == name:
            raise ConfigError(f"{where}: {name!r} is a stage of kind {stage.kind}, expected {wanted}; {hint}")
    if later and name == later[0]:
        raise ConfigError(f"{where}: stage {name!r} names itself; {hint}")
    if name in later:
        raise ConfigError(f"{where}: stage {name!r} comes later; a stage starts from earlier ones: {hint}")
    raise ConfigError(f"{where}: {unknown('stage', name, choices) if choices else f'unknown stage {name!r}; {hint}'}")


def _check_base(recipe: Recipe) -> None:
    if (recipe.base.model is None) == (recipe.base.from_config is None):
        raise ConfigError("base: give either `model` (a Hub id or folder) or `from_config` (a model to build)")
    if recipe.base.revision is not None and recipe.base.model is None:
        raise ConfigError("base.revision: only a `model` of the Hub has a revision")
    if recipe.base.from_config is None:
        return
    for index, stage in enumerate(recipe.stages):
        if isinstance(stage, PrepareStage):
            return
        if getattr(stage, "init_from", None) == BASE:
            raise ConfigError(
                f"stages[{index}].init_from: a prepare stage builds base.from_config, and none comes before this one"
            )


def _at(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)
