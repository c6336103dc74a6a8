"""Each advantage estimator trains the quickstart's model through the command line, or refuses and says why."""

import pytest
import yaml

from trl_grpo_ext import list_advantages
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.files import read_json, write_jsonl
from trl_grpo_ext.shipped import recipe_path
from trl_grpo_ext.stages.commands import grpo as grpo_command


# What an estimator needs beyond its name.
OPTIONS = {
    "canon": ["--advantage_inputs", '{"metric": "seq_entropy"}'],
    "stratified": ["--advantage_inputs", '{"strata": "tests.trainer.scripted.strata"}'],
    "hicra": ["--advantage_inputs", '{"planning_mask": "tests.trainer.scripted.planning_mask"}'],
    "rlsd": ["--advantage_inputs", '{"teacher_logp": "tests.trainer.scripted.teacher_logp"}'],
    "gdpo": ["--reward_funcs", "tests.trainer.scripted.graded_reward", "tests.trainer.scripted.short_reward"],
    "mo_grpo": ["--reward_funcs", "tests.trainer.scripted.graded_reward", "tests.trainer.scripted.short_reward"],
    "process_grpo": ["--reward_funcs", "tests.trainer.scripted.step_reward"],
    "gigpo": ["--reward_funcs", "tests.trainer.scripted.step_reward"],
    "reinforce_pp_kl": ["--beta", "0.01", "--kl_in", "reward", "--kl_estimator", "k1"],
    "mc_grpo": ["--num_generations", "9", "--per_device_train_batch_size", "18"],
}
# What the trainer says without it.
REASONS = {
    "canon": "needs 'metric'",
    "stratified": "needs 'strata'",
    "hicra": "needs 'planning_mask'",
    "rlsd": "needs 'teacher_logp'",
    "gdpo": "gate 'format' could multiply",
    "mo_grpo": "gate 'format' could multiply",
    "process_grpo": "step reward",
    "gigpo": "step reward",
    "reinforce_pp_kl": "set beta",
    "mc_grpo": "must be odd",
}


@pytest.fixture(scope="module")
def quickstart_model(tmp_path_factory) -> str:
    from trl_grpo_ext.tasks import load_template
    from trl_grpo_ext.tasks.tiny_model import build_base

    recipe = yaml.safe_load(recipe_path("quickstart").read_text(encoding="utf-8"))
    out = tmp_path_factory.mktemp("quickstart_model")
    build_base(recipe["base"]["from_config"], out, load_template(recipe["template"]), seed=0)
    return str(out)


@pytest.fixture
def argv(tmp_path, quickstart_model, arithmetic_rows, monkeypatch) -> list[str]:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    write_jsonl(tmp_path / "prompts.jsonl", arithmetic_rows)
    return [
        *("--model_name_or_path", quickstart_model, "--dataset_name", str(tmp_path / "prompts.jsonl")),
        *("--output_dir", str(tmp_path / "out"), "--use_cpu", "--bf16", "false", "--report_to", "none"),
        *("--max_steps", "2", "--per_device_train_batch_size", "16", "--num_generations", "8"),
        *("--max_completion_length", "12", "--learning_rate", "1e-3", "--activation_checkpointing", "false"),
        *("--reward_funcs", "tests.trainer.scripted.graded_reward", "--logging_steps", "1"),
    ]


@pytest.mark.tiny
@pytest.mark.parametrize("advantage", list_advantages())
def test_estimator_trains(argv, tmp_path, advantage):
    assert grpo_command.main([*argv, "--advantage", advantage, *OPTIONS.get(advantage, [])]) == 0
    (checkpoint,) = (tmp_path / "out").glob("checkpoint-*")
    rows = [row for row in read_json(checkpoint / "trainer_state.json")["log_history"] if "reward" in row]
    assert len(rows) == 2
    assert all(row["grad_norm"] > 0 for row in rows)
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.tiny
@pytest.mark.parametrize("advantage", sorted(REASONS))
def test_estimator_refuses_what_it_cannot_work_with(argv, advantage):
    rewards = ["--reward_funcs", "math", '{"name": "format", "mode": "gate"}']
    with pytest.raises(ConfigError, match=REASONS[advantage]):
        grpo_command.main([*argv, "--advantage", advantage, *rewards])


@pytest.mark.tiny
@pytest.mark.parametrize(
    "options",
    [
        ["--reward_shaping", "kimi_length", '{"name": "shape/dapo_overlong", "max_len": 12, "cache_len": 6}'],
        ["--kl_estimator", "k2", "--beta", "0.1"],
        ["--kl_estimator", "k1", "--kl_in", "reward", "--beta", "0.1", "--advantage", "rloo"],
    ],
    ids=["shaping", "k2_in_loss", "k1_in_reward"],
)
def test_shaping_and_kl_from_the_command_line(argv, tmp_path, options):
    assert grpo_command.main([*argv, *options]) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
