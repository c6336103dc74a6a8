"""A required reward that could not judge: the row leaves statistics, gradient and every denominator."""

import math

import pytest
import torch

from tests.trainer.launch import processes
from tests.trainer.removed_rows import LOSS_TYPES, build, compare
from trl_grpo_ext.errors import StageError


def check(result: dict) -> None:
    assert 0 < result["kept"] < result["rows"]
    torch.testing.assert_close(result["loss"], result["expected_loss"], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(result["gradient"], result["expected_gradient"], rtol=1e-4, atol=1e-6)
    assert result["gradient"].abs().max() > 1e-4


@pytest.mark.tiny
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_loss_is_that_of_the_kept_rows(tiny_model, arithmetic_rows, tmp_path, loss_type):
    check(compare(build(tiny_model, arithmetic_rows, tmp_path, loss_type=loss_type)))


@pytest.mark.tiny
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize(
    "options",
    [
        {"advantage": "pods", "advantage_kwargs": {"m": 2}},
        {"advantage": "gfpo", "advantage_kwargs": {"k": 2}},
        {"advantage": "mc_grpo", "num_generations": 5, "per_device_train_batch_size": 5},
        {"advantage": "pods", "advantage_kwargs": {"m": 2}, "kl_estimator": "k2", "use_bias_correction_kl": False},
    ],
    ids=["pods", "gfpo", "mc_grpo", "pods_k2"],
)
def test_rows_that_the_estimator_drops_leave_every_denominator(
    tiny_model, arithmetic_rows, tmp_path, loss_type, options
):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, loss_type=loss_type, beta=0.5, **options)
    torch.manual_seed(0)
    for parameter in trainer.model.parameters():  # away from the reference, so that the KL term counts
        parameter.data += 0.02 * torch.randn_like(parameter)
    check(compare(trainer))


@pytest.mark.tiny
def test_entropy_bonus_is_not_rescaled(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, loss_type="grpo", beta=0.0, gradient_accumulation_steps=1)
    trainer.entropy_coef, trainer._entropy_bonus_enabled = 1.0, True
    result = compare(trainer)
    torch.testing.assert_close(result["loss"], result["expected_loss"], rtol=1e-5, atol=1e-6)


@pytest.mark.tiny
def test_each_window_has_its_own_denominator(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(
        tiny_model, arithmetic_rows, tmp_path, loss_type="grpo", gradient_accumulation_steps=1, steps_per_generation=4
    )
    trainer.model.train()
    trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    for inputs in trainer._buffered_inputs:
        kept = int(inputs["row_kept"].sum())
        assert inputs["loss_weight"] == (4 / kept if kept else 0.0)


@pytest.mark.tiny
def test_micro_batches_without_rows_do_not_count_in_bnpo(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(
        tiny_model, arithmetic_rows, tmp_path, loss_type="bnpo", per_device_train_batch_size=1, num_generations=2
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    batches = iter(trainer.get_train_dataloader())
    kept: list[int] = []
    while sum(kept) != 1:  # until one of the two micro-batches, of one row each, is empty
        trainer._buffered_inputs = None
        trainer._prepare_inputs(next(batches))
        kept = [int(inputs["row_kept"].sum()) if "row_kept" in inputs else 1 for inputs in trainer._buffered_inputs]
    assert [inputs["loss_weight"] for inputs in trainer._buffered_inputs] == [2.0, 2.0]


@pytest.mark.tiny
def test_reused_generations_and_evaluation_train_on(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(
        tiny_model,
        arithmetic_rows,
        tmp_path,
        loss_type="grpo",
        num_iterations=2,
        max_steps=4,
        per_device_eval_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        eval_dataset=arithmetic_rows[:4],
    )
    trainer.train()
    logged = trainer.state.log_history
    assert all(math.isfinite(entry["loss"]) for entry in logged if "loss" in entry)
    evaluations = [entry for entry in logged if "eval_loss" in entry]
    assert len(evaluations) == 2
    assert all(math.isfinite(entry["eval_loss"]) for entry in evaluations)
    assert any(entry["eval_rewards/judge_that_fails/unscored_frac"] > 0 for entry in evaluations)


@pytest.mark.tiny
def test_statistics_and_logs_leave_the_row_out(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path)
    trainer.model.train()
    trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    matrix = trainer._reward_matrix
    unscored = matrix.isnan().all(dim=1)
    assert unscored.any()
    assert matrix[~unscored, 1].eq(1.0).all()
    metrics = trainer._metrics["train"]
    assert metrics["reward"][-1] == pytest.approx(matrix[~unscored].sum(dim=1).mean().item())
    assert metrics["rewards/judge_that_fails/unscored_frac"] == [pytest.approx(unscored.float().mean().item())]
    assert metrics["rewards/always_one/unscored_frac"] == [0.0]
    logged = torch.tensor(list(trainer._logs["advantages"]))
    assert logged[unscored].eq(0.0).all()


def never_judges(completions, **kwargs):
    return [None] * len(completions)


@pytest.mark.tiny
def test_a_judge_that_is_down_stops_the_run_and_moves_nothing(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, max_unscored_frac=0.2)
    trainer.reward_funcs[0] = never_judges
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    with pytest.raises(StageError, match=r"8 of the last 8 completions could not be judged"):
        trainer.train()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


@pytest.mark.tiny
def test_a_few_failures_in_a_small_batch_do_not_stop_the_run(tiny_model, arithmetic_rows, tmp_path):
    trainer = build(tiny_model, arithmetic_rows, tmp_path, max_unscored_frac=0.0, max_steps=2)
    trainer.train()
    assert trainer.state.global_step == 2
    assert any(unjudged for unjudged, _, _ in trainer._unscored)


@pytest.mark.distributed
def test_loss_is_that_of_the_kept_rows_over_two_processes(tiny_model, arithmetic_rows, tmp_path):
    request = {"model": tiny_model, "rows": arithmetic_rows, "out": str(tmp_path)}
    results = processes(2, "tests.trainer.removed_rows", request, tmp_path)
    assert sorted(results) == sorted(LOSS_TYPES)
    for result in results.values():
        check(result)
