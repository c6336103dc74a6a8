"""A script: judge a list of jobs with the local sandbox, and print what came of each as JSON.

It imports nothing but the package and the standard library, so any interpreter that can read the repository runs it.
`python verdicts.py '{"minimum": "limits", …}'`
"""

import json
import os
import sys
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox import Calls, Limits, Run, Tests
from trl_grpo_ext.sandbox.local import LocalSandbox


SHORT = Limits(seconds=0.5)
NARROW = Limits(memory_mb=256, output_bytes=100_000, file_bytes=1 << 20, open_files=20)
REACH = """
import os, signal, socket, subprocess
def refused(f, *arguments):
    try:
        f(*arguments)
    except OSError:
        return True
    return False
def look():
    return [
        refused(open, "/etc/passwd"),
        refused(open, "/etc/hostname", "w"),
        refused(os.listdir, os.path.expanduser("/root")),
        refused(socket.socket),
        refused(subprocess.run, ["true"]),
        refused(os.fork),
        refused(os.kill, os.getppid() or 2, 0),
        refused(os.unshare, 0) if hasattr(os, "unshare") else True,
        "SECRET" in os.environ,
    ]
"""
JOBS = {
    "prints": Run("print(int(input()) ** 2)", ("7", "8")),
    "raises": Run("print(1)\n1 / 0", ("",)),
    "exits": Run("import sys; sys.exit(3)", ("",)),
    "exits at once": Run("import os; os._exit(0)", ("",)),
    "does not compile": Run("def f(:", ("",)),
    "loops": Run("while True: pass", ("",), limits=SHORT),
    "sleeps": Run("import time; time.sleep(100)", ("",), limits=SHORT),
    "loops in threads": Run(
        "import threading\ndef f():\n while True: pass\n"
        "[threading.Thread(target=f).start() for _ in range(4)]\nprint('done', flush=True)",
        ("",),
        limits=SHORT,
    ),
    "fills memory": Run("x = bytearray(1 << 30)", ("",), limits=NARROW),
    "prints too much": Run("print('x' * 200_000)", ("",), limits=NARROW),
    "writes too much": Run(
        "open('a', 'wb', 0).write(bytes(5 << 20)); open('a', 'ab', 0).write(b'x')", ("",), limits=NARROW
    ),
    "opens too much": Run("files = [open('a', 'w') for _ in range(40)]", ("",), limits=NARROW),
    "crashes": Run("import ctypes; ctypes.string_at(8)", ("",)),
    "aborts": Run("import os; os.abort()", ("",)),
    "signals itself": Run("import os; os.kill(os.getpid(), 40); print('alive')", ("",)),
    "has a folder": Run(
        "import tempfile; open('a', 'w').write('x'); print(tempfile.TemporaryFile().write(b'xy'))", ("",)
    ),
    "makes a folder that cannot be read": Run(
        "import os\nos.mkdir('d'); open('d/f', 'w')\ntry: os.chmod('d', 0)\nexcept OSError: pass\nprint(1)", ("",)
    ),
    "calls": Calls("class Solution:\n    def f(self, x): return x, {x: [x]}", "f", ((1,), ("a",))),
    "calls what is not there": Calls("x = 1", "f", ((1,),)),
    "tests": Tests("def f(x): return sorted(x)", ("assert f([2, 1]) == [1, 2]", "assert f([1]) == 3")),
    "tests objects": Tests(
        "class Any(int):\n def __eq__(self, o): return True\ndef f(): return Any(1)",
        ("assert f() == 2", "assert f() == 1"),
    ),
    "tests that end": Tests("import os\ndef f(): os._exit(0)", ("f()",)),
}


def do(sandbox: LocalSandbox, job) -> list:
    """What came of a job, without what may differ between machines."""
    kind = type(job)
    if kind is Run:
        return [[ran.ended, ran.output if len(ran.output) < 100 else len(ran.output)] for ran in sandbox.run(job)]
    if kind is Calls:
        return [[called.ended, repr(called.value)] for called in sandbox.call(job)]
    return [[tested.ended] for tested in sandbox.test(job)]


def main() -> None:
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    os.environ["SECRET"] = "1"
    sandbox = LocalSandbox(workers=2, time_scale=1.0, **options)
    try:
        isolation = sandbox.isolation()
    except SandboxError as error:
        print(json.dumps({"error": str(error)}))
        return
    results = {}
    for name, job in JOBS.items():
        try:
            results[name] = do(sandbox, job)
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"[:300]
    (reach,) = sandbox.call(Calls(REACH, "look", ((),)))
    processes = sandbox.processes()
    sandbox.close()
    alive = [pid for pid in processes if os.path.exists(f"/proc/{pid}")]
    print(
        json.dumps(
            {
                "user": os.getuid(),
                "level": isolation.level,
                "layers": dict(isolation.layers),
                "results": results,
                "reach": reach.value,
                "alive": alive,
                "first": processes,
            }
        )
    )


if __name__ == "__main__":
    main()
