"""What may be asked of a sandbox: how strongly it isolates programs, and how long it may take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names
from trl_grpo_ext.sandbox.jobs import Job
from trl_grpo_ext.sandbox.languages import BUILD_SECONDS


Level = Literal["limits", "seccomp", "restricted", "namespaces"]
LEVELS: dict[str, str] = {
    "limits": "memory, time and files are limited; everything the user may do, a program may do",
    "seccomp": "no processes, no network, no signals to others; the host's files can be read",
    "restricted": "as `seccomp`, and no file of the host can be opened but the interpreter's own (Landlock)",
    "namespaces": "as `restricted`, and other processes, files, users and networks do not exist",
}
MOST_SCALE = 4.0  # by what time limits are multiplied on a slow machine, unless `time_scale` is given
MOST_STRETCH = 4.0  # by what a job that a busy machine keeps waiting may outlast its time
_SPARE_SECONDS = 60.0  # to start interpreters on a busy machine with a cold disk, and to carry a job and its results


@dataclass(frozen=True)
class Isolation:
    """
    What a sandbox really does on this machine.

    Args:
        level (`str`):
            A key of `LEVELS`.
        layers (`dict[str, str]`):
            Each layer of protection: `"on"`, or why it is off.
    """

    level: Level
    layers: Mapping[str, str]

    def __str__(self) -> str:
        off = [f"{name} off ({why})" for name, why in self.layers.items() if why != "on"]
        return f"{self.level}: {LEVELS[self.level]}" + (f"; {'; '.join(off)}" if off else "")


@dataclass(frozen=True)
class SandboxOptions:
    """
    What is asked of the local sandbox.

    Args:
        isolation (`str`, *optional*, defaults to `"required"`):
            `"required"`: refuse to start below the level `minimum`. `"best_effort"`: take what there is.
        minimum (`str`, *optional*, defaults to `"restricted"`):
            A key of `LEVELS`.
        workers (`int`, *optional*):
            Programs that run at once; the number of processors this process may use, by default.
        packages (`tuple[str, ...]`, *optional*, defaults to `()`):
            Installed packages that programs may import, such as `"numpy"`; they are loaded once, when the sandbox
            starts, with the packages they need. By default there is the standard library only: an environment for
            training holds benchmark answers, credentials and whatnot.
        time_scale (`float`, *optional*):
            By what time limits are multiplied. By default a short calculation is timed when the sandbox starts, and
            a slow machine gives more time in proportion, up to four times.

    Raises:
        [`~errors.ConfigError`]: if a value is none of these.
    """

    isolation: Literal["required", "best_effort"] = "required"
    minimum: Level = "restricted"
    workers: int | None = None
    packages: tuple[str, ...] = ()
    time_scale: float | None = None

    def __post_init__(self):
        if self.isolation not in ("required", "best_effort"):
            raise ConfigError(f"isolation is {self.isolation!r}; it must be 'required' or 'best_effort'")
        if self.minimum not in get_args(Level):
            raise ConfigError(f"minimum is {self.minimum!r}; it must be one of {', '.join(LEVELS)}")
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"workers is {self.workers!r}; it must be a whole number of 1 or more")
        scale = 1 if self.time_scale is None else self.time_scale
        if type(scale) not in (int, float) or not 0 < scale <= 100:
            raise ConfigError(f"time_scale is {self.time_scale!r}; it must be a number above 0 and at most 100")
        if not isinstance(self.packages, (list, tuple)) or not all(type(name) is str for name in self.packages):
            raise ConfigError(f"packages is {self.packages!r}; give a list, such as ['numpy']")
        object.__setattr__(self, "packages", tuple(self.packages))

    @classmethod
    def parse(cls, options: "SandboxOptions | Mapping[str, Any] | None") -> "SandboxOptions":
        """Return options from a mapping of them, as a recipe holds it."""
        if isinstance(options, SandboxOptions):
            return options
        refuse_unknown("the sandbox", options or (), [field.name for field in fields(cls)])
        return cls(**(options or {}))


def refuse_unknown(sandbox: str, options: Iterable[str], known: list[str]) -> None:
    """
    Check the names of options.

    Args:
        sandbox (`str`):
            What a message calls the sandbox.
        options (`Iterable[str]`):
            Names that were given.
        known (`list[str]`):
            Names that there are.

    Raises:
        [`~errors.ConfigError`]: if one is not known; the message has the nearest name.
    """
    for name in options:
        if name not in known:
            nearest = nearest_names(name, known)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
            raise ConfigError(f"{sandbox} has no option {name!r}; {hint}")


def longest_seconds(job: Job, options: SandboxOptions) -> float:
    """
    How long a local sandbox elsewhere may take for an answer before it counts as broken.

    Args:
        job ([`~trl_grpo_ext.sandbox.jobs.Job`]):
            What it does.
        options ([`SandboxOptions`]):
            Its options.
    """
    build = 0.0 if getattr(job, "language", "python") == "python" else BUILD_SECONDS
    program = job.limits.seconds * (options.time_scale or MOST_SCALE)
    return MOST_STRETCH * (build + program) + _SPARE_SECONDS
