"""The sft and grpo stages on a tiny model: files, resume, and what they refuse."""

import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_jsonl, write_jsonl
from trl_grpo_ext.stages import grpo, sft
from trl_grpo_ext.stages.checkpoints import COMPLETE, list_checkpoints


SFT = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 4, "learning_rate": 1e-2}
GRPO = {
    **SFT,
    "max_steps": 2,
    "save_steps": 1,
    "num_generations": 4,
    "max_completion_length": 6,
}


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


@pytest.fixture
def sft_stage(make_stage, tiny_model, data_folder):
    return make_stage("sft", {"train": SFT}, inputs={"init_from": tiny_model, "data": data_folder})


@pytest.fixture
def grpo_stage(make_stage, tiny_model, data_folder):
    config = {"rewards": ["math", {"name": "format", "mode": "gate"}], "train": GRPO}
    return make_stage("grpo", config, inputs={"init_from": tiny_model, "data": data_folder})


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def same_weights(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def steps(stage):
    return [row["step"] for row in read_jsonl(stage.logs / "metrics.jsonl")]


@pytest.mark.tiny
def test_sft_leaves_a_model_that_loads(sft_stage, tiny_model):
    sft.run(sft_stage)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(sft_stage.out)
    before = AutoModelForCausalLM.from_pretrained(tiny_model).state_dict()
    assert not same_weights(model.state_dict(), before)
    assert model.config.use_cache
    tokenizer = AutoTokenizer.from_pretrained(sft_stage.out)
    assert tokenizer.chat_template == sft_stage.template
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert not (sft_stage.out / "training_args.bin").exists()
    assert [(path.name, (path / COMPLETE).is_file()) for path in list_checkpoints(sft_stage.checkpoints)] == [
        ("checkpoint-2", True),
        ("checkpoint-4", True),
    ]
    assert steps(sft_stage) == [1, 2, 3, 4]


@pytest.mark.tiny
def test_a_killed_save_is_ignored_and_training_resumes_before_it(sft_stage):
    sft.run(sft_stage)
    uninterrupted = weights(sft_stage.out)
    (sft_stage.checkpoints / "checkpoint-4" / COMPLETE).unlink()
    sft.run(sft_stage)
    assert steps(sft_stage) == [1, 2, 3, 4]
    assert same_weights(weights(sft_stage.out), uninterrupted)


@pytest.mark.tiny
def test_a_finished_stage_takes_no_further_step(sft_stage, monkeypatch):
    sft.run(sft_stage)
    finished = weights(sft_stage.out)
    (sft_stage.out / "model.safetensors").unlink()  # killed while the model folder was being written
    monkeypatch.setattr("transformers.Trainer.train", lambda *args, **kwargs: pytest.fail("it trained again"))
    sft.run(sft_stage)
    assert same_weights(weights(sft_stage.out), finished)
    assert steps(sft_stage) == [1, 2, 3, 4]


@pytest.mark.tiny
def test_more_steps_continue_a_finished_stage(make_stage, sft_stage, tiny_model, data_folder):
    sft.run(sft_stage)
    inputs = {"init_from": tiny_model, "data": data_folder}
    sft.run(make_stage("sft", {"train": {**SFT, "max_steps": 6}}, inputs=inputs))
    assert steps(sft_stage) == [1, 2, 3, 4, 5, 6]


@pytest.mark.tiny
def test_grpo_logs_completions_and_leaves_a_model(grpo_stage):
    grpo.run(grpo_stage)
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(grpo_stage.out)
    metrics = list(read_jsonl(grpo_stage.logs / "metrics.jsonl"))
    assert [row["step"] for row in metrics] == [1, 2]
    assert {"reward", "rewards/math_reward/mean", "frac_reward_zero_std", "entropy"} <= metrics[0].keys()
    completions = list(read_jsonl(grpo_stage.logs / "completions.jsonl"))
    assert {row["step"] for row in completions} == {1, 2}
    prompts = {row["prompt"][-1]["content"]: row["answer"] for row in grpo_stage.rows("rl_prompts.jsonl")}
    for row in completions:
        assert row["answer"] == prompts[row["prompt"]]
        assert row["rewards"].keys() == {"math_reward", "format_reward"}
        assert isinstance(row["completion"], str)


class BuiltError(Exception):
    """Raised in place of building a trainer; carries its arguments."""


@pytest.mark.tiny
@pytest.mark.parametrize(("control", "shuffles"), [(None, False), ("shuffled-rewards", True)])
def test_the_control_shuffles_rewards(make_stage, tiny_model, data_folder, monkeypatch, control, shuffles):
    def build(**kwargs):
        raise BuiltError(kwargs["args"])

    monkeypatch.setattr("trl_grpo_ext.trainer.GroupRelativeTrainer", build)
    inputs = {"init_from": tiny_model, "data": data_folder}
    with pytest.raises(BuiltError) as built:
        grpo.run(make_stage("grpo", {"train": GRPO}, inputs=inputs, control=control))
    arguments = built.value.args[0]
    assert arguments.shuffle_rewards is shuffles
    assert (arguments.seed, arguments.report_to, arguments.disable_tqdm, arguments.bf16) == (7, [], True, False)


def test_an_unknown_control_is_refused(make_stage):
    with pytest.raises(ConfigError, match="unknown control 'shuffled'"):
        grpo.run(make_stage("grpo", {}, control="shuffled"))


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"lerning_rate": 1.0}, "lerning_rate"),
        ({"output_dir": "elsewhere"}, "output_dir"),
        ({"num_generations": 3}, "num_generations that would fit: 2, 4"),
    ],
)
def test_arguments_that_trl_refuses_are_the_users_mistake(make_stage, tiny_model, data_folder, train, message):
    stage = make_stage("grpo", {"train": {**GRPO, **train}}, inputs={"init_from": tiny_model, "data": data_folder})
    with pytest.raises(ConfigError, match=message):
        grpo.run(stage)


@pytest.mark.tiny
def test_a_model_that_is_nowhere_is_the_users_mistake(make_stage, data_folder, tmp_path):
    inputs = {"init_from": str(tmp_path / "nowhere"), "data": data_folder}
    with pytest.raises(ConfigError, match="nowhere"):
        sft.run(make_stage("sft", {"train": SFT}, inputs=inputs))


@pytest.mark.parametrize(
    ("stage_module", "file", "rows", "message"),
    [
        (sft, "sft.jsonl", [{"prompt": "p"}], "1 of 1 rows have no 'completion'"),
        (grpo, "rl_prompts.jsonl", [{"prompt": "p"}], "1 of 1 rows have no 'answer'"),
        (grpo, "rl_prompts.jsonl", [{"answer": "1"}], "1 of 1 rows have no 'prompt'"),
    ],
)
def test_missing_columns_are_found_before_anything_loads(make_stage, tmp_path, stage_module, file, rows, message):
    write_jsonl(tmp_path / file, rows)
    inputs = {"init_from": "a model that does not exist", "data": str(tmp_path)}
    with pytest.raises(DataError, match=message):
        stage_module.run(make_stage("sft", {"train": SFT}, inputs=inputs))
