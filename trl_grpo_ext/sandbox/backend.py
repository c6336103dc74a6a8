"""The protocol of sandboxes, and sandboxes by name."""

import atexit
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import Registry
from trl_grpo_ext.sandbox.jobs import Called, Calls, Ran, Run, Tested, Tests
from trl_grpo_ext.sandbox.options import Isolation


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

_open: dict[str, Sandbox] = {}
_opening = threading.Lock()


def open_sandbox(spec: "str | Mapping[str, Any] | None" = None) -> Sandbox:
    """
    Return the sandbox that a specification names: the same one for the same specification, until the process ends.

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
    with _opening:
        if key not in _open:
            kind = SANDBOXES.get(name)
            try:
                _open[key] = kind(**options)
            except TypeError as error:
                raise ConfigError(f"the sandbox {name!r} cannot be made with {options!r}: {error}") from None
        return _open[key]


@atexit.register
def close_sandboxes() -> None:
    """End every sandbox that [`open_sandbox`] opened."""
    while _open:
        _open.popitem()[1].close()
