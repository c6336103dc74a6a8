"""A few jobs whose right results are known, to see whether a sandbox does here what it should."""

from collections.abc import Callable

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox.backend import Sandbox
from trl_grpo_ext.sandbox.jobs import Calls, Limits, Run, Tests
from trl_grpo_ext.sandbox.options import LEVELS


_SHORT = Limits(seconds=0.5)
_READ = """
def look(path):
    try:
        open(path).read(1)
    except OSError:
        return "refused"
    return "open"
"""
_REACH = """
import os, socket, subprocess

def network():
    socket.create_connection(("127.0.0.1", 80), 0.2)

def process():
    subprocess.run(["true"])

def fork():
    if os.fork() == 0:
        os._exit(0)

def signal():
    os.kill(os.getppid() or 2, 0)

def reach(what):
    try:
        globals()[what]()
    except OSError:
        return "refused"
    return "done"
"""


def self_check(sandbox: Sandbox) -> list[tuple[str, str]]:
    """
    Try a sandbox out.

    Args:
        sandbox ([`Sandbox`]):
            The sandbox.

    Returns:
        `list[tuple[str, str]]`: for each check its name, and `"ok"` or what is wrong.
    """
    found = []
    for name, check in CHECKS.items():
        try:
            found.append((name, check(sandbox) or "ok"))
        except SandboxError as error:
            found.append((name, f"the sandbox failed: {error}"))
    return found


def at_least(sandbox: Sandbox, level: str) -> bool:
    """Whether a sandbox isolates at that level or a higher one."""
    levels = list(LEVELS)
    return levels.index(sandbox.isolation().level) >= levels.index(level)


def _differs(found: object, expected: object) -> str:
    return "" if found == expected else f"expected {expected!r}, got {found!r}"


def _runs(sandbox: Sandbox) -> str:
    job = Run("print(sum(map(int, input().split())))", ("1 2 3\n", "20 22"))
    return _differs([(ran.ended, ran.output) for ran in sandbox.run(job)], [("ok", "6\n"), ("ok", "42\n")])


def _calls(sandbox: Sandbox) -> str:
    job = Calls("class Solution:\n    def twice(self, x):\n        return x + x", "twice", ((21,), ("ab",), ([1],)))
    return _differs([called.value for called in sandbox.call(job)], [42, "abab", [1, 1]])


def _tests(sandbox: Sandbox) -> str:
    job = Tests("def f(x):\n    return sorted(x)", ("assert f([2, 1]) == [1, 2]", "assert f([1]) == [2]"))
    return _differs([tested.ended for tested in sandbox.test(job)], ["ok", "raised"])


def _time(sandbox: Sandbox) -> str:
    return _differs([ran.ended for ran in sandbox.run(Run("while True: pass", ("",), limits=_SHORT))], ["timeout"])


def _memory(sandbox: Sandbox) -> str:
    job = Run("x = bytearray(1 << 30)", ("",), limits=Limits(memory_mb=512))
    return _differs([ran.ended for ran in sandbox.run(job)], ["memory"])


def _output(sandbox: Sandbox) -> str:
    job = Run("print('x' * 200_000)", ("",), limits=Limits(output_bytes=100_000))
    return _differs([ran.ended for ran in sandbox.run(job)], ["output"])


def _exit(sandbox: Sandbox) -> str:
    job = Tests("import os\ndef f():\n    os._exit(0)", ("f()",))
    return _differs([tested.ended for tested in sandbox.test(job)], ["exited"])


def _equal_to_all(sandbox: Sandbox) -> str:
    program = "class Any(int):\n    def __eq__(self, other):\n        return True\ndef f():\n    return Any(1)"
    return _differs([tested.ended for tested in sandbox.test(Tests(program, ("assert f() == 2",)))], ["raised"])


def _environment(sandbox: Sandbox) -> str:
    job = Calls("import os\ndef names():\n    return sorted(os.environ)", "names", ((),))
    known = {"HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "MALLOC_ARENA_MAX", "OMP_NUM_THREADS"}
    for called in sandbox.call(job):
        strange = set(called.value) - known - {"OPENBLAS_NUM_THREADS"}
        return f"programs see the variables {sorted(strange)}" if strange else ""
    return "there is no result"


def _host_files(sandbox: Sandbox) -> str:
    if not at_least(sandbox, "restricted"):
        return ""
    paths = ("/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline")
    results = sandbox.call(Calls(_READ, "look", tuple((path,) for path in paths)))
    opened = [path for path, called in zip(paths, results, strict=False) if called.value != "refused"]
    return f"programs can read {', '.join(opened)}" if opened else ""


def _reach(sandbox: Sandbox) -> str:
    if not at_least(sandbox, "seccomp"):
        return ""
    wanted = ("network", "process", "fork", "signal")
    results = sandbox.call(Calls(_REACH, "reach", tuple((name,) for name in wanted)))
    done = [name for name, called in zip(wanted, results, strict=False) if called.value != "refused"]
    return f"not refused to programs: {', '.join(done)}" if done else ""


CHECKS: dict[str, Callable[[Sandbox], str]] = {
    "runs a program": _runs,
    "calls a function": _calls,
    "runs tests": _tests,
    "ends a program that takes too long": _time,
    "ends a program that takes too much memory": _memory,
    "stops at too much output": _output,
    "tells a program that ends its process": _exit,
    "is not fooled by an object that equals everything": _equal_to_all,
    "hides the host's environment": _environment,
    "hides the host's files": _host_files,
    "refuses processes, network and signals": _reach,
}
