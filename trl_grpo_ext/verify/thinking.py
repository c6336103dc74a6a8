"""The marks around the thinking of a completion: which one opens what another ends."""

_THOUGHTS: tuple[tuple[str | None, str], ...] = (
    ("<think>", "</think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)


def thinking_start(end: str | None) -> str | None:
    """
    The mark that opens the thinking which `end` closes.

    Args:
        end (`str`, *optional*):
            The mark that ends the thinking; `</think>` by default.

    Returns:
        `str` or `None`: `<think>` for `</think>`, `[T]` for `[/T]`; nothing for a mark without a slash, which does not
        tell how the thinking began.

    Example:
    ```python
    >>> from trl_grpo_ext.verify.thinking import thinking_start

    >>> thinking_start("[/T]"), thinking_start("[END]")
    ('[T]', None)
    ```
    """
    if not end:
        return _THOUGHTS[0][0]
    return end.replace("/", "", 1) if "/" in end else None


def thinking_marks(end: str | None) -> tuple[tuple[str | None, str], ...]:
    """
    The marks that begin and end the thinking, in pairs.

    Args:
        end (`str`, *optional*):
            The mark that ends the thinking, where it is none of the usual ones.

    Returns:
        `tuple[tuple[str | None, str]]`: Each mark that ends the thinking, after the one that begins it.
    """
    return ((thinking_start(end), end),) if end else _THOUGHTS
