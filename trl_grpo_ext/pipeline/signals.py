"""Signals that ask the driver to stop, noted instead of raised, so that the stage can be stopped first."""

import signal
from types import FrameType


class StopSignals:
    """
    Context manager under which SIGINT, SIGTERM and SIGHUP are noted.

    Attributes:
        received (`list[int]`):
            The signals so far, in order.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue  # nohup
            self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _note(self, signum: int, _: FrameType | None) -> None:
        self.received.append(signum)
