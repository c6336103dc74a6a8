import dataclasses

import pytest

from trl_grpo_ext.errors import UpstreamError
from trl_grpo_ext.pipeline import train_fields as module
from trl_grpo_ext.pipeline.train_fields import OWNED_BY_PIPELINE, train_fields


def test_every_owned_key_is_a_field():
    known = {*train_fields("sft"), *train_fields("grpo")}
    assert [key for key in OWNED_BY_PIPELINE if key not in known] == []


def test_a_child_overrides_the_default_of_its_parent():
    assert train_fields("sft")["learning_rate"].default == 2e-5
    assert train_fields("grpo")["learning_rate"].default == 1e-6
    assert train_fields("grpo")["per_device_train_batch_size"].default == 8
    assert train_fields("grpo")["advantage"].default == "grpo"


def test_a_class_that_has_moved_is_named(monkeypatch):
    monkeypatch.setitem(module._SOURCES, "sft", [("trl", "trainer/sft_config.py", "NoSuchConfig")])
    train_fields.cache_clear()
    with pytest.raises(UpstreamError, match=r"no class NoSuchConfig in trl/trainer/sft_config\.py"):
        train_fields("sft")
    train_fields.cache_clear()


@pytest.mark.tiny
@pytest.mark.parametrize("kind", ["sft", "grpo"])
def test_the_fields_are_those_of_the_imported_class(kind):
    from trl import SFTConfig

    from trl_grpo_ext.trainer import GroupRelativeConfig

    config = {"sft": SFTConfig, "grpo": GroupRelativeConfig}[kind]
    names = {field.name for field in dataclasses.fields(config) if field.init and not field.name.startswith("_")}
    assert set(train_fields(kind)) == names
