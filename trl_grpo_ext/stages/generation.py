"""Completions of a model for many prompts, in batches of similar length."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from trl_grpo_ext.errors import ConfigError, DataError


@dataclass(frozen=True)
class Completion:
    """
    What a model wrote.

    Args:
        text (`str`):
            The text, without special tokens, as the trainer hands it to the rewards.
        tokens (`int`):
            Number of generated tokens, the end token included.
        truncated (`bool`):
            Whether the length limit ended it rather than an end token.
    """

    text: str
    tokens: int
    truncated: bool


def encode_prompts(tokenizer: PreTrainedTokenizerBase, prompts: list) -> list[list[int]]:
    """
    Token ids of prompts: messages go through the tokenizer's chat template, strings are taken as they are.

    Raises:
        [`~errors.DataError`]: if a prompt is a list of messages and the tokenizer has no chat template.
    """
    if any(not isinstance(prompt, str) for prompt in prompts) and tokenizer.chat_template is None:
        raise DataError("the prompts are messages but the tokenizer has no chat template; give one with `template`")
    texts = [
        prompt
        if isinstance(prompt, str)
        else tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        for prompt in prompts
    ]
    if not texts:  # more processes than rows
        return []
    # A chat template writes its own beginning-of-sequence token.
    special = all(isinstance(prompt, str) for prompt in prompts)
    return tokenizer(texts, add_special_tokens=special)["input_ids"]


@torch.inference_mode()
def generate(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[list[int]],
    *,
    n: int,
    temperature: float,
    top_p: float = 1.0,
    max_completion_length: int,
    batch_size: int,
    on_batch: Callable[[int], None] = lambda done: None,
) -> list[list[Completion]]:
    """
    Generate `n` completions for each prompt, longest prompts first so that a batch that does not fit fails at once.

    Args:
        model (`PreTrainedModel`):
            The model.
        tokenizer (`PreTrainedTokenizerBase`):
            Its tokenizer.
        prompts (`list[list[int]]`):
            Token ids, see [`encode_prompts`].
        n (`int`):
            Completions per prompt.
        temperature (`float`):
            0 for greedy decoding.
        top_p (`float`, *optional*, defaults to `1.0`):
            Nucleus to sample from; by default the whole vocabulary.
        max_completion_length (`int`):
            Most tokens of a completion.
        batch_size (`int`):
            Completions generated at once, at least `n`.
        on_batch (`Callable`, *optional*):
            Called with the number of completions written so far.

    Returns:
        `list[list[Completion]]`: `n` completions per prompt, in the order of the prompts.
    """
    ends = end_tokens(model, tokenizer)
    pad = ends[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    # Everything that shapes the distribution is stated: what is left out, the model's own generation config fills in.
    config = GenerationConfig(
        max_new_tokens=max_completion_length,
        do_sample=temperature > 0,
        temperature=temperature if temperature > 0 else 1.0,
        top_k=0 if temperature > 0 else 50,
        top_p=top_p if temperature > 0 else 1.0,
        repetition_penalty=1.0,
        use_cache=True,
        num_return_sequences=n,
        eos_token_id=ends,
        pad_token_id=pad,
    )
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    written: dict[int, list[Completion]] = {}
    per_batch = batch_size // n
    for start in range(0, len(order), per_batch):
        batch = order[start : start + per_batch]
        width = len(prompts[batch[0]])
        ids = [[pad] * (width - len(prompts[i])) + prompts[i] for i in batch]
        mask = [[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in batch]
        sequences = model.generate(
            input_ids=torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=config,
        )
        completions = _read(sequences[:, width:], tokenizer, ends)
        for row, i in enumerate(batch):
            written[i] = completions[row * n : (row + 1) * n]
        on_batch(len(written) * n)
    return [written[i] for i in range(len(prompts))]


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of all tokens that end a completion: the tokenizer's, and those of the model's generation config."""
    declared = model.generation_config.eos_token_id
    declared = declared if isinstance(declared, list) else [declared]
    ends = [token for token in dict.fromkeys([tokenizer.eos_token_id, *declared]) if token is not None]
    if not ends:
        raise ConfigError("neither the tokenizer nor the generation config names an end token; set `eos_token_id`")
    return ends


def _read(tokens: torch.Tensor, tokenizer: PreTrainedTokenizerBase, ends: list[int]) -> list[Completion]:
    is_end = torch.isin(tokens, torch.tensor(ends, device=tokens.device))  # (B, T)
    ended = is_end.any(dim=1)
    lengths = torch.where(ended, is_end.int().argmax(dim=1) + 1, tokens.shape[1])
    rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    texts = tokenizer.batch_decode(rows, skip_special_tokens=True)
    return [Completion(text, len(row), not end) for text, row, end in zip(texts, rows, ended.tolist(), strict=True)]
