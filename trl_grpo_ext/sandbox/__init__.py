"""Run untrusted programs: under limits, without the host's files, processes and network, and with honest reports.

A sandbox knows jobs ([`Run`], [`Calls`], [`Tests`]) and nothing of rewards. Importing this package starts nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from trl_grpo_ext.sandbox.backend import SANDBOXES, Sandbox, close_sandboxes, open_sandbox
    from trl_grpo_ext.sandbox.jobs import ENDED, Called, Calls, Limits, Ran, Run, Tested, Tests
    from trl_grpo_ext.sandbox.options import LEVELS, Isolation, SandboxOptions

_HOME = {
    **dict.fromkeys(("SANDBOXES", "Sandbox", "close_sandboxes", "open_sandbox"), "backend"),
    **dict.fromkeys(("ENDED", "Called", "Calls", "Limits", "Ran", "Run", "Tested", "Tests"), "jobs"),
    **dict.fromkeys(("LEVELS", "Isolation", "SandboxOptions"), "options"),
}

__all__ = [
    "ENDED",
    "LEVELS",
    "SANDBOXES",
    "Called",
    "Calls",
    "Isolation",
    "Limits",
    "Ran",
    "Run",
    "Sandbox",
    "SandboxOptions",
    "Tested",
    "Tests",
    "close_sandboxes",
    "open_sandbox",
]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
