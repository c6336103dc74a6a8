"""Jobs done on this machine, by workers of a zygote."""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeVar

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox.codec import CodecError
from trl_grpo_ext.sandbox.jobs import Called, Calls, Limits, Ran, Run, Tested, Tests
from trl_grpo_ext.sandbox.local.conversation import Clock, Conversation, Ended, TimeUp
from trl_grpo_ext.sandbox.local.endings import (
    MOST_NOTED,
    NOT_AS_AGREED,
    WorkerKilled,
    fresh_worker,
    read_report,
    why_it_ended,
    why_it_left,
)
from trl_grpo_ext.sandbox.local.running import run
from trl_grpo_ext.sandbox.local.zygote import Zygote
from trl_grpo_ext.sandbox.local.zygotes import Zygotes, isolation_of
from trl_grpo_ext.sandbox.options import MOST_SCALE, Isolation, SandboxOptions


_ATTEMPTS = 3
_REFERENCE_SECONDS = 0.003  # what the zygote's calibration takes on a 3 GHz server core; the unit of time limits

_ENDED_BY_KILL: dict[type, Any] = {
    kind: result("exited", note="its process was killed each time it was run")
    for kind, result in ((Run, Ran), (Calls, Called), (Tests, Tested))
}

R = TypeVar("R")
J = TypeVar("J", Run, Calls, Tests)


