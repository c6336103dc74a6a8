"""What the sft and grpo stages share: arguments, resume, and the model folder they leave."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase, TrainerCallback

from trl_grpo_ext.errors import ConfigError, ExtError
from trl_grpo_ext.stages.callbacks import CompleteCallback, MetricsCallback, ProgressCallback
from trl_grpo_ext.stages.checkpoints import newest_complete, remove_incomplete, step_of
from trl_grpo_ext.stages.processes import on_cpu
from trl_grpo_ext.stages.stage import Stage


if TYPE_CHECKING:
    from transformers import Trainer, TrainingArguments

Arguments = TypeVar("Arguments", bound="TrainingArguments")


def build_arguments(stage: Stage, config_class: type[Arguments], **extra: Any) -> Arguments:
    """
    Build the training arguments of a stage from its `train` block.

    Defaults that a run directory implies (no trackers, the seed of the run, no progress bar in the log, two
    checkpoints) can be overridden in `train`; `output_dir` cannot.

    Raises:
        [`~errors.ConfigError`]: if a key is unknown or a value is refused by TRL.
    """
    train = stage.config.get("train") or {}
    defaults: dict[str, Any] = {
        "report_to": "none",
        "seed": stage.seed,
        "disable_tqdm": True,
        "save_total_limit": 2,
    }
    if on_cpu():
        # TRL's default is bfloat16, which most CPUs only emulate.
        defaults |= {"use_cpu": True, "bf16": False}
    pinned = {"model_init_kwargs": {**stage.model_kwargs, **(train.get("model_init_kwargs") or {})}}
    with arguments_error("train"):
        return config_class(output_dir=str(stage.checkpoints), **{**defaults, **train, **pinned, **extra})


@contextmanager
def arguments_error(where: str) -> Iterator[None]:
    """
    Turn what TRL raises about arguments, or about a model that cannot be found, into [`~errors.ConfigError`].

    Args:
        where (`str`):
            What was being set up, as the message begins.
    """
    try:
        yield
    except ExtError:
        raise
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"{where}: {' '.join(str(error).split())}") from error


def load_tokenizer(stage: Stage) -> PreTrainedTokenizerBase:
    """Load the tokenizer of the model the stage starts from, with the chat template of the run."""
    with arguments_error(f"model {stage.model!r}"):
        tokenizer = AutoTokenizer.from_pretrained(stage.model, **stage.model_kwargs)
    tokenizer.chat_template = stage.template
    return tokenizer


def stage_callbacks(stage: Stage) -> list[TrainerCallback]:
    """The callbacks every training stage has."""
    return [CompleteCallback(), ProgressCallback(stage), MetricsCallback(stage.logs / "metrics.jsonl")]


def train(stage: Stage, arguments: "TrainingArguments", build_trainer: Callable[[], "Trainer"]) -> None:
    """
    Train from the newest complete checkpoint, or from the start, and leave the model folder in `out/`.

    A stage whose newest checkpoint is its last only writes `out/`: `Trainer.train` would take one more step.
    """
    if stage.rank == 0:
        for path in remove_incomplete(stage.checkpoints):
            print(f"removed {path}: a kill left it incomplete")
    stage.barrier()
    checkpoint = newest_complete(stage.checkpoints)
    if checkpoint is not None and is_finished(checkpoint, arguments):
        if stage.rank == 0:
            copy_model(checkpoint, stage.fresh_out())
        return
    with arguments_error(f"model {stage.model!r}"):
        trainer = build_trainer()
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stage.rank == 0:
        stage.fresh_out()
    stage.barrier()
    model: Any = trainer.model
    model.config.use_cache = True  # switched off for training; whoever loads the folder wants to generate
    trainer.save_model(str(stage.out))
    if stage.rank == 0:
        # A pickle with paths of this machine, which nobody who loads the model needs.
        (stage.out / "training_args.bin").unlink(missing_ok=True)


def is_finished(checkpoint: Path, arguments: "TrainingArguments") -> bool:
    """Whether a checkpoint holds the last step of the training that `arguments` describe."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    # Without max_steps the number of steps follows from epochs and data, and the trainer wrote down what it found.
    last = arguments.max_steps if arguments.max_steps > 0 else state["max_steps"]
    return step_of(checkpoint) >= last


def copy_model(checkpoint: Path, out: Path) -> None:
    """Write the model and the tokenizer of a checkpoint, without optimizer and trainer state, to `out`."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto")
    model.config.use_cache = True
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(out)
