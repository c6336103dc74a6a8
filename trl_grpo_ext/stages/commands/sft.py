"""
`trl-grpo-ext sft`: TRL's own SFT script and arguments, with local files and one-line errors.

Example:

```bash
trl-grpo-ext sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name sft.jsonl --output_dir out
```
"""

from collections.abc import Sequence

from trl_grpo_ext.errors import DataError


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command and return its exit code.

    Raises:
        [`~errors.ConfigError`], [`~errors.DataError`]: if an argument or the dataset is wrong.
    """
    from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, SFTConfig
    from trl.scripts import sft

    from trl_grpo_ext.stages.commands.arguments import TrainingParser, require_model
    from trl_grpo_ext.stages.commands.datasets import load, split

    types = (ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig)
    script, arguments, model, mixture = TrainingParser(types, "trl-grpo-ext sft").parse(argv)
    require_model(model)
    train_split = split(load(script, mixture), script.dataset_train_split)
    check_columns(train_split.column_names, arguments.dataset_text_field)
    sft.main(script, arguments, model, mixture)
    return 0


def check_columns(columns: Sequence[str] | None, text_field: str) -> None:
    """
    Check that a dataset has one of the layouts that TRL's SFTTrainer reads; a stream that does not say passes.

    Raises:
        [`~errors.DataError`]: if it has none of them.
    """
    layouts = [{"messages"}, {"prompt", "completion"}, {text_field}, {"input_ids"}]
    if columns is not None and not any(layout <= set(columns) for layout in layouts):
        raise DataError(
            f"the dataset has the columns {sorted(columns)}; supervised fine-tuning needs 'messages', or 'prompt' and "
            f"'completion', or {text_field!r} (--dataset_text_field)"
        )
