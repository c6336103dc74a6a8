"""What a sandbox can be asked, and what it answers: plain data, the same for every backend.

Three jobs. [`Run`] runs a program once for each input and returns what it printed. [`Calls`] loads a program and calls
one of its functions. [`Tests`] loads a program, and runs assertions about it in a second process that sees the
program's functions as proxies only. None of them says what is right: that is the caller's to decide.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from trl_grpo_ext.errors import ConfigError


Ended = Literal["ok", "raised", "exited", "timeout", "memory", "output", "missing", "unusable"]
# Two days, a terabyte, and what descriptors and files can be: far beyond, the kernel's own numbers overflow.
_MOST = {
    "seconds": 1_000_000,
    "memory_mb": 1 << 20,
    "output_bytes": 1 << 40,
    "file_bytes": 1 << 40,
    "open_files": 1 << 20,
}
ENDED: dict[str, str] = {
    "ok": "it came to its end",
    "raised": "it raised an exception, or does not compile",
    "exited": "it ended its process, or its process crashed",
    "timeout": "it used up its time",
    "memory": "it used up its memory",
    "output": "it printed or returned more than is allowed, or something that is no plain data",
    "missing": "the function that was asked for is not there",
    "unusable": "the tests themselves cannot be run; this says nothing about the program",
}


@dataclass(frozen=True)
class Limits:
    """
    What one job may use.

    Args:
        seconds (`float`, *optional*, defaults to `5.0`):
            Time of the whole job, all inputs, calls or tests together: of the processor, or on the clock where the
            machine is free. A job that waits instead of working may take half as long again, and one that a busy
            machine keeps waiting four times as long.
        memory_mb (`int`, *optional*, defaults to `1024`):
            Address space of a process, in MiB.
        output_bytes (`int`, *optional*, defaults to `16 MiB`):
            What one run may print. A value that is returned may take 32 MiB, whatever this says.
        file_bytes (`int`, *optional*, defaults to `32 MiB`):
            Size of a file that a job writes, or `output_bytes` if that is more; the folder as a whole holds 32 MiB.
        open_files (`int`, *optional*, defaults to `64`):
            Descriptors of a process.

    Raises:
        [`~errors.ConfigError`]: if a value is no number that makes sense.
    """

    seconds: float = 5.0
    memory_mb: int = 1024
    output_bytes: int = 16 << 20
    file_bytes: int = 32 << 20
    open_files: int = 64

    def __post_init__(self):
        least = {"seconds": 0.001, "memory_mb": 64, "output_bytes": 0, "file_bytes": 0, "open_files": 16}
        for name, value in asdict(self).items():
            if type(value) not in (int, float) or not least[name] <= value <= _MOST[name]:
                raise ConfigError(f"the limit {name} is {value!r}; it must be from {least[name]} to {_MOST[name]}")


@dataclass(frozen=True)
class Run:
    """
    Run a program once for each input, each time in a process of its own.

    Args:
        source (`str`):
            The program.
        inputs (`tuple[str, ...]`):
            What it finds on its standard input.
        language (`str`, *optional*, defaults to `"python"`):
            A name in `LANGUAGES`.
        limits ([`Limits`], *optional*):
            Limits of the job.
    """

    source: str
    inputs: tuple[str, ...]
    language: str = "python"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Ran:
    """
    How one run ended.

    Args:
        ended (`str`):
            A key of `ENDED`.
        output (`str`, *optional*, defaults to `""`):
            What it printed until then.
        note (`str`, *optional*, defaults to `""`):
            One line of detail, such as the exception; written by the program, so never to be trusted.
        seconds (`float`, *optional*, defaults to `0.0`):
            Time on the clock.
    """

    ended: Ended
    output: str = ""
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Calls:
    """
    Load a Python program once and call one of its functions several times, in order.

    Args:
        source (`str`):
            The program.
        function (`str`):
            Name of the function; a method of a class `Solution` counts as well.
        arguments (`tuple[tuple, ...]`):
            Positional arguments of each call: plain data.
        limits ([`Limits`], *optional*):
            Limits of the job.
    """

    source: str
    function: str
    arguments: tuple[tuple[Any, ...], ...]
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Called:
    """
    What one call gave.

    Args:
        ended (`str`):
            A key of `ENDED`; anything but `"ok"` and `"raised"` ended the whole job.
        value (*optional*):
            What it returned: plain data of exact builtin types, rebuilt on this side.
        note (`str`, *optional*, defaults to `""`):
            One line of detail, never to be trusted.
    """

    ended: Ended
    value: Any = None
    note: str = ""


@dataclass(frozen=True)
class Tests:
    """
    Load a Python program, and run assertions about it in a second process, in order, in one namespace.

    Args:
        source (`str`):
            The program.
        tests (`tuple[str, ...]`):
            Python statements; one that raises has failed.
        setup (`str`, *optional*, defaults to `""`):
            Python statements that are run before the tests.
        helpers (`str`, *optional*, defaults to `""`):
            Python statements that stand before the program as well. The tests find the functions of these here, where
            a program cannot change them, and the classes of these in the program, whose objects they are about.
        function (`str`, *optional*):
            The function the tests are about. It is found even where its name is that of a builtin.
        until_failure (`bool`, *optional*, defaults to `False`):
            Whether to stop at the first test that fails.
        limits ([`Limits`], *optional*):
            Limits of the job.
    """

    source: str
    tests: tuple[str, ...]
    setup: str = ""
    helpers: str = ""
    function: str | None = None
    until_failure: bool = False
    limits: Limits = field(default_factory=Limits)
    __test__: ClassVar[bool] = False  # not for pytest


@dataclass(frozen=True)
class Tested:
    """
    How one test ended.

    Args:
        ended (`str`):
            `"ok"`: it passed. `"raised"`: it failed. Anything else ended the whole job.
        note (`str`, *optional*, defaults to `""`):
            One line of detail: what was called and what came back.
    """

    ended: Ended
    note: str = ""
    __test__: ClassVar[bool] = False


Job = Run | Calls | Tests
Result = Ran | Called | Tested
_JOBS: dict[str, type] = {"run": Run, "calls": Calls, "tests": Tests}
_RESULTS: dict[str, type] = {"ran": Ran, "called": Called, "tested": Tested}


def to_plain(thing: Job | Result) -> dict[str, Any]:
    """A job or a result as plain data, for a backend that has to send it somewhere."""
    return {"kind": type(thing).__name__.lower(), **asdict(thing)}


def job_from_plain(plain: dict[str, Any]) -> Job:
    """The reverse of [`to_plain`] for a job."""
    fields = {**plain, "limits": Limits(**plain["limits"])}
    kind = fields.pop("kind")
    for name in ("inputs", "tests"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if "arguments" in fields:
        fields["arguments"] = tuple(map(tuple, fields["arguments"]))
    return _JOBS[kind](**fields)


def result_from_plain(plain: dict[str, Any]) -> Result:
    """The reverse of [`to_plain`] for a result."""
    fields = dict(plain)
    return _RESULTS[fields.pop("kind")](**fields)
