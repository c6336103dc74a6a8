"""The warmed interpreter: it loads the standard library once, and clones a worker for every program.

It is told nothing about programs and tests, so a worker that reads all of the memory it was cloned with finds nothing.
The host asks for a worker and gets one end of its channel; it asks what became of a worker; it says when it needs one
no more. The zygote, and every worker with it, ends when the host's end of the control socket is closed, however the
host ended.

Workers are cloned ahead of need: while programs come in, some wait, isolated, for theirs.
"""

import builtins
import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.sandbox.codec import decode, encode
from trl_grpo_ext.sandbox.inside import landlock, namespaces, seccomp, worker
from trl_grpo_ext.sandbox.inside.channel import Channel
from trl_grpo_ext.sandbox.inside.tester import Tester, TestFile


CHANNEL = 3  # descriptor of a worker's channel
_MESSAGE = 1 << 16
_MOST_DESCRIPTORS = 4096
_IDLE_MS = 100
_UNLIMITED = 1e6
_SETUP_FAILED, _BROKEN = 70, 71
# What programs import most. A module that is loaded makes each clone a little dearer, and an import free.
_PRELOADED = (
    *("abc", "array", "bisect", "builtins", "cmath", "collections", "collections.abc", "contextlib", "copy"),
    *("dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "io", "itertools", "json"),
    *("math", "numbers", "operator", "os", "queue", "random", "re", "statistics", "string", "struct", "sys"),
    *("textwrap", "threading", "time", "types", "typing", "unicodedata"),
)


@dataclass
class Child:
    """A worker, as the zygote sees it."""

    pid: int
    scratch: str | None
    status: tuple[int, float] | None = None  # exit code, or minus the signal; seconds of the processor
    forgotten: bool = False


class Zygote:
    """
    Clones workers and keeps account of them.

    Args:
        control (`socket.socket`):
            The socket to the host.
        config (`dict`):
            `scratch`: where on the host to make a folder for workers without a file system of their own; `ahead`: how
            many workers wait; `file_bytes`: size of a private folder; `packages`: paths of packages that programs may
            import, and `package_folders`: where they are; `off`: layers that are left out, which measurements and
            tests ask for.
    """

    def __init__(self, control: socket.socket, config: dict[str, Any]):
        self.control = control
        self.config = config
        self.layers: dict[str, str] = {}
        self._children: dict[int, Child] = {}
        self._ready: list[tuple[int, socket.socket]] = []
        self._parked: set[int] = set()  # workers that the host may or may not come back to
        self._next = 0
        self._filter: seccomp.Filter | None = None
        self._ruleset: int | None = None
        self._scratch: str | None = None
        self._folder = namespaces.folder_options(config["file_bytes"])
        self._own_processes = False

    # ----------------------------------------------------------------------------------------------------- preparing

    def prepare(self) -> None:
        """Load what programs use, then give up what they must not have, layer by layer."""
        sys.path.extend(self.config["package_folders"])
        for name in _PRELOADED:
            with contextlib.suppress(ImportError):  # some builds lack one or another
                __import__(name)
        _add_exit()
        reads = namespaces.interpreter_files()
        self._try("namespaces", lambda: self._enter_namespaces(reads))
        if "namespaces" in self._on():
            self._try("process and mount namespaces", self._try_clone)
        self._own_processes = "process and mount namespaces" in self._on()
        namespaces.forbid_privileges()
        self._try("landlock", lambda: self._prepare_landlock(reads))
        self._try("seccomp", self._prepare_seccomp)
        if not self._own_processes:
            self._scratch = tempfile.mkdtemp(prefix="trl_grpo_ext_sandbox_", dir=self.config["scratch"])
        self._try("trial", self._trial)
        if self.layers.pop("trial") != "on":
            raise OSError(f"a worker cannot be set up: {self._trial_note}")
        gc.collect()
        gc.disable()
        gc.freeze()  # a collection in a worker would copy every page it looks at

    def _on(self) -> set[str]:
        return {name for name, state in self.layers.items() if state == "on"}

    def _try(self, layer: str, switch_on: Any) -> None:
        if layer in self.config["off"]:
            self.layers[layer] = "switched off"
            return
        try:
            switch_on()
        except OSError as error:
            self.layers[layer] = str(error)
        else:
            self.layers[layer] = "on"

    def _enter_namespaces(self, reads: list[str]) -> None:
        if not namespaces.supported():
            raise OSError("this machine's system calls are not known")
        namespaces.enter(reads, self.config["packages"])

    def _try_clone(self) -> None:
        pid = namespaces.clone(processes=True, mounts=True)
        if pid == 0:
            try:
                namespaces.private_folder(self._folder)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise OSError("a worker cannot mount its private folder")

    def _prepare_landlock(self, reads: list[str]) -> None:
        if not landlock.abi():
            raise OSError("the kernel has no Landlock, or it is switched off")
        if "namespaces" in self._on():
            self._reads = ["/"]
        else:
            parts = [part for path in reads if os.path.isdir(path) for part in namespaces.unmasked_parts(path)]
            files = [path for path in reads if not os.path.isdir(path)]
            devices = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/full"]
            self._reads = [*parts, *files, *devices, *self.config["packages"]]
            self._writes = ["/dev/null"]
        if self._own_processes:
            self._ruleset = landlock.ruleset(self._reads, ["/tmp", "/dev/null"])

    def _prepare_seccomp(self) -> None:
        if not seccomp.supported():
            raise OSError("the kernel has no seccomp filters")
        if self._own_processes:  # workers inherit it: installing one takes longer than a clone
            seccomp.install(seccomp.build("cloned").for_pid(1))
        else:
            self._filter = seccomp.build("program")

    def _trial(self) -> None:
        number, channel = self._clone()
        child = self._children[number]
        with channel:
            channel.settimeout(10)
            self._trial_note = channel.recv(1000).decode(errors="replace")
        self._finish(number)
        if self._trial_note != "ready" or child.status is None:
            raise OSError(self._trial_note)

    def calibrate(self) -> float:
        """Seconds that a fixed piece of work takes this interpreter: the best of five, whatever else runs."""
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            table = {}
            for number in range(20_000):
                table[number & 1023] = number * number % 7
            best = min(best, time.process_time() - begun)
        return best

    # ------------------------------------------------------------------------------------------------------- serving

    def serve(self) -> None:
        """Answer the host until it goes away; then end every worker."""
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        wanted = 0
        try:
            while True:
                waiting = len(self._ready) < wanted
                events = dict(poll.poll(0 if waiting else _IDLE_MS if wanted else None))
                if not events and not waiting:
                    wanted = 0
                    self._end_ready()
                    continue
                if woken.fileno() in events:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                    self._reap()
                if self.control.fileno() in events:
                    data = self.control.recv(_MESSAGE)
                    if not data:
                        return
                    wanted = self.config["ahead"]
                    self._answer(*decode(data))
                elif waiting:
                    self._ready.append(self._clone())
        finally:
            self._end_all()

    def _end_ready(self) -> None:
        """End the workers that wait: between two batches of programs, nothing of the sandbox's is left but this."""
        while self._ready:
            number, channel = self._ready.pop()
            channel.close()
            self._forget(number)
        for number in self._parked:
            self._forget(number)
        self._parked.clear()

    def _answer(self, request: str, number: int = 0) -> None:
        if request == "take":
            taken, channel = self._ready.pop(0) if self._ready else self._clone()
            with channel:
                socket.send_fds(self.control, [encode(taken)], [channel.fileno()])
        elif request == "processor":
            self.control.send(encode(self._processor_seconds(number)))
        elif request == "finish":
            self.control.send(encode(self._finish(number)))
        elif request == "park":
            if number in self._children:
                self._parked.add(number)
        elif request == "resume":
            parked = number in self._parked and self._children[number].status is None
            self._parked.discard(number)
            self.control.send(encode(self._processor_seconds(number) if parked else None))
        elif request == "forget":
            self._forget(number)

    def _forget(self, number: int) -> None:
        child = self._children.get(number)
        if child is None:
            return  # the host has asked how it ended
        child.forgotten = True
        self._kill(child)
        if child.status is not None:
            self._remove(number)

    def _processor_seconds(self, number: int) -> float:
        child = self._children.get(number)
        if child is None:
            return 0.0
        if child.status is not None:
            return child.status[1]
        with contextlib.suppress(OSError):
            return time.clock_gettime((~child.pid << 3) | 2)  # the clock of that process, as the kernel numbers it
        return 0.0

    def _finish(self, number: int) -> tuple[int, float]:
        """End a worker if it has not ended, and say how it ended."""
        child = self._children[number]
        if child.status is None:
            self._kill(child)
            _, status, usage = os.wait4(child.pid, 0)
            child.status = _status(status, usage)
        status_of_child = child.status
        self._remove(number)
        return status_of_child

    def _kill(self, child: Child) -> None:
        if child.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)

    def _reap(self) -> None:
        by_pid = {child.pid: number for number, child in self._children.items()}
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = by_pid.get(pid)
            if number is None:
                continue
            self._children[number].status = _status(status, usage)
            if self._children[number].forgotten:
                self._remove(number)
            else:
                self._replace_if_ready(number)

    def _replace_if_ready(self, number: int) -> None:
        """A worker that was ended from outside while it waited is not handed out."""
        for entry in self._ready:
            if entry[0] == number:
                self._ready.remove(entry)
                entry[1].close()
                self._remove(number)
                return

    def _remove(self, number: int) -> None:
        child = self._children.pop(number)
        self._parked.discard(number)
        if child.scratch is not None:
            shutil.rmtree(child.scratch, ignore_errors=True)

    def _end_all(self) -> None:
        for child in self._children.values():
            self._kill(child)
        for number in list(self._children):
            self._finish(number)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    # ------------------------------------------------------------------------------------------------------- cloning

    def _clone(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        scratch = None
        if not self._own_processes:
            scratch = f"{self._scratch}/{self._next}"
            os.mkdir(scratch, 0o700)
        pid = namespaces.clone(self._own_processes, self._own_processes)
        if pid == 0:
            self._become_worker(theirs, scratch)
        theirs.close()
        number, self._next = self._next, self._next + 1
        self._children[number] = Child(pid, scratch)
        return number, ours

    def _become_worker(self, channel: socket.socket, scratch: str | None) -> None:
        try:
            os.dup2(channel.fileno(), CHANNEL)
            self._isolate(scratch)
        except BaseException as error:
            os.write(CHANNEL, f"{type(error).__name__}: {error}".encode())
            os._exit(_SETUP_FAILED)
        try:
            os.write(CHANNEL, b"ready")
            descriptors = _receive_descriptors()
            gc.enable()
            _work(Channel(CHANNEL), descriptors)
            os._exit(0)
        except BaseException:
            Channel(CHANNEL).send(("broken", traceback.format_exc()))
        finally:
            os._exit(_BROKEN)

    def _isolate(self, scratch: str | None) -> None:
        signal.set_wakeup_fd(-1)
        namespaces.end_with_parent()
        ruleset = self._ruleset
        if scratch is None:
            namespaces.private_folder(self._folder)
            os.chdir("/tmp")
        else:
            os.chdir(scratch)
            os.environ.update(HOME=scratch, TMPDIR=scratch)
            if "landlock" in self._on():
                ruleset = landlock.ruleset(self._reads, [scratch, "/dev/null"])
        namespaces.drop_capabilities()
        if ruleset is not None:
            namespaces.restrict(ruleset)
        os.closerange(CHANNEL + 1, _MOST_DESCRIPTORS)
        if self._filter is not None:
            seccomp.install(self._filter.for_pid(os.getpid()))


def _work(channel: Channel, descriptors: list[int]) -> None:
    """Take one job from the channel and do it; what came along with it are files, or the other party of a test."""
    job, *arguments = channel.receive()
    if job == "run":
        worker.run(channel, descriptors, *arguments)
    elif job == "load":
        worker.Server(channel).serve(*arguments)
    elif job == "tests":
        _test(channel, descriptors, *arguments)


def _test(channel: Channel, descriptors: list[int], limits: dict[str, Any], *tests: Any) -> None:
    """Run the same tests about one program after another, each program in a worker of its own."""
    worker.apply_limits({**limits, "seconds": _UNLIMITED})  # the clock of the host counts each program alone
    file = TestFile(*tests)
    while descriptors:
        Tester(file, channel, Channel(descriptors[0])).run()
        os.close(descriptors[0])
        descriptors = _receive_descriptors()


def _receive_descriptors() -> list[int]:
    connection = socket.socket(fileno=CHANNEL)
    try:
        return socket.recv_fds(connection, 1, 2)[1]
    finally:
        connection.detach()


def _status(status: int, usage: Any) -> tuple[int, float]:
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _add_exit() -> None:
    """`exit` and `quit` come from `site`, which is not loaded; scripts use them."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))


def main(descriptor: int) -> None:
    """Run a zygote on a control socket."""
    if descriptor != CHANNEL:  # in a worker, its channel takes this place
        os.dup2(descriptor, CHANNEL, inheritable=False)
        os.close(descriptor)
    control = socket.socket(fileno=CHANNEL)
    zygote = Zygote(control, decode(control.recv(_MESSAGE)))
    try:
        zygote.prepare()
        control.send(encode(("ready", zygote.layers, zygote.calibrate())))
    except OSError as error:
        control.send(encode(("failed", str(error), 0.0)))
        return
    zygote.serve()
