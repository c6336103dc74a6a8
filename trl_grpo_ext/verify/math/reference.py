"""Can anything be compared with this reference? A reference that nothing can read would make every answer wrong."""

import re
from collections.abc import Callable

from trl_grpo_ext.verify.math.compare import legible
from trl_grpo_ext.verify.math.evaluate import has_pole
from trl_grpo_ext.verify.math.expression import parse, symbols
from trl_grpo_ext.verify.math.families import family
from trl_grpo_ext.verify.math.intervals import real_set
from trl_grpo_ext.verify.math.shapes import Shape, read_shape, solution_set, split, strip_set_builder
from trl_grpo_ext.verify.math.structures import name_and_value
from trl_grpo_ext.verify.math.units import split_unit


_SEPARATOR = re.compile(r"[,:;]")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def cut_off(reference: str) -> bool:
    """Whether a command of a normalised reference was left without the end of its argument."""
    depth = 0
    for token in _BRACE.findall(reference):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth < 0:
            return True
    return depth != 0


def readable(reference: str, reads: Callable[[str], bool]) -> bool:
    """
    Whether a reference is text, a number or a structure of them, or mathematics.

    Args:
        reference (`str`):
            The reference, normalised.
        reads (`Callable`):
            Whether the algebra can read a value.

    Returns:
        `bool`
    """
    if cut_off(reference):
        return False
    if legible(reference):
        return True
    tree = parse(split_unit(reference)[0])
    if tree is not None:
        return bool(symbols(tree)) or not has_pole(tree)
    if family(strip_set_builder(reference)) or real_set(reference):
        return True
    if "\\ldots" in reference:
        return all(readable(part, reads) for part in split(reference.replace("\\ldots", ","), _SEPARATOR))
    solved = solution_set(reference)
    shape = solved[1] if solved else read_shape(strip_set_builder(reference))
    if shape is not None and all(_part_readable(part, reads) for part in shape.parts):
        return True
    name, value = name_and_value(reference)
    if name is not None and readable(value, reads):
        return True
    return reads(split_unit(reference)[0])


def _part_readable(part: Shape | str, reads: Callable[[str], bool]) -> bool:
    if isinstance(part, Shape):
        return all(_part_readable(inner, reads) for inner in part.parts)
    return readable(part, reads)
