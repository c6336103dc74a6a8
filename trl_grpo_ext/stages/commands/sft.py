"""
`trl-grpo-ext sft`: TRL's own SFT script and arguments, with local files and one-line errors.

Example:

```bash
trl-grpo-ext sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name sft.jsonl --output_dir out
```
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command and return its exit code.

    Raises:
        [`~errors.ConfigError`], [`~errors.DataError`]: if an argument or the dataset is wrong.
    """
    from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, SFTConfig
    from trl.scripts import sft

    from trl_grpo_ext.stages.commands.arguments import TrainingParser, require_model
    from trl_grpo_ext.stages.commands.datasets import use_local_file

    types = (ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig)
    script, arguments, model, mixture = TrainingParser(types, "trl-grpo-ext sft").parse(argv)
    require_model(model)
    use_local_file(script, mixture)
    sft.main(script, arguments, model, mixture)
    return 0
