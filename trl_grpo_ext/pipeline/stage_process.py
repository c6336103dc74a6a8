"""One stage's process and everything it starts: signal it, and leave nothing of it behind."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from trl_grpo_ext.stages.driver_watch import DRIVER_VARIABLE


_FAREWELL = 2.0  # seconds that helpers of a stage (data loaders, judges) get to end after it


class StageProcess:
    """
    A running stage, in a session of its own so that a Ctrl-C reaches the driver alone.

    Args:
        command (`Sequence[str]`):
            The command line.
        log (`Path`):
            File that gets its output.
    """

    def __init__(self, command: Sequence[str], log: Path):
        log.parent.mkdir(parents=True, exist_ok=True)
        # The launcher's workers live in sessions of their own; what all of them inherit is the environment.
        self._mark = f"{os.getpid()}:{psutil.Process().create_time()}"
        # Threads that spin while they wait make a CPU run many times slower as soon as anything else wants a core.
        patient = {"OMP_WAIT_POLICY": "PASSIVE"}
        environment = patient | os.environ | {DRIVER_VARIABLE: self._mark, "PYTHONUNBUFFERED": "1"}
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def exit_code(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds; the exit code (negative for a signal), or `None` while it runs."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def forward(self, signum: int) -> None:
        """Send a signal to the process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signum)

    def kill(self) -> None:
        """Kill the process and everything it started."""
        self.forward(signal.SIGKILL)
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def clear(self) -> None:
        """Once the process has ended: kill what is left of what it started."""
        deadline = time.monotonic() + _FAREWELL
        while (left := self._family()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _family(self) -> list[psutil.Process]:
        family = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # gone, or somebody else's
                if process.environ().get(DRIVER_VARIABLE) == self._mark:
                    family.append(process)
        return family
