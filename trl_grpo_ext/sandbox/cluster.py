"""The local sandbox on the nodes of a Ray cluster.

One actor on each node, or as many as asked for, holds a local sandbox and does several jobs at a time; jobs go round.

Covered: what [`LocalSandbox`] covers, on every node. An actor that dies is replaced, and its jobs are done again.

Not covered: nodes that join later. Every node needs this package, installed or by a `runtime_env`, and the isolation
that is asked for; what is reported is that of the weakest node. A program that gets out of its process is on a node of
the cluster, and Ray trusts everybody who is.
"""

import contextlib
import itertools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from trl_grpo_ext.errors import ConfigError, ExtError, SandboxError
from trl_grpo_ext.sandbox import agent
from trl_grpo_ext.sandbox.backend import OneWay
from trl_grpo_ext.sandbox.jobs import Result
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.options import LEVELS, Isolation, SandboxOptions, longest_seconds
from trl_grpo_ext.sandbox.retrying import Unavailable, resumed


_ATTEMPTS = 3
_START_SECONDS = 300.0  # an environment may have to be set up on the node
_SPARE_CALLS = 4  # for the ends of jobs, while every worker has one


class Post:
    """
    What an actor does: a local sandbox, spoken to in bytes.

    Args:
        options (`dict`):
            Those of the local sandbox.
    """

    def __init__(self, options: dict[str, Any]):
        self._sandbox = LocalSandbox(**options)
        self._desk = agent.Desk(self._sandbox)

    def isolation(self) -> tuple[bytes, bytes]:
        """What protects the node, or why it is too little."""
        try:
            return agent.READY, agent.isolation_to_bytes(self._sandbox.isolation())
        except ExtError as error:
            return agent.FAILED, str(error).encode()

    def begin(self, number: int, job: bytes) -> tuple[bytes, bytes]:
        """Begin a job; see [`~trl_grpo_ext.sandbox.agent.Desk`]."""
        return self._desk.begin(number, job)

    def next(self, number: int) -> tuple[bytes, bytes]:
        """Go on with a job; see [`~trl_grpo_ext.sandbox.agent.Desk`]."""
        return self._desk.next(number)

    def end(self, number: int) -> None:
        """No more of a job is wanted."""
        self._desk.close(number)

    def close(self) -> None:
        """End every process."""
        self._sandbox.close()


