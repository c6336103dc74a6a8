"""Text of programs and datasets, made fit to stand in a reason: short, on one line, without control characters."""

import reprlib


class _Short(reprlib.Repr):
    """Representations that stay short, and never fail: Python refuses to print integers of more than 4300 digits."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 8
        self.maxstring = self.maxother = 60

    def repr_int(self, value: int, level: int) -> str:
        return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value) if len(value) <= self.maxother else f"{value[: self.maxother]!r}…"


_SHORT = _Short()


def shortened(text: str, length: int) -> str:
    """The text, or its beginning with a mark that it goes on."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str, length: int = 60) -> str:
    """The text in quotes and shortened, with everything that is not printable escaped."""
    return repr(text) if len(text) <= length else f"{text[:length]!r}…"


def plain(text: str, length: int = 160) -> str:
    """The text on one line and shortened, without anything that is not printable."""
    start = text[: 2 * length].strip()
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in start).split())
    return shortened(line, length)


def is_encodable(text: str) -> bool:
    """Whether the text can leave this process: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """A value as Python writes it, shortened."""
    return _SHORT.repr(value)
