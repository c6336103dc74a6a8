"""Text of programs and datasets, made fit to stand in a reason: short, on one line, without control characters."""

import reprlib
from itertools import islice


class _Short(reprlib.Repr):
    """Representations that stay short, and never fail: Python refuses to print integers of more than 4300 digits."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 8
        self.maxstring = self.maxother = 60

    def repr_int(self, value: int, level: int) -> str:
        return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"

    def repr_set(self, value: set, level: int) -> str:
        return self._unsorted(value, level, "set()", "{", "}")

    def repr_frozenset(self, value: frozenset, level: int) -> str:
        return self._unsorted(value, level, "frozenset()", "frozenset({", "})")

    def repr_dict(self, value: dict, level: int) -> str:
        if level <= 0:
            return "{...}"
        pairs = islice(value.items(), self.maxdict)
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(member, level - 1)}" for key, member in pairs]
        return "{" + ", ".join(shown + ["..."] * (len(value) > self.maxdict)) + "}"

    def _unsorted(self, value: set | frozenset, level: int, empty: str, begin: str, end: str) -> str:
        """Sorting, which `reprlib` does, compares members; a program may return some that take for ever."""
        if not value:
            return empty
        if level <= 0:
            return f"{begin}...{end}"
        shown = [self.repr1(member, level - 1) for member in islice(value, self.maxset)]
        return begin + ", ".join(shown + ["..."] * (len(value) > self.maxset)) + end

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


def shown(value: object) -> str:
    """A value as Python writes it, shortened."""
    return _SHORT.repr(value)
