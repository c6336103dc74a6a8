"""LiveCodeBench's packed tests are read without `pickle`."""

import base64
import json
import os
import pickle
import zlib

import pytest

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.tasks.code import livecodebench_case
from trl_grpo_ext.tasks.code.livecodebench import unpack_text
from trl_grpo_ext.tasks.code.row import Row


def pack(raw):
    return base64.b64encode(zlib.compress(raw)).decode()


def unpack(packed):
    return unpack_text(packed, Row("LiveCodeBench", {"question_id": "q"}, "question_id"), "private_test_cases")


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("text", ["[]", "é" * 300, "x" * 200_000])
def test_a_pickled_text_is_read(protocol, text):
    assert unpack(pack(pickle.dumps(text, protocol=protocol))) == text


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_that_would_run_code_is_refused_and_not_run(tmp_path, protocol):
    target = tmp_path / "ran"
    for payload in (Runs(str(target)), [Runs(str(target))], {"text": Runs(str(target))}):
        with pytest.raises(DataError, match="'private_test_cases' holds a pickle of something else than one text"):
            unpack(pack(pickle.dumps(payload, protocol=protocol)))
    assert not target.exists()


@pytest.mark.parametrize("value", [b"[]", 1, None, ["[]"], ("a", "b"), {"a": 1}])
def test_any_other_pickle_is_refused(value):
    with pytest.raises(DataError, match="something else than one text"):
        unpack(pack(pickle.dumps(value)))


@pytest.mark.parametrize(
    "packed",
    [
        "not base64!",
        "é",
        base64.b64encode(b"not zlib").decode(),
        pack(b""),
        pack(b"plain text"),
        pack(pickle.dumps("[]")[:-1]),
        pack(b"\x80\x04\x8c\xff[]"),
        base64.b64encode(zlib.compress(pickle.dumps("[]" * 500))[:-20]).decode(),
    ],
)
def test_damaged_text_is_refused(packed):
    with pytest.raises(DataError, match="LiveCodeBench row 'q': 'private_test_cases'"):
        unpack(packed)


def test_a_pickle_of_nothing_is_refused():
    with pytest.raises(DataError, match="something else than one text"):
        unpack(pack(b"\x80\x04."))


def test_endless_opcodes_are_refused_early():
    with pytest.raises(DataError, match="something else than one text"):
        unpack(pack(b"\x80\x04" * 1000 + b"."))


def test_a_bomb_is_refused(monkeypatch):
    monkeypatch.setattr("trl_grpo_ext.tasks.code.livecodebench._MAX_UNPACKED", 1 << 20)
    with pytest.raises(DataError, match="unpacks to more than 1 MiB"):
        unpack(pack(pickle.dumps("0" * (4 << 20))))


def test_the_packed_text_must_be_tests():
    row = {"question_id": "q", "question_content": "Print 1.", "public_test_cases": "[]", "metadata": "{}"}
    with pytest.raises(DataError, match="is no JSON"):
        livecodebench_case({**row, "private_test_cases": pack(pickle.dumps("{"))})
    with pytest.raises(DataError, match="expected a list of tests"):
        livecodebench_case({**row, "private_test_cases": pack(pickle.dumps(json.dumps({"input": "1"})))})