class RaySandbox(OneWay):
    """
    Runs programs on a Ray cluster.

    Args:
        address (`str`, *optional*):
            Address of the cluster; by default the one this process is connected to, or else the one that Ray finds,
            or else this machine alone. A connection that it made, or a Ray that it started, ends with the sandbox.
        actors (`int`, *optional*):
            How many actors, spread over the nodes; one on each node by default.
        workers_per_actor (`int`, *optional*, defaults to `4`):
            Programs that run at once on one actor.
        cpus_per_actor (`float`, *optional*, defaults to `0.0`):
            Processors that Ray sets aside for an actor. A training run has often reserved all of them, and an actor
            that needs some would wait for ever.
        runtime_env (`dict`, *optional*):
            Ray's description of what the nodes need, if this package is not installed on them.
        **options:
            Others of [`SandboxOptions`]; they are for the sandboxes on the nodes.

    Raises:
        [`~errors.ConfigError`]: if an option is unknown or has a wrong value, or Ray is not installed.
    """

    def __init__(
        self,
        address: str | None = None,
        actors: int | None = None,
        workers_per_actor: int = 4,
        cpus_per_actor: float = 0.0,
        runtime_env: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        checked = SandboxOptions.parse(options)
        if checked.workers is not None:
            raise ConfigError("the sandbox 'ray' has no option 'workers'; did you mean 'workers_per_actor'?")
        for name, value in (("actors", actors), ("workers_per_actor", workers_per_actor)):
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(f"{name} is {value!r}; it must be a whole number of 1 or more")
        self.options = {**options, "workers": workers_per_actor}
        self._ray = _ray()
        self._checked = checked
        self._connected = not self._ray.is_initialized()
        if self._connected:
            self._connect(address)
        self._placed = self._places(actors)
        self._resources: dict[str, Any] = {
            "num_cpus": cpus_per_actor,
            "max_concurrency": workers_per_actor + _SPARE_CALLS,
        }
        if runtime_env is not None:
            self._resources["runtime_env"] = dict(runtime_env)
        self._actors: list[Any] = [None] * len(self._placed)
        self._starting = [threading.Lock() for _ in self._placed]
        self._slots = [threading.BoundedSemaphore(workers_per_actor) for _ in self._placed]
        self._turns = itertools.count()
        self._numbers = itertools.count(1)
        self.workers = workers_per_actor * len(self._placed)

    def isolation(self) -> Isolation:
        """
        What protects the weakest of the nodes.

        Raises:
            [`~errors.SandboxError`]: if it is less than the options ask for, or an actor does not start.
        """
        found = []
        for place in range(len(self._placed)):
            kind, payload = self._get(place, self._actor(place).isolation.remote(), _START_SECONDS)
            if kind == agent.FAILED:
                raise SandboxError(f"on a node of the cluster, {payload.decode(errors='replace')}")
            found.append(agent.isolation_from_bytes(payload))
        return min(found, key=lambda isolation: list(LEVELS).index(isolation.level))

    def close(self) -> None:
        """End every actor, what it started, and the connection to the cluster if this made it."""
        for place, actor in enumerate(self._actors):
            if actor is not None and self._ray.is_initialized():
                self._ray.kill(actor)
            self._actors[place] = None
        if self._connected:
            self._connected = False
            self._ray.shutdown()

    def _connect(self, address: str | None) -> None:
        try:
            self._ray.init(address=address, log_to_driver=False)
        except Exception as error:  # whatever Ray may raise: it is about the cluster
            raise SandboxError(f"there is no connection to the Ray cluster at {address!r} ({error})") from None

    def _places(self, actors: int | None) -> list[Any]:
        """For each actor, what tells Ray where to put it."""
        if actors is not None:
            return ["SPREAD"] * actors
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        return [strategy(node_id=node, soft=False) for node in nodes]

    def _actor(self, place: int) -> Any:
        if not self._ray.is_initialized():  # Ray would start itself at the first call
            raise SandboxError("the connection to the Ray cluster is closed; open the sandbox again")
        with self._starting[place]:
            if self._actors[place] is None:
                made = self._ray.remote(Post).options(scheduling_strategy=self._placed[place], **self._resources)
                self._actors[place] = made.remote(self.options)
            return self._actors[place]

    def _get(self, place: int, reference: Any, seconds: float) -> tuple[bytes, bytes]:
        """Wait for an answer; an actor that gives none is not asked again."""
        actor = self._actors[place]
        try:
            return self._ray.get(reference, timeout=seconds)
        except Exception as error:  # the actor died, or its node, or the connection, or what it ran raised
            with self._starting[place]:
                if self._actors[place] is actor:
                    self._actors[place] = None
            if actor is not None and self._ray.is_initialized():
                self._ray.kill(actor)
            said = f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"
            raise Unavailable(f"an actor of the sandbox failed ({said})") from None

    def _do(self, job: Any) -> Iterator[Any]:
        data = agent.job_to_bytes(job)
        with self._turn() as place:
            yield from resumed(lambda: self._attempt(place, data, longest_seconds(job, self._checked)), _ATTEMPTS)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[int]:
        """A free worker: of the actor whose turn it is, or of any other before this waits."""
        first = next(self._turns) % len(self._slots)
        in_turn = (*range(first, len(self._slots)), *range(first))
        place = next((place for place in in_turn if self._slots[place].acquire(blocking=False)), None)
        if place is None:
            place = first
            self._slots[place].acquire()
        try:
            yield place
        finally:
            self._slots[place].release()

    def _attempt(self, place: int, data: bytes, patience: float) -> Iterator[Result]:
        actor, number = self._actor(place), next(self._numbers)
        # The first call waits for the actor to start.
        kind, payload = self._get(place, actor.begin.remote(number, data), patience + _START_SECONDS)
        try:
            while kind == agent.RESULT:
                try:
                    yield agent.result_from_bytes(payload)
                except agent.Closed as error:
                    raise Unavailable(f"an actor of the sandbox failed: {error}") from None
                kind, payload = self._get(place, actor.next.remote(number), patience)
        finally:
            if kind == agent.RESULT:
                actor.end.remote(number)
        if kind == agent.FAILED:  # it has tried several times
            raise SandboxError(f"on a node of the cluster, {payload.decode(errors='replace')}")


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise ConfigError("the sandbox 'ray' needs Ray: pip install 'trl-grpo-ext[ray]'") from None
    return ray
