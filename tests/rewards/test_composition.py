"""Specs, resolution and composition of rewards."""

import math
import pickle

import pytest
import torch

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.rewards import Composition, FormatReward, MathReward, RewardSpec, resolve_rewards


NAN = math.nan


def add(weight: float = 1.0, **kwargs) -> RewardSpec:
    return RewardSpec("a", weight=weight, mode="add", required=kwargs.pop("required", False), **kwargs)


def gate(**kwargs) -> RewardSpec:
    return RewardSpec("g", mode="gate", required=False, **kwargs)


def combine(specs: list[RewardSpec], rows: list[list[float]]) -> list[float]:
    return Composition(specs).combine(torch.tensor(rows, dtype=torch.float32)).tolist()


def some_reward(completions, **kwargs):
    return [0.5] * len(completions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_plain_rewards_are_trls_own_sum_bit_for_bit(dtype):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(64, 3, generator=generator, dtype=dtype)
    matrix[torch.rand(64, 3, generator=generator) < 0.2] = NAN
    weights = [0.1, 1.0, 0.7]
    expected = (matrix * torch.tensor(weights, dtype=dtype).unsqueeze(0)).nansum(dim=1)
    expected[matrix.isnan().all(dim=1)] = NAN
    composition = Composition([add(weight) for weight in weights])
    combined = composition.combine(matrix)
    assert combined.dtype == dtype
    assert torch.equal(combined.nan_to_num(9.0), expected.nan_to_num(9.0))
    assert composition.weights == weights


def test_a_gate_multiplies():
    assert combine([add(), gate()], [[1, 1], [1, 0], [0, 1], [0, 0]]) == [1, 0, 0, 0]
    assert combine([add(2.0), add(0.5), gate()], [[1, 1, 1], [1, 1, 0.5]]) == [2.5, 1.25]
    assert combine([gate(), gate()], [[1, 1], [1, 0]]) == [1, 0]


def test_no_punishment_is_escaped_by_breaking_the_format():
    assert combine([add(), add(0.5), gate()], [[0, -1, 1], [0, -1, 0], [1, -1, 1], [1, -1, 0]]) == [-0.5, -0.5, 0.5, 0]


def test_a_gate_has_no_weight():
    with pytest.raises(ConfigError, match=r"weight=0\.1 has no effect on a gate"):
        RewardSpec("format", weight=0.1).resolve()


def test_all_wrong_and_one_misses_the_format_gives_nothing_to_learn():
    rows = [[0.0, 1.0]] * 7 + [[0.0, 0.0]]
    assert set(combine([add(), gate()], rows)) == {0.0}


def test_clip_comes_before_the_weight():
    assert combine([add(2.0, clip=[-1, 1])], [[5.0], [-5.0], [0.5]]) == [2.0, -2.0, 1.0]


def test_what_cannot_be_scored():
    matrix = torch.tensor([[NAN, 1.0], [1.0, NAN], [NAN, NAN], [1.0, 1.0]])
    cases = [
        ([add(), add()], [False, False, True, False]),
        ([add(required=True), add()], [True, False, True, False]),
        ([add(), gate()], [False, True, True, False]),
        ([gate(), gate()], [True, True, True, False]),
    ]
    for specs, expected in cases:
        composition = Composition(specs)
        assert composition.unscorable(matrix).tolist() == expected
        assert composition.combine(matrix).isnan().tolist() == expected


def test_a_failed_judge_is_not_a_wrong_answer():
    funcs, composition = resolve_rewards(["math", {"name": "format", "mode": "add"}])
    assert [type(func) for func in funcs] == [MathReward, FormatReward]
    matrix = torch.tensor([[NAN, 1.0], [1.0, 1.0]])
    assert composition.unscorable(matrix).tolist() == [True, False]


def test_the_matrix_must_fit():
    with pytest.raises(ConfigError, match=r"shape \(2, 3\); expected one column for each of the 1"):
        Composition([add()]).combine(torch.zeros(2, 3))


def test_the_input_is_left_alone():
    matrix = torch.tensor([[5.0]])
    Composition([add(clip=[0, 1])]).combine(matrix)
    assert matrix.item() == 5.0


def test_defaults_come_from_the_class():
    _, composition = resolve_rewards(["math", "format", "length", some_reward])
    assert [(spec.mode, spec.required) for spec in composition.specs] == [
        ("add", True),
        ("gate", False),
        ("add", False),
        ("add", False),
    ]
    _, changed = resolve_rewards([{"name": "math", "required": False, "weight": 2, "clip": [0, 1]}])
    assert changed.specs[0].required is False
    assert changed.weights == [2.0]


def test_parse():
    assert RewardSpec.parse("math") == RewardSpec("math")
    spec = RewardSpec.parse({"name": "math", "params": {"timeout": 3.0}, "clip": [0, 1]})
    assert (spec.params, spec.clip) == ({"timeout": 3.0}, (0.0, 1.0))
    assert RewardSpec.parse(spec) is spec
    parsed = RewardSpec.parse(some_reward)
    assert (parsed.name, parsed.func) == ("some_reward", some_reward)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"name": "math", "wieght": 2}, "unknown key 'wieght'; did you mean 'weight'"),
        ({"name": "math", "func": some_reward}, "unknown key 'func'"),
        ({"weight": 2}, "has no name"),
        ({"name": "math", "weight": "2"}, "weight is '2'"),
        ({"name": "math", "weight": NAN}, "weight is nan"),
        ({"name": "math", "weight": True}, "weight is True"),
        ({"name": "math", "mode": "multiply"}, "mode is 'multiply'"),
        ({"name": "math", "required": "yes"}, "required is 'yes'"),
        ({"name": "math", "clip": [1, 0]}, "clip is"),
        ({"name": "math", "clip": [1]}, "clip is"),
        ({"name": "math", "params": [1]}, "params is"),
        (3, "a reward is 3"),
    ],
)
def test_mistakes_are_named(written, message):
    with pytest.raises(ConfigError, match=message):
        RewardSpec.parse(written)


