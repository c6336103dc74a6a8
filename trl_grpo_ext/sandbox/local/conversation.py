"""The host's end of a worker's channel, and the clock that limits what is said on it."""

import contextlib
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from trl_grpo_ext.errors import DataError
from trl_grpo_ext.sandbox.codec import MAX_BYTES, CodecError, decode, encode
from trl_grpo_ext.sandbox.options import MOST_STRETCH


_SHORTEST_WAIT = 0.005  # seconds between two looks at what a program that is out of time has used
_WORKING = 0.1  # share of the processor that a program gets at least which wants it, on a machine ten times overbooked


class TimeUp(Exception):
    """The job has used up its time."""


class Ended(Exception):
    """The worker's process has ended, or closed its channel."""


class Clock:
    """
    The time of one job.

    A program is charged for what it used of the processor, and at most for the time on the clock: a machine that is
    busy with other things does not fail a right program. It is charged for at least a quarter of the time on the
    clock, or for two thirds of it if it sleeps instead of working, so that every job ends.

    Args:
        seconds (`float`):
            What the job may be charged.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._charged = 0.0
        self._begun = time.monotonic()
        self._used: Callable[[], float] = lambda: 0.0

    def begin(self, used: Callable[[], float]) -> None:
        """Start a lap of a worker whose seconds of the processor `used` returns."""
        self._begun, self._used = time.monotonic(), used

    def stop(self) -> None:
        """End the lap."""
        self._charged += self._lap()

    def go_on(self) -> None:
        """Start another lap of the same worker: what the caller did meanwhile is not charged."""
        self._begun = time.monotonic()

    def check(self) -> float:
        """
        Return for how many seconds nothing needs to be looked at.

        Raises:
            [`TimeUp`]: if there is no time left.
        """
        elapsed = time.monotonic() - self._begun
        left = self.seconds - self._charged - elapsed
        if left <= 0:
            left = self.seconds - self._charged - self._lap()
        if left <= 0:
            raise TimeUp
        return max(left, _SHORTEST_WAIT)

    def _lap(self) -> float:
        elapsed = time.monotonic() - self._begun
        if self._charged + elapsed < self.seconds:
            return elapsed
        used = self._used()
        return min(elapsed, max(used, elapsed / (MOST_STRETCH if used >= _WORKING * elapsed else 1.5)))


class Conversation:
    """
    Messages to and from a worker, under a clock.

    Args:
        channel (`socket.socket`):
            The host's end of the worker's channel.
        clock ([`Clock`]):
            The time of the job.
    """

    def __init__(self, channel: socket.socket, clock: Clock):
        self.channel = channel
        self.clock = clock
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._buffer = bytearray()

    def begin(self, *job: Any, descriptors: tuple[int, ...] = ()) -> None:
        """Hand a fresh worker its job. It reads all of it before anything else, so this does not wait long."""
        try:
            socket.send_fds(self.channel, [b"\0"], list(descriptors))
            self._send(job)
        except OSError:
            raise Ended from None

    def ask(self, *request: Any) -> Any:
        """
        Send a request and wait for the reply.

        Raises:
            [`TimeUp`], [`Ended`], or [`~trl_grpo_ext.sandbox.codec.CodecError`] for a reply that is no plain data;
            [`~errors.DataError`] for a request that is none.
        """
        try:
            self._send(request)
        except OSError:
            raise Ended from None
        return self.receive()

    def receive(self) -> Any:
        """Wait for a message. Raises as [`ask`] does."""
        size = int.from_bytes(self._read(4), "little")
        if size > MAX_BYTES:
            raise CodecError(f"a message of {size} bytes; the most is {MAX_BYTES}")
        return decode(self._read(size))

    def drain(self) -> None:
        """Wait for the worker to close its end, whatever it writes. Raises [`TimeUp`]."""
        with contextlib.suppress(Ended):
            while True:
                self._read(1)
                self._buffer.clear()

    def close(self) -> None:
        """Close the host's end."""
        self.channel.close()

    def _send(self, message: tuple) -> None:
        try:
            data = encode(message)
        except CodecError as error:
            raise DataError(f"a sandbox is asked for something that is no plain data: {error}") from None
        rest = memoryview(len(data).to_bytes(4, "little") + data)
        writable = select.poll()
        writable.register(self.channel, select.POLLOUT)
        while rest:
            # The descriptor stays blocking: it may be handed on to a process that expects it so.
            if writable.poll(self.clock.check() * 1000):
                with contextlib.suppress(BlockingIOError):
                    rest = rest[self.channel.send(rest, socket.MSG_DONTWAIT) :]

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._poll.poll(self.clock.check() * 1000):
                continue
            try:
                data = self.channel.recv(1 << 20)
            except (ConnectionResetError, BlockingIOError, TimeoutError):
                data = b""
            if not data:
                raise Ended
            self._buffer += data
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data
