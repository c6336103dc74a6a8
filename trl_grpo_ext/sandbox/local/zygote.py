"""The host's side of a zygote: start it, take workers, ask what became of them, end it."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox.codec import CodecError, decode, encode
from trl_grpo_ext.sandbox.inside.folders import remove_folder
from trl_grpo_ext.sandbox.local import cgroup


_START_SECONDS = 60.0  # an interpreter and the standard library, on a busy machine with a cold disk
_ANSWER_SECONDS = 30.0
_GROUPS = "trl_grpo_ext_"
_WORKER_BYTES, _WORKER_TASKS = 2 << 30, 512  # a second line behind the limits of each worker
_MESSAGE = 1 << 16
_READY = b"ready"
_BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from trl_grpo_ext.sandbox.inside.zygote import main; "
_BOOT += "del sys.path[0]; main(int(sys.argv[1]))"


class Zygote:
    """
    A zygote process. Its methods may be called from any thread.

    Args:
        ahead (`int`):
            Workers that wait, ready, for a program.
        packages (`tuple[str, ...]`, *optional*, defaults to `()`):
            Installed packages that programs may import.
        file_bytes (`int`, *optional*, defaults to `32 MiB`):
            Size of a worker's private folder.
        tools (`tuple[str, ...]`, *optional*, defaults to `()`):
            What else of the host its workers see and may execute.
        off (`tuple[str, ...]`, *optional*, defaults to `()`):
            Layers of isolation that are left out; measurements and tests ask for this.

    Raises:
        [`~errors.SandboxError`]: if it does not start.
        [`~errors.ConfigError`]: if a package is not installed.
    """

    def __init__(
        self,
        ahead: int,
        packages: tuple[str, ...] = (),
        file_bytes: int = 32 << 20,
        tools: tuple[str, ...] = (),
        off: tuple[str, ...] = (),
    ):
        if sys.platform != "linux":
            raise SandboxError(f"programs are run on Linux only, and this is {sys.platform}; choose another `sandbox`")
        paths = [path for package in packages for path in _package_paths(package)]
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self.broken = False  # it cannot be asked any more
        self._scratch = ""
        self._group: cgroup.Group | None = None
        config = {
            "scratch": tempfile.gettempdir(),
            "ahead": ahead,
            "package_names": list(packages),
            "packages": paths,
            "package_folders": sorted({os.path.dirname(path) for path in paths}),
            "file_bytes": file_bytes,
            "tools": list(tools),
            "off": list(off),
        }
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _BOOT, str(theirs.fileno()), _package_root()],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                cwd="/",
                start_new_session=True,  # an interrupt typed at the terminal is for the caller to handle
            )
        try:
            self._control.settimeout(_START_SECONDS)
            self._control.send(encode(config))
            state, said, self.calibration, self._scratch = self._receive()
        except BaseException:
            self.close()
            raise
        if state != "ready":
            self.close()
            raise SandboxError(f"the sandbox does not start: {said}; `trl-grpo-ext doctor` says more")
        self._group, cgroup_layer = _bound(self.process.pid, 2 * ahead + 2)
        self.layers: Mapping[str, str] = {**said, "cgroup": cgroup_layer}
        self._killed_for_memory = 0
        self._control.settimeout(_ANSWER_SECONDS)

    def take(self) -> tuple[int, socket.socket]:
        """
        Get a fresh worker: its number, and the host's end of its channel.

        Raises:
            [`~errors.SandboxError`]: if the zygote is gone.
        """
        with self._lock, self._breaking():
            self._control.send(encode(("take",)))
            # Not `recv_fds`: it forgets the flag that keeps the descriptor from the commands that the host starts.
            size = socket.CMSG_SPACE(struct.calcsize("i"))
            data, passed, *_ = self._control.recvmsg(_MESSAGE, size, socket.MSG_CMSG_CLOEXEC)
            if not data or not passed:
                raise SandboxError("the sandbox's zygote has ended")
        (descriptor,) = struct.unpack("i", passed[0][2][: struct.calcsize("i")])
        channel = socket.socket(fileno=descriptor)
        try:
            said = channel.recv(len(_READY))
        except OSError:
            said = b""
        if said != _READY:
            channel.close()
            raise SandboxError(f"a worker could not be set up {said.decode(errors='replace')}")
        return decode(data), channel

    def finish(self, worker: int) -> tuple[int, float, str]:
        """
        Wait for a worker to end, not for long.

        Returns:
            `tuple`: its exit code, or minus the signal that ended it; its seconds of the processor; and why it had to
            be ended: `"forced"`, since it went on, `"overfull"`, since it wrote too much, or `""`.
        """
        return self._ask("finish", worker)

    def forget(self, worker: int) -> None:
        """End a worker without waiting."""
        with self._lock, contextlib.suppress(OSError):  # a zygote that is gone has taken its workers along
            self._control.send(encode(("forget", worker)))

    def processor_seconds(self, worker: int) -> float:
        """Seconds of the processor that a worker has used so far."""
        return self._ask("processor", worker)

    def close(self) -> None:
        """End the zygote and every worker; leave nothing behind."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # other threads may be waiting for an answer
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        if self._scratch:
            remove_folder(self._scratch)  # if it was killed before it could do that itself
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.kill()
            self._group.remove()

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed a worker for memory since this was last asked."""
        if self._group is None:
            return False
        killed = self._group.memory_events().get("oom_kill", 0)
        before, self._killed_for_memory = self._killed_for_memory, killed
        return killed > before

    def abandon(self) -> None:
        """Close what a forked child of the host inherited; the zygote belongs to its parent."""
        self._control.close()

    def _ask(self, request: str, worker: int) -> Any:
        with self._lock, self._breaking():
            self._control.send(encode((request, worker)))
            return self._receive()

    @contextlib.contextmanager
    def _breaking(self) -> Iterator[None]:
        """Whatever ends a request in the middle, an interrupt as well, leaves questions and answers out of step."""
        try:
            yield
        except OSError as error:
            self.broken = True
            raise SandboxError(f"the sandbox's zygote does not answer ({error})") from None
        except BaseException:
            self.broken = True
            raise

    def _receive(self) -> Any:
        data = self._control.recv(_MESSAGE)
        if not data:
            raise SandboxError("the sandbox's zygote has ended")
        try:
            return decode(data)
        except CodecError as error:
            raise SandboxError(f"the sandbox's zygote answers nonsense ({error})") from None


def _bound(pid: int, workers: int) -> tuple[cgroup.Group | None, str]:
    """Put a zygote into a control group, where the machine lets us; the layer's state says why not."""
    try:
        parent = cgroup.find()
        if parent is None:
            return None, "no control group (version 2) is handed down to this process"
        cgroup.sweep(parent, _GROUPS)
        group = cgroup.create(parent, f"{_GROUPS}{pid}", workers * _WORKER_BYTES, workers * _WORKER_TASKS)
    except OSError as error:
        return None, str(error)
    try:
        group.add(pid)
    except OSError as error:
        group.remove()
        return None, str(error)
    return group, "on"


def _environment() -> dict[str, str]:
    """Nothing of the host's: it holds credentials, and switches that change how an interpreter behaves."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "MALLOC_ARENA_MAX": "1",  # each arena reserves 64 MiB of the address space that a program may have
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def _package_root() -> str:
    return str(Path(__file__).resolve().parents[3])


def _package_paths(name: str) -> list[str]:
    """Where an installed package is, with the folder of shared libraries that wheels put beside it."""
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise ConfigError(f"the sandbox's option packages names {name!r}, which is not installed here")
    home = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
    return [str(home), *(str(path) for path in home.parent.glob(f"{name}.libs"))]
