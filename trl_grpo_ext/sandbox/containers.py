"""The local sandbox inside a container of Docker or Podman.

One container per sandbox, which lives as long as it: without network, without capabilities, with a read-only root and
a small /tmp in memory, under limits of memory, processors and processes, as an unprivileged user. The agent runs in
it and isolates programs from each other and from itself.

Covered: what [`LocalSandbox`] covers; and a program that gets out of its process is in an empty container. A container
that dies or does not answer is replaced, and its jobs are done again. Memory of all programs together is bounded.

Not covered: the kernel is shared with the host. A default container refuses namespaces to the agent, so programs in it
are isolated at the level `restricted`: they can see, for instance, that files of the image exist. The image is taken
as it is: it needs a `python` of version 3.10 or newer, and nothing else. A remote Docker daemon works, and limits are
those of its machine.
"""

import contextlib
import itertools
import os
import queue
import secrets
import select
import shutil
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import IO, Any, ClassVar, cast

from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import agent
from trl_grpo_ext.sandbox.backend import OneWay
from trl_grpo_ext.sandbox.bundle import bundle
from trl_grpo_ext.sandbox.codec import encode
from trl_grpo_ext.sandbox.jobs import Job, Result
from trl_grpo_ext.sandbox.options import Isolation, SandboxOptions, longest_seconds
from trl_grpo_ext.sandbox.retrying import Unavailable, resumed


_ATTEMPTS = 3
_START_SECONDS = 600.0  # the image may have to be fetched
_END_SECONDS = 5.0
_CLOSE_SECONDS = 30.0  # for a few bytes to an agent that always reads, on a busy machine
_TOLD = 20  # lines of what the runtime says that are kept for an error message
_BOOT = """import os, sys, tempfile
def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit("the agent did not arrive")
        data += part
    return data
path = os.path.join(tempfile.mkdtemp(), "agent.zip")
with open(path, "wb") as file:
    file.write(read(int.from_bytes(read(4), "little")))
os.execv(sys.executable, [sys.executable, "-I", path])
"""


