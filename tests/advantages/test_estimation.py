"""`estimate`: layouts in and out, and what it refuses."""

import math

import pytest
import torch

from trl_grpo_ext import estimate, list_advantages
from trl_grpo_ext.advantages import ADVANTAGES, FAMILIES, bind_params
from trl_grpo_ext.errors import ConfigError, DataError


def test_tensor_keeps_dtype_and_shape():
    result = estimate("grpo", torch.tensor([[1.0, 0.0]], dtype=torch.float32))
    assert result.dtype == torch.float32
    assert result.shape == (1, 2)


def test_token_values_are_as_many_as_tokens():
    entropies = [[[0.1, 0.2, 0.3], [0.4]]]
    got = estimate("entropy_adv", [[1.0, 0.0]], extra={"entropies": entropies})
    assert [len(values) for values in got[0]] == [3, 1]
    padded = torch.tensor([[[0.1, 0.2, 0.3], [0.4, math.nan, math.nan]]], dtype=torch.float64)
    table = estimate("entropy_adv", torch.tensor([[1.0, 0.0]], dtype=torch.float64), extra={"entropies": padded})
    assert table.shape == (1, 2, 3)
    assert table[0, 1, 1:].tolist() == [0.0, 0.0]
    assert table[0, 0].tolist() == pytest.approx(got[0][0])


def test_step_values_are_as_many_as_steps_and_none_for_an_unscorable_completion():
    got = estimate("process_grpo", [[[1.0, 0.0], None, [0.5]]])
    assert [len(values) for values in got[0]] == [2, 0, 1]


def test_several_rewards_may_be_missing_singly_or_altogether():
    got = estimate("mo_grpo", [[[1.0, None], [0.0, 1.0], None]], extra={"weights": [1.0, 0.5]})
    assert got[0][2] == 0.0
    assert got[0][0] > 0 > got[0][1]


def test_shaped_rewards_keep_what_is_missing():
    got = estimate("shape/shorterbetter", [[1.0, None]], extra={"lengths": [[10, 20]]})
    assert got == [[2.0, None]]


def test_selection_is_ones_and_zeros():
    assert estimate("select/dapo_dynamic", [[1.0, 0.0], [1.0, 1.0]]) == [[1.0, 1.0], [0.0, 0.0]]


def test_unknown_name_and_parameter_name_the_nearest():
    with pytest.raises(ConfigError, match="'dr_grpo'"):
        estimate("drgrpo", [[1.0, 0.0]])
    with pytest.raises(ConfigError, match="did you mean 'ddof'"):
        estimate("grpo", [[1.0, 0.0]], params={"dof": 0})


@pytest.mark.parametrize("params", [{"ddof": 2}, {"eps": -1.0}])
def test_a_divisor_that_makes_no_sense_is_refused(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        estimate("grpo", [[1.0, 0.0]], params=params)


@pytest.mark.parametrize(
    ("variant", "params", "message"),
    [
        ("grpo", {"eps": "1e-6"}, "write 1.0e-6"),
        ("grpo", {"ddof": True}, "is a bool"),
        ("qae", {"method": 1}, "is a int"),
        ("best_minus_second", {"normalize": "yes"}, "is a str"),
        ("best_minus_second", {"normalize": 1}, "is a int"),
    ],
)
def test_a_parameter_of_another_kind_is_refused(variant, params, message):
    with pytest.raises(ConfigError, match=message):
        estimate(variant, [[1.0, 0.0, 0.0, 0.0]], params=params)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[1.0], [1.0, 2.0]], "different sizes"),
        ([[math.inf, 0.0]], "infinite"),
        ([["right", {}]], "expected a number"),
        (torch.tensor([1.0, 0.0]), "expected .number of groups"),
        (torch.tensor([[1, 0]]), "floating-point"),
        ([1.0, 0.0], "groups"),
    ],
    ids=["ragged", "infinite", "text", "flat", "integers", "flat_list"],
)
def test_bad_rewards_are_refused(rewards, message):
    with pytest.raises(DataError, match=message):
        estimate("grpo", rewards)


@pytest.mark.parametrize(
    ("variant", "extra", "message"),
    [
        ("opo", {}, "needs the input 'lengths'"),
        ("grpo", {"lengths": [[1, 2]]}, "takes no input 'lengths'"),
        ("opo", {"lengths": [[1, 2, 3]]}, r"shape \(1, 3\)"),
        ("remax", {"greedy_reward": [0.5, 0.5]}, r"shape \(2,\)"),
    ],
)
def test_bad_inputs_are_refused(variant, extra, message):
    with pytest.raises(DataError, match=message):
        estimate(variant, [[1.0, 0.0]], extra=extra)


def test_every_entry_of_a_family_can_be_loaded_and_no_other_is_listed():
    names = [name for names in FAMILIES.values() for name in names]
    assert len(names) == 63
    assert len(list_advantages()) == 53
    assert set(names) == set(ADVANTAGES.names())
    for name in names:
        assert bind_params(name).function.__name__ == name.rpartition("/")[2]
