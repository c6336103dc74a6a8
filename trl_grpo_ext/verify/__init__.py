"""Judges: a reference and a completion in, a [`~trl_grpo_ext.verdict.Verdict`] out. No trainer, no TRL."""

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from trl_grpo_ext.verify.code import CodeOptions, explain_code, verify_code, verify_code_batch
    from trl_grpo_ext.verify.math import MathOptions, explain_math, verify_math, verify_math_batch

_HOME = {
    **dict.fromkeys(("CodeOptions", "explain_code", "verify_code", "verify_code_batch"), "code"),
    **dict.fromkeys(("MathOptions", "explain_math", "verify_math", "verify_math_batch"), "math"),
}

__all__ = [
    "CodeOptions",
    "MathOptions",
    "explain_code",
    "explain_math",
    "verify_code",
    "verify_code_batch",
    "verify_math",
    "verify_math_batch",
]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
