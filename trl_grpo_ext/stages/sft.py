"""Stage `sft`: supervised fine-tuning of the completions of `sft.jsonl` with TRL's SFTTrainer."""

from trl_grpo_ext.stages.stage import Stage, require_columns


def run(stage: Stage) -> None:
    """Train on the rows of the `data` stage and leave a model folder in `out/`."""
    rows = stage.rows("sft.jsonl")
    require_columns(rows, ["prompt", "completion"], f"sft rows of stage {stage.record['id']!r}")

    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from trl_grpo_ext.stages.training import build_arguments, load_tokenizer, stage_callbacks, train

    arguments = build_arguments(stage, SFTConfig)
    dataset = Dataset.from_list([{key: row[key] for key in ("prompt", "completion")} for row in rows])

    def build_trainer() -> SFTTrainer:
        return SFTTrainer(
            model=stage.model,
            args=arguments,
            train_dataset=dataset,
            processing_class=load_tokenizer(stage),
            callbacks=stage_callbacks(stage),
        )

    train(stage, arguments, build_trainer)
