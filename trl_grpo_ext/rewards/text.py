"""The text of prompts and completions, in both shapes TRL passes them: strings and lists of messages."""

from typing import Any, Literal

from trl_grpo_ext.errors import ConfigError


OpeningTag = Literal["auto", "in_completion", "in_prompt"]
_OPENING_TAGS = ("auto", "in_completion", "in_prompt")


def completion_text(completion: Any) -> str:
    """Return what the assistant said last: the string itself, or the content of the last assistant message."""
    if isinstance(completion, str):
        return completion
    spoken = [message for message in completion or [] if message.get("role", "assistant") == "assistant"]
    return _content(spoken[-1]) if spoken else ""


def prompt_text(prompt: Any) -> str:
    """Return the end of a prompt: the string itself, or the content of its last message."""
    if isinstance(prompt, str):
        return prompt
    return _content(prompt[-1]) if prompt else ""


def check_opening_tag(opening_tag: str) -> None:
    """Raise [`~errors.ConfigError`] unless `opening_tag` is a known place."""
    if opening_tag not in _OPENING_TAGS:
        raise ConfigError(f"opening_tag is {opening_tag!r}; expected one of {', '.join(map(repr, _OPENING_TAGS))}")


def prompt_opens_thinking(opening_tag: OpeningTag, prompt: Any, mark: str | None = "<think>") -> bool:
    """Whether the completion's thinking is opened in the prompt already, by a mark, which may be unknown."""
    if opening_tag == "auto" and mark is not None:
        return prompt_text(prompt).rstrip().endswith(mark)
    return opening_tag == "in_prompt"


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content if isinstance(block, dict))
