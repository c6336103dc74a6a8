"""Make any text safe and honest to show: nothing in it may hide, reorder or overflow what the reader sees."""

import json
import unicodedata
from typing import Any


_CONTROL_PICTURES = 0x2400
_PLAIN_CONTROLS = "\n\t"


def visible(text: str) -> str:
    """
    Replace what a browser or a terminal would obey or hide by something that can be seen.

    Args:
        text (`str`):
            Any text, including lone surrogates.

    Returns:
        `str`: text that can be encoded as UTF-8. Control characters become control pictures (`␛`), and lone
        surrogates, bidirectional controls, zero-width and unassigned characters become `[U+202E]`.
    """
    return "".join(character if character.isprintable() else _picture(character) for character in text)


def shorten(text: str, head: int = 1600, tail: int = 800) -> tuple[str, str]:
    """
    Cut the middle out of a long text.

    Args:
        text (`str`):
            The text as it was written.
        head (`int`, *optional*, defaults to `1600`):
            Characters kept at the start.
        tail (`int`, *optional*, defaults to `800`):
            Characters kept at the end, where the answer stands.

    Returns:
        `tuple[str, str]`: the visible text, and a note saying what was left out (`""` when nothing was).
    """
    left_out = len(text) - head - tail
    if left_out <= 0:
        return visible(text), ""
    gap = f"\n\n[… {left_out:,} characters left out …]\n\n"
    return visible(text[:head]) + gap + visible(text[-tail:]), f"Shortened: {left_out:,} of {len(text):,} characters"


def spoken(value: Any) -> str:
    """A prompt or completion as one text: a string as it is, messages with their roles, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) and "content" in item for item in value):
        if len(value) == 1:
            return spoken(value[0]["content"])
        return "\n\n".join(f"{item.get('role', '?')}: {spoken(item['content'])}" for item in value)
    return json.dumps(value, ensure_ascii=False)


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: `3 min 12 s`."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def percent(share: float | None) -> str:
    """A share in [0, 1] as `78.5 %`; a share that is not zero never reads as zero."""
    if share is None:
        return "–"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def plain(value: float | None) -> str:
    """A number with four significant digits."""
    return "–" if value is None else f"{value:.4g}"


def _picture(character: str) -> str:
    code = ord(character)
    if character in _PLAIN_CONTROLS:
        return character
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if unicodedata.category(character) == "Zs":
        return " "
    return f"[U+{code:04X}]"
