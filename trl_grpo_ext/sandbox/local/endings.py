"""A worker for the duration of a job, and what its end means."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox.jobs import ENDED
from trl_grpo_ext.sandbox.local.conversation import Clock, Conversation
from trl_grpo_ext.sandbox.local.zygote import Zygote


MOST_NOTED = 500
NOT_AS_AGREED = "the program's process does not answer as agreed"


class WorkerKilled(SandboxError):
    """A worker was killed, and not by the sandbox."""


@contextlib.contextmanager
def fresh_worker(zygote: Zygote, clock: Clock) -> Iterator[tuple[int, Conversation]]:
    """A worker of its own for what is done under this; it ends with it."""
    number, channel = zygote.take()
    talk = Conversation(channel, clock)
    try:
        yield number, talk
    finally:
        talk.close()
        zygote.forget(number)


def read_report(reply: Any) -> tuple[str, str]:
    """What a worker says of its end. It may be the program that says so, hence nothing in it is taken for granted."""
    if type(reply) is tuple and len(reply) == 2 and type(reply[0]) is str and type(reply[1]) is str:
        ended, note = reply
        if ended in ENDED and ended != "unusable":
            return ended, note[:MOST_NOTED]
    return "exited", NOT_AS_AGREED


def why_it_ended(zygote: Zygote, number: int, clock: Clock) -> tuple[Any, str]:
    """Say why a worker ended that had not said so itself."""
    code, seconds, why = zygote.finish(number)
    if why == "overfull":
        return "output", "it wrote more than its folder may hold"
    if why == "forced":
        return "exited", NOT_AS_AGREED
    if code >= 0:
        return ("ok", "") if code == 0 else ("exited", f"exit code {code}")
    if code in (-signal.SIGKILL, -signal.SIGXCPU) and seconds >= clock.seconds:
        return "timeout", f"not done within {clock.seconds:g} s"
    if code == -signal.SIGKILL:
        if zygote.ran_out_of_memory():
            return "memory", "killed by the kernel for the memory it used"
        raise WorkerKilled("a worker was killed from outside")
    return "exited", f"ended by {_signal_name(-code)}"


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):  # real-time signals have no name
        return signal.Signals(number).name
    return f"signal {number}"


def why_it_left(zygote: Zygote, number: int, clock: Clock) -> tuple[Any, str]:
    """As above, where a worker was expected to go on: even a peaceful end is a failure."""
    ended, note = why_it_ended(zygote, number, clock)
    return ("exited", "exit code 0") if ended == "ok" else (ended, note)
