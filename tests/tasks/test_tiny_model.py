import subprocess
import sys

import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks import build_task, load_template


CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    from trl_grpo_ext.tasks.tiny_model import build_base

    folder = tmp_path_factory.mktemp("base")
    build_base(CONFIG, folder, load_template("arithmetic_think"), seed=1)
    return folder


@pytest.fixture(scope="module")
def tokenizer(base):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)


def test_tags_survive_decoding_and_the_end_marker_does_not(tokenizer):
    row = build_task("arithmetic").rows("sft", 1, seed=0)[0]
    text = row["completion"][0]["content"]
    chat = tokenizer.apply_chat_template(row["prompt"] + row["completion"], tokenize=False)
    prompt = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(chat)["input_ids"]
    prompt_ids = tokenizer(prompt)["input_ids"]
    assert ids[: len(prompt_ids)] == prompt_ids
    assert tokenizer.decode(ids[len(prompt_ids) :], skip_special_tokens=True) == text
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.convert_ids_to_tokens(ids).count("<think>") == 1


@pytest.mark.parametrize("text", ["Hello, World! 3 * (4 - 1) = 9\n", "a  b", "<think> x </think>", " 1 , 2 ."])
def test_text_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_an_unknown_character_is_marked_rather_than_dropped(tokenizer):
    assert tokenizer.convert_ids_to_tokens(tokenizer("1é2")["input_ids"]) == ["1", "<|unk|>", "2"]


@pytest.mark.tiny
def test_the_model_generates_and_ends_on_the_end_marker(base, tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base)
    assert model.config.eos_token_id == model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.pad_token_id not in (None, tokenizer.eos_token_id)
    with torch.no_grad():  # a model that has learned nothing but to stop
        model.lm_head.weight.zero_()
        model.lm_head.weight[tokenizer.eos_token_id] = model.model.norm(torch.ones(1, 32))[0]
        model.model.embed_tokens.weight.fill_(1.0)
        for parameter in model.model.layers.parameters():
            parameter.zero_()
    prompt = tokenizer("<|user|>1+1=?<|end|><|assistant|>", return_tensors="pt")
    ids = model.generate(**prompt, max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert ids.tolist() == [tokenizer.eos_token_id]


@pytest.mark.tiny
def test_the_seed_decides_the_weights(base, tmp_path):
    from safetensors.torch import load_file

    from trl_grpo_ext.tasks.tiny_model import build_base

    for seed in (1, 2):
        build_base(CONFIG, tmp_path / str(seed), load_template("arithmetic_think"), seed=seed)
    name = "model.embed_tokens.weight"
    first, same, other = (
        load_file(folder / "model.safetensors")[name] for folder in (base, tmp_path / "1", tmp_path / "2")
    )
    assert first.equal(same)
    assert not first.equal(other)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_size": 32}, "model_type is None"),
        ({**CONFIG, "model_type": "lama"}, "did you mean 'llama'"),
        ({**CONFIG, "hiden_size": 32}, "no key 'hiden_size'; did you mean 'hidden_size'"),
        ({**CONFIG, "vocab_size": 99}, "'vocab_size' is filled in from the tokenizer"),
    ],
)
def test_wrong_configs_name_the_nearest(tmp_path, config, message):
    from trl_grpo_ext.tasks.tiny_model import build_base

    with pytest.raises(ConfigError, match=message):
        build_base(config, tmp_path, load_template("arithmetic_think"), seed=0)


def test_a_template_without_an_end_marker_is_refused(tmp_path):
    from trl_grpo_ext.tasks.tiny_model import build_base

    with pytest.raises(ConfigError, match="needs exactly one of"):
        build_base(CONFIG, tmp_path, "{{ messages }}", seed=0)


def test_listing_tasks_and_templates_imports_no_torch():
    code = (
        "import sys; from trl_grpo_ext.tasks import build_task, list_tasks, list_templates; list_tasks();"
        "list_templates(); build_task('gsm8k'); build_task('arithmetic').rows('rl', 2, 0);"
        "print([name for name in ('torch', 'transformers', 'datasets', 'trl') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
