"""The local sandbox on another machine: reads jobs, writes results, and needs nothing installed but Python.

`python -m trl_grpo_ext.sandbox.agent`, or the file that [`~trl_grpo_ext.sandbox.bundle`] makes, is spoken to on its
standard input and output, several jobs at a time. With the argument `--once` it does one job from a file and writes
all results at once, for services that only run programs to their end.

Results are fetched one by one, so a job whose caller wants no more of them stops there.

Covered: what the local sandbox covers, on the machine where this runs. Whatever programs print or return crosses as
plain data of the codec, one value at a time with its own caps. Programs never reach the standard output of this
process.

Not covered: the way to and from here is as safe as whoever made it. Below the level `seccomp`, a program can reach
this process as it can every other of its user.
"""

import base64
import contextlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import DataError, ExtError, SandboxError
from trl_grpo_ext.sandbox.codec import CodecError, decode, encode
from trl_grpo_ext.sandbox.jobs import (
    ENDED,
    Called,
    Calls,
    Job,
    Result,
    Run,
    Tests,
    job_from_plain,
    result_from_plain,
    to_plain,
)
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.options import LEVELS, Isolation


OPEN, BEGIN, NEXT, CLOSE = b"O", b"B", b"N", b"C"  # to the agent
READY, REFUSED, RESULT, END, FAILED = b"Y", b"X", b"R", b"E", b"F"  # from it
MOST_BYTES = 1 << 30  # of one message
ONCE = "--once"

_HEAD = struct.Struct("<cII")  # kind, number of the job, bytes that follow
_SIZE = struct.Struct("<I")
_REPEATED = {"run": "inputs", "calls": "arguments", "tests": "tests"}


class Closed(Exception):
    """The other side is gone, or does not speak as agreed."""


# ---------------------------------------------------------------------------------------------------- jobs as bytes


def job_to_bytes(job: Job) -> bytes:
    """
    A job as bytes: each input, call or test has the codec's caps for itself.

    Raises:
        [`~errors.DataError`]: if it holds something that is no plain data, or too much of it.
    """
    repeated = _REPEATED[type(job).__name__.lower()]
    try:
        head = encode(to_plain(replace(job, **{repeated: ()})))  # type: ignore[arg-type]
        return join([head, *map(encode, getattr(job, repeated))])
    except CodecError as error:
        raise DataError(f"a job for the sandbox cannot be sent: {error}; jobs hold plain data only") from None


def job_from_bytes(data: bytes) -> Job:
    """The reverse of [`job_to_bytes`]."""
    head, *rest = split(data)
    plain = decode(head)
    return job_from_plain({**plain, _REPEATED[plain["kind"]]: [decode(part) for part in rest]})


def result_to_bytes(result: Result) -> bytes:
    """A result as bytes; one that the codec refuses becomes one that says so."""
    try:
        if isinstance(result, Called):
            return join([encode(to_plain(replace(result, value=None))), encode(result.value)])
        return join([encode(to_plain(result))])
    except CodecError as error:
        return result_to_bytes(_too_much(type(result), str(error)))


