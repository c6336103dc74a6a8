"""What the commands refuse, and that each of them works on a tiny model and a local file."""

import pytest

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import read_json, write_jsonl, write_text
from trl_grpo_ext.stages.commands import convert_gguf
from trl_grpo_ext.stages.commands import eval as eval_command
from trl_grpo_ext.stages.commands import grpo as grpo_command
from trl_grpo_ext.stages.commands import sft as sft_command


CPU = ["--use_cpu", "--bf16", "false", "--report_to", "none", "--max_steps", "1", "--per_device_train_batch_size", "8"]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


@pytest.fixture
def prompts_file(tmp_path, arithmetic_rows) -> str:
    write_jsonl(tmp_path / "prompts.jsonl", arithmetic_rows)
    return str(tmp_path / "prompts.jsonl")


@pytest.mark.tiny
@pytest.mark.parametrize("command", [sft_command, grpo_command])
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--lerning_rate", "1"], "unknown argument '--lerning_rate'; did you mean --learning_rate"),
        (["--max_steps", "many"], "invalid int value: 'many'"),
        (["--config"], "--config needs the path of a YAML file"),
        (["--config", "/nowhere/config.yaml"], "nowhere/config.yaml"),
        ([*CPU], "no model given"),
        (["--model_name_or_path", "m", *CPU], "no dataset given"),
        (
            ["--model_name_or_path", "m", "--dataset_name", "./nothing.jsonl", *CPU],
            r"no dataset file './nothing.jsonl'",
        ),
    ],
)
def test_mistakes_in_arguments(command, argv, message):
    with pytest.raises((ConfigError, DataError), match=message):
        command.main(argv)


@pytest.mark.tiny
def test_an_unknown_key_of_a_config_file_is_named(tmp_path):
    write_text(tmp_path / "config.yaml", "max_stepz: 3\n")
    with pytest.raises(ConfigError, match="unknown argument '--max_stepz'; did you mean --max_steps"):
        grpo_command.main(["--config", str(tmp_path / "config.yaml")])


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--reward_funcs", "meth"], "did you mean 'math'"),
        (["--reward_funcs", '{"name": "format", "mod": "gate"}'], "did you mean 'mode'"),
        (["--reward_funcs", '{"name": '], "neither JSON nor YAML"),
        (["--advantage", "rlo"], "rlo"),
        (["--num_generations", "3"], "num_generations that would fit: 2, 4, 8"),
    ],
)
def test_mistakes_in_grpo_arguments(argv, message, prompts_file, tmp_path):
    common = ["--model_name_or_path", "m", "--dataset_name", prompts_file, "--output_dir", str(tmp_path / "out"), *CPU]
    groups = [] if "--num_generations" in argv else ["--num_generations", "4"]
    with pytest.raises(ConfigError, match=message):
        grpo_command.main([*common, *groups, *argv])


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "1+1", "answer": "2"}, r"no column 'prompt' .*; its columns are \['answer', 'question'\]"),
        ({"prompt": "1+1", "result": "2"}, r"no column 'answer' \(the reference .*\['prompt', 'result'\]"),
    ],
)
def test_datasets_that_lack_a_column(row, message, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [row])
    arguments = ["--dataset_name", str(tmp_path / "rows.jsonl"), "--num_generations", "4"]
    with pytest.raises(DataError, match=message):
        grpo_command.main(["--model_name_or_path", "m", "--output_dir", str(tmp_path / "out"), *arguments, *CPU])


@pytest.mark.tiny
def test_grpo_trains_from_a_config_file_and_a_local_file(tmp_path, tiny_model, prompts_file):
    write_text(
        tmp_path / "config.yaml",
        "reward_funcs: [math, {name: format, mode: gate}]\nadvantage: grpo\nnum_generations: 4\n"
        "max_completion_length: 4\nlogging_steps: 1\n",
    )
    arguments = ["--model_name_or_path", tiny_model, "--dataset_name", prompts_file, "--config"]
    assert (
        grpo_command.main([*arguments, str(tmp_path / "config.yaml"), "--output_dir", str(tmp_path / "out"), *CPU])
        == 0
    )
    assert (tmp_path / "out" / "model.safetensors").is_file()
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


@pytest.mark.tiny
def test_sft_trains_on_a_local_folder(tmp_path, tiny_model, data_folder):
    rows = [
        {"prompt": [{"role": "user", "content": "1+1"}], "completion": [{"role": "assistant", "content": "2"}]}
    ] * 4
    write_jsonl(tmp_path / "data" / "train.jsonl", rows)
    arguments = ["--model_name_or_path", tiny_model, "--dataset_name", str(tmp_path / "data")]
    assert sft_command.main([*arguments, "--output_dir", str(tmp_path / "out"), *CPU]) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.tiny
def test_eval_of_a_file(tmp_path, tiny_model, prompts_file, capsys):
    arguments = ["--n_samples", "2", "--k", "1", "2", "--max_completion_length", "4", "--limit", "3", "--format"]
    target = tmp_path / "scores.json"
    argv = ["--model", tiny_model, "--dataset", prompts_file, "--output_file", str(target), *arguments]
    assert eval_command.main(argv) == 0
    assert read_json(target)["n"] == 3
    printed = capsys.readouterr().out
    assert "greedy accuracy" in printed
    assert "pass@2" in printed
    assert "format" in printed


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--task", "arithmetic"], "the following arguments are required: --model"),
        (["--model", "m"], "one of the arguments --task --dataset is required"),
        (["--model", "m", "--task", "arithmetik"], "did you mean 'arithmetic'"),
        (["--model", "m", "--task", "arithmetic", "--task_params", "[1]"], "invalid _mapping value"),
        (["--model", "m", "--dataset", "nothing.jsonl"], "no dataset file 'nothing.jsonl'"),
        (["--model", "m", "--task", "arithmetic", "--k", "9"], r"k is \[9\]"),
    ],
)
def test_mistakes_in_eval_arguments(argv, message):
    with pytest.raises((ConfigError, DataError), match=message):
        eval_command.main(argv)


