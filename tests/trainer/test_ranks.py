"""Groups straddle processes: two and three of them give the advantages of one, whatever the estimator."""

import pytest
import torch

from tests.trainer.launch import processes
from tests.trainer.scripted import GROUP, PROMPTS, cases, evaluate, run
from trl_grpo_ext import list_advantages


EVALUATED = ["grpo", "unlikeliness", "entropy_adv", "pods"]


@pytest.fixture(scope="module")
def alone(tiny_model, arithmetic_rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    result = run(tiny_model, arithmetic_rows, out, world=1)
    result["evaluation"] = {name: evaluate(tiny_model, arithmetic_rows, out, 1, name) for name in EVALUATED}
    return result


@pytest.mark.distributed
@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_give_the_advantages_of_one(alone, tiny_model, arithmetic_rows, tmp_path, world):
    assert GROUP * PROMPTS // world % GROUP, "no group would straddle"
    request = {
        "model": tiny_model,
        "rows": arithmetic_rows,
        "out": str(tmp_path),
        "world": world,
        "evaluated": EVALUATED,
    }
    shared = processes(world, "tests.trainer.scripted", request, tmp_path)
    assert set(list_advantages()) <= set(cases())
    for name in cases():
        for batch, (expected, got) in enumerate(zip(alone[name], shared[name], strict=True)):
            # Padding to another width changes the last digits of a log-probability.
            tolerance = 2e-4 * expected.abs().max().item()
            torch.testing.assert_close(got, expected, rtol=0, atol=tolerance, msg=f"{name}, batch {batch}")
            assert expected.abs().max() > 0, name
    for name in EVALUATED:
        check_evaluation(alone["evaluation"][name], shared["evaluation"][name])


def check_evaluation(alone: dict[str, list], shared: dict[str, list]) -> None:
    """Every prompt was evaluated, in whole groups, and each group as by one process."""
    assert set(alone) == set(shared)
    for prompt, expected in alone.items():
        assert len(shared[prompt]) % GROUP == 0
        for start in range(0, len(shared[prompt]), GROUP):
            for got, values in zip(shared[prompt][start : start + GROUP], expected, strict=True):
                width = min(len(got), len(values))  # padded to the longest of another batch
                assert got[:width] == pytest.approx(values[:width], rel=1e-3, abs=1e-4)
                assert not any(got[width:] + values[width:])
