"""Properties that hold for whole families: a new estimator is covered by adding its name to the claims it makes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import estimate, list_advantages
from trl_grpo_ext.advantages import bind_params
from trl_grpo_ext.advantages.inputs import INPUTS


K = {"k": 2}
PARAMS = {"passk_training": K, "max_at_k": K, "pkpo": K, "pods": {"m": 2}, "gfpo": {"k": 2}}
SEQUENCE = [name for name in list_advantages() if bind_params(name).level == "completion"]
# The filter runs over the completions in order; a list is what it is defined on.
ORDER_MATTERS = {"krpo"}
# Only the position decides between equal rewards.
TIES_BY_POSITION = {"gopo_rank", "pods", "gfpo", "mc_grpo", "canon"}
SHIFT_INVARIANT = [
    *("grpo", "dr_grpo", "ppo_lite", "gpg", "dgae", "rloo", "opo", "js_shrinkage", "mc_grpo", "qae", "gopo_rank"),
    *("best_minus_second", "rs_grpo", "opmd", "asymre", "entropic", "edge_eda", "canon", "stratified", "pods"),
    *("gfpo", "mo_grpo", "gdpo", "reinforce_pp", "reinforce_pp_baseline"),
]
# Invariant to the scale of the rewards with eps = 0, and only then.
SCALE_INVARIANT = {
    **{name: {"eps": 0.0} for name in ("grpo", "ppo_lite", "dgae", "maxrl", "qae", "edge_eda", "stratified")},
    **{name: {**PARAMS[name], "eps": 0.0} for name in ("pods", "gfpo")},
    "best_minus_second": {"eps": 0.0, "normalize": True},
    "mo_grpo": {"eps": 0.0},
    "gopo_rank": {},
    "treerpo_norm": None,  # rewards are in [0, 1]: no scale to be invariant to
}
SCALE_EQUIVARIANT = ["dr_grpo", "rloo", "gpg", "opo", "js_shrinkage", "canon", "max_at_k", "pkpo"]
SUM_TO_ZERO = ["grpo", "dr_grpo", "rloo", "ppo_lite", "gpg", "dgae", "maxrl", "treerpo_norm", "rs_grpo", "mo_grpo"]

# Values that floats hold exactly, so that equal rewards stay equal under shift and scale.
levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])
batches = st.integers(2, 3).flatmap(
    lambda groups: st.integers(4, 6).flatmap(
        lambda size: st.lists(st.lists(levels, min_size=size, max_size=size), min_size=groups, max_size=groups)
    )
)


def extra(name: str, rewards: list, seed: int = 0) -> dict[str, torch.Tensor]:
    """Inputs of the right shape, all different."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(rewards), len(rewards[0]))
    shapes = {"completion": shape, "group_list": shape, "group": shape[:1], "batch": ()}
    inputs = {
        key: torch.rand(shapes[INPUTS[key].level], generator=generator, dtype=torch.float64) + 0.25
        for key in bind_params(name).inputs
    }
    if "strata" in inputs:
        inputs["strata"] = (inputs["strata"] > 0.75).double()
    return inputs


