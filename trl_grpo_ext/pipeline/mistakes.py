"""How a mistake in a recipe is put into words."""

from typing import Any

from trl_grpo_ext.registry import nearest_names


def unknown(what: str, name: Any, known: list[str]) -> str:
    """That `name` is no `what`, and the known name it looks most like."""
    nearest = nearest_names(str(name), known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
    return f"unknown {what} {name!r}; {hint}"


def misfit(annotation: str, value: Any) -> str:
    """That `value` does not fit an annotation."""
    return f"expected {annotation}, got {value!r} ({type(value).__name__})"