def test_eval_of_a_file_that_is_no_json(tmp_path):
    write_text(tmp_path / "rows.jsonl", "prompt,answer\n")
    with pytest.raises(DataError, match="is not JSON in UTF-8"):
        eval_command.main(["--model", "m", "--dataset", str(tmp_path / "rows.jsonl")])


def test_eval_of_a_file_without_answers(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "1+1"}])
    with pytest.raises(DataError, match="1 of 1 rows have no 'answer'"):
        eval_command.main(["--model", "m", "--dataset", str(tmp_path / "rows.jsonl")])


def test_convert_gguf_refuses(tmp_path):
    with pytest.raises(DataError, match="no file"):
        convert_gguf.main([str(tmp_path / "absent.gguf"), "--output_dir", str(tmp_path / "out")])
    other = tmp_path / "weights.gguf"
    other.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="is not a GGUF file"):
        convert_gguf.main([str(other), "--output_dir", str(tmp_path / "out")])
    other.write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="is not empty"):
        convert_gguf.main([str(other), "--output_dir", str(tmp_path)])
    with pytest.raises(ConfigError, match="invalid choice"):
        convert_gguf.main([str(other), "--output_dir", str(tmp_path / "out"), "--dtype", "int4"])


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gguf_file_becomes_a_model_folder(tmp_path, dtype):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    down = write_gguf(tmp_path / "tiny.gguf")
    argv = [str(tmp_path / "tiny.gguf"), "--output_dir", str(tmp_path / "out"), "--dtype", dtype]
    assert convert_gguf.main(argv) == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert model.dtype == getattr(torch, dtype)
    assert not hasattr(model.config, "quantization_config")
    saved = model.model.layers[0].mlp.down_proj.weight.detach().float()
    assert torch.allclose(saved, torch.from_numpy(down), atol=0.02)  # 8-bit blocks of values below 1
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.decode(tokenizer("ab")["input_ids"], skip_special_tokens=True) == "ab"
    assert tokenizer.chat_template == "{{ messages[0].content }}"


def write_gguf(path):
    """A one-layer llama with random weights, its matrices in 8-bit blocks; returns one of them as it was before."""
    gguf = pytest.importorskip("gguf")
    import numpy as np

    hidden, inner, tokens = 32, 64, ["<|im_end|>", "<|unk|>", "a", "b", "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("A title, no path")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_chat_template("{{ messages[0].content }}")
    shapes = {
        "token_embd": (len(tokens), hidden),
        "blk.0.ffn_gate": (inner, hidden),
        "blk.0.ffn_up": (inner, hidden),
        "blk.0.ffn_down": (hidden, inner),
        **{f"blk.0.attn_{name}": (hidden, hidden) for name in ("q", "k", "v", "output")},
    }
    generator = np.random.default_rng(0)
    matrices = {name: generator.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    for name, matrix in matrices.items():
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{name}.weight", gguf.quantize(matrix, kind), raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(hidden, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return matrices["blk.0.ffn_down"]


@pytest.mark.tiny
def test_sft_without_something_to_learn_from_is_named(tmp_path, tiny_model):
    write_jsonl(tmp_path / "rows.jsonl", [{"question": "1+1", "answer": "2"}])
    arguments = ["--model_name_or_path", tiny_model, "--dataset_name", str(tmp_path / "rows.jsonl")]
    with pytest.raises(DataError, match=r"columns \['answer', 'question'\]; supervised fine-tuning needs 'messages'"):
        sft_command.main([*arguments, "--output_dir", str(tmp_path / "out"), *CPU])


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"prompt": "", "answer": "2"}', "1 of 1 rows have no 'prompt'"),
        ('{"prompt": " ", "answer": "2"}', "the prompt of row 1 is ' '"),
        ('{"prompt": "1+1", "answer": "2"}\n{"prompt": null, "answer": "2"}', "1 of 2 rows have no 'prompt'"),
        ('{"prompt": [{"x": "3"}], "answer": "2"}', "expected a text, or a list of messages"),
        ('{"prompt": "1+1", "answer": null}', "1 of 1 rows have no 'answer'"),
    ],
)
def test_grpo_names_rows_that_cannot_be_trained_on(tmp_path, lines, message):
    (tmp_path / "rows.jsonl").write_text(lines + "\n")
    arguments = ["--model_name_or_path", "m", "--dataset_name", str(tmp_path / "rows.jsonl")]
    with pytest.raises(DataError, match=message):
        grpo_command.main([*arguments, "--output_dir", str(tmp_path / "out"), *CPU])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1, 2]\n", "line 1 holds a list"),
        (b'{"prompt": "a", "answer": "1"}\n\xff\n', "line 2 is not JSON in UTF-8"),
        (b'{"prompt": "\\ud800", "answer": "1"}\n', r"the prompt of row 1 is '\\ud800'"),
        (b'{"prompt": 3, "answer": "1"}\n', "the prompt of row 1 is '3'"),
    ],
)
def test_eval_names_the_line_that_is_no_row(tmp_path, content, message):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=message):
        eval_command.main(["--model", "m", "--dataset", str(tmp_path / "rows.jsonl")])