class LocalSandbox:
    """
    Runs programs on this machine.

    Covered: a program runs in a process of its own that ends with the job, whatever it does. Under the level
    `namespaces` it sees no file of the host but the interpreter's, no other process, no network, and has a private
    /tmp that ends with it. It cannot start processes, gain privileges, or use more time, memory, descriptors and disk
    than its limits. Nothing of the host's environment reaches it. Which layers are on is what [`isolation`] says.

    A job takes a slot until its iterator is closed: a thread that holds one iterator must not wait for another if
    `workers` is 1.

    Not covered: the kernel is shared with the host; a program with a hole in the kernel gets out. Timing tells a
    program how busy the machine is. Below the level `namespaces`, a program can see that files exist and how large
    they are, and which descriptors are open, but not open them.

    Args:
        **options:
            Those of [`SandboxOptions`].

    Raises:
        [`~errors.ConfigError`]: if an option is unknown or has a wrong value.
    """

    def __init__(self, **options: Any):
        self._set_up(SandboxOptions.parse(options))
        _forget_after_fork(self)

    def _set_up(self, options: SandboxOptions) -> None:
        self.options = options
        self.workers = options.workers or len(os.sched_getaffinity(0))
        self._slots = threading.BoundedSemaphore(self.workers)
        self._zygotes = Zygotes(options, self.workers)

    def isolation(self) -> Isolation:
        """
        What protects the host on this machine.

        Raises:
            [`~errors.SandboxError`]: if it is less than the options ask for.
        """
        return isolation_of(self._zygotes.get("python").layers)

    def run(self, job: Run) -> Iterator[Ran]:
        """Run a program, once for each input; see [`~trl_grpo_ext.sandbox.backend.Sandbox`]."""
        return self._do(job, run)

    def call(self, job: Calls) -> Iterator[Called]:
        """Call a function of a program; see [`~trl_grpo_ext.sandbox.backend.Sandbox`]."""
        return self._do(job, self._call)

    def test(self, job: Tests) -> Iterator[Tested]:
        """Run tests about a program; see [`~trl_grpo_ext.sandbox.backend.Sandbox`]."""
        return self._do(job, self._test)

    def close(self) -> None:
        """End the zygote and every worker."""
        self._zygotes.close()

    def processes(self) -> list[int]:
        """Process ids of what lasts from one job to the next."""
        return self._zygotes.processes()

    def _seconds(self, zygote: Zygote, limits: Limits) -> float:
        scale = self.options.time_scale
        if scale is None:
            scale = min(max(zygote.calibration / _REFERENCE_SECONDS, 1.0), MOST_SCALE)
        return limits.seconds * scale

    def _do(self, job: J, attempt: Callable[[Zygote, J, Clock, dict], Iterator[R]]) -> Iterator[R]:
        """Do a job; if the machinery fails in the middle, do it again and go on where it was."""
        done = 0
        opened = self._zygotes.closed
        with self._slots:
            for attempts_left in reversed(range(_ATTEMPTS)):
                zygote = self._zygotes.get(getattr(job, "language", "python"))  # what fails here fails again
                clock = Clock(self._seconds(zygote, job.limits))
                try:
                    results = attempt(zygote, job, clock, asdict(job.limits))
                    with contextlib.closing(results):  # type: ignore[type-var]
                        for index, result in enumerate(results):
                            if index >= done:
                                done += 1
                                yield result
                    return
                except SandboxError as error:
                    if self._zygotes.closed != opened:
                        raise
                    if not attempts_left and isinstance(error, WorkerKilled):
                        yield _ENDED_BY_KILL[type(job)]  # again and again: it is something the program does
                        return
                    if not attempts_left:
                        raise

    # ---------------------------------------------------------------------------------------------------------- jobs

    def _call(self, zygote: Zygote, job: Calls, clock: Clock, limits: dict) -> Iterator[Called]:
        with fresh_worker(zygote, clock) as (number, talk):
            clock.begin(lambda: zygote.processor_seconds(number))
            try:
                talk.begin("load", job.source, limits)
                for arguments in job.arguments:
                    called = _call_once(talk, job.function, arguments)
                    clock.stop()
                    yield called
                    clock.go_on()
                    if called.ended not in ("ok", "raised"):
                        return
            except TimeUp:
                yield Called("timeout", note=f"no answer within {clock.seconds:g} s")
            except Ended:
                ended, note = why_it_left(zygote, number, clock)
                yield Called(ended, note=note)

    def _test(self, zygote: Zygote, job: Tests, clock: Clock, limits: dict) -> Iterator[Tested]:
        with fresh_worker(zygote, clock) as (program, talk), fresh_worker(zygote, clock) as (tester, reports):
            clock.begin(lambda: zygote.processor_seconds(program) + zygote.processor_seconds(tester))
            try:
                talk.begin("load", job.source, limits)
                about = (limits, job.helpers, job.setup, list(job.tests), job.function, job.until_failure)
                reports.begin("tests", *about, descriptors=(talk.channel.fileno(),))
                talk.close()  # the end of the program's process shows to the tests alone
                for _ in job.tests:
                    tested = _tested(reports.receive())
                    if tested.ended == "exited":
                        ended, note = why_it_left(zygote, program, clock)
                        tested = Tested(ended, f"{note}: {tested.note}")
                    clock.stop()
                    yield tested
                    clock.go_on()
                    if tested.ended not in ("ok", "raised") or (tested.ended == "raised" and job.until_failure):
                        return
            except TimeUp:
                yield Tested("timeout", f"not done within {clock.seconds:g} s")
            except (Ended, CodecError):
                ended, note = why_it_ended(zygote, tester, clock)
                if ended != "timeout":
                    raise SandboxError(f"the process that ran the tests ended: {note}") from None
                yield Tested(ended, note)


def _call_once(talk: Conversation, function: str, arguments: tuple) -> Called:
    try:
        reply = talk.ask("invoke", function, arguments)
    except CodecError as error:
        return Called("raised", note=f"what it returned is no plain data: {error}")
    match reply:
        case ("value", value, _):
            return Called("ok", value)
        case ("raised", _, _, _, str(note)):
            return Called("raised", note=note[:MOST_NOTED])
        case ("unfit", str(note)):
            return Called("raised", note=f"what it returned is no plain data: {note[:MOST_NOTED]}")
        case ("failed", ended, note):
            ended, note = read_report((ended, note))
            return Called(ended, note=note)  # type: ignore[arg-type]
        case _:
            return Called("exited", note=NOT_AS_AGREED)


def _tested(report: Any) -> Tested:
    if report[0] == "broken":
        raise SandboxError(f"the process that ran the tests broke: {report[1]}")
    _, ended, note = report
    return Tested(ended, note[: 4 * MOST_NOTED])


def _forget_after_fork(sandbox: LocalSandbox) -> None:
    """A forked child of the host starts a zygote of its own; the inherited one belongs to its parent."""
    reference = weakref.ref(sandbox)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            inherited._zygotes.abandon()
            inherited._set_up(inherited.options)

    os.register_at_fork(after_in_child=forget)
