"""The worker pool: it can be killed, used from anywhere, and leaves nothing behind."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from trl_grpo_ext.verify.math import judge, pool, verify_math
from trl_grpo_ext.verify.math.pool import Outcome, Request, Worker, WorkerDied, WorkerPool
from trl_grpo_ext.verify.math.worker import MEMORY_LIMIT


pytestmark = pytest.mark.sandbox


HANG = "\\sum_{k=1}^{99999} \\frac{1}{k^{k}+x}"  # needs far longer than any limit here


def limit(value: int) -> str:
    """A value that only the algebra finds."""
    return f"\\lim_{{x \\to {value}}} x"


@pytest.fixture(scope="module")
def one_worker():
    workers = WorkerPool(1)
    assert workers.ask(Request("1", limit(1)), 30.0) == Outcome("decided", equal=True, note="shown equal")
    return workers


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)


def test_plain_answers_start_no_worker(monkeypatch):
    monkeypatch.setattr(pool, "Worker", lambda: pytest.fail("a worker was started"))
    for gold, answer in [
        ("42", "42"),
        ("42", "41"),
        ("1,234", "\\$1234.00"),
        ("\\frac{1}{2}", "0.5"),
        ("3", "4 \\text{ cm}"),
    ]:
        verify_math(gold, f"\\boxed{{{answer}}}")


def test_a_slow_answer_is_stopped_and_the_worker_goes_on(one_worker):
    started = time.monotonic()
    outcome = one_worker.ask(Request("5", HANG), 0.5)
    assert outcome.status in ("timeout", "failed")  # "failed" when a busy machine gave it no time to be slow
    assert time.monotonic() - started < 5
    assert one_worker.ask(Request("2", limit(2)), 30.0) == Outcome("decided", equal=True, note="shown equal")


def test_a_slow_reference_is_not_the_answers_fault(monkeypatch):
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("timeout", blame="gold"))
    assert verify_math("1", f"\\boxed{{{limit(3)}}}").kind == "unscorable"
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("timeout", blame="answer"))
    verdict = verify_math("1", f"\\boxed{{{limit(3)}}}")
    assert (verdict.value, verdict.kind) == (0.0, "timeout")
    monkeypatch.setattr(WorkerPool, "ask", lambda *args: Outcome("memory"))
    assert verify_math("1", f"\\boxed{{{limit(3)}}}").kind == "memory"


def test_a_worker_that_dies_is_replaced(one_worker):
    (worker,) = one_worker._idle
    worker._process.send_signal(signal.SIGKILL)
    worker._process.wait()
    assert one_worker.ask(Request("1", limit(1)), 30.0) == Outcome("decided", equal=True, note="shown equal")


def test_a_worker_that_never_works_is_an_infrastructure_error(monkeypatch):
    class Broken:
        def ask(self, *args):
            raise WorkerDied("out of order")

        def close(self, deadline):
            pass

    monkeypatch.setattr(pool, "Worker", Broken)
    broken = WorkerPool(1)
    monkeypatch.setattr(judge, "shared_pool", lambda: broken)
    verdict = verify_math("1", f"\\boxed{{{limit(3)}}}")
    assert (verdict.value, verdict.kind) == (None, "infra_error")
    assert "out of order" in verdict.reason


def test_memory_is_limited(one_worker):
    one_worker.ask(Request("5", "2^{2^{40}}"), 3.0)
    assert one_worker.ask(Request("2", limit(2)), 30.0).equal
    (worker,) = one_worker._idle
    assert psutil.Process(worker._inner).rlimit(psutil.RLIMIT_AS) == (MEMORY_LIMIT, MEMORY_LIMIT)


def test_many_threads_share_the_workers():
    wrong = []

    def judge_some(number: int) -> None:
        for step in range(5):
            verdict = verify_math(str(number), f"\\boxed{{{limit(number + step % 2)}}}", timeout=20.0)
            if verdict.value != float(step % 2 == 0):
                wrong.append(verdict)

    threads = [threading.Thread(target=judge_some, args=(number,)) for number in range(2, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_after_a_fork_the_child_has_its_own_workers():
    result = run(
        "import os\n"
        "from trl_grpo_ext.verify import verify_math\n"
        "assert verify_math('1', '\\\\boxed{\\\\lim_{x \\\\to 1} x}', timeout=30.0).value == 1.0\n"
        "child = os.fork()\n"
        "value = verify_math('2', '\\\\boxed{\\\\lim_{x \\\\to 2} x}', timeout=30.0).value\n"
        "if child == 0:\n"
        "    os._exit(0 if value == 1.0 else 1)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "assert verify_math('3', '\\\\boxed{\\\\lim_{x \\\\to 3} x}', timeout=30.0).value == 1.0\n"
        "print(value, status)\n"
    )
    assert result.stdout.split() == ["1.0", "0"]


def test_nothing_is_left_when_the_process_ends():
    result = run(
        "import psutil\n"
        "from trl_grpo_ext.verify import verify_math\n"
        "verify_math('1', '\\\\boxed{\\\\lim_{x \\\\to 1} x}', timeout=30.0)\n"
        "print(*(child.pid for child in psutil.Process().children(recursive=True)))\n"
    )
    pids = [int(pid) for pid in result.stdout.split()]
    assert len(pids) == 2
    _wait_until_gone(pids)


def test_workers_die_with_a_killed_parent():
    code = (
        "import psutil, time\n"
        "from trl_grpo_ext.verify import verify_math\n"
        "verify_math('1', '\\\\boxed{\\\\lim_{x \\\\to 1} x}', timeout=30.0)\n"
        "print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)\n"
        f"verify_math('5', r'\\boxed{{{HANG}}}', timeout=60.0)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert len(pids) == 2
    _wait_until_gone(pids)


def test_closing_a_busy_worker_ends_it():
    worker = Worker()
    worker.ask(Request("1", limit(1)), 30.0)
    outer, inner = worker._process.pid, worker._inner
    os.kill(inner, signal.SIGSTOP)
    worker.close(time.monotonic() + 0.2)
    _wait_until_gone([outer, inner])


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in pids if psutil.pid_exists(pid)]}"
        time.sleep(0.1)


@pytest.mark.parametrize(("share", "status"), [(1.0, "timeout"), (0.6, "timeout"), (0.1, "failed")])
def test_the_limit_is_the_workers_own_time(one_worker, monkeypatch, share, status):
    """A machine that gives the worker a part of a processor makes it slower on the clock, not wrong."""
    assert one_worker.ask(Request("1", limit(1)), 30.0).equal
    started = time.monotonic()
    monkeypatch.setattr(Worker, "_cpu_seconds", lambda self: share * (time.monotonic() - started))
    outcome = one_worker.ask(Request("5", HANG), 0.3)
    elapsed = time.monotonic() - started
    assert outcome.status == status
    assert elapsed < 0.3 * 3 + 1.0
    if share == 0.6:
        assert elapsed >= 0.3 / 0.6 * 0.9


def test_an_answer_in_time_on_a_busy_machine_counts(monkeypatch):
    worker = Worker.__new__(Worker)
    worker._inner, worker._requests, worker._input = 1, 0, io.BytesIO()
    reply = {"id": 1, "status": "decided", "equal": True, "note": "shown equal", "rungs": [], "last": False}
    replies = iter([None, None, reply])
    monkeypatch.setattr(Worker, "_cpu_seconds", lambda self: 0.0)
    monkeypatch.setattr(Worker, "_receive", lambda self, deadline: next(replies))
    assert worker.ask(Request("2", limit(2)), 0.2) == Outcome("decided", equal=True, note="shown equal")