def result_from_bytes(data: bytes) -> Result:
    """
    The reverse of [`result_to_bytes`].

    Raises:
        [`Closed`]: if it is no result.
    """
    try:
        head, *rest = split(data)
        plain = decode(head)
        result = result_from_plain({**plain, "value": decode(rest[0])} if rest else plain)
    except (CodecError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Closed(f"the agent's result cannot be read ({error})") from None
    if result.ended not in ENDED or type(result.note) is not str:
        raise Closed("the agent's result is none")
    return result


def _too_much(kind: type, note: str) -> Result:
    return kind("output", note=note)


def join(parts: list[bytes]) -> bytes:
    """Several byte strings as one."""
    return b"".join(_SIZE.pack(len(part)) + part for part in parts)


def split(data: bytes) -> list[bytes]:
    """
    The reverse of [`join`].

    Raises:
        [`Closed`]: if it is none.
    """
    parts, at = [], 0
    while at < len(data):
        if len(data) - at < _SIZE.size:
            raise Closed("a message of the agent ends too early")
        end = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
        if end > len(data):
            raise Closed("a message of the agent ends too early")
        parts.append(data[at + _SIZE.size : end])
        at = end
    return parts


def frame(kind: bytes, number: int, payload: bytes = b"") -> bytes:
    """A message as it goes through a pipe."""
    return _HEAD.pack(kind, number, len(payload)) + payload


def read_frame(read: Callable[[int], bytes]) -> tuple[bytes, int, bytes]:
    """
    The next message.

    Args:
        read (`Callable`):
            Returns at most that many bytes, and none at the end.

    Raises:
        [`Closed`]: at the end, or if it is no message.
    """
    kind, number, size = _HEAD.unpack(_exactly(read, _HEAD.size))
    if size > MOST_BYTES:
        raise Closed(f"the agent announces a message of {size} bytes")
    return kind, number, _exactly(read, size)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    parts = []
    while size:
        part = read(min(size, 1 << 20))
        if not part:
            raise Closed("the agent has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def isolation_to_bytes(isolation: Isolation) -> bytes:
    """What protects programs here, as bytes."""
    return encode((isolation.level, dict(isolation.layers)))


def isolation_from_bytes(data: bytes) -> Isolation:
    """
    The reverse of [`isolation_to_bytes`].

    Raises:
        [`Closed`]: if it is none.
    """
    try:
        level, layers = decode(data)
    except (CodecError, TypeError, ValueError) as error:
        raise Closed(f"the agent's isolation cannot be read ({error})") from None
    if level not in LEVELS or type(layers) is not dict:
        raise Closed("the agent's isolation is none")
    return Isolation(level, layers)


# ------------------------------------------------------------------------------------------------------------ serving


class Desk:
    """
    Jobs of a sandbox by number, from which results are fetched one by one.

    Args:
        sandbox ([`LocalSandbox`]):
            Who does them.
    """

    def __init__(self, sandbox: LocalSandbox):
        self._methods: dict[type, Callable] = {Run: sandbox.run, Calls: sandbox.call, Tests: sandbox.test}
        self._jobs: dict[int, Iterator[Any]] = {}

    def begin(self, number: int, job: bytes) -> tuple[bytes, bytes]:
        """Begin a job and answer as [`next`] does."""
        todo = job_from_bytes(job)
        self._jobs[number] = self._methods[type(todo)](todo)
        return self.next(number)

    def next(self, number: int) -> tuple[bytes, bytes]:
        """The next result of a job, or that there is none, or why the sandbox failed."""
        try:
            for result in self._jobs[number]:
                return RESULT, result_to_bytes(result)
        except ExtError as error:
            self.close(number)
            return FAILED, str(error).encode()
        self.close(number)
        return END, b""

    def close(self, number: int) -> None:
        """End a job, whose next result nobody waits for."""
        job = self._jobs.pop(number, None)
        if job is not None:
            job.close()  # type: ignore[attr-defined]


def serve(given: int, answers: int) -> None:
    """
    Do what is asked on one descriptor and answer on another, until nobody asks any more.

    Args:
        given (`int`):
            Where messages come from; the first one holds the options of the sandbox.
        answers (`int`):
            Where messages go.
    """
    writing = threading.Lock()

    def read(size: int) -> bytes:
        return os.read(given, size)

    def answer(kind: bytes, number: int, payload: bytes = b"") -> None:
        data = memoryview(frame(kind, number, payload))
        with writing:
            while data:
                data = data[os.write(answers, data) :]

    def step(kind: bytes, number: int, payload: bytes) -> None:
        try:
            outcome = desk.begin(number, payload) if kind == BEGIN else desk.next(number)
        except Exception as error:  # nobody would hear of it, and the host would wait
            outcome = FAILED, f"the agent failed with {type(error).__name__}: {error}".encode()
        with contextlib.suppress(BrokenPipeError):
            answer(outcome[0], number, outcome[1])

    try:
        _, _, options = read_frame(read)
        sandbox = LocalSandbox(**decode(options))
    except (ExtError, CodecError) as error:
        return answer(REFUSED, 0, str(error).encode())
    with contextlib.closing(sandbox):
        try:
            answer(READY, 0, isolation_to_bytes(sandbox.isolation()))
        except ExtError as error:
            return answer(REFUSED, 0, str(error).encode())
        desk = Desk(sandbox)
        with ThreadPoolExecutor(sandbox.workers) as threads, contextlib.suppress(Closed):
            while True:
                kind, number, payload = read_frame(read)
                if kind == CLOSE:
                    desk.close(number)
                else:
                    threads.submit(step, kind, number, payload)


def once(order: bytes) -> tuple[bytes, bytes]:
    """
    Do one job to its end.

    Args:
        order (`bytes`):
            What [`order_once`] returned.

    Returns:
        The nonce of the order, and what [`read_once`] reads.
    """
    head, job = split(order)
    nonce, options, most, pad = decode(head)
    answers: list[bytes] = []
    try:
        with contextlib.closing(LocalSandbox(**options)) as sandbox:
            answers.append(READY + isolation_to_bytes(sandbox.isolation()))
            answers += _all_results(Desk(sandbox), job, most)
    except ExtError as error:
        answers.append(FAILED + str(error).encode())
    return nonce, join([*answers, bytes(pad)])


def _all_results(desk: Desk, job: bytes, most: int) -> Iterator[bytes]:
    kind, result = desk.begin(0, job)
    while kind == RESULT:
        most -= len(result)
        if most < 0:
            desk.close(0)
            yield RESULT + result_to_bytes(_too_much(type(result_from_bytes(result)), "all results together"))
            return
        yield RESULT + result
        kind, result = desk.next(0)
    yield kind + result


def order_once(nonce: bytes, options: dict[str, Any], job: Job, most_bytes: int, pad: int = 0) -> bytes:
    """
    What an agent that does one job is given.

    Args:
        nonce (`bytes`):
            What its answer begins with. No program gets to know it, so none can print an answer.
        options (`dict`):
            Those of the local sandbox.
        job (`Job`):
            The job.
        most_bytes (`int`):
            What all results may take; a job with more of them ends with the result `"output"`.
        pad (`int`, *optional*, defaults to `0`):
            Zeros after the answer, to find out how much comes through.
    """
    head = encode((nonce, options, most_bytes, pad))
    return join([head, job_to_bytes(job)])


def read_once(answer: bytes) -> tuple[Isolation, list[Result]]:
    """
    Read what [`once`] answered.

    Raises:
        [`~errors.SandboxError`]: if the sandbox there failed or refused.
        [`Closed`]: if it is no answer.
    """
    isolation, results = None, []
    for part in split(answer)[:-1]:
        kind, payload = part[:1], part[1:]
        if kind == READY:
            isolation = isolation_from_bytes(payload)
        elif kind == RESULT:
            results.append(result_from_bytes(payload))
        elif kind == FAILED:
            raise SandboxError(payload.decode(errors="replace"))
    if isolation is None:
        raise Closed("the agent's answer lacks its beginning")
    return isolation, results


def main(arguments: list[str] | None = None) -> None:
    """Serve on standard input and output; or, with `--once ORDER ANSWER`, do one job from a file (`-`: print it)."""
    given = sys.argv[1:] if arguments is None else arguments
    answers = os.dup(1)
    os.dup2(2, 1)  # what is printed by mistake is no answer
    if given[:1] != [ONCE]:
        return serve(0, answers)
    _, order, answer = given
    data = Path(order).read_bytes()
    with contextlib.suppress(OSError):  # a folder that cannot be written in; below `restricted`, programs could look
        os.unlink(order)
    nonce, said = once(data)
    text = nonce + base64.b64encode(said) + b"\n"
    with open(answers if answer == "-" else answer, "wb") as file:
        file.write(text)


if __name__ == "__main__":
    main()
