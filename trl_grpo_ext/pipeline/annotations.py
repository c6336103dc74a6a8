"""Does a value from a YAML file fit a type annotation, given as source text?

Text and not types, because the annotations of TRL's configs are read without importing TRL.
"""

import ast
from typing import Any


_PLAIN: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "dict": (dict,),
    "list": (list,),
}


def fits(annotation: str, value: Any) -> bool:
    """
    Whether `value` may be given where `annotation` stands.

    Args:
        annotation (`str`):
            Source text of a type annotation, such as `"list[int] | None"`. A name that is no builtin is taken for an
            enum, whose members are written as text.
        value (`Any`):
            A value as YAML yields it.
    """
    return _fits(ast.parse(annotation, mode="eval").body, value)


def _fits(node: ast.expr, value: Any) -> bool:
    if isinstance(node, ast.BinOp):  # A | B
        return _fits(node.left, value) or _fits(node.right, value)
    if isinstance(node, ast.Constant):
        return fits(node.value, value) if isinstance(node.value, str) else value is node.value
    if isinstance(node, ast.Subscript):
        return _fits_subscript(node, value)
    name = node.id if isinstance(node, ast.Name) else ""
    if name == "Any":
        return True
    if isinstance(value, bool) and name != "bool":  # a bool is an int to isinstance, and never what was meant
        return False
    return isinstance(value, _PLAIN.get(name, (str,)))


def _fits_subscript(node: ast.Subscript, value: Any) -> bool:
    name = node.value.id if isinstance(node.value, ast.Name) else ""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Optional":
        return value is None or _fits(parts[0], value)
    if name == "Union":
        return any(_fits(part, value) for part in parts)
    if name == "Literal":
        choices = [part.value for part in parts if isinstance(part, ast.Constant)]
        return any(value == choice and type(value) is type(choice) for choice in choices)
    if name == "dict":
        return isinstance(value, dict) and all(_fits(parts[1], item) for item in value.values())
    return isinstance(value, list) and all(_fits(parts[0], item) for item in value)  # list[X], tuple[X, ...]
