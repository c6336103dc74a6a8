"""Does a completion keep R1's contract: one block of thinking, then one answer, and nothing else?"""

from collections.abc import Callable
from typing import Any

from trl_grpo_ext.rewards.text import OpeningTag, check_opening_tag, completion_text, prompt_opens_thinking


_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


class FormatReward:
    """
    1.0 if a completion is exactly `<think>…</think><answer>…</answer>`, with only whitespace around and between the
    two blocks, else 0.0. Empty blocks, repeated or nested tags, and anything after `</answer>` score 0.0.

    The structure is that of DeepSeek-R1 (https://huggingface.co/papers/2501.12948). Among several rewards this one is
    a gate by default: added to an accuracy reward it becomes, where nobody is right, all the signal there is.

    Args:
        opening_tag (`str`, *optional*, defaults to `"auto"`):
            Where the `<think>` stands: `"in_completion"`, `"in_prompt"` (then the completion must not repeat it), or
            `"auto"`: in the prompt if the prompt's text ends with it. A chat template that opens the thinking after
            the last message is invisible here; say `"in_prompt"` then.

    Example:
    ```python
    >>> from trl_grpo_ext.rewards import FormatReward

    >>> FormatReward()(prompts=["1 + 1?"], completions=["<think>one more</think> <answer>2</answer>"])
    [1.0]
    ```
    """

    __name__ = "format_reward"
    default_mode = "gate"
    default_required = False

    def __init__(self, opening_tag: OpeningTag = "auto"):
        check_opening_tag(opening_tag)
        self.opening_tag = opening_tag

    def __call__(
        self,
        prompts: list,
        completions: list,
        completion_ids: list[list[int]] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Score a batch."""
        return [
            float(keeps_contract(completion_text(completion), prompt_opens_thinking(self.opening_tag, prompt)))
            for prompt, completion in zip(prompts, completions, strict=True)
        ]


def keeps_contract(text: str, opened_in_prompt: bool = False) -> bool:
    """
    Whether `text` is one block of thinking followed by one answer, and nothing else.

    Args:
        text (`str`):
            The completion.
        opened_in_prompt (`bool`, *optional*, defaults to `False`):
            Whether the prompt ended with `<think>`.

    Returns:
        `bool`
    """
    text = f"<think>{text}" if opened_in_prompt else text
    if any(text.count(tag) != 1 for tag in _TAGS):
        return False
    before, rest = text.split("<think>")
    thinking, _, rest = rest.partition("</think>")
    between, _, rest = rest.partition("<answer>")
    answer, closed, after = rest.partition("</answer>")
    return bool(closed and thinking.strip() and answer.strip()) and not (before + between + after).strip()
