"""The run report: one self-contained page and its figures, made from the run directory alone.

Names are loaded when they are used: reading a run needs no matplotlib, which takes a second to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from trl_grpo_ext.report.page import build_report
    from trl_grpo_ext.report.run import read_run, summary

_HOME = {"build_report": "page", "read_run": "run", "summary": "run"}

__all__ = ["build_report", "read_run", "summary"]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
