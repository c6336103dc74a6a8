"""Every input of an estimator has a source, or the trainer refuses and says which."""

import functools

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from tests.trainer import scripted
from tests.trainer.runs import arguments, parity_reward
from tests.trainer.scripted import number_reward, short_reward, step_reward
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.advantages import ADVANTAGES, bind_params, list_advantages
from trl_grpo_ext.advantages.inputs import INPUTS
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.trainer.inputs import SUPPLIED, find_sources
from trl_grpo_ext.trainer.policy import PolicyPasses


def test_every_input_of_a_built_in_estimator_has_a_level():
    for name in list_advantages():
        estimator = bind_params(name)
        assert {*estimator.inputs, *estimator.optional_inputs} <= INPUTS.keys(), name


def test_override_comes_first_and_a_column_only_where_the_trainer_cannot_know_better():
    estimator = bind_params("opo")
    assert find_sources(estimator, {}, [], False)["lengths"].kind == "supplied"
    assert find_sources(estimator, {}, ["lengths"], False)["lengths"].kind == "supplied"
    assert find_sources(bind_params("pvpo"), {}, ["ref_rewards"], False)["ref_rewards"].kind == "column"
    assert find_sources(bind_params("canon"), {}, ["metric"], False)["metric"].kind == "column"
    override = {"lengths": "tests.trainer.scripted.strata"}
    assert find_sources(estimator, override, ["lengths"], False)["lengths"].kind == "function"


def test_optional_input_is_taken_only_when_it_is_asked_for():
    assert find_sources(bind_params("mapo"), {}, ["correct"], False) == {}
    override = {"correct": "tests.trainer.scripted.strata"}
    assert find_sources(bind_params("mapo"), override, [], False)["correct"].kind == "function"


def test_a_stream_that_does_not_tell_its_columns_is_trusted():
    assert find_sources(bind_params("canon"), {}, None, False)["metric"].kind == "column"
    assert find_sources(bind_params("opo"), {}, None, False)["lengths"].kind == "supplied"


@pytest.mark.parametrize(
    ("advantage", "overrides", "message"),
    [
        ("canon", {}, r"needs 'metric'.*advantage_inputs: \{metric:"),
        ("gigpo", {}, "needs 'anchors'.*step reward"),
        ("grpo", {"lengths": "lengths"}, "takes no input 'lengths'"),
        ("canon", {"metric": "seq_entropie"}, "did you mean 'seq_entropy'"),
        ("canon", {"metric": "entropies"}, "one value for each token, and 'metric' needs one for each completion"),
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
        (parity_reward, {"advantage": "pods", "advantage_kwargs": {"m": 1}}, "nothing would be learned"),
        (parity_reward, {"advantage": "passk_training", "advantage_kwargs": {"k": 4}}, "nothing would be learned"),
        ({"name": "tests.trainer.scripted.step_reward", "weight": 2.0}, {"advantage": "process_grpo"}, "weight=2.0"),
        ({"name": "tests.trainer.scripted.step_reward", "clip": [0, 1]}, {"advantage": "process_grpo"}, "clip=.0"),
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
        ({"reward_shaping": "shorterbetter"}, "is not a list"),
        ({"reward_shaping": [{"name": "kimi_length", "weight": float("nan")}]}, "not a finite number"),
        ({"advantage": 3}, "not a name"),
        ({"advantage": "math.pi"}, "not a function"),
        ({"advantage": "os.path.join"}, "is no advantage estimator"),
        ({"advantage": ".."}, "cannot import"),
        ({"advantage_kwargs": [1]}, "not a mapping"),
        ({"advantage_kwargs": {"eps": float("nan")}}, "not a finite number"),
        ({"advantage_kwargs": {1: 2}}, "no parameter 1"),
        ({"advantage_inputs": {"metric": 3}}, "neither a name nor an import path"),
        ({"max_unscored_frac": "x"}, "no number"),
        ({"shuffle_rewards": "yes"}, "neither true nor false"),
        ({"kl_in": "reward", "beta": 0.1, "mask_truncated_completions": True}, "mask_truncated_completions"),
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
    trainer.passes = PolicyPasses(trainer, entropies=True, squares=True)
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
@pytest.mark.parametrize("name", SUPPLIED)
def test_every_supplied_input_reaches_an_estimator_under_any_name(tiny_model, arithmetic_rows, tmp_path, name):
    def mine(rewards, wanted):
        seen.append(wanted)
        return rewards - rewards.nanmean(dim=1, keepdim=True)

    seen: list[torch.Tensor] = []
    ADVANTAGES._objects[f"takes_{name}"] = mine
    try:
        options = {"advantage": f"takes_{name}", "advantage_inputs": {"wanted": name}}
        trainer = build(tiny_model, arithmetic_rows[:4], tmp_path, **options)
        output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    finally:
        del ADVANTAGES._objects[f"takes_{name}"]
    shapes = {
        "completion": (2, 4),
        "token": (2, 4, output["completion_ids"].size(1)),
        "group": (2,),
        "group_list": (2, 4),
        "batch": (1,) if name == "weights" else (),
    }
    assert tuple(seen[-1].shape) == shapes[INPUTS[name].level]


@pytest.mark.tiny
def test_a_completion_without_an_input_leaves_the_group(tiny_model, arithmetic_rows, tmp_path):
    rows = [{**row, "metric": None if i == 0 else float(i)} for i, row in enumerate(arithmetic_rows)]
    trainer = build(tiny_model, rows, tmp_path, [number_reward, short_reward], advantage="canon")
    output = trainer._generate_and_score_completions([rows[i // 4] for i in range(8)])
    assert output["advantages"][:4].tolist() == [0.0] * 4
    assert output["tool_mask"][:4].sum() == 0, "rows that cannot be compared leave the loss"
    assert output["tool_mask"][4:].any()


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda ids: [[1.0] * (len(one) - 1) for one in ids], r"for a completion of \d+ tokens"),
        (lambda ids: [1.0 for _ in ids], r"for a completion of \d+ tokens"),
        (lambda ids: None, "returned a NoneType"),
        (lambda ids: [[1.0] * len(one) for one in ids[1:]], "returned 7 values for 8 completions"),
        (lambda ids: [["a"] * len(one) for one in ids], "expected a number, found 'a'"),
    ],
    ids=["short", "flat", "none", "few", "text"],
)
def test_values_that_do_not_fit_are_named(tiny_model, arithmetic_rows, tmp_path, monkeypatch, values, message):
    monkeypatch.setattr(scripted, "planning_mask", lambda completion_ids, **kwargs: values(completion_ids))
    inputs = {"planning_mask": "tests.trainer.scripted.planning_mask"}
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="hicra", advantage_inputs=inputs)
    with pytest.raises(DataError, match=message):
        trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])


