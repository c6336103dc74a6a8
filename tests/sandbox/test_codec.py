"""What crosses the border: exact types, caps, and bytes that an enemy wrote."""

import collections
import datetime
import decimal
import enum
import math
import random
import struct
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trl_grpo_ext.sandbox.codec import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ITEMS,
    CodecError,
    decode,
    encode,
)
from trl_grpo_ext.sandbox.jobs import (
    Called,
    Calls,
    Limits,
    Ran,
    Run,
    Tested,
    Tests,
    job_from_plain,
    result_from_plain,
    to_plain,
)


EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

ZONES = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
TEXTS = st.text(st.characters(), max_size=20)  # surrogates as well
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.just(...),
    st.integers(),
    st.integers(-(1 << 300), 1 << 300),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    TEXTS,
    st.binary(max_size=20),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.dates(),
    st.datetimes(timezones=st.none() | ZONES),
    st.times(timezones=st.none() | ZONES),
    st.timedeltas(),
    st.builds(range, st.integers(-99, 99), st.integers(-(10**18), 10**18), st.integers(1, 9)),
)
KEYS = st.recursive(HASHABLE, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=6)
VALUES = st.recursive(
    KEYS | st.binary(max_size=9).map(bytearray),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.lists(inner, max_size=5).map(collections.deque),
        st.sets(KEYS, max_size=5),
        st.dictionaries(KEYS, inner, max_size=5),
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, of exactly the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple, collections.deque)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(same(a, b) and same(c, d) for (a, c), (b, d) in pairs)
    if isinstance(one, (set, frozenset)):
        return one == other and sorted(map(_shown, one)) == sorted(map(_shown, other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, decimal.Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, (datetime.datetime, datetime.time)):
        return one == other and one.utcoffset() == other.utcoffset() and one.fold == other.fold
    return one == other


def _shown(value: Any) -> str:
    """As `repr`, but the order in which a set is iterated does not show."""
    if isinstance(value, (tuple, frozenset)):
        parts = [_shown(part) for part in value]
        return f"{type(value).__name__} {sorted(parts) if isinstance(value, frozenset) else parts}"
    return f"{type(value).__name__} {value!r}"


@EXAMPLES
@given(VALUES)
def test_round_trip_keeps_values_and_exact_types(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        math.inf,
        1 << 63,
        -(1 << 63) - 1,
        (1 << 63) - 1,
        1 << 100_000,
        "\ud800",
        decimal.Decimal("-0E-5"),
        decimal.Decimal("NaN"),
        decimal.Decimal("sNaN"),
        decimal.Decimal("-Infinity"),
        [True, 1, 1.0],
        [1] * 17,
        [1.5] * 17,
        [1] * 16 + [1 << 70],
        [1] * 16 + [True],
        (1,) * 40,
        {1: [], "1": {}, (1,): set(), None: ...},
        datetime.datetime(2024, 10, 27, 2, 30, fold=1),
        datetime.datetime.max,
        datetime.timedelta.min,
        list(range(100_000)),
        "x" * 5_000_000,
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_round_trip_of_special_values(value):
    assert same(decode(encode(value)), value)


def test_nan_keeps_its_bits():
    (bits,) = struct.unpack("Q", struct.pack("d", decode(encode(-math.nan))))
    assert bits == struct.unpack("Q", struct.pack("d", -math.nan))[0]


def _bad(self, *arguments, **options):
    raise AssertionError("a method of the subclass was called")


METHODS = [
    *("__eq__", "__ne__", "__hash__", "__len__", "__iter__", "__getitem__", "__bool__", "__int__", "__index__"),
    *("__float__", "__complex__", "__str__", "__repr__", "__bytes__", "__add__", "__contains__", "__reduce_ex__"),
    *("__lt__", "items", "keys", "encode", "bit_length", "to_bytes", "numerator", "isoformat", "copy", "as_tuple"),
]


@pytest.mark.parametrize(
    "plain",
    [
        *(7, 1 << 90, 1.5, 1 + 2j, "text", b"bytes", bytearray(b"array"), [1, [2]], (1, (2,)), {1, 2}, frozenset({3})),
        *({"a": 1}, collections.deque([1, 2])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclasses_are_flattened_and_not_asked(plain):
    kind = type("Mine", (type(plain),), dict.fromkeys(METHODS, _bad))
    arrived = decode(encode([kind(plain)]))
    assert same(arrived, [plain])


def test_enumerations_and_named_tuples_become_what_they_are_made_of():
    Colour = enum.IntEnum("Colour", ["RED"])
    Point = collections.namedtuple("Point", "x y")
    counted = decode(
        encode([Colour.RED, Point(1, 2), collections.Counter("aab"), collections.defaultdict(list, {1: 2})])
    )
    assert same(counted, [1, (1, 2), {"a": 2, "b": 1}, {1: 2}])


def test_numpy_becomes_plain():
    numpy = pytest.importorskip("numpy")
    array = numpy.array([[1, 2], [3, 4]])
    assert same(
        decode(encode([array, array[0, 0], numpy.float64(1.5), numpy.bool_(True)])), [array.tolist(), 1, 1.5, True]
    )


@pytest.mark.parametrize(
    "value",
    [object(), len, int, iter([]), open, NotImplemented, memoryview(b"")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(CodecError, match=type(value).__name__):
        encode([value])


# ---------------------------------------------------------------------------------------------------------------- caps


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def bottomless() -> list:
    value: list = []
    value.append(value)
    return value


def test_depth_is_capped_on_both_sides():
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    for value in (nested(MAX_DEPTH + 1), nested(100_000), bottomless()):
        with pytest.raises(CodecError, match="deep"):
            encode(value)
    for bytes_of_one in (b"l\1\0\0\0", b"t\1\0\0\0", b"Q\1\0\0\0", b"q", b"r", b"u"):
        with pytest.raises(CodecError):
            decode(bytes_of_one * 100_000)


def test_items_are_capped_on_both_sides():
    with pytest.raises(CodecError, match="items"):
        encode([None] * (MAX_ITEMS + 1))
    with pytest.raises(CodecError, match="items"):
        decode(b"l" + struct.pack("<I", MAX_ITEMS + 1) + b"N" * (MAX_ITEMS + 1))
    with pytest.raises(CodecError):
        decode(b"l" + struct.pack("<I", 0xFFFFFFFF))


def test_items_in_parts_are_counted_together():
    part = encode([None] * 10_000)
    with pytest.raises(CodecError, match="items"):
        decode(b"l" + struct.pack("<I", 200) + part * 200)
    with pytest.raises(CodecError, match="items"):
        encode([[None] * 10_000] * 200)


def test_size_is_capped_on_both_sides():
    with pytest.raises(CodecError, match="bytes"):
        encode("x" * (MAX_BYTES + 1))
    with pytest.raises(CodecError, match="bytes"):
        encode(["x" * (1 << 20)] * 40)
    with pytest.raises(CodecError, match="bytes"):
        decode(bytes(MAX_BYTES + 1))
    with pytest.raises(CodecError):
        encode([1 << (8 * MAX_BYTES + 8)])


@pytest.mark.parametrize("tag", [b"S", b"f"])
def test_a_set_of_many_equal_hashes_is_refused_fast(tag):
    modulus = 2**61 - 1
    members = [1 + index * modulus for index in range(100_000)]
    assert len({hash(member) for member in members[:100]}) == 1
    data = encode(members)
    begun = time.monotonic()
    with pytest.raises(CodecError, match="hash"):
        decode(tag + data[1:])
    assert time.monotonic() - begun < 2
    assert decode(tag + encode(members[:64])[1:]) == set(members[:64])


def test_a_dict_of_many_equal_hashes_is_refused_fast():
    pairs = b"".join(encode(1 + index * (2**61 - 1)) + b"N" for index in range(100_000))
    begun = time.monotonic()
    with pytest.raises(CodecError, match="hash"):
        decode(b"m" + struct.pack("<I", 100_000) + pairs)
    assert time.monotonic() - begun < 2


def big(bits: int, odd: int) -> bytes:
    data = ((1 << bits) + odd).to_bytes(bits // 8 + 1, "little", signed=False) + b"\0"
    return b"I" + struct.pack("<I", len(data)) + data


@pytest.mark.parametrize(
    "data",
    [
        b"q" + big(100_000_000, 1) + big(100_000_000, 3),
        b"q" + b"i" + struct.pack("<q", 1) + b"i" + struct.pack("<q", 0),
        b"x" + struct.pack("<I", 8_000_000) + b"9" * 8_000_000,
        b"x" + struct.pack("<I", 3) + b"1_x",
        b"x" + struct.pack("<I", 3) + "٣".encode() + b"1",
        b"S" + struct.pack("<I", 1) + encode([1]),
        b"m" + struct.pack("<I", 1) + encode({}) + b"N",
        b"S" + struct.pack("<I", 1) + encode(decimal.Decimal("sNaN")),
        b"r" + encode(1) + encode(2) + encode(0),
        b"u" + encode(1 << 80) + encode(0) + encode(0),
        b"a" + struct.pack("<HBB", 0, 1, 1),
        b"h" + struct.pack("<BBBIBq", 0, 0, 0, 0, 0, (1 << 62)),
        b"h" + struct.pack("<BBBIBq", 0, 0, 0, 0, 7, 0),
        b"Pq" + struct.pack("<I", 7) + bytes(7),
        b"Pz" + struct.pack("<I", 8) + bytes(8),
        b"s" + struct.pack("<I", 1) + b"\xff",
        b"*" + struct.pack("<I", 0) + struct.pack("<I", 1) + b"x",
        b"",
        b"NN",
        b"?",
    ],
    ids=range(20),
)
def test_what_an_enemy_may_write_is_refused_fast(data):
    begun = time.monotonic()
    with pytest.raises(CodecError):
        decode(data)
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "empty", [[], (), {}, set(), frozenset(), collections.deque(), bytearray(), "", 1 << 70], ids=repr
)
def test_a_value_takes_no_more_than_a_few_times_the_size_that_is_allowed(empty):
    one = encode(empty)
    share = 20  # the whole is slow to measure
    items = 9 if isinstance(empty, collections.deque) else 1  # what one counts for
    number = min(MAX_ITEMS // items - 1, (MAX_BYTES - 5) // len(one)) // share
    data = b"l" + struct.pack("<I", number) + one * number
    tracemalloc.start()
    try:
        decode(data)
        most = share * tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 400 << 20


# ------------------------------------------------------------------------------------------------------- enemy's bytes


def attempt(data: bytes) -> None:
    begun = time.monotonic()
    try:
        value = decode(data)
    except CodecError:
        pass
    else:
        encode(value)  # what is accepted is plain data
    assert time.monotonic() - begun < 2


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_never_raise_anything_else(data):
    attempt(data)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([bytes([tag]) for tag in b"NETFiIdcsbBlPtSfQmrxqawhu*"] + [b"\1\0\0\0", bytes(8)])))
def test_random_tags_never_raise_anything_else(parts):
    attempt(b"".join(parts))


@EXAMPLES
@given(VALUES, st.randoms(use_true_random=False))
def test_mutated_bytes_never_raise_anything_else(value, chance):
    data = bytearray(encode(value))
    for _ in range(5):
        at = chance.randrange(len(data))
        how = chance.randrange(4)
        if how == 0:
            data[at] = chance.randrange(256)
        elif how == 1 and len(data) > 1:
            del data[at]
        elif how == 2:
            data.insert(at, chance.randrange(256))
        else:
            data[at : at + 4] = struct.pack("<I", chance.choice([0, 1, 2**31, 2**32 - 1, MAX_ITEMS]))
        attempt(bytes(data))
    attempt(bytes(data[: chance.randrange(len(data) + 1)]))


def test_large_random_bytes_take_no_time():
    chance = random.Random(0)
    tags = b"lltSfQmqrI"
    for _ in range(30):
        data = bytes(chance.choice(tags) if chance.random() < 0.3 else chance.randrange(4) for _ in range(20_000))
        attempt(data)


# --------------------------------------------------------------------------------------------------------------- hooks


def test_special_stands_for_what_is_no_plain_data():
    asked = []

    def outgoing(value):
        asked.append(value)
        return (7, f"the {value.__name__} ☃\ud800") if callable(value) else None

    data = encode([1, len, {"a": print}], outgoing)
    assert asked == [len, print]  # plain data is not asked about
    assert decode(data, lambda number, text: (number, text)) == [
        1,
        (7, "the len ☃\ud800"),
        {"a": (7, "the print ☃\ud800")},
    ]
    with pytest.raises(CodecError, match="no plain data"):
        decode(data)
    with pytest.raises(CodecError, match="object"):
        encode(object(), outgoing)


@pytest.mark.parametrize("error", [KeyError, IndexError, AttributeError, TypeError, ValueError])
def test_what_goes_wrong_in_special_is_the_fault_of_the_bytes(error):
    def incoming(number, text):
        raise error(text)

    with pytest.raises(CodecError):
        decode(encode(len, lambda value: (0, "x")), incoming)


# ---------------------------------------------------------------------------------------------------------------- jobs

LIMITS = Limits(seconds=1.5, memory_mb=300, output_bytes=10, file_bytes=20, open_files=30)


@pytest.mark.parametrize(
    "job",
    [
        Run("print(1)", ("a", "\ud800"), limits=LIMITS),
        Run("int main(){}", (), language="cpp"),
        Calls("def f(x): return x", "f", ((1, [2, (3,)]), ({"a": {1}},), ()), limits=LIMITS),
        Tests("def f(): pass", ("assert f()", "1"), "import math", "x = 1", "f", True, LIMITS),
        Tests("", ()),
    ],
    ids=lambda job: type(job).__name__,
)
def test_a_job_survives_being_sent(job):
    again = job_from_plain(decode(encode(to_plain(job))))
    assert again == job
    assert repr(again) == repr(job)  # the exact types as well


@pytest.mark.parametrize(
    "result",
    [Ran("ok", "1\n", "n", 0.5), Called("ok", {"a": (1, [2])}), Tested("raised", "why"), Ran("timeout")],
    ids=repr,
)
def test_a_result_survives_being_sent(result):
    again = result_from_plain(decode(encode(to_plain(result))))
    assert again == result
    assert repr(again) == repr(result)


def test_a_range_of_large_numbers_is_refused_on_both_sides():
    with pytest.raises(CodecError, match="64 bits"):
        encode(range(1 << 70))
    with pytest.raises(CodecError, match="64 bits"):
        decode(b"r" + encode(0) + encode(1 << 200_000) + encode(1))
