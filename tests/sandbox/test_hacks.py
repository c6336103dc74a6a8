"""
Programs that cheat are not paid, leave nothing behind and do not hold up their judge; honest ones are judged right.

The corpus is `tests/cases/code_hacks.jsonl`; `docs/code_hacks.md` says what stops each family.
"""

import builtins
import contextlib
import glob
import itertools
import json
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.sandbox.hack_mutations import large_hacks, mutate
from trl_grpo_ext.sandbox import Run, open_sandbox
from trl_grpo_ext.verify.code import verify_code, verify_code_batch


ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
SECONDS = 0.3  # time limit of a case in the ordinary run: hacks that sleep are many
# What one case may take beyond its limit: twice the limit for who sleeps, a slow machine, and the judge's own work.
ALLOWED_SECONDS = 8.0
# Hacks that no score is given to, and why. Not a place for hacks that ought to get 0.
UNSCORED: dict[str, str] = {
    "hack-library_name-o4": "its tests call a builtin and do not name the function: no program is ever asked",
}
# They hold the answers and return one of them by chance: every so often, a variant of one is right.
_LUCKY = {"thread_race"}
_OF_HACKS = re.compile(r"red_|codev_|conftest\.py|sitecustomize|usercustomize|results?\.json|reward\.txt")

pytestmark = pytest.mark.sandbox


def _rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


HACKS = _rows("code_hacks.jsonl")
HONEST = _rows("code.jsonl")
FAMILIES = Counter(row["family"] for row in HACKS)


def _case(row: dict, seconds: float = SECONDS) -> dict:
    names = ("format", "entry_point", "tests", "checker", "float_tolerance")
    return {name: row[name] for name in names if name in row} | {"time_limit": min(row["time_limit"], seconds)}


def _is_strict(row: dict) -> bool:
    """Whether its label does not depend on a convention."""
    return "conv:" not in (row["note"] or "")


def _said(row: dict, verdict) -> str:
    took = f"after {verdict.seconds:.1f} s"
    return f"{row['id']} ({row['note']}): {verdict.value} {verdict.kind} {took}, {verdict.reason}"


def _assert_not_paid(row: dict, verdict) -> None:
    if row["id"].split("~")[0] in UNSCORED:
        assert verdict.value is None, _said(row, verdict)
    else:
        assert verdict.value == 0.0, _said(row, verdict)
    assert verdict.seconds < ALLOWED_SECONDS, _said(row, verdict)


# ----------------------------------------------------------------------------------------------------- what is left


def _processes() -> dict[int, list[int]]:
    """The children of every process, zombies included."""
    children: dict[int, list[int]] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            stat = Path(path).read_text()
        except OSError:
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(stat.split(None, 1)[0]))
    return children


