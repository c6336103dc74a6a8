"""A recipe: the stages of a run, and what each of them reads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from trl_grpo_ext.shipped import accelerate_config_path
from trl_grpo_ext.stages.evaluation import Evaluation
from trl_grpo_ext.tasks import load_template


BASE = "base"


@dataclass(frozen=True)
class Base:
    """
    The model the run starts from: one on the Hub or in a folder, or one that the first prepare stage builds.

    Args:
        model (`str`, *optional*):
            Hub id or local folder.
        revision (`str`, *optional*):
            Commit of the Hub model.
        from_config (`dict`, *optional*):
            Description of a model to build with random weights.
    """

    model: str | None = None
    revision: str | None = None
    from_config: dict | None = None

    def resolved(self) -> dict[str, Any]:
        """The keys that are set."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Sizes:
    """How many rows a prepare stage draws for each split."""

    sft: int = 0
    rl: int = 0
    eval: int = 0


@dataclass(frozen=True)
class PrepareStage:
    """Stage `prepare`: draws rows from a task."""

    kind: ClassVar[str] = "prepare"
    id: str
    task: str
    sizes: Sizes
    task_params: dict = field(default_factory=dict)
    sandbox: str | dict | None = None  # where programs of the task are tried out


@dataclass(frozen=True)
class SftStage:
    """Stage `sft`: supervised fine-tuning."""

    kind: ClassVar[str] = "sft"
    id: str
    init_from: str
    data: str
    accelerate: str | None = None
    train: dict = field(default_factory=dict)


@dataclass(frozen=True)
class GrpoStage:
    """Stage `grpo`: reinforcement learning with verifiable rewards."""

    kind: ClassVar[str] = "grpo"
    id: str
    init_from: str
    data: str
    rewards: list
    accelerate: str | None = None
    train: dict = field(default_factory=dict)


@dataclass(frozen=True)
class EvalStage:
    """Stage `eval`: greedy and sampled accuracy, pass@k."""

    kind: ClassVar[str] = "eval"
    id: str
    init_from: str
    data: str
    rewards: list = field(default_factory=list)
    accelerate: str | None = None
    evaluation: Evaluation = field(default_factory=Evaluation)


@dataclass(frozen=True)
class ReportStage:
    """Stage `report`: the page of the run."""

    kind: ClassVar[str] = "report"
    id: str


Stage = PrepareStage | SftStage | GrpoStage | EvalStage | ReportStage


@dataclass(frozen=True)
class Recipe:
    """
    A checked recipe.

    Args:
        version (`int`):
            Version of the format; this package reads 1.
        name (`str`):
            Name of the run.
        template (`str`):
            Name or path of the chat template of all stages.
        base (`Base`):
            The model the run starts from.
        stages (`tuple`):
            The stages in order.
        output_dir (`str`, *optional*, defaults to `"runs/${name}"`):
            Directory of the run.
        seed (`int`, *optional*, defaults to `42`):
            Seed of every stage.
        accelerate (`str`, *optional*, defaults to `"cpu"`):
            Accelerate config of the stages that name none.
        path (`Path`, *optional*):
            The file the recipe was read from.
    """

    version: int
    name: str
    template: str
    base: Base
    stages: tuple[Stage, ...]
    output_dir: str = "runs/${name}"
    seed: int = 42
    accelerate: str = "cpu"
    path: Path = Path()

    def in_directory(self, output_dir: str) -> Recipe:
        """The same recipe with another directory for the run."""
        return dataclasses.replace(self, output_dir=output_dir)

    def stage(self, stage_id: str) -> Stage:
        """The stage called `stage_id`."""
        return next(stage for stage in self.stages if stage.id == stage_id)

    def inputs(self, stage: Stage) -> dict[str, Stage | None]:
        """
        What `stage` reads, by key (`init_from`, `data`): an earlier stage, or `None` for a base that no stage builds.

        A report reads all stages before it, by their ids.
        """
        if isinstance(stage, ReportStage):
            return {other.id: other for other in self.stages[: self.stages.index(stage)]}
        if isinstance(stage, PrepareStage):
            return {}
        source = self._base_builder() if stage.init_from == BASE else self.stage(stage.init_from)
        return {"init_from": source, "data": self.stage(stage.data)}

    def accelerate_config(self, stage: Stage) -> Path:
        """
        Path of the accelerate config `stage` runs under. Drawing rows and writing the page need one process.

        Raises:
            [`~errors.ConfigError`]: if there is no such config.
        """
        if isinstance(stage, PrepareStage | ReportStage):
            return accelerate_config_path("cpu")
        return accelerate_config_path(_beside(self.path, stage.accelerate or self.accelerate))

    def template_text(self) -> str:
        """
        Text of the chat template.

        Raises:
            [`~errors.ConfigError`]: if there is no such template.
        """
        return load_template(_beside(self.path, self.template))

    def _base_builder(self) -> Stage | None:
        if self.base.from_config is None:
            return None
        return next(stage for stage in self.stages if isinstance(stage, PrepareStage))


def resolved(block: Any) -> Any:
    """`block` (a stage or a part of it) as plain mappings and lists, defaults filled in."""
    if dataclasses.is_dataclass(block) and not isinstance(block, type):
        values = {item.name: getattr(block, item.name) for item in dataclasses.fields(block)}
        head = {"id": values["id"], "kind": block.kind} if isinstance(block, Stage) else {}
        return head | {key: resolved(value) for key, value in values.items() if value is not None}
    return list(block) if isinstance(block, tuple) else block


def _beside(recipe: Path, name: str) -> str:
    beside = recipe.parent / name
    return str(beside) if beside.is_file() else name