@pytest.mark.tiny
def test_arrays_do_and_a_missing_row_leaves_the_loss(tiny_model, arithmetic_rows, tmp_path, monkeypatch):
    def mask(completion_ids, **kwargs):
        return [None if i == 2 else torch.ones(len(ids)) for i, ids in enumerate(completion_ids)]

    monkeypatch.setattr(scripted, "planning_mask", mask)
    inputs = {"planning_mask": "tests.trainer.scripted.planning_mask"}
    trainer = build(tiny_model, arithmetic_rows, tmp_path, advantage="hicra", advantage_inputs=inputs)
    output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    assert output["row_kept"].tolist() == [i != 2 for i in range(8)]
    assert trainer._metrics["eval"]["frac_lacking_input"] == [pytest.approx(1 / 8)]


@pytest.mark.tiny
@pytest.mark.parametrize("advantage", ["unlikeliness", "edge_eda", "opo", "entropy_adv"])
def test_truncated_completions_stay_part_of_their_group(tiny_model, arithmetic_rows, tmp_path, advantage):
    """Masked for the loss, they are compared as if they were not."""
    found = {}
    for masked in (False, True):
        options = {"advantage": advantage, "mask_truncated_completions": masked, "max_completion_length": 6}
        trainer = build(tiny_model, arithmetic_rows, tmp_path, number_reward, **options)
        generate = trainer._generate

        def with_an_end(prompts, generate=generate, trainer=trainer):
            output = list(generate(prompts))
            output[1][0] = [*output[1][0][:3], trainer.processing_class.eos_token_id]  # the others are cut off
            return tuple(output)

        trainer._generate = with_an_end
        torch.manual_seed(1)
        found[masked] = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    assert found[True]["completion_mask"][0].sum() == 4
    assert (found[True]["completion_mask"].sum(dim=1) == 0).sum() >= 4
    torch.testing.assert_close(found[True]["advantages"], found[False]["advantages"], rtol=1e-4, atol=1e-5)


@pytest.mark.tiny
def test_an_advantage_too_large_for_the_loss_is_named(tiny_model, arithmetic_rows, tmp_path):
    options = {"advantage": "dr_grpo", "reward_shaping": [{"name": "kimi_length", "weight": 1e300}]}
    trainer = build(tiny_model, arithmetic_rows, tmp_path, number_reward, **options)
    trainer._scorer.shapers[0] = lambda rewards, lengths: rewards * 1e300
    with pytest.raises(DataError, match=r"gave .* it must be a finite torch\.float32"):
        trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
