"""Workers that hold tests, kept from one program of a group to the next."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.sandbox.jobs import Tests
from trl_grpo_ext.sandbox.local.conversation import Clock, Conversation
from trl_grpo_ext.sandbox.local.zygote import Zygote


class Tester:
    """
    A worker that runs tests.

    Args:
        zygote ([`Zygote`]):
            Whose worker it is.
        number (`int`):
            Its number there.
        talk ([`Conversation`]):
            The conversation with it.
        before (`float`, *optional*, defaults to `0.0`):
            Seconds of the processor it had used before.
        prepared (`bool`, *optional*, defaults to `False`):
            Whether it has the tests already.
    """

    def __init__(self, zygote: Zygote, number: int, talk: Conversation, before: float = 0.0, prepared: bool = False):
        self.zygote, self.number, self.talk = zygote, number, talk
        self._before, self._prepared = before, prepared
        self.well = False  # whether the job came to its end, so that more can be asked of it

    def begin(self, job: Tests, limits: dict[str, Any], program: int) -> None:
        """Have it run the tests about the program behind a descriptor."""
        if self._prepared:
            self.talk.begin(descriptors=(program,))
        else:
            about = (limits, job.helpers, job.setup, list(job.tests), job.function, job.until_failure)
            self.talk.begin("tests", *about, descriptors=(program,))

    def used(self) -> float:
        """Seconds of the processor that this job has used of it."""
        return self.zygote.processor_seconds(self.number) - self._before


class Testers:
    """
    Testers that have done a job and may get another with the same tests: a group of completions shares its tests.

    A tester runs trusted text only, in a new namespace for each program; what a program returns reaches it as plain
    data. One that saw anything but an ordinary end is not kept, and the zygote ends those that wait.

    Args:
        most (`int`):
            How many to keep.
    """

    def __init__(self, most: int):
        self.most = most
        self._parked: list[tuple[tuple, Tester]] = []  # the longest-waiting first
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def tester(self, zygote: Zygote, job: Tests, clock: Clock) -> Iterator[Tester]:
        """A tester for a job, for its duration."""
        key = (job.helpers, job.setup, job.tests, job.function, job.until_failure, job.limits)
        tester = self._resume(zygote, key, clock) or _new(zygote, clock)
        try:
            yield tester
        finally:
            if tester.well:
                self._park(key, tester)
            else:
                _end(tester)

    def _resume(self, zygote: Zygote, key: tuple, clock: Clock) -> Tester | None:
        with self._lock:
            fitting = [entry for entry in self._parked if entry[0] == key]
            if fitting:
                self._parked.remove(fitting[-1])
        parked = fitting[-1][1] if fitting else None
        if parked is None:
            return None
        before = zygote.resume(parked.number) if parked.zygote is zygote else None
        if before is None:
            _end(parked)
            return None
        return Tester(zygote, parked.number, Conversation(parked.talk.channel, clock), before, prepared=True)

    def _park(self, key: tuple, tester: Tester) -> None:
        tester.zygote.park(tester.number)
        with self._lock:
            self._parked.append((key, tester))
            oldest = self._parked.pop(0)[1] if len(self._parked) > self.most else None
        if oldest is not None:
            _end(oldest)

    def clear(self) -> None:
        """End those that wait."""
        with self._lock:
            waiting, self._parked = self._parked, []
        for _, tester in waiting:
            _end(tester)


def _new(zygote: Zygote, clock: Clock) -> Tester:
    number, channel = zygote.take()
    return Tester(zygote, number, Conversation(channel, clock))


def _end(tester: Tester) -> None:
    tester.talk.close()
    tester.zygote.forget(tester.number)