class DockerSandbox(OneWay):
    """
    Runs programs in a Docker container.

    Args:
        image (`str`, *optional*, defaults to `"python:3.12-slim"`):
            Image with a `python` of version 3.10 or newer.
        workers (`int`, *optional*):
            Programs that run at once; the number of processors this process may use, by default.
        memory_mb (`int`, *optional*):
            Memory of the container, in MiB; by default 1024 and 1024 for each worker.
        **options:
            Others of [`SandboxOptions`]; they are for the agent in the container.

    Raises:
        [`~errors.ConfigError`]: if an option is unknown or has a wrong value.
    """

    runtime: ClassVar[str] = "docker"
    install: ClassVar[str] = "install Docker (https://docs.docker.com/engine/install/) and let this user use it"

    def __init__(
        self,
        image: str = "python:3.12-slim",
        workers: int | None = None,
        memory_mb: int | None = None,
        **options: Any,
    ):
        checked = SandboxOptions.parse({"workers": workers, **options})
        if not image or image.startswith("-"):
            raise ConfigError(f"image is {image!r}; it must be the name of an image, such as 'python:3.12-slim'")
        if memory_mb is not None and (type(memory_mb) is not int or memory_mb < 256):
            raise ConfigError(f"memory_mb is {memory_mb!r}; it must be a whole number of 256 or more")
        self.image = image
        self.workers = checked.workers or len(os.sched_getaffinity(0))
        self.memory_mb = memory_mb or 1024 * (1 + self.workers)
        self.options = {**options, "workers": self.workers}
        self._checked = checked
        self._set_up()
        _forget_after_fork(self)

    def _set_up(self) -> None:
        self._slots = threading.BoundedSemaphore(self.workers)
        self._starting = threading.Lock()
        self._container: _Container | None = None

    def isolation(self) -> Isolation:
        """
        What protects the host: the container, and in it what the agent says.

        Raises:
            [`~errors.SandboxError`]: if the container cannot be started.
        """
        inside = self._running().isolation
        return Isolation(inside.level, {f"{self.runtime} container": "on", **inside.layers})

    def close(self) -> None:
        """End the container."""
        with self._starting:
            if self._container is not None:
                self._container.close()
                self._container = None

    def command(self, name: str) -> list[str]:
        """The command line that starts a container of that name."""
        memory = f"{self.memory_mb}m"
        folder = f"/tmp:rw,nosuid,nodev,noexec,size={self.memory_mb // 4}m,mode=1777"
        return [
            *(self._program(), "run", "--rm", "--interactive", "--name", name),
            *("--network", "none", "--read-only", "--tmpfs", folder),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534"),
            *("--pids-limit", str(256 + 64 * self.workers), "--memory", memory, "--memory-swap", memory),
            *("--cpus", str(self.workers), "--ulimit", "core=0", "--env", "TMPDIR=/tmp", "--workdir", "/tmp"),
            *("--entrypoint", "python", self.image, "-I", "-c", _BOOT),
        ]

    def _program(self) -> str:
        found = shutil.which(self.runtime)
        if found is None:
            raise SandboxError(f"there is no {self.runtime!r} on the PATH; {self.install}, or use another sandbox")
        return found

    def _running(self) -> "_Container":
        with self._starting:
            if self._container is not None and self._container.ended:
                self._container.close()
                self._container = None
            if self._container is None:
                name = f"trl_grpo_ext_{secrets.token_hex(8)}"
                self._container = _Container(self.command(name), [self._program(), "rm", "-f", name], self.options)
            return self._container

    def _do(self, job: Any) -> Iterator[Any]:
        with self._slots:
            yield from resumed(lambda: self._attempt(job), _ATTEMPTS)

    def _attempt(self, job: Job) -> Iterator[Result]:
        yield from self._running().do(agent.job_to_bytes(job), longest_seconds(job, self._checked))


class PodmanSandbox(DockerSandbox):
    """Runs programs in a container of Podman; the options are those of [`DockerSandbox`]."""

    runtime = "podman"
    install = "install Podman (https://podman.io/docs/installation)"


