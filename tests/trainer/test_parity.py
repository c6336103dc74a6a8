"""With `advantage="grpo"` and 0/1 rewards the run is the stock trainer's run."""

import pytest
import torch

from tests.trainer.launch import processes
from tests.trainer.runs import history, parity_reward, train, weights


def check(stock: dict, ours: dict) -> None:
    assert len(stock["history"]) == 3
    assert any(entry["grad_norm"] > 0 for entry in stock["history"])
    for expected, got in zip(stock["history"], ours["history"], strict=True):
        for key, value in expected.items():
            assert got[key] == pytest.approx(value, rel=1e-6, abs=1e-9), key
    for name, expected in stock["weights"].items():
        torch.testing.assert_close(ours["weights"][name], expected, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.tiny
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"])
def test_same_run_in_one_process(tiny_model, arithmetic_rows, tmp_path, loss_type):
    runs = {}
    for ours in (False, True):
        trainer = train(ours, tiny_model, arithmetic_rows, parity_reward, tmp_path, loss_type=loss_type)
        runs[ours] = {"history": history(trainer), "weights": weights(trainer)}
    check(runs[False], runs[True])


@pytest.mark.tiny
def test_same_run_with_reused_generations_and_two_rewards(tiny_model, arithmetic_rows, tmp_path):
    runs = {}
    rewards = [parity_reward, starts_with_a_digit]
    overrides = {"num_iterations": 2, "steps_per_generation": 4, "reward_weights": [1.0, 0.5]}
    for ours in (False, True):
        trainer = train(ours, tiny_model, arithmetic_rows, rewards, tmp_path, **overrides)
        runs[ours] = {"history": history(trainer), "weights": weights(trainer)}
    check(runs[False], runs[True])


@pytest.mark.distributed
def test_same_run_in_two_processes(tiny_model, arithmetic_rows, tmp_path):
    request = {"model": tiny_model, "rows": arithmetic_rows, "out": str(tmp_path), "overrides": {}}
    result = processes(2, "tests.trainer.runs", request, tmp_path)
    check(result["stock"], result["ours"])


def starts_with_a_digit(completions, **kwargs):
    return [float(completion[0]["content"][:1].isdigit()) for completion in completions]