def test_resolution(tmp_path):
    module = torch.nn.Linear(1, 1)
    funcs, composition = resolve_rewards(
        ["trl.rewards.think_format_reward", "org/reward-model", str(tmp_path), some_reward, module]
    )
    assert funcs[0].__name__ == "think_format_reward"
    assert funcs[1:] == ["org/reward-model", str(tmp_path), some_reward, module]
    assert composition.weights == [1.0] * 5
    assert all((spec.mode, spec.required) == ("add", False) for spec in composition.specs)
    assert resolve_rewards("math")[0][0].__name__ == "math_reward"
    assert resolve_rewards(None)[0] == []


@pytest.mark.parametrize("name", ["maths", "frmat"])
def test_an_unknown_name_names_the_nearest(name):
    with pytest.raises(ConfigError, match="did you mean"):
        resolve_rewards([name])


def test_wrong_params_and_paths():
    with pytest.raises(ConfigError, match="no parameter 'cashe'; did you mean 'cache'"):
        resolve_rewards([{"name": "length", "params": {"cashe": 3}}])
    with pytest.raises(ConfigError, match="takes no params"):
        resolve_rewards([{"name": "org/model", "params": {"a": 1}}])
    with pytest.raises(ConfigError, match=r"cannot import 'no\.such\.thing'"):
        resolve_rewards(["no.such.thing"])


def test_resolved_rewards_are_picklable():
    funcs, composition = resolve_rewards(
        ["math", {"name": "length", "params": {"max_completion_length": 50, "cache": 5}}]
    )
    assert [func.__name__ for func in pickle.loads(pickle.dumps(funcs))] == ["math_reward", "length_reward"]
    assert pickle.loads(pickle.dumps(composition)).weights == [1.0, 1.0]
