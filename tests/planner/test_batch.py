"""Batch arithmetic: whole groups or a message that says what would fit."""

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.planner.batch import check_group_batch


def test_whole_groups_pass():
    check_group_batch(per_device=4, world=2, steps=2, num_generations=8)


def test_message_names_the_sizes_that_fit():
    with pytest.raises(ConfigError, match=r"num_generations=5 .* 12 completions .* fit: 2, 3, 4, 6, 12$"):
        check_group_batch(per_device=3, world=2, steps=2, num_generations=5)


def test_a_group_of_one_is_refused():
    with pytest.raises(ConfigError, match="at least 2"):
        check_group_batch(per_device=4, world=1, steps=1, num_generations=1)


def test_a_batch_of_one_has_no_fitting_size():
    with pytest.raises(ConfigError, match="raise per_device_train_batch_size"):
        check_group_batch(per_device=1, world=1, steps=1, num_generations=2)
