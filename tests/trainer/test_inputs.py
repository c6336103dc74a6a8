"""Every input of an estimator has a source, or the trainer refuses and says which."""

import functools

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from tests.trainer.runs import arguments, parity_reward
from tests.trainer.scripted import number_reward, short_reward, step_reward
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.advantages import bind_params, list_advantages
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.trainer.inputs import LEVELS, find_sources


def test_every_input_of_a_built_in_estimator_has_a_level():
    for name in list_advantages():
        estimator = bind_params(name)
        assert {*estimator.inputs, *estimator.optional_inputs} <= LEVELS.keys(), name


def test_override_comes_before_column_and_column_before_the_trainers_own():
    estimator = bind_params("opo")
    assert find_sources(estimator, {}, [], False)["lengths"].kind == "supplied"
    assert find_sources(estimator, {}, ["lengths"], False)["lengths"].kind == "column"
    override = {"lengths": "tests.trainer.scripted.strata"}
    assert find_sources(estimator, override, ["lengths"], False)["lengths"].kind == "function"


def test_optional_input_without_a_source_is_left_out():
    assert find_sources(bind_params("mapo"), {}, [], False) == {}
    assert find_sources(bind_params("mapo"), {}, ["correct"], False)["correct"].kind == "column"


@pytest.mark.parametrize(
    ("advantage", "overrides", "message"),
    [
        ("canon", {}, r"needs 'metric'.*advantage_inputs: \{metric:"),
        ("gigpo", {}, "needs 'anchors'.*step reward"),
        ("grpo", {"lengths": "lengths"}, "takes no input 'lengths'"),
        ("canon", {"metric": "seq_entropie"}, "did you mean 'seq_entropy'"),
        ("canon", {"metric": "tests.nowhere.metric"}, "cannot import"),
        ("canon", {"metric": "tests.trainer.scripted.GROUP"}, "is a int, not a function"),
    ],
)
def test_missing_and_wrong_sources_are_named(advantage, overrides, message):
    with pytest.raises(ConfigError, match=message):
        find_sources(bind_params(advantage), overrides, [], False)


def build(tiny_model, rows, tmp_path, rewards=parity_reward, **overrides):
    return GroupRelativeTrainer(
        model=tiny_model,
        reward_funcs=rewards,
        args=GroupRelativeConfig(**arguments(tmp_path, **overrides)),
        train_dataset=Dataset.from_list(rows),
    )


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        (parity_reward, {"advantage": "process_grpo"}, "one step reward and nothing else; got 1 rewards, 0"),
        ([parity_reward, step_reward], {"advantage": "gigpo"}, "got 2 rewards, 1 of them"),
        (
            [number_reward, {"name": "format", "mode": "gate"}],
            {"advantage": "gdpo"},
            "gate 'format' could multiply; set mode: add",
        ),
        (parity_reward, {"advantage": "mc_grpo"}, "num_generations=4 must be odd, such as 5"),
        (parity_reward, {"advantage": "pkpo", "advantage_kwargs": {"k": 9}}, "9"),
        (parity_reward, {"advantage": "hicra"}, "planning_mask"),
    ],
)
def test_what_cannot_work_is_refused_when_the_trainer_is_built(
    tiny_model, arithmetic_rows, tmp_path, rewards, options, message
):
    with pytest.raises(ConfigError, match=message):
        build(tiny_model, arithmetic_rows, tmp_path, rewards, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"advantage": "shape/kimi_length"}, "belongs in reward_shaping"),
        ({"advantage": "kl/k1"}, "belongs in kl_estimator"),
        ({"advantage": "select/pods_mask"}, "says which groups to keep"),
        ({"advantage": "gdpo", "reward_shaping": ["shorterbetter"]}, "each reward by itself"),
        ({"advantage": "process_grpo", "reward_shaping": ["shorterbetter"]}, "rewards of steps"),
        ({"advantage": "remax", "reward_shaping": ["shorterbetter"]}, "baseline"),
        ({"reward_shaping": ["dapo_overlong"]}, "max_completion_length=8 never reaches"),
        ({"reward_shaping": ["dapo_overlonge"]}, "did you mean 'shape/dapo_overlong'"),
        ({"reward_shaping": [{"name": "shorterbetter", "gamma": 1}]}, "no parameter 'gamma'"),
        ({"reward_shaping": [{"alpha": 1}]}, "has no name"),
        ({"reward_shaping": ["{alpha: 1"]}, "is not JSON"),
        ({"advantage_inputs": "metric"}, "not a mapping"),
        ({"advantage": "entropy_adv", "loss_type": "vespo"}, "loss_type='vespo' needs one advantage"),
        ({"advantage": "entropy_adv", "off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold=0.1"),
        ({"advantage": "process_grpo", "shuffle_rewards": True}, "shuffle_rewards"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        GroupRelativeConfig(**arguments(tmp_path, **options))


@pytest.mark.tiny
def test_policy_inputs_are_those_of_the_model(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="otb")
    trainer._scorer.collector.sources |= find_sources(bind_params("entropy_adv"), {}, [], False)
    trainer._scorer.collector.sources |= find_sources(bind_params("unlikeliness"), {}, [], False)
    inputs = {}
    collect = trainer._scorer.collector.collect

    def keep(*args):
        inputs.update(collect(*args))
        return {name: inputs[name] for name in ("logp", "sum_pi_sq")}

    trainer._scorer.collector.collect = keep
    output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    keep_last = output["completion_ids"].size(1)
    with torch.no_grad():
        logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -keep_last - 1 : -1]
    logps = (logits / trainer.temperature).log_softmax(dim=-1)
    written = output["completion_mask"].bool()
    expected = {
        "logp": logps.gather(2, output["completion_ids"].unsqueeze(2)).squeeze(2),
        "sum_pi_sq": logps.exp().square().sum(dim=2),
        "entropies": -(logps.exp() * logps).sum(dim=2),
    }
    for name, table in expected.items():
        got = inputs[name].flatten(0, 1)
        assert got.isnan().equal(~written)
        torch.testing.assert_close(got[written], table[written].double(), rtol=1e-4, atol=1e-5)
    total = torch.where(written, expected["logp"], 0.0).sum(dim=1)
    torch.testing.assert_close(inputs["seq_logp"].flatten(), total.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.tiny
@pytest.mark.parametrize("options", [{}, {"num_iterations": 2}, {"num_iterations": 2, "beta": 0.0}])
def test_entropies_come_from_the_pass_that_is_made_anyway(tiny_model, arithmetic_rows, tmp_path, options, monkeypatch):
    passes = []
    parent = GRPOTrainer._get_per_token_logps_and_entropies

    @functools.wraps(parent)
    def count(self, model, *args, **kwargs):
        passes.append("policy" if model is self.model else "reference")
        return parent(self, model, *args, **kwargs)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", count)
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="entropy_adv", **options)
    output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    assert passes.count("policy") == 1
    assert output["advantages"].shape == output["completion_ids"].shape


@pytest.mark.tiny
def test_a_completion_without_an_input_leaves_the_group(tiny_model, arithmetic_rows, tmp_path):
    rows = [{**row, "metric": None if i == 0 else float(i)} for i, row in enumerate(arithmetic_rows)]
    trainer = build(tiny_model, rows, tmp_path, [number_reward, short_reward], advantage="canon")
    output = trainer._generate_and_score_completions([rows[i // 4] for i in range(8)])
    assert output["advantages"][:4].tolist() == [0.0] * 4
    assert output["tool_mask"][:4].sum() == 0, "rows that cannot be compared leave the loss"
    assert output["tool_mask"][4:].any()
