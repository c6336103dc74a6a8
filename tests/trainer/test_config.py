"""`GroupRelativeConfig`: what it accepts and what it refuses."""

import pytest

from tests.trainer.runs import arguments
from trl_grpo_ext import GroupRelativeConfig
from trl_grpo_ext.errors import ConfigError


def config(tmp_path, **overrides) -> GroupRelativeConfig:
    return GroupRelativeConfig(**arguments(tmp_path, **overrides))


def test_defaults_are_those_of_trl(tmp_path):
    assert config(tmp_path).advantage == "grpo"


def test_kwargs_may_come_as_json_from_the_command_line(tmp_path):
    assert config(tmp_path, advantage_kwargs='{"eps": 1e-6}').advantage_kwargs == {"eps": 1e-6}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"advantage": "rlo"}, "did you mean 'rloo'"),
        ({"advantage_kwargs": {"epss": 1.0}}, "did you mean 'eps'"),
        ({"scale_rewards": "none"}, "dr_grpo"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation"),
        ({"max_unscored_frac": 1.5}, "max_unscored_frac=1.5"),
        ({"num_generations": 3}, "num_generations that would fit: 2, 4, 8"),
        ({"num_generations": 3, "generation_batch_size": 16}, "16 completions .* would fit: 2, 4, 8, 16"),
    ],
)
def test_refusals_say_what_to_do(tmp_path, overrides, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [({"lr_scheduler_type": "cosin"}, "cosin"), ({"save_strategy": "weekly"}, "weekly")],
)
def test_what_transformers_refuses_keeps_its_message(tmp_path, overrides, message):
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **overrides)
