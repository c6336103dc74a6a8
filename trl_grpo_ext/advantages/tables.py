"""Nested lists to tensors and back: `None` and padding are NaN."""

import math
from typing import Any

import torch

from trl_grpo_ext.errors import DataError


def to_table(nested: Any, name: str, dims: int | None = None, text: bool = True) -> torch.Tensor:
    """
    Turn nested lists into a float64 tensor. Groups must have one size; the lists inside them are padded with NaN.

    Args:
        nested (`list` or `float`):
            A number, or numbers, booleans, strings or `None` in up to three levels of lists: groups, completions, and
            tokens, steps or components. Strings become numbers, equal ones the same number.
        name (`str`):
            What the values are, for error messages.
        dims (`int`, *optional*):
            Number of levels; by default as deep as the lists go.
        text (`bool`, *optional*, defaults to `True`):
            Whether values may be strings.

    Raises:
        [`~errors.DataError`]: if groups have different sizes, or a value is not one of these.
    """
    nested = _as_lists(nested)
    depth = _depth(nested)
    dims = depth if dims is None else dims
    if depth > dims or (dims > 1 and not all(isinstance(group, (list, tuple)) for group in nested)):
        raise DataError(f"{name}: lists are nested {depth} deep; expected {dims}, groups of completions first")
    codes: dict[str, float] | None = {} if text else None
    if dims == 0:
        return torch.tensor(_number(nested, name, codes), dtype=torch.float64)
    if dims == 1:
        return torch.tensor([_number(value, name, codes) for value in nested], dtype=torch.float64)
    sizes = {len(group) for group in nested}
    if len(sizes) > 1:
        raise DataError(f"{name}: groups have different sizes {sorted(sizes)}; every group needs the same number")
    if dims == 2:
        rows = [[_number(value, name, codes) for value in group] for group in nested]
        return torch.tensor(rows, dtype=torch.float64).view(len(nested), -1)
    for group in nested:
        for inner in group:
            if inner is not None and not isinstance(inner, (list, tuple)):
                raise DataError(f"{name}: expected a list of values for each completion, found {inner!r}")
    width = max((len(inner or ()) for group in nested for inner in group), default=0)
    table = torch.full((len(nested), sizes.pop() if sizes else 0, width), math.nan, dtype=torch.float64)
    for i, group in enumerate(nested):
        for j, inner in enumerate(group):
            values = [_number(value, name, codes) for value in inner or ()]
            table[i, j, : len(values)] = torch.tensor(values, dtype=torch.float64)
    return table


def to_lists(table: torch.Tensor, like: list | None = None) -> list:
    """
    Turn a tensor into nested lists, NaN into `None`; with `like`, the innermost lists get the lengths they have there.
    """
    nested = table.tolist()
    if like is None:
        return [[None if math.isnan(value) else value for value in group] for group in nested]
    return [
        [values[: len(inner or ())] for values, inner in zip(group, lengths, strict=True)]
        for group, lengths in zip(nested, like, strict=True)
    ]


def is_ragged(value: Any) -> bool:
    """Whether a value holds three levels of lists: groups, completions, tokens."""
    return not isinstance(value, torch.Tensor) and _depth(value) == 3


def _as_lists(nested: Any) -> Any:
    """Arrays and tensors inside of lists become lists."""
    if isinstance(nested, (list, tuple)):
        return [_as_lists(inner) for inner in nested]
    return nested.tolist() if hasattr(nested, "tolist") else nested


def _depth(nested: Any) -> int:
    if not isinstance(nested, (list, tuple)):
        return 0
    return 1 + max((_depth(inner) for inner in nested), default=0)


def _number(value: Any, name: str, codes: dict[str, float] | None) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str) and codes is not None:
        return codes.setdefault(value, float(len(codes)))
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise DataError(f"{name}: expected a number, found {value!r}")
    return float(value)
