"""The warmed interpreter: it loads what programs import most, once, and clones a worker for every program.

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
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.sandbox.codec import decode, encode
from trl_grpo_ext.sandbox.inside import commands, landlock, namespaces, seccomp, worker
from trl_grpo_ext.sandbox.inside.channel import Channel, ChannelClosed
from trl_grpo_ext.sandbox.inside.folders import folder_bytes, remove_folder
from trl_grpo_ext.sandbox.inside.tester import Tester


CHANNEL = 3  # descriptor of a worker's channel
_MESSAGE = 1 << 16
_MOST_DESCRIPTORS = 4096
_IDLE_MS = 100
_ENDING_SECONDS = 0.05
_LOOK_SECONDS = 0.1
_READY, _TRIAL_SECONDS = b"ready", 10.0
_SETUP_FAILED, _BROKEN = 70, 71
# What programs import most. A module that is loaded makes each clone a little dearer, and an import free.
PRELOADED = (
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
    overfull: bool = False  # it wrote more into its folder than that may hold


class Zygote:
    """
    Clones workers and keeps account of them.

    Args:
        control (`socket.socket`):
            The socket to the host.
        config (`dict`):
            `scratch`: where on the host to make a folder for workers without a file system of their own; `ahead`: how
            many workers wait; `file_bytes`: size of a private folder; `package_names`, `packages` and
            `package_folders`: packages that programs may import, their paths, and the folders these are in; `tools`:
            what else of the host stays, for a zygote whose workers build and run programs in other languages; `off`:
            layers that are left out, which measurements and tests ask for.
    """

    def __init__(self, control: socket.socket, config: dict[str, Any]):
        self.control = control
        self.config = config
        self.layers: dict[str, str] = {}
        self._children: dict[int, Child] = {}
        self._ready: list[tuple[int, socket.socket]] = []
        self._next = 0
        self._filters: dict[str, seccomp.Filter] = {}
        self._reads: list[str] = []
        self._ruleset: int | None = None
        self.scratch = ""  # on the host, for workers without a file system of their own
        self._folder = namespaces.folder_options(config["file_bytes"])
        self._own_processes = False
        self._looked = 0.0

    # ----------------------------------------------------------------------------------------------------- preparing

    def prepare(self) -> None:
        """Load what programs use, then give up what they must not have, layer by layer."""
        reads = [*namespaces.interpreter_files(), *self.config["tools"]]
        for name in PRELOADED:
            with contextlib.suppress(ImportError):  # some builds lack one or another
                __import__(name)
        self._load_packages()
        _add_exit()
        self._try("namespaces", lambda: self._enter_namespaces(reads))
        self._own_processes = "namespaces" in self._on()
        namespaces.forbid_privileges()
        self._try("landlock", lambda: self._prepare_landlock(reads))
        self._try("seccomp", self._prepare_seccomp)
        if not self._own_processes:
            self.scratch = tempfile.mkdtemp(prefix="trl_grpo_ext_sandbox_", dir=self.config["scratch"])
        self._try_worker()
        gc.collect()
        gc.disable()
        gc.freeze()  # a collection in a worker would copy every page it looks at

    def _load_packages(self) -> None:
        """Load the packages that programs may import, with what they need; nothing else beside them can be found."""
        interpreter = list(sys.path)
        sys.path.extend(self.config["package_folders"])
        for name in self.config["package_names"]:
            try:
                __import__(name)
            except ImportError as error:
                raise OSError(f"the package {name!r} cannot be imported ({error})") from error
        sys.path[:] = interpreter

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

        def enter() -> None:
            namespaces.enter(reads, self.config["packages"])

        def enter_and_clone() -> None:
            enter()
            _try_in_child(
                lambda: namespaces.clone(processes=True, mounts=True), lambda: namespaces.private_folder(self._folder)
            )

        _try_in_child(os.fork, enter_and_clone)  # half-way in, there is no way back
        enter()

    def _prepare_landlock(self, reads: list[str]) -> None:
        if not landlock.abi():
            raise OSError("the kernel has no Landlock, or it is switched off")
        if self._own_processes:
            executable = ["/"] if self.config["tools"] else []
            # Nothing but the private folder, which is mounted later, can be written: all other mounts are read-only.
            self._ruleset = landlock.ruleset(["/"], ["/"], executable)
            return
        parts = [part for path in reads if os.path.isdir(path) for part in namespaces.unmasked_parts(path)]
        files = [path for path in reads if not os.path.isdir(path)]
        devices = [f"/dev/{name}" for name in namespaces.DEVICES]
        self._reads = [*parts, *files, *devices, *self.config["packages"]]

    def _prepare_seccomp(self) -> None:
        if not seccomp.supported():
            raise OSError("the kernel has no seccomp filters")
        if self.config["tools"]:
            self._filters = {profile: seccomp.build(profile) for profile in ("command", "executable")}
        elif self._own_processes:  # workers inherit it: installing one takes longer than a clone
            seccomp.install(seccomp.build("cloned").for_pid(1))
        else:
            self._filters = {"program": seccomp.build("program")}

    def _try_worker(self) -> None:
        number, channel = self._clone()
        with channel:
            channel.settimeout(_TRIAL_SECONDS)
            said = channel.recv(_MESSAGE)
        self._finish(number)
        if said != _READY:
            raise OSError(f"a worker cannot be set up: {said.decode(errors='replace')}")

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
                busy = wanted or (self.scratch and self._children)
                events = dict(poll.poll(0 if waiting else _IDLE_MS if busy else None))
                self._end_overfull()
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

    def _end_overfull(self) -> None:
        """Where no file system of its own bounds what a worker writes, end one that writes too much."""
        now = time.monotonic()
        if not self.scratch or now < self._looked + _LOOK_SECONDS:
            return
        self._looked = now
        for child in self._children.values():
            if child.status is None and folder_bytes(child.scratch or "") > self.config["file_bytes"]:
                child.overfull = True
                self._kill(child)

    def _end_ready(self) -> None:
        """End the workers that wait: between two batches of programs, nothing of the sandbox's is left but this."""
        while self._ready:
            number, channel = self._ready.pop()
            channel.close()
            self._forget(number)

    def _answer(self, request: str, number: int = 0) -> None:
        if request == "take":
            taken, channel = self._ready.pop(0) if self._ready else self._clone()
            with channel:
                socket.send_fds(self.control, [encode(taken)], [channel.fileno()])
        elif request == "processor":
            self.control.send(encode(self._processor_seconds(number)))
        elif request == "finish":
            self.control.send(encode(self._finish(number)))
        elif request == "forget":
            self._forget(number)

    def _forget(self, number: int) -> None:
        child = self._children.get(number)
        if child is None:
            return  # the host has asked how it ended
        child.forgotten = True
        self._kill(child)
        if child.scratch is not None:  # what is to be seen goes at once; a process that fills memory takes its time
            remove_folder(child.scratch)
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

    def _finish(self, number: int) -> tuple[int, float, str]:
        """
        End a worker if it does not end by itself, and say how it ended: its exit code, or minus the signal; its
        seconds of the processor; and why it had to be ended, if it had.
        """
        child = self._children[number]
        latest = time.monotonic() + _ENDING_SECONDS  # its channel is closed before it can be waited for
        while child.status is None and time.monotonic() < latest:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                child.status = _status(status, usage)
            else:
                time.sleep(0.0005)
        forced = child.status is None
        if child.status is None:
            self._kill(child)
            _, status, usage = os.wait4(child.pid, 0)
            child.status = _status(status, usage)
        code, seconds = child.status
        why = "overfull" if child.overfull else "forced" if forced else ""
        self._remove(number)
        return code, seconds, why

    def _kill(self, child: Child) -> None:
        if child.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            if self.config["tools"] and not self._own_processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)

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
        if child.scratch is not None:
            remove_folder(child.scratch)

    def _end_all(self) -> None:
        for child in self._children.values():
            self._kill(child)
        for number in list(self._children):
            self._finish(number)
        if self.scratch:
            remove_folder(self.scratch)

    # ------------------------------------------------------------------------------------------------------- cloning

    def _clone(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        scratch = None
        if not self._own_processes:
            scratch = f"{self.scratch}/{self._next}"
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
            os.write(CHANNEL, _READY)
            descriptors = _receive_descriptors()
            gc.enable()
            self._work(Channel(CHANNEL), descriptors)
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
                executable = [*self._reads, scratch] if self.config["tools"] else []
                ruleset = landlock.ruleset(self._reads, [scratch, "/dev/null"], executable)
        namespaces.drop_capabilities()
        if ruleset is not None:
            landlock.restrict(ruleset)
        os.closerange(CHANNEL + 1, _MOST_DESCRIPTORS)
        if self.config["tools"]:
            os.setsid()  # a compiler's processes end as a group
        else:
            self._install("program")

    def _install(self, profile: str) -> None:
        if profile in self._filters:
            seccomp.install(self._filters[profile].for_pid(os.getpid()))

    def _work(self, channel: Channel, descriptors: list[int]) -> None:
        """Take one job from the channel and do it; what came along are files, or the other party of a test."""
        job, *arguments = channel.receive()
        if job == "run":
            worker.run(channel, descriptors, *arguments)
        elif job == "load":
            worker.Server(channel).serve(*arguments)
        elif job == "tests":
            limits, *tests = arguments
            worker.apply_limits(limits)
            Tester(channel, Channel(descriptors[0])).run(*tests)
            with contextlib.suppress(ChannelClosed):
                channel.receive()  # until the host has read the reports
        elif job == "build":
            commands.build(channel, descriptors, self._install, *arguments)
        elif job == "execute":
            commands.execute(descriptors, self._install, *arguments)


def _try_in_child(fork: Callable[[], int], step: Callable[[], None]) -> None:
    """Do something in a child first; raise its `OSError` here."""
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            step()
        except OSError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode(errors="replace")
    os.close(read)
    if os.waitpid(pid, 0)[1] or said:
        raise OSError(said or "a child that tried it was killed")


def _receive_descriptors() -> list[int]:
    connection = socket.socket(fileno=CHANNEL)
    try:
        return socket.recv_fds(connection, 1, 3)[1]
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
        control.send(encode(("ready", zygote.layers, zygote.calibrate(), zygote.scratch)))
    except OSError as error:
        control.send(encode(("failed", str(error), 0.0, "")))
        return
    zygote.serve()
