"""Control groups, version 2: one group bounds the memory and the number of processes of all that is put into it.

Covered: memory of every process and tmpfs file charged to the group together, swap, the number of processes and
threads, killing all of them at once.

Not covered: version 1, and hybrid machines whose memory and pids controllers are version 1: [`find`] answers None
there. Processor time is not shared out. Memory that was charged before a process was added stays with its old group,
so add a process before it runs anything. Nothing is moved to make room: where all folders above hold processes of
their own and have not handed the controllers down (a container whose processes sit in its root), there is no place.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass


_CONTROLLERS = {"memory", "pids"}
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Group:
    """
    A control group that [`create`] made.

    Args:
        path (`str`):
            Its folder.
    """

    path: str

    def add(self, pid: int) -> None:
        """
        Put a process into the group, with the processes it starts from now on.

        Args:
            pid (`int`):
                Its number, as this process sees it.

        Raises:
            OSError: The kernel refused it.
        """
        _write(self.path, "cgroup.procs", str(pid))

    def memory_events(self) -> dict[str, int]:
        """How often something happened to the group's memory; `oom_kill` counts the processes killed for it."""
        pairs = (line.split() for line in _read(self.path, "memory.events").splitlines())
        return {name: int(count) for name, count in pairs}

    def kill(self) -> None:
        """
        Kill every process in the group.

        Raises:
            OSError: The kernel refused it.
        """
        if os.path.exists(os.path.join(self.path, "cgroup.kill")):
            _write(self.path, "cgroup.kill", "1")
            return
        # Kernels before 5.14: with no process allowed to be added by a fork, one round catches all.
        _write(self.path, "pids.max", "0")
        for pid in map(int, _read(self.path, "cgroup.procs").split()):
            # A process of a pid namespace that this one cannot see is listed as 0, which would mean our own group.
            if pid > 0:
                _kill(pid)

    def remove(self) -> None:
        """
        Remove the group's folder; processes that were killed are given a moment to end.

        Raises:
            OSError: Processes are left in it (`EBUSY`).
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                os.rmdir(self.path)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.002)


def find(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> str | None:
    """
    Look for a folder in which this process may make groups that limit memory and processes. Changes nothing.

    Args:
        root (`str`, *optional*, defaults to `"/sys/fs/cgroup"`):
            Where control groups are mounted.
        membership (`str`, *optional*, defaults to `"/proc/self/cgroup"`):
            File that says which group this process is in.

    Returns:
        `str`, *optional*: The nearest one, among the group of this process and those above it.
    """
    return next((folder for folder in _above(root, membership) if _usable(folder)), None)


def create(parent: str, name: str, memory_bytes: int, pids: int) -> Group:
    """
    Make a group.

    Args:
        parent (`str`):
            What [`find`] answered.
        name (`str`):
            Name of the new folder.
        memory_bytes (`int`):
            Memory of all its processes together; swap is not allowed on top.
        pids (`int`):
            Processes and threads in it at a time.

    Returns:
        [`Group`]: To be killed and removed by the caller.

    Raises:
        ValueError: The name is no plain name.
        OSError: The kernel refused it; no folder is left then.
    """
    if not name or name != os.path.basename(name) or name in (".", ".."):
        raise ValueError(f"{name!r} cannot be the name of a control group. Use a name without a slash.")
    missing = _CONTROLLERS - set(_read(parent, "cgroup.subtree_control").split())
    if missing:
        _write(parent, "cgroup.subtree_control", " ".join(f"+{controller}" for controller in sorted(missing)))
    path = os.path.join(parent, name)
    os.mkdir(path)
    try:
        _write(path, "memory.max", str(memory_bytes))
        _write(path, "pids.max", str(pids))
        # Kernels without swap accounting have no such file, and then nothing to limit.
        if os.path.exists(os.path.join(path, "memory.swap.max")):
            _write(path, "memory.swap.max", "0")
    except BaseException:
        os.rmdir(path)
        raise
    return Group(path)


def sweep(parent: str, prefix: str) -> None:
    """Remove the groups of that prefix that hold no process: their maker was killed before it could."""
    for entry in os.scandir(parent):
        if entry.name.startswith(prefix) and entry.is_dir():
            with contextlib.suppress(OSError):
                os.rmdir(entry.path)


def _above(root: str, membership: str) -> Iterator[str]:
    """Folder of this process's group and those above it, as far as they are mounted."""
    try:
        with open(membership) as lines:
            own = next((line.rstrip("\n")[3:] for line in lines if line.startswith("0::")), None)
    except OSError:
        return
    # A group outside of the cgroup namespace starts with "/..".
    if own is None or ".." in own.split("/"):
        return
    # Hybrid machines mount version 2 one folder down.
    mount = root if os.path.exists(os.path.join(root, "cgroup.controllers")) else os.path.join(root, "unified")
    parts = [part for part in own.split("/") if part]
    for depth in range(len(parts), -1, -1):
        yield os.path.join(mount, *parts[:depth])


def _usable(folder: str) -> bool:
    try:
        offered = set(_read(folder, "cgroup.controllers").split())
        handed_down = set(_read(folder, "cgroup.subtree_control").split())
        # Only the real root may hold processes and hand controllers down, and only the real root has no type.
        at_liberty = (
            not os.path.exists(os.path.join(folder, "cgroup.type")) or not _read(folder, "cgroup.procs").strip()
        )
    except OSError:
        return False
    files = ["cgroup.procs"]
    if not handed_down >= _CONTROLLERS:
        if not (at_liberty and offered >= _CONTROLLERS):
            return False
        files.append("cgroup.subtree_control")
    return all(os.access(path, os.W_OK) for path in (folder, *(os.path.join(folder, file) for file in files)))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _read(folder: str, file: str) -> str:
    with open(os.path.join(folder, file)) as stream:
        return stream.read()


def _write(folder: str, file: str, text: str) -> None:
    """Write to a file that the kernel made; never make one."""
    fd = os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
