"""The few functions of Ray that the package uses, with each actor in a process of its own on this machine."""

import contextlib
import multiprocessing
import queue
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class GetTimeoutError(Exception):
    """An answer did not come in time."""


class RayActorError(Exception):
    """The actor died."""


def _live(pipe: Any, kind: type, arguments: tuple, at_once: int) -> None:
    actor = kind(*arguments)
    sending = threading.Lock()

    def do(number: int, name: str, given: tuple) -> None:
        try:
            answer = (True, getattr(actor, name)(*given))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        with sending, contextlib.suppress(OSError):
            pipe.send((number, *answer))

    with ThreadPoolExecutor(at_once) as threads:
        while True:
            try:
                threads.submit(do, *pipe.recv())
            except EOFError:
                return


class Handle:
    """An actor: `handle.method.remote(...)` returns a reference."""

    def __init__(self, kind: type, arguments: tuple, at_once: int):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_live, args=(theirs, kind, arguments, at_once), daemon=True)
        self.process.start()
        theirs.close()
        self._sending, self._count = threading.Lock(), 0
        self._waiting: dict[int, queue.Queue] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace(remote=lambda *arguments: self._ask(name, arguments))

    def _ask(self, name: str, arguments: tuple) -> queue.Queue:
        answer: queue.Queue = queue.Queue()
        with self._sending:
            self._count += 1
            self._waiting[self._count] = answer
            try:
                self._pipe.send((self._count, name, arguments))
            except OSError:
                answer.put((False, RayActorError("the actor died")))
        return answer

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, *answer = self._pipe.recv()
                self._waiting.pop(number).put(answer)
        for waiting in list(self._waiting.values()):
            waiting.put((False, RayActorError("the actor died")))


def module(nodes: int = 1) -> Any:
    """A module `ray` with so many nodes; `ray.handles` lists the actors that were made."""
    ray: Any = types.ModuleType("ray")
    ray.handles, ray.placed, ray.initialized = [], [], False

    def init(address: str | None = None, log_to_driver: bool = True) -> None:
        if address == "nowhere:6379":
            raise ConnectionError("Ray is trying to start at nowhere:6379, but no head node is there")
        ray.initialized = True

    def remote(kind: type) -> Any:
        def options(scheduling_strategy: Any, max_concurrency: int, num_cpus: float, **more: Any) -> Any:
            def make(*arguments: Any) -> Handle:
                handle = Handle(kind, arguments, max_concurrency)
                ray.handles.append(handle)
                ray.placed.append(scheduling_strategy)
                return handle

            return types.SimpleNamespace(remote=make)

        return types.SimpleNamespace(options=options)

    def get(reference: queue.Queue, timeout: float) -> Any:
        try:
            well, value = reference.get(timeout=timeout)
        except queue.Empty:
            raise GetTimeoutError("no answer") from None
        if well:
            return value
        raise value if isinstance(value, Exception) else RuntimeError(value)

    def kill(handle: Handle) -> None:
        handle.process.kill()

    def shutdown() -> None:
        ray.initialized = False
        for handle in ray.handles:
            handle.process.kill()

    ray.init, ray.remote, ray.get, ray.kill, ray.shutdown = init, remote, get, kill, shutdown
    ray.is_initialized = lambda: ray.initialized
    ray.nodes = lambda: [{"NodeID": f"node{index}", "Alive": index < nodes} for index in range(nodes + 1)]
    ray.util = types.ModuleType("ray.util")
    ray.util.scheduling_strategies = types.ModuleType("ray.util.scheduling_strategies")
    ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy = types.SimpleNamespace
    return ray


@contextlib.contextmanager
def installed(nodes: int = 1) -> Iterator[Any]:
    """Put the module where `import ray` finds it."""
    ray = module(nodes)
    modules = {"ray": ray, "ray.util": ray.util, "ray.util.scheduling_strategies": ray.util.scheduling_strategies}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield ray
    finally:
        for handle in ray.handles:
            handle.process.kill()
            handle.process.join()
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
