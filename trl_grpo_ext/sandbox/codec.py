"""Plain data as bytes, and back: how values cross the border between a program and those who judge it.

Covered: what comes out of [`decode`] is made of exact builtin types, whatever went in. A subclass is flattened to its
builtin base, so nothing a program overrides (`__eq__`, `__hash__`, `__len__` …) crosses. Nothing is looked up by name
and nothing is called while bytes are read. Size, number of items, depth and equal hashes are capped on both sides:
the bytes may have been written by an enemy.

Not covered: identity. A list that occurs twice arrives as two lists, and a list that contains itself is refused.
"""

import struct
import sys
from collections import Counter, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any


MAX_BYTES = 32 << 20  # of one value
MAX_ITEMS = 500_000  # of one value: a list of that many takes a second to read and less than 100 MB
MAX_DEPTH = 200  # a comparison of values that deep is still far from the recursion limit
MAX_FRACTION_BITS = 1 << 12  # reducing a fraction takes time quadratic in its size
_SET_ITEMS = 4  # an empty one takes as long to read as that many lists
_DEQUE_ITEMS = 8  # an empty one takes as much memory as that many lists
_FRACTION_ITEMS = 256  # a fraction of that size takes as long as that many items
MAX_DECIMAL_DIGITS = 100_000
MAX_COMPARISONS = 1_000_000  # that members of sets and keys of dicts with equal hashes cause

_U32, _I64, _F64, _C128 = (struct.Struct(f"<{form}") for form in ("I", "q", "d", "dd"))
_DAY, _CLOCK = struct.Struct("<HBB"), struct.Struct("<BBBIB")
_COMPOUND, _FEW = (tuple, frozenset), 64
_NO_OFFSET = -(1 << 40)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class CodecError(Exception):
    """
    The value is no plain data, or exceeds a cap; or the bytes are no value.

    Args:
        message (`str`):
            What is wrong.
        value (*optional*):
            The part that is no plain data.
    """

    def __init__(self, message: str, value: Any = None):
        super().__init__(message)
        self.value = value


def encode(value: Any, special: Callable[[Any], tuple[int, str] | None] | None = None) -> bytes:
    """
    Write a value as bytes.

    Args:
        value:
            Plain data: `None`, numbers, texts, bytes, containers of plain data, dates, decimals, fractions, ranges.
        special (`Callable`, *optional*):
            Asked about everything else: a number and a text that stand for it, or `None` if nothing does.

    Returns:
        `bytes`

    Raises:
        [`CodecError`]: if something in it is no plain data and `special` does not know it either, or a cap is
            exceeded.
    """
    writer = _Writer(special)
    try:
        writer.write(value, 0)
    except (OverflowError, struct.error) as error:
        raise CodecError(f"the value cannot be written ({error})") from None
    return bytes(writer.out)


_NO_VALUE = (
    struct.error,
    LookupError,
    ValueError,
    ArithmeticError,
    TypeError,
    AttributeError,
    RecursionError,
    MemoryError,
)


def decode(data: bytes, special: Callable[[int, str], Any] | None = None) -> Any:
    """
    Rebuild a value from bytes.

    Args:
        data (`bytes`):
            What [`encode`] returned, or what somebody would like to pass off as that.
        special (`Callable`, *optional*):
            Given the number and the text of what is no plain data, returns what is to stand for it.

    Returns:
        Plain data of exact builtin types.

    Raises:
        [`CodecError`]: if the bytes are no value, or a cap is exceeded.
    """
    if len(data) > MAX_BYTES:
        raise CodecError(f"the value takes {len(data)} bytes; the most is {MAX_BYTES}")
    reader = _Reader(data, special)
    try:
        value = reader.read(0)
    except _NO_VALUE as error:
        raise CodecError(f"these bytes are no value ({type(error).__name__})") from None
    if reader.at != len(data):
        raise CodecError("more bytes than the value needs")
    return value


