"""The one registry class: names to objects, loaded when they are used."""

import difflib
import importlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trl_grpo_ext.errors import ConfigError


T = TypeVar("T")


def nearest_names(name: str, known: list[str], n: int = 3) -> list[str]:
    """Return up to `n` names of `known` that look most like `name`, best first."""
    return difflib.get_close_matches(name, known, n=n, cutoff=0.4)


def import_path(path: str) -> Any:
    """
    Import the object that a dotted path names (`"package.module.attr"` or `"package.module:attr"`).

    Raises:
        [`~errors.ConfigError`]: if the module cannot be imported or has no such attribute.
    """
    module_name, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"cannot import {path!r} ({error}); expected a path like 'package.module.name'") from error


class Registry(Generic[T]):
    """
    Objects by name. Built-ins are import paths that are resolved on first use, so listing names imports nothing.

    Args:
        kind (`str`):
            What the entries are, in the singular, as error messages call them (`"reward"`).
        builtins (`dict[str, str]`):
            Name to `"module:attribute"`.
        entry_point_group (`str`):
            Entry-point group from which installed packages may add entries.
    """

    def __init__(self, kind: str, builtins: dict[str, str], entry_point_group: str):
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._paths = dict(builtins)
        self._objects: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """
        Decorator that adds the decorated object under `name` (lower_snake_case).

        Raises:
            [`~errors.ConfigError`]: if the name is taken or is not lower_snake_case.
        """
        if not name.isidentifier() or name != name.lower():
            raise ConfigError(f"{self.kind} name {name!r} is not lower_snake_case")

        def add(obj: T) -> T:
            taken_by = self._origin(name)
            if taken_by is not None:
                here = f"{obj.__module__}:{getattr(obj, '__qualname__', name)}"
                raise ConfigError(f"{self.kind} {name!r} is registered twice: by {taken_by} and by {here}")
            self._objects[name] = obj
            return obj

        return add

    def names(self) -> list[str]:
        """Every known name, sorted; imports none of the entries."""
        return sorted({*self._paths, *self._objects, *(point.name for point in self._entry_points())})

    def get(self, name: str) -> T:
        """
        Return the entry called `name`; a name with a dot or colon is imported as a path.

        Raises:
            [`~errors.ConfigError`]: if there is no such entry; the message lists the nearest names.
        """
        if name in self._objects:
            return self._objects[name]
        if name in self._paths:
            self._objects[name] = import_path(self._paths[name])
            return self._objects[name]
        for point in self._entry_points():
            if point.name == name:
                self._objects[name] = point.load()
                return self._objects[name]
        if "." in name or ":" in name:
            return import_path(name)
        nearest = nearest_names(name, self.names())
        hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"known: {', '.join(self.names())}"
        raise ConfigError(f"unknown {self.kind} {name!r}; {hint}")

    def _entry_points(self):
        from importlib.metadata import entry_points  # slow to import, and most names are built in

        return entry_points(group=self.entry_point_group)

    def _origin(self, name: str) -> str | None:
        if name in self._objects:
            obj = self._objects[name]
            return f"{obj.__module__}:{getattr(obj, '__qualname__', name)}"
        return self._paths.get(name)
