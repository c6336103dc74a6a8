"""Many jobs in a row: nothing grows."""

import contextlib
import gc
import os
import tempfile
import time

import pytest

from trl_grpo_ext.sandbox import Calls, Limits, Run, Tests
from trl_grpo_ext.sandbox.local import LocalSandbox


pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("sandbox-soak")]

QUICK = Limits(seconds=0.2)
KINDS = 10


def do(sandbox: LocalSandbox, number: int) -> None:
    """One of several kinds of jobs, with the result it must have."""
    kind = number % KINDS
    if kind == 0:
        assert [ran.output for ran in sandbox.run(Run("print(input())", (str(number), "b")))] == [f"{number}\n", "b\n"]
    elif kind == 1:
        assert [ran.ended for ran in sandbox.run(Run("1 / 0", ("",)))] == ["raised"]
    elif kind == 2:
        assert [called.value for called in sandbox.call(Calls("def f(x): return x", "f", ((number,), ("a",))))] == [
            number,
            "a",
        ]
    elif kind == 3:
        assert [
            tested.ended for tested in sandbox.test(Tests("def f(): return 1", ("assert f() == 1", "assert f() == 2")))
        ] == [
            "ok",
            "raised",
        ]
    elif kind == 4:
        job = Tests(f"def f(): return {number}", ("assert f() > 0", "assert f() is not None"), function="f")
        assert [tested.ended for tested in sandbox.test(job)] == ["ok", "ok"]
    elif kind == 5:
        assert [called.ended for called in sandbox.call(Calls("import os\ndef f(): os._exit(1)", "f", ((),)))] == [
            "exited"
        ]
    elif kind == 6:
        results = sandbox.run(Run("print(input())", ("a", "b", "c")))
        assert next(results).output == "a\n"
        results.close()
    elif kind == 7:
        assert [ran.ended for ran in sandbox.run(Run("open('a', 'w').write('x' * 10**6)\nprint(1)", ("",)))] == ["ok"]
    elif kind == 8:
        value = list(range(20_000))
        assert next(iter(sandbox.call(Calls("def f(x): return x", "f", ((value,),))))).value == value
    elif number % (10 * KINDS) == 9:
        assert [ran.ended for ran in sandbox.run(Run("while True: pass", ("",), limits=QUICK))] == ["timeout"]
    else:
        assert [tested.ended for tested in sandbox.test(Tests("x = 1", ("assert (",)))] == ["unusable"]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def states_of_children(pid: int) -> list[str]:
    states = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as stat:
                state, parent, *_ = stat.read().rpartition(")")[2].split()
                states += [state] if int(parent) == pid else []
    return states


def measure(zygote: int, folder: str) -> dict[str, int]:
    gc.collect()
    time.sleep(0.5)  # those that wait are ended
    return {
        "descriptors of the host": descriptors(os.getpid()),
        "descriptors of the zygote": descriptors(zygote),
        "children of the zygote": len(states_of_children(zygote)),
        "zombies of the host": states_of_children(os.getpid()).count("Z"),
        "temporary files": len(os.listdir(folder)),
        "memory of the host": resident_kb(os.getpid()),
        "memory of the zygote": resident_kb(zygote),
    }


@pytest.mark.parametrize("jobs", [500, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_nothing_grows(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.closing(LocalSandbox(workers=2, isolation="best_effort", time_scale=1.0)) as sandbox:
        sandbox.isolation()
        (zygote,) = sandbox.processes()
        for number in range(100):
            do(sandbox, number)
        before = measure(zygote, str(tmp_path))
        begun = time.monotonic()
        for number in range(jobs):
            do(sandbox, number)
        seconds = time.monotonic() - begun
        after = measure(zygote, str(tmp_path))
        print(f"{jobs} jobs in {seconds:.1f} s; before {before}, after {after}")
        assert sandbox.processes() == [zygote]
    slack = {"memory of the host": 12_000, "memory of the zygote": 4_000}
    grown = {name: after[name] - was for name, was in before.items() if after[name] - was > slack.get(name, 0)}
    assert grown == {}
    assert before["children of the zygote"] == 0
    assert not os.path.exists(f"/proc/{zygote}")
    assert os.listdir(tmp_path) == []
