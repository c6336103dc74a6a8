"""`trl-grpo-ext doctor`: what is installed here, and how well this machine can isolate untrusted programs."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from trl_grpo_ext.stages.commands.parser import Parser


if TYPE_CHECKING:
    from rich.table import Table

    from trl_grpo_ext.sandbox import Sandbox

EXIT_FINE = 0
EXIT_WRONG = 1

_ALSO_NEEDED = ("torch", "transformers", "accelerate", "datasets")  # TRL brings them along
_OPTIONAL = ("vllm", "deepspeed", "peft", "ray", "gguf")
_PROGRAMS = {
    "g++": "C++ programs",
    "rustc": "Rust programs",
    "node": "JavaScript programs",
    "docker": "sandbox docker",
    "podman": "sandbox podman",
    "nvidia-smi": "NVIDIA GPUs",
}
_EPILOG = """exit codes:
  0  fine; what is optional may be missing
  1  something that is needed is missing, or the sandbox of this machine is below
     the default minimum or fails its self check
"""


@dataclass(frozen=True)
class Line:
    """
    One thing that was looked at.

    Args:
        name (`str`):
            What it is.
        found (`str`):
            What was found.
        fine (`bool`, *optional*, defaults to `True`):
            Whether that will do; `None` if it is missing and nothing needs it.
    """

    name: str
    found: str
    fine: bool | None = True


def main(command: str, argv: list[str]) -> int:
    """Print what was found; return 0, or 1 if something is wrong."""
    _parser(command).parse_args(argv)

    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    wrong = 0
    for title, look in _SECTIONS.items():
        lines = list(look())
        wrong += sum(line.fine is False for line in lines)
        console.print(Text(title, style="bold"))
        console.print(_table(lines))
    console.print(f"{wrong} wrong" if wrong else "fine")
    return EXIT_WRONG if wrong else EXIT_FINE


def _parser(command: str) -> Parser:
    from argparse import RawDescriptionHelpFormatter

    return Parser(
        f"trl-grpo-ext {command}",
        description="Look at what is installed here, and at how well programs can be isolated.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )


def _packages() -> Iterator[Line]:
    from packaging.requirements import Requirement

    yield Line("Python", f"{platform.python_version()} ({sys.executable})")
    needed = [Requirement(text) for text in requires("trl-grpo-ext") or []]
    needed = [requirement for requirement in needed if requirement.marker is None]  # the others are extras
    named = [requirement.name for requirement in needed]
    needed += [Requirement(name) for name in _ALSO_NEEDED if name not in named]
    for requirement in needed:
        installed = _version(requirement.name)
        if installed is None:
            yield Line(requirement.name, "not installed", False)
        elif not requirement.specifier.contains(installed, prereleases=True):
            yield Line(requirement.name, f"{installed}; needed is {requirement.specifier}", False)
        else:
            yield Line(requirement.name, installed)
    for name in _OPTIONAL:
        installed = _version(name)
        yield Line(name, installed or "not installed", None if installed is None else True)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[Line]:
    import psutil

    memory = psutil.virtual_memory()
    yield Line("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Line("processors", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}")
    yield Line("memory", f"{memory.total / 2**30:.1f} GiB, {memory.available / 2**30:.1f} GiB of it available")


def _sandbox() -> Iterator[Line]:
    from trl_grpo_ext.errors import SandboxError
    from trl_grpo_ext.sandbox import LEVELS, SandboxOptions, open_sandbox
    from trl_grpo_ext.sandbox.self_check import at_least

    minimum = SandboxOptions().minimum
    box = open_sandbox({"name": "local", "isolation": "best_effort", "workers": 2})
    try:
        isolation = box.isolation()
    except SandboxError as error:
        yield Line("level", f"it does not start: {error}", False)
        return
    enough = at_least(box, minimum)
    below = "" if enough else f"; the default minimum is {minimum!r}, so the reward `code` refuses to start"
    yield Line("level", f"{isolation.level}: {LEVELS[isolation.level]}{below}", enough)
    for name, state in isolation.layers.items():
        yield Line(name, "on" if state == "on" else f"off: {state}", True if state == "on" else None)
    yield from _self_check(box)


def _self_check(box: "Sandbox") -> Iterator[Line]:
    from trl_grpo_ext.sandbox.self_check import self_check

    checks = self_check(box)
    failed = [(name, said) for name, said in checks if said != "ok"]
    yield Line("self check", f"{len(checks) - len(failed)} of {len(checks)} passed", not failed)
    for name, said in failed:
        yield Line(name, said, False)


def _programs() -> Iterator[Line]:
    for name, purpose in _PROGRAMS.items():
        path = shutil.which(name)
        yield Line(name, f"{path or 'not found'} ({purpose})", True if path else None)


_SECTIONS: dict[str, Callable[[], Iterator[Line]]] = {
    "packages": _packages,
    "machine": _machine,
    "local sandbox": _sandbox,
    "programs on the PATH, all optional": _programs,
}


def _table(lines: list[Line]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    marks = {True: Text("✓", "green"), False: Text("✗", "bold red"), None: Text("–", "dim")}
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(marks[line.fine], Text(line.name), Text(line.found))
    return table
