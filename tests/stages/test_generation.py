import pytest

from trl_grpo_ext.errors import DataError


pytestmark = pytest.mark.tiny


@pytest.fixture(scope="module")
def loaded(tiny_model):
    from trl_grpo_ext.stages.evaluate import load_model

    return load_model(tiny_model)


@pytest.fixture(scope="module")
def prompts(loaded):
    from trl_grpo_ext.stages.generation import encode_prompts

    questions = ["1", "1+2+3+4+5=?", "12+3=?", "9"]
    return encode_prompts(loaded[1], [[{"role": "user", "content": question}] for question in questions])


def write(loaded, prompts, n=1, temperature=0.0, length=6, batch_size=8, **settings):
    import torch

    from trl_grpo_ext.stages.generation import generate

    torch.manual_seed(0)
    return generate(
        *loaded,
        prompts,
        n=n,
        temperature=temperature,
        max_completion_length=length,
        batch_size=batch_size,
        **settings,
    )


def test_batches_and_padding_do_not_change_greedy_text(loaded, prompts):
    together = write(loaded, prompts)
    assert together == write(loaded, prompts, batch_size=1)
    assert [len(written) for written in together] == [1, 1, 1, 1]


def test_greedy_text_is_that_of_transformers(loaded, prompts):
    import torch

    model, tokenizer = loaded
    ids = torch.tensor([prompts[1]])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
    text = tokenizer.decode(expected[0, ids.shape[1] :], skip_special_tokens=True)
    assert write(loaded, prompts)[1][0].text == text


def test_samples_are_drawn_from_the_whole_vocabulary(loaded, prompts, monkeypatch):
    # What a model's own generation config would do to an evaluation that does not state everything.
    monkeypatch.setattr(loaded[0].generation_config, "top_k", 1)
    monkeypatch.setattr(loaded[0].generation_config, "repetition_penalty", 5.0)
    samples = write(loaded, prompts[:1], n=8, temperature=1.0)[0]
    assert len({sample.text for sample in samples}) > 1


def test_a_small_nucleus_leaves_the_most_likely_text(loaded, prompts):
    samples = write(loaded, prompts, n=2, temperature=1.0, top_p=1e-6)
    assert [[sample.text for sample in row] for row in samples] == [
        [row[0].text] * 2 for row in write(loaded, prompts)
    ]


def test_a_completion_ends_at_an_end_token_or_is_truncated(loaded, prompts):
    import torch

    model, tokenizer = loaded
    first = write(loaded, prompts)[0][0]
    assert (first.truncated, first.tokens) == (True, 6)
    # Make the end token the most likely one everywhere.
    bias = torch.nn.Parameter(torch.zeros(model.config.vocab_size))
    with torch.no_grad():
        bias[tokenizer.eos_token_id] = 1e4
    head = model.lm_head
    model.lm_head = torch.nn.Linear(head.in_features, head.out_features)
    model.lm_head.weight, model.lm_head.bias = head.weight, bias
    try:
        ended = write(loaded, prompts)[0][0]
    finally:
        model.lm_head = head
    assert (ended.text, ended.tokens, ended.truncated) == ("", 1, False)


def test_progress_counts_completions(loaded, prompts):
    seen = []
    write(loaded, prompts, n=2, temperature=1.0, batch_size=5, on_batch=seen.append)
    assert seen == [4, 8]


def test_no_prompts(loaded):
    from trl_grpo_ext.stages.generation import encode_prompts

    assert encode_prompts(loaded[1], []) == []
    assert write(loaded, []) == []


def test_messages_need_a_chat_template(loaded, monkeypatch):
    from trl_grpo_ext.stages.generation import encode_prompts

    monkeypatch.setattr(loaded[1], "chat_template", None)
    with pytest.raises(DataError, match="has no chat template"):
        encode_prompts(loaded[1], [[{"role": "user", "content": "1"}]])
