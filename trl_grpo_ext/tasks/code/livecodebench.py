"""LiveCodeBench, code generation (huggingface.co/papers/2403.07974)."""

import base64
import binascii
import io
import pickletools
import zlib
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks.code.dataset import CodeTask
from trl_grpo_ext.tasks.code.row import Row, function_prompt, program_prompt, shown, total_seconds


# What LiveCodeBench's harness allows for one test.
_SECONDS_PER_TEST = 6.0

# The largest private tests are some tens of megabytes; what unpacks to more than this is no tests.
_MAX_UNPACKED = 512 << 20

_RELEASES = range(1, 7)

# A pickled text is one of these, and nothing that builds an object or calls anything.
_TEXT_OPCODES = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_OTHER_OPCODES = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP")
_MAX_OPCODES = 8


def livecodebench_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    The case of a row of LiveCodeBench (`code_generation` or `code_generation_lite`): its public and private tests.

    Private tests may be packed (base64, zlib, a pickled text of JSON). They are unpacked here without `pickle`: the
    bytes are read as a list of opcodes, of which only those that stand for one text are accepted.

    Every test may take 6 s, all together at most `MAX_SECONDS` (60 s).

    Args:
        row (`Mapping`):
            A row with `question_content`, `starter_code`, `public_test_cases`, `private_test_cases`, `metadata`.

    Returns:
        `dict`: a case of the format `stdio`, or `function_call` for tests of the type `functional`, with the `prompt`
        for the model.

    Raises:
        [`~errors.DataError`]: if the row has no tests, tests of mixed or unknown types, a functional test without
            `func_name`, or private tests that are packed in another way.
    """
    seen = Row("LiveCodeBench", row, "question_id", "question_title")
    tests = [*_tests(seen, "public_test_cases"), *_tests(seen, "private_test_cases")]
    if not tests:
        raise seen.error("it has no tests under 'public_test_cases' and 'private_test_cases'; drop the row")
    kinds = sorted({str(test.get("testtype")) for test in tests})
    statement, starter = seen.text("question_content"), seen.optional_text("starter_code")
    seconds = total_seconds(_SECONDS_PER_TEST, len(tests))
    if kinds == ["stdin"]:
        pairs = [{"input": test["input"], "output": test["output"]} for test in tests]
        return seen.case(
            format="stdio", tests=pairs, entry_point=None, time_limit=seconds, prompt=program_prompt(statement)
        )
    if kinds != ["functional"]:
        raise seen.error(f"its tests are of the types {kinds}; expected all 'stdin' or all 'functional'")
    metadata = seen.decoded("metadata")
    name = seen.checked_identifier(
        metadata.get("func_name") if isinstance(metadata, dict) else None, "'func_name' in its metadata"
    )
    calls = {
        "fn_name": name,
        "inputs": [[seen.json(line, "an input of its tests") for line in _arguments(test["input"])] for test in tests],
        "outputs": [seen.json(test["output"], "an output of its tests") for test in tests],
    }
    return seen.case(
        format="function_call",
        tests=calls,
        entry_point=name,
        time_limit=seconds,
        prompt=function_prompt(statement, name, starter),
    )


def unpack_text(packed: str, row: Row, column: str) -> str:
    """
    The text in `base64(zlib(pickle(text)))`, read without `pickle`.

    Args:
        packed (`str`):
            The packed text.
        row ([`Row`]):
            Where it comes from, for messages.
        column (`str`):
            Its column, for messages.

    Raises:
        [`~errors.DataError`]: if it is packed in another way, holds anything but one text, or unpacks to more than
            512 MiB.
    """
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(packed, validate=True), _MAX_UNPACKED)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise row.error(
            f"{column!r} is neither JSON nor packed JSON ({error}): {shown(packed)}; fetch the dataset again"
        ) from error
    if unpacker.unconsumed_tail:
        raise row.error(f"{column!r} unpacks to more than {_MAX_UNPACKED >> 20} MiB; drop the row")
    texts: list[Any] = []
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(raw))):
            if opcode.name in _TEXT_OPCODES and not texts:
                texts.append(argument)
            elif opcode.name not in _OTHER_OPCODES or count == _MAX_OPCODES:
                break
    except ValueError as error:  # bytes that are no pickle, or its beginning only
        raise row.error(f"{column!r} is packed, but holds no pickle ({error}); fetch the dataset again") from error
    if opcode.name != "STOP" or len(texts) != 1 or not isinstance(texts[0], str):
        raise row.error(
            f"{column!r} holds a pickle of something else than one text (it ends at {opcode.name} after {len(texts)} "
            "texts), which could run code if it was loaded, so it is not; fetch the dataset again"
        )
    return texts[0]


def _tests(row: Row, column: str) -> list[dict[str, str]]:
    value = row.columns.get(column)
    if not value:
        return []
    if isinstance(value, str):
        packed = not value.lstrip().startswith(("[", "{", '"'))
        value = row.json(unpack_text(value, row, column) if packed else value, repr(column))
    if not isinstance(value, list) or not all(_is_test(test) for test in value):
        raise row.error(f"{column!r} is {shown(value)}; expected a list of tests with 'input', 'output', 'testtype'")
    return value


def _is_test(test: Any) -> bool:
    return isinstance(test, dict) and isinstance(test.get("input"), str) and isinstance(test.get("output"), str)


def _arguments(text: str) -> list[str]:
    return text.split("\n") if text else []


class LiveCodeBench(CodeTask):
    """
    LiveCodeBench: contest problems with their dates, for programs and for functions. It has no reference solutions.

    It is a benchmark: by default all problems are held out for evaluation.

    Args:
        dataset (`str`, *optional*):
            See [`CodeTask`].
        revision (`str`, *optional*):
            See [`CodeTask`].
        eval_share (`float`, *optional*):
            See [`CodeTask`].
        release (`int`, *optional*, defaults to `6`):
            Which release to take from the Hub: `release_v1` to `release_v6`; each holds those before it.

    Raises:
        [`~errors.ConfigError`]: if a parameter is out of range.
    """

    source = "livecodebench/code_generation_lite"
    license = "CC"
    hub_parts = ("test",)
    statement_columns = ("question_content",)
    eval_share = 1.0
    has_solutions = False
    case = staticmethod(livecodebench_case)

    def __init__(
        self,
        dataset: str | None = None,
        revision: str | None = None,
        eval_share: float | None = None,
        release: int = 6,
    ):
        super().__init__(dataset, revision, eval_share)
        if release not in _RELEASES:
            raise ConfigError(f"livecodebench: release={release!r} is unknown; use {_RELEASES[0]} to {_RELEASES[-1]}")
        self.hub_files = tuple(f"test{'' if number == 1 else number}.jsonl" for number in range(1, release + 1))
