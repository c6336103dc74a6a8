"""The maths judge from any thread, process and event loop, with either start method, and what it leaves behind."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from trl_grpo_ext.verify import verify_math, verify_math_batch


pytestmark = pytest.mark.sandbox


def ask(value: int) -> float | None:
    """A question for the algebra, which therefore needs a worker."""
    return verify_math(str(value), f"\\boxed{{\\lim_{{x \\to {value}}} x}}", timeout=30.0).value


def ask_both_ways(value: int) -> tuple[float | None, float | None]:
    wrong = verify_math(str(value), f"\\boxed{{\\lim_{{x \\to {value + 1}}} x}}", timeout=30.0).value
    return ask(value), wrong


def in_a_thread(value: int) -> tuple[float | None, float | None]:
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask_both_ways(value)))
    thread.start()
    thread.join()
    return answers[0]


def in_a_loop(value: int) -> tuple[float | None, float | None]:
    async def both() -> tuple[float | None, float | None]:
        return ask_both_ways(value)

    return asyncio.run(both())


def off_the_loop(value: int) -> tuple[float | None, float | None]:
    async def both() -> list[tuple[float | None, float | None]]:
        return await asyncio.gather(*(asyncio.to_thread(ask_both_ways, value) for _ in range(4)))

    answers = set(asyncio.run(both()))
    assert len(answers) == 1
    return answers.pop()


def in_a_child(method: str, value: int) -> tuple[float | None, float | None]:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(ask_both_ways, (value,))


PLACES = {
    "main": ask_both_ways,
    "thread": in_a_thread,
    "loop": in_a_loop,
    "off_the_loop": off_the_loop,
}


@pytest.mark.parametrize("place", PLACES)
def test_from_any_thread_and_loop(place):
    assert PLACES[place](3) == (1.0, 0.0)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_from_a_child_of_a_process_that_has_used_it(method):
    assert ask(2) == 1.0
    assert in_a_child(method, 3) == (1.0, 0.0)
    assert ask(4) == 1.0


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_from_a_thread_of_a_child(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(in_a_thread, (5,)) == (1.0, 0.0)
        assert pool.apply(in_a_loop, (6,)) == (1.0, 0.0)


def test_a_fork_while_other_threads_judge():
    stop = threading.Event()

    def keep_judging() -> None:
        value = 2
        while not stop.is_set():
            ask(value % 7)
            value += 1

    threads = [threading.Thread(target=keep_judging) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_a_child("fork", value) for value in (3, 4)] == [(1.0, 0.0)] * 2
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_two_thousand_pending_pairs_do_not_fill_the_memory():
    golds = [str(value) for value in range(2_000)]
    completions = [f"\\boxed{{\\lim_{{x \\to {value}}} x}}" for value in range(2_000)]
    ask(1)
    before = psutil.Process().memory_info().rss
    verdicts = verify_math_batch(golds, completions, timeout=30.0)
    assert sum(verdict.value == 1.0 for verdict in verdicts) == 2_000
    assert psutil.Process().memory_info().rss - before < 64 * 2**20


START = (
    "import os, psutil, sys\n"
    "from trl_grpo_ext.verify import verify_math\n"
    "verify_math('2', r'\\boxed{\\lim_{x \\to 2} x}', timeout=30.0)\n"
    "print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)\n"
)
ENDS = {
    "return": "",
    "exception": "raise ValueError('on purpose')\n",
    "sys.exit": "sys.exit(3)\n",
    "os._exit": "os._exit(4)\n",
    "kill": "os.kill(os.getpid(), 9)\n",
    "terminate": "os.kill(os.getpid(), 15)\n",
    "in a thread": (
        "import threading\nthreading.Thread(target=lambda: verify_math('3', r'\\boxed{\\lim_{x \\to 3} x}')).start()\n"
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_no_process_is_left(end):
    ended = subprocess.run([sys.executable, "-c", START + ENDS[end]], capture_output=True, text=True, timeout=120)
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 2, ended.stderr
    _wait_until_gone(pids)


def test_no_process_is_left_when_the_parent_is_killed_at_work():
    code = START + "verify_math('5', r'\\boxed{\\sum_{k=1}^{99999} \\frac{1}{k^{k}+x}}', timeout=60.0)\n"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    time.sleep(0.5)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert len(pids) == 2
    _wait_until_gone(pids)


def test_no_process_is_left_by_a_killed_child_of_this_one():
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_report_workers, args=(sender,))
    child.start()
    pids = receiver.recv()
    child.kill()
    child.join()
    assert len(pids) == 2
    _wait_until_gone(pids)


def _report_workers(sender) -> None:
    ask(2)
    sender.send([process.pid for process in psutil.Process().children(recursive=True)])
    time.sleep(60)


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 15
    while any(map(psutil.pid_exists, pids)):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in pids if psutil.pid_exists(pid)]}"
        time.sleep(0.1)


def test_numbers_import_no_algebra():
    code = (
        "import sys\n"
        "from trl_grpo_ext.verify import verify_math, verify_math_batch\n"
        "pairs = [('42', '42'), ('1/2', '0.5'), ('50%', '0.5'), ('1, 2', '2, 1'), ('C', '(C) 4'),\n"
        "         ('(1, 2)', '(1, 3)'), ('x+1', '1+x'), ('y=2x', '2x-y=0'), (r'\\sqrt{8}', r'2\\sqrt{2}'),\n"
        "         ('x > 2', r'(2, \\infty)')]\n"
        "verify_math_batch([gold for gold, _ in pairs], [r'\\boxed{' + answer + '}' for _, answer in pairs])\n"
        "import psutil\n"
        "heavy = {'sympy', 'latex2sympy2_extended', 'math_verify', 'torch', 'trl'}\n"
        "print(sorted(heavy & set(sys.modules)), len(psutil.Process().children()))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.split() == ["[]", "0"]
