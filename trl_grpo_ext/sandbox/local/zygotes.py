"""The zygotes of a sandbox: one for Python, one for each other language that is asked for."""

import threading
from collections.abc import Mapping

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox.languages import BUILD_FOLDER_BYTES, toolchain_of
from trl_grpo_ext.sandbox.local.zygote import Zygote
from trl_grpo_ext.sandbox.options import LEVELS, Isolation, Level, SandboxOptions


class Zygotes:
    """
    Starts zygotes when they are needed, and again when one has ended.

    Args:
        options ([`SandboxOptions`]):
            What is asked of the sandbox.
        workers (`int`):
            How many jobs are done at once.
    """

    def __init__(self, options: SandboxOptions, workers: int):
        self._options = options
        self._workers = workers
        self._running: dict[str, Zygote] = {}
        self.closed = 0  # how often they have been ended by the caller
        self._lock = threading.Lock()

    def get(self, language: str) -> Zygote:
        """
        The zygote for a language.

        Raises:
            [`~errors.SandboxError`]: if it does not start, isolates less than is asked for, or there is no compiler.
        """
        with self._lock:
            zygote = self._running.get(language)
            if zygote is not None and (zygote.broken or zygote.process.poll() is not None):
                zygote.close()
                zygote = None
            if zygote is None:
                zygote = self._running[language] = self._start(language)
            return zygote

    def close(self) -> None:
        """End them all."""
        with self._lock:
            self.closed += 1
            while self._running:
                self._running.popitem()[1].close()

    def abandon(self) -> None:
        """Close what a forked child of the host inherited of them."""
        for zygote in self._running.values():
            zygote.abandon()

    def processes(self) -> list[int]:
        """Their process ids."""
        return [zygote.process.pid for zygote in self._running.values()]

    def _start(self, language: str) -> Zygote:
        if language == "python":
            zygote = Zygote(ahead=2 * self._workers, packages=self._options.packages)
        else:
            zygote = Zygote(ahead=self._workers, file_bytes=BUILD_FOLDER_BYTES, tools=toolchain_of(language).reads)
        self._refuse_below_minimum(zygote)
        return zygote

    def _refuse_below_minimum(self, zygote: Zygote) -> None:
        found = isolation_of(zygote.layers)
        levels, options = list(LEVELS), self._options
        if options.isolation == "required" and levels.index(found.level) < levels.index(options.minimum):
            zygote.close()
            raise SandboxError(
                f"this machine isolates programs at the level {found}. Level {options.minimum!r} is required: run "
                "where the kernel allows more, or lower the sandbox's `minimum`, or set isolation='best_effort'"
            )


def isolation_of(layers: Mapping[str, str]) -> Isolation:
    """What the layers that are on amount to."""
    on = {name for name, state in layers.items() if state == "on"}
    level: Level = "limits"
    if "seccomp" in on:
        level = "seccomp"
        if "landlock" in on:
            level = "restricted"
        if "namespaces" in on:
            level = "namespaces"
    return Isolation(level, layers)