class _Container:
    """A running container, and the conversation with the agent in it."""

    def __init__(self, command: list[str], remove: list[str], options: dict[str, Any]):
        self.ended = False
        self._why = ""
        self._remove = remove
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue] = {0: queue.SimpleQueue()}
        self._told: deque[str] = deque(maxlen=_TOLD)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # an interrupt typed at the terminal is for the caller to handle
            )
        except OSError as error:
            raise SandboxError(f"{command[0]} cannot be started ({error})") from None
        streams = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._given, self._answers, self._errors = (cast(IO[bytes], stream) for stream in streams)
        os.set_blocking(self._given.fileno(), False)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._overhear)]
        for thread in self._threads:
            thread.start()
        try:
            self.isolation = self._open(options)
        except BaseException:
            self.close()
            raise

    def do(self, job: bytes, patience: float) -> Iterator[Result]:
        """Do a job; its results, one by one."""
        number = next(self._numbers)
        try:
            kind, payload = self.ask(agent.BEGIN, number, job, patience)
            while kind == agent.RESULT:
                try:
                    yield agent.result_from_bytes(payload)
                except agent.Closed as error:
                    raise Unavailable(f"the container of the sandbox failed: {error}") from None
                kind, payload = self.ask(agent.NEXT, number, b"", patience)
        finally:
            self.forget(number)
        if kind == agent.FAILED:  # it has tried several times
            raise SandboxError(payload.decode(errors="replace"))

    def ask(self, kind: bytes, number: int, payload: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Send a message and wait for the answer to it."""
        answers = self._waiting.setdefault(number, queue.SimpleQueue())
        if self.ended:  # looked at after the queue is there: who ends the container, tells every queue
            raise self._gone()
        deadline = time.monotonic() + seconds
        self.send(kind, number, payload, deadline)
        try:
            said = answers.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            self._end(f"it has not answered within {seconds:g} s")
            raise self._gone() from None
        if said is None:
            raise self._gone()
        return said

    def send(self, kind: bytes, number: int, payload: bytes, deadline: float) -> None:
        """Send a message."""
        if not self._writing.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            self._end("it does not read what it is sent")
            raise self._gone()
        try:
            self._write(memoryview(agent.frame(kind, number, payload)), deadline)
        except (OSError, ValueError):  # ValueError: closed by another thread
            self._end("it does not read what it is sent")
            raise self._gone() from None
        finally:
            self._writing.release()

    def forget(self, number: int) -> None:
        """No more of a job is wanted."""
        self._waiting.pop(number, None)
        with contextlib.suppress(Unavailable):
            if not self.ended:
                self.send(agent.CLOSE, number, b"", time.monotonic() + _CLOSE_SECONDS)

    def close(self) -> None:
        """End the container."""
        self._end("it was closed")
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(_END_SECONDS)
        for stream in (self._answers, self._errors):
            stream.close()

    def abandon(self) -> None:
        """Close what a forked child of the host inherited; the container belongs to its parent."""
        self.ended = True
        for stream in (self._given, self._answers, self._errors):
            stream.close()

    def _open(self, options: dict[str, Any]) -> Isolation:
        data = bundle()
        deadline = time.monotonic() + _START_SECONDS
        try:
            with self._writing:
                self._write(memoryview(len(data).to_bytes(4, "little") + data), deadline)
            kind, payload = self.ask(agent.OPEN, 0, encode(options), _START_SECONDS)
        except (OSError, ValueError, Unavailable):
            self._end("it ended before it was ready")
            raise self._gone() from None
        if kind == agent.REFUSED:
            raise SandboxError(f"the agent in the container does not start: {payload.decode(errors='replace')}")
        return agent.isolation_from_bytes(payload)

    def _write(self, data: memoryview, deadline: float) -> None:
        while data:
            _, ready, _ = select.select([], [self._given], [], max(deadline - time.monotonic(), 0.0))
            if not ready:
                raise TimeoutError
            data = data[self._given.write(data[: 1 << 16]) or 0 :]

    def _listen(self) -> None:
        try:
            while True:
                kind, number, payload = agent.read_frame(lambda size: self._answers.read(size) or b"")
                waiting = self._waiting.get(number)
                if waiting is not None:
                    waiting.put((kind, payload))
        except (agent.Closed, OSError, ValueError) as error:
            self._end(str(error))

    def _overhear(self) -> None:
        for line in self._errors:
            self._told.append(line.decode(errors="replace").strip()[:300])

    def _end(self, why: str) -> None:
        """Close the agent's input, upon which it ends, and have the runtime remove a container that does not."""
        if self.ended:
            return
        self.ended = True
        self._why = why
        self._given.close()
        for waiting in list(self._waiting.values()):
            waiting.put(None)
        if why != "the agent has ended":
            threading.Thread(target=self._remove_if_it_stays, daemon=True).start()

    def _remove_if_it_stays(self) -> None:
        try:
            self.process.wait(_END_SECONDS / 2)
        except subprocess.TimeoutExpired:
            subprocess.run(self._remove, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
            self.process.kill()

    def _gone(self) -> Unavailable:
        self._threads[1].join(1.0)  # its last words
        told = "; ".join(line for line in self._told if line)
        return Unavailable(f"the container of the sandbox failed: {self._why}{': ' if told else ''}{told}")


def _forget_after_fork(sandbox: DockerSandbox) -> None:
    """A forked child of the host starts a container of its own."""
    reference = weakref.ref(sandbox)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            if inherited._container is not None:
                inherited._container.abandon()
            inherited._set_up()

    os.register_at_fork(after_in_child=forget)
