"""Stage `grpo`: reinforcement learning on `rl_prompts.jsonl` with GroupRelativeTrainer."""

import json
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.stages.stage import Stage, require_columns
from trl_grpo_ext.stages.stage_rewards import answer_columns, build_rewards, default_reward, judges_of


CONTROLS = ("shuffled-rewards",)


def run(stage: Stage) -> None:
    """Train on the prompts of the `data` stage and leave a model folder in `out/`."""
    control = stage.record.get("control")
    if control is not None and control not in CONTROLS:
        raise ConfigError(f"unknown control {control!r}; expected one of {', '.join(CONTROLS)}")
    rows = stage.rows("rl_prompts.jsonl")
    specs = stage.config.get("rewards") or [default_reward(rows[0])]
    rewards = build_rewards(specs)
    columns = answer_columns(rewards, list(rows[0]))
    require_columns(rows, ["prompt", *columns], f"prompts of stage {stage.record['id']!r}")
    judges = judges_of(rewards)
    for judge in judges:
        judge.start()

    from datasets import Dataset

    from trl_grpo_ext.stages.callbacks import CompletionsCallback
    from trl_grpo_ext.stages.training import build_arguments, load_tokenizer, stage_callbacks, train
    from trl_grpo_ext.trainer import GroupRelativeConfig, GroupRelativeTrainer
    from trl_grpo_ext.trainer.history import prompt_key

    extra = {"shuffle_rewards": True} if control == "shuffled-rewards" else {}
    arguments = build_arguments(stage, GroupRelativeConfig, **extra)
    # A reference may be a number in one row and text in the next; a column has one type.
    rows = [{**row, **{column: _as_text(row[column]) for column in columns}} for row in rows]
    dataset = Dataset.from_list(rows)

    def build_trainer() -> GroupRelativeTrainer:
        trainer = GroupRelativeTrainer(
            model=stage.model,
            reward_funcs=specs,
            args=arguments,
            train_dataset=dataset,
            processing_class=load_tokenizer(stage),
            callbacks=stage_callbacks(stage),
        )
        answers = {prompt_key(row["prompt"]): judges[0].expected(row) for row in rows} if judges else {}
        trainer.add_callback(CompletionsCallback(stage.logs / "completions.jsonl", answers, trainer))
        return trainer

    train(stage, arguments, build_trainer)


def _as_text(reference: Any) -> str:
    return json.dumps(reference, ensure_ascii=False) if isinstance(reference, dict) else str(reference)
