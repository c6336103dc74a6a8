"""
`trl-grpo-ext grpo`: `trl grpo` with rewards and advantages by name.

Example:

```bash
trl-grpo-ext grpo --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --dataset_name prompts.jsonl --output_dir out \
    --reward_funcs math '{"name": "format", "mode": "gate"}' --advantage rloo
```

Several processes: `accelerate launch --config_file CONFIG -m trl_grpo_ext grpo …`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from trl import ScriptArguments

from trl_grpo_ext.errors import ConfigError, DataError


@dataclass
class GRPOScriptArguments(ScriptArguments):
    """
    Script arguments of the command: those of [`~trl.ScriptArguments`], and the rewards.

    Args:
        reward_funcs (`list`, *optional*, defaults to `["math"]`):
            Registered names, import paths, folders of reward models, or specifications: JSON on the command line
            (`'{"name": "format", "mode": "gate"}'`), mappings in the file of `--config`.
    """

    reward_funcs: list[str] = field(
        default_factory=lambda: ["math"],
        metadata={"help": "Rewards: registered names, import paths, or specifications as JSON or YAML."},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command and return its exit code.

    Raises:
        [`~errors.ConfigError`], [`~errors.DataError`]: if an argument or the dataset is wrong.
        [`~errors.StageError`]: if training had to stop, such as when completions cannot be judged.
    """
    from trl import DatasetMixtureConfig, ModelConfig

    from trl_grpo_ext.stages.commands import datasets
    from trl_grpo_ext.stages.commands.arguments import TrainingParser, require_model
    from trl_grpo_ext.stages.stage_rewards import build_rewards
    from trl_grpo_ext.trainer import GroupRelativeConfig

    types = (GRPOScriptArguments, GroupRelativeConfig, ModelConfig, DatasetMixtureConfig)
    script, arguments, model, mixture = TrainingParser(types, "trl-grpo-ext grpo").parse(argv)
    require_model(model)
    rewards = [parse_reward(reward) for reward in script.reward_funcs]
    functions = build_rewards(rewards)  # a mistake in a name should not wait for the dataset and the model
    loaded = datasets.load(script, mixture)
    train_split = datasets.split(loaded, script.dataset_train_split)
    check_dataset(train_split, functions)
    eval_split = datasets.split(loaded, script.dataset_test_split) if arguments.eval_strategy != "no" else None
    train(arguments, model, rewards, train_split, eval_split)
    return 0


def parse_reward(reward: str | dict[str, Any]) -> str | dict[str, Any]:
    """
    Read a reward given on the command line: text in braces is a specification.

    Raises:
        [`~errors.ConfigError`]: if such text is neither JSON nor YAML.
    """
    if not isinstance(reward, str) or not reward.lstrip().startswith("{"):
        return reward
    try:
        return yaml.safe_load(reward)
    except yaml.YAMLError as error:
        raise ConfigError(f"--reward_funcs: {reward!r} is neither JSON nor YAML") from error


def check_dataset(dataset: Any, rewards: Sequence[Any]) -> None:
    """
    Check that a dataset has prompts, and answers if a reward compares with them.

    Raises:
        [`~errors.DataError`]: if it has not, or is empty.
    """
    from datasets import IterableDataset

    from trl_grpo_ext.stages.commands.datasets import check_columns, has_rows
    from trl_grpo_ext.stages.stage import require_columns, require_prompts
    from trl_grpo_ext.stages.stage_rewards import answer_columns

    if not has_rows(dataset):
        raise DataError("the training split of the dataset is empty")
    columns = dataset.column_names
    needed = {"prompt": "the prompts: a string or a list of messages per row"}
    for column in answer_columns(rewards, columns or []):
        needed[column] = "the reference that a reward compares with"
    check_columns(columns, needed)
    if columns is not None and not isinstance(dataset, IterableDataset):  # a stream is read once, by the trainer
        rows = dataset.select_columns(list(needed)).to_list()
        require_columns(rows, list(needed), "the dataset")
        require_prompts(rows, "the dataset")


def train(arguments: Any, model: Any, rewards: list[Any], train_dataset: Any, eval_dataset: Any) -> None:
    """Train, and save the model to `output_dir` (and push it, if the arguments say so)."""
    from trl import get_peft_config, get_quantization_config

    from trl_grpo_ext.stages.training import arguments_error
    from trl_grpo_ext.trainer import GroupRelativeTrainer

    arguments.model_init_kwargs = {
        "revision": model.model_revision,
        "trust_remote_code": arguments.trust_remote_code,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
        **(arguments.model_init_kwargs or {}),
    }
    with arguments_error(f"model {model.model_name_or_path!r}"):
        trainer = GroupRelativeTrainer(
            model=model.model_name_or_path,
            reward_funcs=rewards,
            args=arguments,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
        )
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    trainer.save_model(arguments.output_dir)
    trainer.accelerator.print(f"Model saved to {arguments.output_dir}.")
    if arguments.push_to_hub:
        trainer.push_to_hub()
    trainer.end()