class _Writer:
    def __init__(self, special: Callable[[Any], tuple[int, str] | None] | None):
        self.out = bytearray()
        self.special = special
        self.items = 0

    def write(self, value: Any, depth: int) -> None:
        write = _WRITERS.get(type(value))
        if write is None:
            self._write_other(value, depth)
        else:
            write(self, value, depth)

    def _write_other(self, value: Any, depth: int) -> None:
        known = self.special(value) if self.special is not None else None
        if known is not None:
            self.out += b"*" + _U32.pack(known[0])
            self._blob(b"", known[1].encode("utf-8", "surrogatepass"))
            return
        for base, flatten in _FLATTEN.items():
            if isinstance(value, base):
                return self.write(flatten(value), depth)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
            return self.write(value.tolist(), depth)
        raise CodecError(f"a value of type {type(value).__name__} is no plain data", value)

    def _blob(self, tag: bytes, data: bytes) -> None:
        if len(self.out) + len(data) > MAX_BYTES:
            raise CodecError(f"the value takes more than {MAX_BYTES} bytes")
        self.out += tag + _U32.pack(len(data)) + data

    def _count(self, n: int, depth: int) -> None:
        self.items += n
        if self.items > MAX_ITEMS:
            raise CodecError(f"the value has more than {MAX_ITEMS} items")
        if depth >= MAX_DEPTH:
            raise CodecError(f"the value is nested more than {MAX_DEPTH} deep")
        if len(self.out) > MAX_BYTES:
            raise CodecError(f"the value takes more than {MAX_BYTES} bytes")

    def _int(self, value: int, depth: int) -> None:
        if _LEAST <= value <= _MOST:
            self.out += b"i" + _I64.pack(value)
        else:
            self._blob(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def _list(self, value: list, depth: int) -> None:
        if len(value) > 16 and self._packed(value):
            return
        self._members(b"l", value, depth)

    def _packed(self, value: list) -> bool:
        kinds = set(map(type, value))
        if len(kinds) != 1 or len(value) * 8 > MAX_BYTES:
            return False
        form = {int: "q", float: "d"}.get(kinds.pop())
        if form is None or (form == "q" and not (min(value) >= _LEAST and max(value) <= _MOST)):
            return False
        self._count(len(value) // 8, 0)
        self._blob(b"P" + form.encode(), struct.pack(f"<{len(value)}{form}", *value))
        return True

    def _members(self, tag: bytes, value: Any, depth: int) -> None:
        self._count(len(value), depth)
        self.out += tag + _U32.pack(len(value))
        for member in value:
            self.write(member, depth + 1)

    def _dict(self, value: dict, depth: int) -> None:
        self._count(2 * len(value), depth)
        self.out += b"m" + _U32.pack(len(value))
        for key, member in value.items():
            self.write(key, depth + 1)
            self.write(member, depth + 1)

    def _parts(self, tag: bytes, *parts: Any) -> None:
        self.out += tag
        for part in parts:
            self.write(part, 0)

    def _range(self, value: range, depth: int) -> None:
        parts = (value.start, value.stop, value.step)
        if not all(_LEAST <= part <= _MOST for part in parts):
            raise CodecError("a range of numbers of more than 64 bits", value)
        self._parts(b"r", *parts)

    def _datetime(self, value: datetime, depth: int) -> None:
        self.out += b"w" + _DAY.pack(value.year, value.month, value.day)
        self._clock(value.timetz(), value.utcoffset())

    def _time(self, value: time, depth: int) -> None:
        self.out += b"h"
        self._clock(value, value.utcoffset())

    def _clock(self, value: time, offset: timedelta | None) -> None:
        self.out += _CLOCK.pack(value.hour, value.minute, value.second, value.microsecond, value.fold)
        self.out += _I64.pack(_NO_OFFSET if offset is None else offset // timedelta(microseconds=1))


def _constant(tag: bytes) -> Callable[[_Writer, Any, int], None]:
    def write(writer: _Writer, value: Any, depth: int) -> None:
        writer.out += tag

    return write


def _bool(writer: _Writer, value: bool, depth: int) -> None:
    writer.out += b"T" if value else b"F"


def _float(writer: _Writer, value: float, depth: int) -> None:
    writer.out += b"d" + _F64.pack(value)


def _complex(writer: _Writer, value: complex, depth: int) -> None:
    writer.out += b"c" + _C128.pack(value.real, value.imag)


def _str(writer: _Writer, value: str, depth: int) -> None:
    writer._blob(b"s", value.encode("utf-8", "surrogatepass"))


def _date(writer: _Writer, value: date, depth: int) -> None:
    writer.out += b"a" + _DAY.pack(value.year, value.month, value.day)


# Every writer is chosen by the exact type, so no method of a subclass is ever called on the way.
_WRITERS: dict[type, Callable[[_Writer, Any, int], None]] = {
    type(None): _constant(b"N"),
    type(...): _constant(b"E"),
    bool: _bool,
    int: _Writer._int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: lambda writer, value, depth: writer._blob(b"b", value),
    bytearray: lambda writer, value, depth: writer._blob(b"B", bytes(value)),
    list: _Writer._list,
    tuple: lambda writer, value, depth: writer._members(b"t", value, depth),
    set: lambda writer, value, depth: writer._members(b"S", value, depth),
    frozenset: lambda writer, value, depth: writer._members(b"f", value, depth),
    deque: lambda writer, value, depth: writer._members(b"Q", value, depth),
    dict: _Writer._dict,
    range: _Writer._range,
    Decimal: lambda writer, value, depth: writer._blob(b"x", str(value).encode()),
    Fraction: lambda writer, value, depth: writer._parts(b"q", value.numerator, value.denominator),
    date: _date,
    datetime: _Writer._datetime,
    time: _Writer._time,
    timedelta: lambda writer, value, depth: writer._parts(b"u", value.days, value.seconds, value.microseconds),
}

# Unbound methods of the bases read what a subclass holds, not what it says it holds. Fractions and time spans have
# none: there it is what it says, which misleads nobody but the program's own process.
_FLATTEN: dict[type, Callable[[Any], Any]] = {
    int: lambda value: int.__add__(value, 0),
    float: float.__float__,
    complex: lambda value: complex(complex.real.__get__(value), complex.imag.__get__(value)),  # type: ignore[attr-defined]
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray(bytearray.__getitem__(value, slice(None))),
    list: lambda value: list.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    deque: lambda value: deque(deque.__iter__(value)),
    type({}.keys()): list,
    type({}.values()): list,
    type({}.items()): list,
    Fraction: lambda value: Fraction(value.numerator, value.denominator),
    Decimal: lambda value: Decimal(Decimal.__str__(value)),
    datetime: lambda value: datetime.fromisoformat(datetime.isoformat(value)),
    date: lambda value: date.fromisoformat(date.isoformat(value)),
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
}


class _Reader:
    def __init__(self, data: bytes, special: Callable[[int, str], Any] | None):
        self.data = data
        self.at = 0
        self.special = special
        self.items = 0
        self.comparisons = 0
        self.largest, self.decimals = 0, False

    def read(self, depth: int) -> Any:
        tag = self.data[self.at]
        self.at += 1
        read = _READERS.get(tag)
        if read is None:
            raise CodecError(f"no value begins with byte {tag}")
        return read(self, depth)

    def _unpack(self, form: struct.Struct) -> tuple:
        at, self.at = self.at, self.at + form.size
        return form.unpack_from(self.data, at)

    def _blob(self) -> bytes:
        (size,) = self._unpack(_U32)
        at, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise CodecError("the bytes end in the middle of a value")
        return self.data[at : self.at]

    def _text(self, depth: int) -> str:
        return self._blob().decode("utf-8", "surrogatepass")

    def _count(self, depth: int, each: int) -> int:
        (n,) = self._unpack(_U32)
        self.items += n * each
        if self.items > MAX_ITEMS or n * each > len(self.data) - self.at:
            raise CodecError(f"the value has more items than {MAX_ITEMS}, or than it has bytes for")
        if depth >= MAX_DEPTH:
            raise CodecError(f"the value is nested more than {MAX_DEPTH} deep")
        return n

    def _members(self, depth: int) -> list:
        return [self.read(depth + 1) for _ in range(self._count(depth, 1))]

    def _deque(self, depth: int) -> deque:
        self._spend(_DEQUE_ITEMS)
        return deque(self._members(depth))

    def _hashed(self, depth: int) -> list:
        self._spend(_SET_ITEMS)
        members = self._members(depth)
        self._compare(members)
        return members

    def _dict(self, depth: int) -> dict:
        pairs = [(self.read(depth + 1), self.read(depth + 1)) for _ in range(self._count(depth, 2))]
        self._compare([key for key, _ in pairs])
        return dict(pairs)

    def _compare(self, members: list) -> None:
        """
        Count the comparisons that members with equal hashes cause when they are put into a set. They are quadratic in
        their number, and multiply where such members are sets themselves.
        """
        if len(members) < 2 or (len(members) < _FEW and not any(type(member) in _COMPOUND for member in members)):
            return
        hashes = list(map(hash, members))
        counts = Counter(hashes)
        if len(counts) == len(members):
            return
        for member, of_member in zip(members, hashes, strict=True):
            if counts[of_member] > 1:
                self.comparisons += counts[of_member] * _comparing(member)
        if self.comparisons > MAX_COMPARISONS:
            raise CodecError("the members of a set or the keys of a dict have too many equal hashes")

    def _packed(self, depth: int) -> list:
        form = {ord("q"): "q", ord("d"): "d"}[self.data[self.at]]
        self.at += 1
        data = self._blob()
        self.items += len(data) // 64
        return list(struct.unpack(f"<{len(data) // 8}{form}", data))

    def _whole(self, depth: int) -> int:
        if self.data[self.at] not in b"iI":
            raise CodecError("a whole number was expected")
        return self.read(depth)

    def _spend(self, items: int) -> None:
        self.items += items
        if self.items > MAX_ITEMS:
            raise CodecError(f"the value has more than {MAX_ITEMS} items")

    def _small(self) -> int:
        if self.data[self.at] != ord("i"):
            raise CodecError("a whole number of 64 bits was expected")
        return self.read(0)

    def _large(self, depth: int) -> int:
        value = int.from_bytes(self._blob(), "little", signed=True)
        self.largest = max(self.largest, value.bit_length())
        self._refuse_large_beside_decimals()
        return value

    def _refuse_large_beside_decimals(self) -> None:
        """Comparing a decimal with a whole number takes time quadratic in the size of that."""
        if self.decimals and self.largest > MAX_FRACTION_BITS:
            raise CodecError(f"a decimal beside a whole number of more than {MAX_FRACTION_BITS} bits")

    def _fraction(self, depth: int) -> Fraction:
        self._spend(_FRACTION_ITEMS)
        numerator, denominator = self._whole(depth), self._whole(depth)
        if max(numerator.bit_length(), denominator.bit_length()) > MAX_FRACTION_BITS:
            raise CodecError(f"a fraction with more than {MAX_FRACTION_BITS} bits")
        return Fraction(numerator, denominator)

    def _decimal(self, depth: int) -> Decimal:
        digits = self._blob()
        self.decimals = True
        self._refuse_large_beside_decimals()
        if len(digits) > MAX_DECIMAL_DIGITS:
            raise CodecError(f"a decimal with more than {MAX_DECIMAL_DIGITS} digits")
        return Decimal(digits.decode("ascii"))

    def _time(self, depth: int) -> time:
        hour, minute, second, microsecond, fold = self._unpack(_CLOCK)
        (offset,) = self._unpack(_I64)
        zone = None if offset == _NO_OFFSET else timezone(timedelta(microseconds=offset))
        return time(hour, minute, second, microsecond, zone, fold=fold)

    def _datetime(self, depth: int) -> datetime:
        year, month, day = self._unpack(_DAY)
        return datetime.combine(date(year, month, day), self._time(depth))

    def _other(self, depth: int) -> Any:
        (number,) = self._unpack(_U32)
        text = self._text(depth)
        if self.special is None:
            raise CodecError(f"the value holds an {text.partition(':')[0] or 'object'} that is no plain data")
        return self.special(number, text)


def _comparing(value: Any) -> int:
    """About how many comparisons it takes to compare a value with one like it."""
    if type(value) is tuple:
        return 1 + sum(map(_comparing, value))
    if type(value) is frozenset:
        equal = max(Counter(map(hash, value)).values(), default=1)
        return 1 + equal * sum(map(_comparing, value))
    if type(value) is int:
        return 1 + value.bit_length() // 4096
    return 1 + len(value) // 4096 if isinstance(value, (str, bytes)) else 1


_READERS: dict[int, Callable[[_Reader, int], Any]] = {
    ord("N"): lambda reader, depth: None,
    ord("E"): lambda reader, depth: ...,
    ord("T"): lambda reader, depth: True,
    ord("F"): lambda reader, depth: False,
    ord("i"): lambda reader, depth: reader._unpack(_I64)[0],
    ord("I"): _Reader._large,
    ord("d"): lambda reader, depth: reader._unpack(_F64)[0],
    ord("c"): lambda reader, depth: complex(*reader._unpack(_C128)),
    ord("s"): _Reader._text,
    ord("b"): lambda reader, depth: reader._blob(),
    ord("B"): lambda reader, depth: bytearray(reader._blob()),
    ord("l"): _Reader._members,
    ord("P"): _Reader._packed,
    ord("t"): lambda reader, depth: tuple(reader._members(depth)),
    ord("S"): lambda reader, depth: set(reader._hashed(depth)),
    ord("f"): lambda reader, depth: frozenset(reader._hashed(depth)),
    ord("Q"): _Reader._deque,
    ord("m"): _Reader._dict,
    ord("r"): lambda reader, depth: range(reader._small(), reader._small(), reader._small()),
    ord("x"): _Reader._decimal,
    ord("q"): _Reader._fraction,
    ord("a"): lambda reader, depth: date(*reader._unpack(_DAY)),
    ord("w"): _Reader._datetime,
    ord("h"): _Reader._time,
    ord("u"): lambda reader, depth: timedelta(reader._small(), reader._small(), reader._small()),
    ord("*"): _Reader._other,
}