def _below(process: int, children: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _outside(box) -> set[int]:
    """What this process has started, but for the sandbox's own processes and their workers."""
    children = _processes()
    lasting = box.processes()
    return _below(os.getpid(), children).difference(lasting, *(_below(process, children) for process in lasting))


def _workers(box) -> set[int]:
    children = _processes()
    return set().union(*(_below(process, children) for process in box.processes()))


def _descriptors() -> tuple[list[str], int]:
    """What is open besides sockets, and how many sockets."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of this very listing
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    others = sorted(path for path in found if not path.startswith("socket:"))
    return others, len(found) - len(others)


def _traces() -> dict:
    """Everything of this process and its surroundings that a hack might change."""
    folders = {os.getcwd(), tempfile.gettempdir(), "/tmp", "/var/tmp", os.path.expanduser("~"), str(ROOT)}
    files = {path for folder in folders for path in glob.glob(f"{folder}/*") + glob.glob(f"{folder}/.*")}
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    return {
        "files": {path for path in files if _OF_HACKS.match(os.path.basename(path))},
        "shared memory": {name for name in shared if not name.startswith(("sem.", "psm_"))},
        "threads": threading.active_count(),
        "signals": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1)],
        "builtins": {name: id(value) for name, value in vars(builtins).items() if name != "_"},
        "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    }


@pytest.fixture(scope="module")
def sandbox():
    box = open_sandbox()
    verify_code("```python\nprint(1)\n```", {"format": "stdio", "tests": [{"input": "", "output": "1"}]})
    yield box
    # Workers are children of the sandbox's own process; when programs stop coming in, it ends those that wait.
    deadline = time.monotonic() + 10
    while (left := _workers(box)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == set(), f"workers that were left: {left}"


@pytest.fixture
def nothing_left(sandbox):
    lasting = sandbox.processes()
    before, others, (opened, sockets) = _traces(), _outside(sandbox), _descriptors()
    yield
    after = _traces()
    assert {key: value for key, value in after.items() if value != before[key]} == {}
    assert sandbox.processes() == lasting, "the sandbox's own process was ended"
    assert _outside(sandbox) <= others, "processes were left"
    descriptors, more_sockets = _descriptors()
    assert Counter(descriptors) - Counter(opened) == Counter(), "descriptors were left"
    assert more_sockets <= sockets, "sockets were left"


# ------------------------------------------------------------------------------------------------------------ hacks


@pytest.mark.parametrize("row", HACKS, ids=[row["id"] for row in HACKS])
def test_no_hack_is_paid(row, nothing_left):
    _assert_not_paid(row, verify_code(row["completion"], _case(row)))


def test_large_hacks(nothing_left):
    row = next(row for row in HACKS if row["format"] == "function_call")
    for variant in large_hacks(row):
        _assert_not_paid(variant, verify_code(variant["completion"], _case(variant, 1.0)))


def _judge_all(rows: list[dict], seconds: float = SECONDS) -> None:
    verdicts = verify_code_batch([row["completion"] for row in rows], [_case(row, seconds) for row in rows])
    wrong = []
    for row, verdict in zip(rows, verdicts, strict=True):
        expected = None if row["id"].split("~")[0] in UNSCORED else 0.0
        if verdict.value != expected:
            wrong.append(f"{_said(row, verdict)}\n{row['completion'][:1500]}")
    assert wrong == []


def test_a_hundred_mutations(nothing_left):
    chosen = random.Random(0).sample([row for row in HACKS if row["family"] not in _LUCKY], 100)
    _judge_all([mutate(row, seed) for seed, row in enumerate(chosen)])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in _LUCKY])
def test_thousands_of_mutations(family, nothing_left):
    rows = [row for row in HACKS if row["family"] == family]
    _judge_all([mutate(row, 1000 + seed) for seed, row in zip(range(60), itertools.cycle(rows), strict=False)], 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("row", HACKS, ids=[row["id"] for row in HACKS])
def test_no_hack_is_paid_within_its_own_limit(row, nothing_left):
    verdict = verify_code(row["completion"], _case(row, row["time_limit"]))
    assert verdict.value == (None if row["id"] in UNSCORED else 0.0), _said(row, verdict)


# ------------------------------------------------------------------------------------------------------- neighbours


def test_a_batch_of_hacks_spoils_no_neighbour(nothing_left):
    right = [row for row in HONEST if row["expected_pass"] and _is_strict(row)][::40]
    hacks = random.Random(1).sample(HACKS, 3 * len(right))
    rows = [row for group in zip(right, hacks[::3], hacks[1::3], hacks[2::3], strict=True) for row in group]
    cases = [_case(row, 5.0 if row in right else SECONDS) for row in rows]
    for row, verdict in zip(rows, verify_code_batch([row["completion"] for row in rows], cases), strict=True):
        wrong = None if row["id"] in UNSCORED else 0.0
        assert verdict.value == (1.0 if row in right else wrong), _said(row, verdict)


_PACKED = {
    "format": "asserts",
    "entry_point": "unpack",
    "tests": ["assert unpack(pack('abc')) == 'abc'", "assert unpack(pack('')) == ''"],
}
_TESTS_PASS = (
    "[setattr(m.Tester, '_one', lambda *a: ('ok', '')) for k, m in __import__('sys').modules.items()"
    " if k.endswith('inside.tester')]"
)
_SPOILERS = {
    "eval": f"def pack(text): return {_TESTS_PASS!r}\nunpack = eval",
    "exec": f"def pack(text): return {_TESTS_PASS!r}\nunpack = exec",
    "types": "def pack(text): return type, object, str\ndef unpack(packed): return packed",
    "builtins": "import builtins\ndef pack(text): return vars(builtins)\ndef unpack(packed): packed.clear()",
}


@pytest.mark.parametrize("spoiler", _SPOILERS)
def test_a_program_does_not_spoil_the_tests_of_the_next(spoiler, nothing_left):
    wrong = "```python\ndef pack(text): return 0\ndef unpack(packed): return 0\n```"
    right = "```python\ndef pack(text): return [text]\ndef unpack(packed): return packed[0]\n```"
    hack = f"```python\n{_SPOILERS[spoiler]}\n```"
    values = [verify_code(completion, _PACKED).value for completion in (right, hack, wrong, right, hack, wrong, right)]
    assert values == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]


_LEAVING = {
    "a folder": "import os\nos.mkdir('made')",
    "a file": "import os\nassert not os.path.exists('made')\nopen('made', 'w').close()",
    "a constant": "import math\nassert math.pi < 4\nmath.pi = 7",
    "a builtin": "import builtins\nassert not hasattr(builtins, 'kept')\nbuiltins.kept = 1",
    "a variable": "import os\nassert 'KEPT' not in os.environ\nos.environ['KEPT'] = '1'",
    "a module": "import sys, json\nassert json\nsys.modules['json'] = None",
    "an alarm": "import signal\nassert signal.alarm(60) == 0",
    "standard output": "import io, sys\nassert type(sys.stdout) is not io.StringIO\nsys.stdout = io.StringIO()",
    "a thread": "import threading, time\nassert threading.active_count() == 1\n"
    "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
}


@pytest.mark.parametrize("what", _LEAVING)
def test_what_tests_leave_does_not_reach_the_tests_of_the_next_program(what):
    case = {"format": "asserts", "entry_point": "double", "tests": [f"{_LEAVING[what]}\nassert double(2) == 4"]}
    right, wrong = "```python\ndef double(x): return 2 * x\n```", "```python\ndef double(x): return x\n```"
    assert [verify_code(program, case).value for program in (right, wrong, right, right)] == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_honest_programs_are_judged_right(part, nothing_left):
    rows = HONEST[part::2]
    verdicts = verify_code_batch([row["completion"] for row in rows], [_case(row, 3.0) for row in rows])
    pairs = zip(rows, verdicts, strict=True)
    wrong = [(row, got) for row, got in pairs if got.value is None or (got.value == 1.0) is not row["expected_pass"]]
    told = [_said(row, verdict) for row, verdict in wrong]
    assert sum(_is_strict(row) for row, _ in wrong) <= 0.005 * sum(map(_is_strict, rows)), told
    assert len(wrong) <= 0.01 * len(rows), told


# ------------------------------------------------------------------------------------------------- what can be seen

_LOOK = """
import os
found = []
for path in ("/proc", "/sys", "/home", "/var", "/run", "/mnt", "/boot", "/dev/shm", "/dev/pts", "/etc/passwd"):
    if os.path.exists(path):
        found.append(path)
known = {"PATH", "LANG", "LC_CTYPE", "HOME", "TMPDIR", "MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
found += set(os.environ) - known
for number in range(4, 1100):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
print(found)
"""


def test_a_program_sees_nothing_of_the_host(sandbox):
    if sandbox.isolation().level != "namespaces":
        pytest.skip("this machine has no namespaces")
    (ran,) = sandbox.run(Run(_LOOK, ("",)))
    assert (ran.ended, ran.output) == ("ok", "[]\n")


def test_no_refused_call_is_let_through(sandbox):
    families = ("privilege", "raw_clone", "sockets")
    asked = [row for row in HACKS if row["family"] in families and row["format"] == "stdio"]
    assert len(asked) == 3
    for row in asked:
        source = row["completion"].removeprefix("```python\n").removesuffix("\n```")
        (ran,) = sandbox.run(Run(source, ("",)))
        assert ran.output.strip() in ("[]", "0"), (row["id"], ran)


# -------------------------------------------------------------------------------------------------------- the corpus


def test_mutations_are_the_same_for_the_same_seed_and_differ_otherwise():
    row = next(row for row in HACKS if row["format"] == "asserts")
    assert mutate(row, 3) == mutate(row, 3)
    assert len({mutate(row, seed)["completion"] for seed in range(20)}) > 15


def test_mutations_keep_an_honest_program_right(sandbox):
    """Else a hack might be refused because the mutation broke it."""
    honest = [row for row in HONEST if row["expected_pass"] and row["source"] == "own" and _is_strict(row)]
    rows = [mutate(row, seed) for seed, row in enumerate(honest[::4])]
    verdicts = verify_code_batch([row["completion"] for row in rows], [_case(row, 5.0) for row in rows])
    wrong = [_said(row, got) for row, got in zip(rows, verdicts, strict=True) if got.value != 1.0]
    assert len(wrong) <= 0.1 * len(rows), wrong


def test_every_row_has_what_it_needs():
    for row in HACKS:
        assert all(row[name] for name in ("source", "licence", "family", "tests")), row["id"]
        assert row["expected_pass"] is False
    assert len({row["id"] for row in HACKS}) == len(HACKS)
    assert set(UNSCORED) <= {row["id"] for row in HACKS}


def test_every_family_is_documented():
    page = (ROOT / "docs" / "code_hacks.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \| (\d+) \| [^|\n]{10,} \| [^|\n]{5,} \|$", page, re.MULTILINE)
    assert {name: int(count) for name, count in documented} == dict(FAMILIES)
