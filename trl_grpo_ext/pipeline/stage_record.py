"""What a stage's process is told: the content of `stage.json`."""

from pathlib import Path
from typing import Any

from trl_grpo_ext.pipeline.manifest import config_hash, fingerprint, input_digests, stage_folder
from trl_grpo_ext.pipeline.recipe import BASE, Recipe, Stage, resolved
from trl_grpo_ext.pipeline.run_folder import TEMPLATE


def stage_record(run_dir: Path, recipe: Recipe, stage: Stage, control: str | None) -> dict[str, Any]:
    """
    Return `stage.json` without its status and its attempts.

    Args:
        run_dir (`Path`):
            Directory of the run, absolute.
        recipe (`Recipe`):
            The recipe.
        stage (`Stage`):
            One of its stages; the stages it reads from are done.
        control (`str`, *optional*):
            The control experiment of the run.
    """
    marks = fingerprint(recipe, stage, control)
    return {
        "id": stage.id,
        "kind": stage.kind,
        "index": recipe.stages.index(stage) + 1,
        "config": resolved(stage),
        "seed": recipe.seed,
        "run_dir": str(run_dir),
        "inputs": _inputs(run_dir, recipe, stage),
        "base": recipe.base.resolved(),
        "control": control,
        "config_hash": config_hash(marks),
        "fingerprint": marks,
        "input_digests": input_digests(run_dir, recipe, stage),
    }


def _inputs(run_dir: Path, recipe: Recipe, stage: Stage) -> dict[str, str | None]:
    data = recipe.inputs(stage).get("data")
    model, revision = _model(run_dir, recipe, stage)
    return {
        "init_from": model,
        "revision": revision,
        "data": str(stage_folder(run_dir, recipe, data).out) if data is not None else None,
        "template": str(run_dir / TEMPLATE),
    }


def _model(run_dir: Path, recipe: Recipe, stage: Stage) -> tuple[str | None, str | None]:
    """Folder or Hub id of the model that `stage` starts from, and its revision."""
    init_from = getattr(stage, "init_from", None)
    source = recipe.inputs(stage).get("init_from")
    if source is not None:
        out = stage_folder(run_dir, recipe, source).out
        return str(out / BASE if init_from == BASE else out), None
    if init_from is None or recipe.base.model is None:
        return None, None
    local = Path(recipe.base.model)
    return (str(local.absolute()), None) if local.is_dir() else (recipe.base.model, recipe.base.revision)
