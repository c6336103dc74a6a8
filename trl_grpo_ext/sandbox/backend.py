"""The protocol of sandboxes, and sandboxes by name."""

import atexit
import inspect
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import Registry
from trl_grpo_ext.sandbox.jobs import Called, Calls, Ran, Run, Tested, Tests
from trl_grpo_ext.sandbox.options import Isolation, SandboxOptions, refuse_unknown


class Sandbox(Protocol):
    """
    Something that does jobs. Every method may be called from any thread.

    Results come in order, each as soon as it is there; the caller may close the iterator before its end. After a
    result that ended the job, no more come.

    Attributes:
        workers (`int`):
            Jobs it does at once; more callers wait.
    """

    workers: int

    def run(self, job: Run) -> Iterator[Ran]:
        """
        Run a program, once for each input.

        Raises:
            [`~errors.SandboxError`]: if the machinery failed; never for anything a program did.
        """

    def call(self, job: Calls) -> Iterator[Called]:
        """Call a function of a program. Raises as [`run`] does."""

    def test(self, job: Tests) -> Iterator[Tested]:
        """Run tests about a program. Raises as [`run`] does."""

    def isolation(self) -> Isolation:
        """What protects the host, really."""

    def close(self) -> None:
        """End every process and leave nothing behind."""


class OneWay:
    """A sandbox that does every kind of job in one way, `_do`."""

    def run(self, job: Run) -> Iterator[Ran]:
        """Run a program, once for each input; see [`Sandbox`]."""
        return self._do(job)

    def call(self, job: Calls) -> Iterator[Called]:
        """Call a function of a program; see [`Sandbox`]."""
        return self._do(job)

    def test(self, job: Tests) -> Iterator[Tested]:
        """Run tests about a program; see [`Sandbox`]."""
        return self._do(job)

    def _do(self, job: Any) -> Iterator[Any]:
        raise NotImplementedError


SANDBOXES: Registry[Any] = Registry(
    "sandbox",
    builtins={
        "local": "trl_grpo_ext.sandbox.local:LocalSandbox",
        "docker": "trl_grpo_ext.sandbox.containers:DockerSandbox",
        "podman": "trl_grpo_ext.sandbox.containers:PodmanSandbox",
        "sandbox_fusion": "trl_grpo_ext.sandbox.remote:SandboxFusion",
        "piston": "trl_grpo_ext.sandbox.remote:PistonSandbox",
        "ray": "trl_grpo_ext.sandbox.cluster:RaySandbox",
    },
    entry_point_group="trl_grpo_ext.sandboxes",
)


class _Shared:
    """Open sandboxes by what was asked for."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Sandbox] = {}
        self._lock = threading.Lock()
        self._closed_at_exit = False

    def get(self, key: str, make: Callable[[], Sandbox]) -> Sandbox:
        with self._lock:
            if key not in self._sandboxes:
                self._sandboxes[key] = make()
                if not self._closed_at_exit:
                    atexit.register(self.close)
                    self._closed_at_exit = True
            return self._sandboxes[key]

    def close(self) -> None:
        with self._lock:
            while self._sandboxes:
                self._sandboxes.popitem()[1].close()


# Of the whole process: rewards and judges know nothing of each other, and a pool of workers for each of them would be
# several times as many processes as the machine has processors.
_shared = _Shared()


def open_sandbox(spec: "str | Mapping[str, Any] | None" = None) -> Sandbox:
    """
    Return the sandbox that a specification names: the same one for the same specification, until the process ends.

    An installed package adds a sandbox by an entry point of the group `trl_grpo_ext.sandboxes`: a name, and a class
    with the methods of [`Sandbox`], such as `mine = "my_package.sandbox:MySandbox"`. The parameters of the class are
    its options; `**options` stands for those of its bases and of [`SandboxOptions`]. Without an entry point,
    `"my_package.sandbox:MySandbox"` is a name, too.

    Args:
        spec (`str` or `dict`, *optional*):
            A name, or a mapping with the key `name` and the options of that sandbox; `"local"` by default.

    Returns:
        [`Sandbox`]

    Raises:
        [`~errors.ConfigError`]: if there is no such sandbox or option.
        [`~errors.SandboxError`]: if it cannot be started, or not with the isolation that is asked for.

    Example:
    ```python
    >>> from trl_grpo_ext.sandbox import Run, open_sandbox

    >>> [ran.output for ran in open_sandbox().run(Run("print(int(input()) ** 2)", ("7", "8")))]
    ['49\\n', '64\\n']
    ```
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec or {})
    name = options.pop("name", "local")
    try:
        key = json.dumps([name, options], sort_keys=True, default=list)
    except TypeError as error:
        raise ConfigError(f"the sandbox's options {options!r} are no plain data ({error})") from None
    return _shared.get(key, lambda: _make(name, options))


def close_sandboxes() -> None:
    """End every sandbox that [`open_sandbox`] opened."""
    _shared.close()


def _make(name: str, options: dict[str, Any]) -> Sandbox:
    kind = SANDBOXES.get(name)
    parameters = inspect.signature(kind).parameters.values()
    sources = [kind]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        sources += [*getattr(kind, "__mro__", ())[1:], SandboxOptions]
    known = [option.name for source in sources for option in _options(source)]
    refuse_unknown(f"the sandbox {name!r}", options, list(dict.fromkeys(known)))
    for option in _options(kind):
        if option.default is option.empty and option.name not in options:
            raise ConfigError(f"the sandbox {name!r} needs the option {option.name!r}")
    return kind(**options)


def _options(kind: Any) -> list[inspect.Parameter]:
    """What can be given by name."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [option for option in inspect.signature(kind).parameters.values() if option.kind in by_name]
