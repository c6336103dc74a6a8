"""A small pool of algebra workers that any thread may use. Workers start on first need and end with this process."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

import psutil

from trl_grpo_ext.verify.math.decision import Rung
from trl_grpo_ext.verify.math.options import DEFAULT_OPTIONS, MathOptions


MAX_WORKERS = 4
_START_SECONDS = 90.0  # importing the algebra on a busy machine; never counted against an answer
_CLOSE_SECONDS = 2.0
_FULL_SHARE = 0.9  # of the time limit: less of the processor than this, and the clock ran out, not the pair's time
_PATIENCE = 3  # a whole verdict stays within this many time limits


@dataclass(frozen=True)
class Outcome:
    """
    What the algebra said about one pair.

    Args:
        status (`str`):
            `"decided"`, `"timeout"`, `"memory"`, `"unreadable"` for a reference that is no mathematics, or `"failed"`
            when the machinery, not the pair, is to blame.
        equal (`bool`, *optional*, defaults to `False`):
            The decision.
        blame (`str`, *optional*, defaults to `"answer"`):
            What was being read when time or memory ran out: `"gold"` or `"answer"`.
        note (`str`, *optional*, defaults to `""`):
            One line of detail.
        rungs (`tuple[Rung]`, *optional*, defaults to `()`):
            The steps of the decision, where they were asked for.
    """

    status: str
    equal: bool = False
    blame: str = "answer"
    note: str = ""
    rungs: tuple[Rung, ...] = ()


@dataclass(frozen=True)
class Request:
    """
    What a worker is asked.

    Args:
        gold (`str`):
            The reference, normalised.
        answer (`str` or `None`):
            The answer, normalised; without one, the question is whether the reference can be read.
        options ([`MathOptions`], *optional*):
            The conventions.
        explain (`bool`, *optional*, defaults to `False`):
            Whether the steps are wanted, too.
    """

    gold: str
    answer: str | None
    options: MathOptions = DEFAULT_OPTIONS
    explain: bool = False


class WorkerDied(Exception):
    """The worker ended for a reason that is not the time or memory of the pair it was judging."""


class Worker:
    """One worker process and the conversation with it. Used by one thread at a time."""

    def __init__(self):
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trl_grpo_ext.verify.math.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # an interrupt typed at the terminal is for the caller to handle
            bufsize=0,
        )
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._buffer = b""
        self._inner: int | None = None
        self._requests = 0

    def ask(self, request: Request, timeout: float) -> Outcome:
        """
        Judge one pair within `timeout` seconds of the worker's
        own time. On a busy machine that takes longer on the clock; after three times `timeout` the machine, not the
        pair, has failed.

        Raises:
            [`WorkerDied`]: if the process ended in the middle.
        """
        if self._inner is None:
            self._await_ready()
        self._requests += 1
        sent = {"id": self._requests, **asdict(request)}
        begun = self._cpu_seconds()
        deadline, latest = time.monotonic() + timeout, time.monotonic() + _PATIENCE * timeout
        self._input.write(json.dumps(sent).encode() + b"\n")
        reading = None
        while True:
            message = self._receive(deadline)
            if message is None:
                worked = self._cpu_seconds() - begun
                if worked < _FULL_SHARE * timeout and deadline < latest:
                    deadline = min(deadline + max(timeout - worked, 0.1), latest)
                    continue
                return self._give_up(reading, worked, timeout)
            if "ready" in message:
                raise WorkerDied("the worker ended in the middle of a comparison")
            if message.get("id") != self._requests:
                continue
            if "reading" in message:
                reading = message["reading"]
                continue
            if message["last"]:
                self._inner = None
            rungs = tuple(Rung(*rung) for rung in message["rungs"])
            return Outcome(message["status"], message["equal"], reading or "answer", message["note"], rungs)

    def close(self, deadline: float) -> None:
        """End the process: politely until `deadline`, then by force. Leaves no zombie."""
        self._input.close()
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel ends the inner process with it
            self._process.wait()
        self._output.close()

    def _give_up(self, reading: str | None, worked: float, timeout: float) -> Outcome:
        if reading is None:
            raise WorkerDied("the worker did not take up the request")
        self._inner = None
        self._process.send_signal(signal.SIGUSR1)
        if worked < _FULL_SHARE * timeout:
            return Outcome("failed", note=f"a busy machine gave the worker only {worked:.1f} s")
        return Outcome("timeout", blame=reading)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            message = self._receive(deadline)
            if message is None or "failed" in message:
                raise WorkerDied(
                    message["failed"] if message else f"the worker was not ready in {_START_SECONDS:.0f} s"
                )
            if "ready" in message:
                self._inner = message["ready"]
                return

    def _receive(self, deadline: float) -> dict | None:
        """Return the next message, or `None` at the deadline."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                try:
                    return json.loads(line)
                except ValueError:
                    continue  # the half-written line of a process that was killed
            left = deadline - time.monotonic()
            if left <= 0 or not self._poll.poll(left * 1000):
                return None
            chunk = os.read(self._output.fileno(), 65536)
            if not chunk:
                raise WorkerDied("the worker ended")
            self._buffer += chunk

    def _cpu_seconds(self) -> float:
        try:
            times = psutil.Process(self._inner).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return times.user + times.system


class WorkerPool:
    """
    Up to `size` workers, started when all others are busy.

    Args:
        size (`int`):
            Most workers at once.
    """

    def __init__(self, size: int):
        self.size = size
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._starting = 0
        self._changed = threading.Condition()
        weakref.finalize(self, _close_workers, self._workers, os.getpid())

    def ask(self, request: Request, timeout: float) -> Outcome:
        """Judge one pair. A worker that dies is replaced and asked once more; a second death is a failure of ours."""
        note = ""
        for _ in range(2):
            worker = None
            try:
                worker = self._borrow()
                outcome = worker.ask(request, timeout)
            except (WorkerDied, OSError) as error:
                note = str(error)
                if worker is not None:
                    self._discard(worker)
            except BaseException:
                if worker is not None:  # an interrupt left it in the middle of a conversation
                    self._discard(worker)
                raise
            else:
                with self._changed:
                    self._idle.append(worker)
                    self._changed.notify()
                return outcome
        return Outcome("failed", note=note)

    def _borrow(self) -> Worker:
        with self._changed:
            while not self._idle and len(self._workers) + self._starting >= self.size:
                self._changed.wait()
            if self._idle:
                return self._idle.pop()
            self._starting += 1
        try:
            worker = Worker()
        except BaseException:
            with self._changed:
                self._starting -= 1
                self._changed.notify()
            raise
        with self._changed:
            self._starting -= 1
            self._workers.append(worker)
        return worker

    def _discard(self, worker: Worker) -> None:
        worker.close(time.monotonic())
        with self._changed:
            self._workers.remove(worker)
            self._changed.notify()


def _close_workers(workers: list[Worker], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked copy: the workers belong to the parent
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in workers:
        worker.close(deadline)


def shared_pool() -> WorkerPool:
    """The pool of this process; a forked child gets its own."""
    return _pool_of(os.getpid())


@lru_cache(maxsize=1)
def _pool_of(pid: int) -> WorkerPool:
    return WorkerPool(min(MAX_WORKERS, os.cpu_count() or 1))
