"""Fixtures shared by all rooms: a tiny model and a tiny dataset, built here and never downloaded."""

import os

import pytest


os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> str:
    """Folder of a random 2-layer model with a character tokenizer and a chat template."""
    from trl_grpo_ext.tasks import load_template
    from trl_grpo_ext.tasks.tiny_model import build_base

    out = tmp_path_factory.mktemp("tiny_model")
    build_base(TINY_CONFIG, out, load_template("arithmetic_think"), seed=0)
    return str(out)


@pytest.fixture(scope="session")
def arithmetic_rows() -> list[dict]:
    """Thirty-two sums as conversational prompts with their answers."""
    return [
        {"prompt": [{"role": "user", "content": f"{a}+{b}"}], "answer": str(a + b)} for a in range(4) for b in range(8)
    ]
