"""A small, untrained transformer with a tokenizer of its own: a base model that needs no download."""

import re
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast, set_seed

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names


# Whole tokens, yet not special ones: decoding with `skip_special_tokens=True` must keep them for the rewards to see.
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
END_MARKERS = ("<|end|>", "<|im_end|>")
PAD, UNKNOWN = "<|pad|>", "<|unk|>"


def build_base(config: dict, out: str | Path, template: str, seed: int) -> None:
    """
    Write a randomly initialised model and its character-level tokenizer to a folder that `from_pretrained` can read.

    Args:
        config (`dict`):
            `model_type` and arguments of that architecture's configuration, by transformers' own names. The vocabulary
            size and the ids of the special tokens are filled in.
        out (`str` or `Path`):
            Folder to write to.
        template (`str`):
            Jinja text of the chat template. Its `<|…|>` markers become special tokens, and its end marker
            (`<|end|>` or `<|im_end|>`) the one that ends generation.
        seed (`int`):
            Seed of the weights.

    Raises:
        [`~errors.ConfigError`]: if the model type or a key is unknown, or the template has no end marker.
    """
    tokenizer = build_tokenizer(template)
    model_config = _model_config(config, tokenizer)
    set_seed(seed)
    model = AutoModelForCausalLM.from_config(model_config, dtype=torch.float32)
    model.generation_config = GenerationConfig(
        bos_token_id=model_config.bos_token_id,
        eos_token_id=model_config.eos_token_id,
        pad_token_id=model_config.pad_token_id,
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def build_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """
    Build a tokenizer with one token per printable ASCII character, per tag, and per `<|…|>` marker of the template.

    Raises:
        [`~errors.ConfigError`]: if the template has no end marker, or both.
    """
    markers = sorted(set(re.findall(r"<\|\w+\|>", template)))
    ends = [marker for marker in END_MARKERS if marker in markers]
    if len(ends) != 1:
        raise ConfigError(
            f"the chat template holds the markers {markers}; a model built from a config needs exactly one of "
            f"{' and '.join(END_MARKERS)} to end a turn"
        )
    vocabulary = {token: i for i, token in enumerate([PAD, UNKNOWN, *markers, *TAGS, *CHARACTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, UNKNOWN, *markers])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        bos_token=ends[0],
        eos_token=ends[0],
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def _model_config(config: dict, tokenizer: PreTrainedTokenizerFast):
    config = dict(config)
    model_type = config.pop("model_type", None)
    if model_type not in CONFIG_MAPPING:
        nearest = nearest_names(str(model_type), list(CONFIG_MAPPING), n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else "use an architecture of transformers, such as 'llama'"
        raise ConfigError(f"from_config: model_type is {model_type!r}; {hint}")
    config_class = CONFIG_MAPPING[model_type]
    from_tokenizer = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    from_tokenizer["vocab_size"] = len(tokenizer)
    known = list(config_class().to_dict())
    for key in config:
        if key in from_tokenizer:
            raise ConfigError(f"from_config: {key!r} is filled in from the tokenizer; leave it out")
        if key not in known:
            nearest = nearest_names(key, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else "see its configuration in transformers"
            raise ConfigError(f"from_config: {model_type!r} has no key {key!r}; {hint}")
    return config_class(**config, **from_tokenizer)