def run(name: str, rewards: list | torch.Tensor, inputs: dict, params: dict | None = None) -> torch.Tensor:
    table = torch.as_tensor(rewards, dtype=torch.float64)
    if bind_params(name).layout == "components":
        table = torch.stack([table, table.square()], dim=2)
    return estimate(name, table, params=PARAMS.get(name) if params is None else params, extra=inputs)


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("name", [name for name in SEQUENCE if name not in ORDER_MATTERS])
@given(rewards=batches, seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_permuting_a_group_permutes_its_advantages(name, rewards, seed):
    if name in TIES_BY_POSITION:
        rewards = [[value + i / 64 for i, value in enumerate(group)] for group in rewards]
    order = torch.randperm(len(rewards[0]), generator=torch.Generator().manual_seed(seed))
    inputs = extra(name, rewards)
    permuted = {key: value[:, order] if INPUTS[key].level == "completion" else value for key, value in inputs.items()}
    table = torch.tensor(rewards, dtype=torch.float64)
    close(run(name, table[:, order], permuted), run(name, table, inputs)[:, order])


@pytest.mark.parametrize("name", sorted(ORDER_MATTERS))
def test_order_matters_where_it_says_so(name):
    forward, backward = run(name, [[1.0, 0.0, 0.0]], {}), run(name, [[0.0, 0.0, 1.0]], {})
    assert not torch.allclose(forward, backward.flip(1))


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
@given(rewards=batches, shift=st.sampled_from([-4.0, -0.5, 2.0, 8.0]))
@settings(max_examples=15, deadline=None)
def test_adding_a_constant_changes_nothing(name, rewards, shift):
    inputs = extra(name, rewards)
    if bind_params(name).layout == "components":  # shift the components, not what they are made from
        table = torch.tensor(rewards, dtype=torch.float64)
        table = torch.stack([table, table.square()], dim=2)
        close(estimate(name, table + shift, extra=inputs), estimate(name, table, extra=inputs))
        return
    table = torch.tensor(rewards, dtype=torch.float64)
    close(run(name, table + shift, inputs), run(name, table, inputs))


@pytest.mark.parametrize("name", [name for name, params in SCALE_INVARIANT.items() if params is not None])
@given(rewards=batches, scale=st.sampled_from([2.0**-30, 2.0**-10, 4.0, 2.0**20]))
@settings(max_examples=15, deadline=None)
def test_scaling_changes_nothing_without_eps(name, rewards, scale):
    inputs, params = extra(name, rewards), SCALE_INVARIANT[name]
    table = torch.tensor(rewards, dtype=torch.float64)
    if bind_params(name).layout == "components":
        table = torch.stack([table, table.square()], dim=2)
        close(
            estimate(name, table * scale, params=params, extra=inputs),
            estimate(name, table, params=params, extra=inputs),
        )
        return
    close(run(name, table * scale, inputs, params), run(name, table, inputs, params))


@pytest.mark.parametrize("name", SCALE_EQUIVARIANT)
@given(rewards=batches, scale=st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**20]))
@settings(max_examples=15, deadline=None)
def test_scaling_scales(name, rewards, scale):
    inputs = extra(name, rewards)
    table = torch.tensor(rewards, dtype=torch.float64)
    close(run(name, table * scale, inputs) / scale, run(name, table, inputs))


@pytest.mark.parametrize("name", SUM_TO_ZERO)
@given(rewards=batches)
@settings(max_examples=15, deadline=None)
def test_a_group_sums_to_zero(name, rewards):
    advantages = run(name, rewards, extra(name, rewards))
    close(advantages.sum(dim=1), torch.zeros(len(rewards), dtype=torch.float64))


@pytest.mark.parametrize("name", SEQUENCE)
@given(group=st.lists(levels, min_size=6, max_size=6), missing=st.sets(st.integers(0, 5), max_size=2))
@settings(max_examples=15, deadline=None)
def test_unscorable_completions_are_as_if_they_were_not_there(name, group, missing):
    kept = [i for i in range(6) if i not in missing]
    inputs = extra(name, [group])
    table = torch.tensor([group], dtype=torch.float64)
    holed = table.clone()
    holed[:, sorted(missing)] = torch.nan
    advantages = run(name, holed, inputs)
    assert not advantages[:, sorted(missing)].any()
    smaller = {key: value[:, kept] if INPUTS[key].level == "completion" else value for key, value in inputs.items()}
    close(advantages[:, kept], run(name, table[:, kept], smaller))


@pytest.mark.parametrize("name", SEQUENCE)
def test_result_has_the_type_and_the_device_of_the_rewards(name):
    rewards = torch.tensor([[1.0, 0.0, 0.5, 0.25], [0.0, 1.0, 0.0, 0.0]])
    table = rewards if bind_params(name).layout == "rewards" else rewards.unsqueeze(2).expand(-1, -1, 2)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        got = estimate(name, table.to(dtype), params=PARAMS.get(name), extra=extra(name, rewards.tolist()))
        assert got.dtype == dtype
        assert got.shape == rewards.shape
