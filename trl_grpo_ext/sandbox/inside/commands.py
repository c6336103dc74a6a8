"""What a worker does for a language other than Python: build an executable, or become one."""

import os
import resource
import subprocess
from collections.abc import Callable
from typing import Any

from trl_grpo_ext.sandbox.inside import namespaces, rlimits
from trl_grpo_ext.sandbox.inside.channel import Channel


STACK_BYTES = 64 << 20  # deep recursion; every further thread reserves as much
_MOST_SAID = 300
_COPIED = 1 << 20


def build(
    channel: Channel,
    descriptors: list[int],
    isolate: Callable[[str], None],
    source: tuple[str, str],
    command: tuple[str, ...],
    settings: dict[str, str],
    limits: dict[str, Any],
) -> None:
    """
    Build an executable, and say how that went.

    Args:
        channel (`Channel`):
            Where the report goes.
        descriptors (`list[int]`):
            The file that takes the executable.
        isolate (`Callable`):
            Puts the filter of a profile on this process.
        source (`tuple[str, str]`):
            Name and text of the program's file.
        command (`tuple[str, ...]`):
            What builds it, into the file `main`.
        settings (`dict[str, str]`):
            Environment variables for it.
        limits (`dict`):
            `memory_bytes`, `seconds`, `file_bytes`, `open_files`.
    """
    with open(source[0], "w", encoding="utf-8") as file:
        file.write(source[1])
    _limit(limits, True)
    isolate("command")
    with open("said", "w+b") as said:
        environment = {**os.environ, **settings}
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment).returncode
        said.seek(0)
        words = said.read(1 << 16).decode("utf-8", "replace")
    if code == 0:
        with open("main", "rb") as made:
            while part := made.read(_COPIED):
                os.write(descriptors[0], part)
    faults = [line for line in words.splitlines() if "error" in line]
    channel.send(("ok", "") if code == 0 else ("raised", f"CompileError: {(faults or [words])[0][:_MOST_SAID]}"))


def execute(
    descriptors: list[int],
    isolate: Callable[[str], None],
    product: str,
    command: tuple[str, ...],
    counts_reserved: bool,
    limits: dict[str, Any],
) -> None:
    """
    Become a program. What comes of it shows in its exit code alone.

    Args:
        descriptors (`list[int]`):
            Standard input, standard output, and a file with the executable or the source.
        isolate (`Callable`):
            Puts the filter of a profile on this process.
        product (`str`):
            Under which name to put that file.
        command (`tuple[str, ...]`):
            What to become.
        counts_reserved (`bool`):
            Whether reserved memory counts.
        limits (`dict`):
            As in [`build`].
    """
    _copy(descriptors[2], product)
    if not os.path.exists("/proc/self"):
        _copy(descriptors[0], namespaces.STDIN_COPY)
    os.chmod(product, 0o755)
    os.close(descriptors[2])
    for standard, given in enumerate(descriptors[:2]):
        os.dup2(given, standard)
        os.close(given)
    os.set_inheritable(3, True)  # the host sees the end of the program by the end of this
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK_BYTES if most == resource.RLIM_INFINITY else min(STACK_BYTES, most)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, most))
    _limit(limits, counts_reserved)
    isolate("executable")
    os.execve(command[0], command, dict(os.environ))


def _copy(descriptor: int, path: str) -> None:
    with open(path, "wb") as file:
        position = 0
        while part := os.pread(descriptor, _COPIED, position):
            position += file.write(part)


def _limit(limits: dict[str, Any], counts_reserved: bool) -> None:
    memory = limits["memory_bytes"]
    unlimited = 1 << 62
    rlimits.apply(
        memory_bytes=memory if counts_reserved else unlimited,
        cpu_seconds=limits["seconds"],
        file_bytes=limits["file_bytes"],
        open_files=limits["open_files"],
    )
    if not counts_reserved:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
