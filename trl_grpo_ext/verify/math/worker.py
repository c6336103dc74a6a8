"""The algebra worker: `python -m trl_grpo_ext.verify.math.worker`, JSON lines over its standard streams.

Two processes. The outer one loads the algebra once, forks the inner one, and forks it again whenever it ends: a killed
comparison costs milliseconds, not another import. The inner one answers requests. SIGUSR1 to the outer process ends
the inner one; the end of standard input, or of the parent process, ends both.

In: `{"id", "gold", "answer", "options", "explain"}`. Out: `{"ready": pid}` once per inner process; per request
`{"id", "reading"}` while it works (`"gold"` or `"answer"`), then `{"id", "status", "equal", "note", "rungs", "last"}`;
after a `"last"` one a new inner process follows. A request whose answer is `null` asks whether the reference can be
read.
"""

import ctypes
import json
import logging
import os
import resource
import select
import signal
import sys


MEMORY_LIMIT = 1 << 30  # address space of one comparison; the algebra itself takes about a quarter of it
_RECYCLE_AT = 300 << 10  # KiB of resident memory after which a fresh inner process is cheaper than a grown one
_ORPHAN_CHECK_MS = 1_000
_RECYCLE, _DONE = 3, 0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Load the algebra and serve until the parent goes away."""
    parent = os.getppid()
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        from trl_grpo_ext.verify.math import symbolic
    except ImportError as error:
        _send({"failed": f"{error}; install math-verify"})
        return 1
    symbolic.warm_up()  # grammar, caches and late imports, once, before forking
    _supervise(parent)
    return 0


def _supervise(parent: int) -> None:
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    outer, inner = os.getpid(), 0
    signal.signal(signal.SIGUSR1, lambda number, frame: os.kill(inner, signal.SIGKILL) if inner else None)
    while True:
        inner = os.fork()
        if inner == 0:
            _become_inner(outer)
        status = _wait(inner, woken, parent)
        inner = 0
        if status is None or os.waitstatus_to_exitcode(status) == _DONE:
            return


def _wait(inner: int, woken: int, parent: int) -> int | None:
    """Wait for the inner process; return its status, or `None` when the parent went away first."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    while True:
        ended, status = os.waitpid(inner, os.WNOHANG)
        if ended:
            return status
        if os.getppid() != parent:
            os.kill(inner, signal.SIGKILL)
            os.waitpid(inner, 0)
            return None
        if poll.poll(_ORPHAN_CHECK_MS):
            while _drain(woken):
                pass


def _drain(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""


def _become_inner(outer: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != outer:
        os._exit(_DONE)
    _send({"ready": os.getpid()})
    code = 1
    try:
        code = _serve()
    finally:
        os._exit(code)


def _serve() -> int:
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except ValueError:
            continue  # the rest of a line whose reader was killed
        reply = _judge(request)
        reply["last"] = reply["status"] == "memory" or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _RECYCLE_AT
        _send(reply)
        if reply["last"]:
            return _RECYCLE
    return _DONE


def _judge(request: dict) -> dict:
    from trl_grpo_ext.verify.math import compare, reference, symbolic
    from trl_grpo_ext.verify.math.options import MathOptions

    gold, answer = request["gold"], request["answer"]
    reply = {"id": request["id"], "status": "decided", "equal": False, "note": "", "rungs": []}
    options = MathOptions.parse(request["options"])
    rungs: list | None = [] if request["explain"] else None
    failure = ""

    def reading(what: str) -> None:
        _send({"id": request["id"], "reading": what})

    def algebra(gold: str, answer: str) -> bool:
        nonlocal failure
        try:
            return symbolic.equal(gold, answer, reading, options.tolerance)
        except (MemoryError, symbolic.UnreadableReference):
            raise
        except Exception as error:  # sympy broke on this pair: it could not be shown equal
            failure = f" ({type(error).__name__})"
            return False

    reading("answer" if answer is not None else "gold")
    try:
        if answer is None:
            reply["equal"] = reference.readable(gold, symbolic.readable)
        else:
            decision = compare.compare(gold, answer, algebra, options, rungs)
            reply.update(equal=decision.equal is True, note=decision.reason + failure)
    except symbolic.UnreadableReference:
        reading("gold")  # a value the ladder did not split may be unreadable as a whole though its parts are not
        reply["status"] = "decided" if reference.readable(gold, symbolic.readable) else "unreadable"
    except MemoryError:
        reply["status"] = "memory"
    except Exception as error:  # the ladder is ours: a fault in it says nothing about the answer
        reply.update(status="failed", note=type(error).__name__)
    reply["rungs"] = [(rung.name, rung.saw, rung.decided) for rung in rungs or ()]
    return reply


def _send(message: dict) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
