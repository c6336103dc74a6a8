"""Proxies: what the tests hold of functions, classes and objects that live in the program's process."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from trl_grpo_ext.sandbox.inside.worker import BINARY_SPECIALS, SPECIALS


class Asker(Protocol):
    """Who puts the questions of proxies to the program's process."""

    exhausted: set[int]

    def ask(self, *request: Any, flow: bool = False) -> Any:
        """Ask something; `flow` says whether the end of an iteration may be the answer."""

    def call(self, number: int, name: str, arguments: tuple, options: dict[str, Any]) -> Any:
        """Call a function."""


class Live:
    """
    Stands in the tests for an object of the program.

    Args:
        asker (`Asker`):
            Who asks.
        number (`int`):
            The object's number in the program's process.
        name (`str`):
            Its name, where it has one.
    """

    def __init__(self, asker: Asker, number: int, name: str):
        object.__setattr__(self, "_live", (asker, number, name))

    def __getattr__(self, name: str) -> Any:
        asker, number, own_name = object.__getattribute__(self, "_live")
        if name == "__name__" and own_name:
            return own_name
        if name.startswith("__"):
            raise AttributeError(name)
        return asker.ask("get", number, name)

    def __setattr__(self, name: str, value: Any) -> None:
        asker, number, _ = self._live
        asker.ask("set", number, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Live) and other._live[1] == self._live[1]

    def __hash__(self) -> int:
        return hash(self._live[1])

    def __contains__(self, value: object) -> bool:
        raise TypeError("what is in an object of the program is not asked: it would learn what is looked for")


def live_type(kind: str, specials: Iterable[str], objects: bool) -> type[Live]:
    """
    The type of a proxy.

    Args:
        kind (`str`):
            What the program's process says it is: `"class"`, `"iterator"`, `"coroutine"` or `"object"`.
        specials (`Iterable[str]`):
            Special methods that it is said to have.
        objects (`bool`):
            Whether the tests are about objects of the program's classes. If they are about functions, a result that
            is neither data nor a function can only be called, waited for, entered or, an iterator, used up once: one
            that could be asked twice could answer differently.
    """
    allowed = set(_ALLOWED.get(kind, _ALLOWED["object"]))
    if objects and kind == "object":
        allowed.update(_FORWARD)
    methods = {name: _FORWARD[name] for name in specials if name in allowed}
    if "__len__" in methods:
        methods["__bool__"] = _no_truth
    if kind == "class":
        methods["__instancecheck__"] = _instance
    # Python takes the special methods from the type, and `__hash__` only beside `__eq__`.
    return type("Live", (Live,), {**methods, "__eq__": Live.__eq__, "__hash__": Live.__hash__})


def is_class(value: object) -> bool:
    """Whether a value stands for a class of the program."""
    return isinstance(value, Live) and hasattr(type(value), "__instancecheck__")


async def as_coroutine(live: Any) -> Any:
    """What runs a coroutine insists on a real one."""
    return await live


def _call(self: Live, *arguments: Any, **options: Any) -> Any:
    asker, number, name = self._live
    return asker.call(number, name, arguments, options)


def _unary(special: str) -> Callable:
    def ask(self: Live, *arguments: Any) -> Any:
        asker, number, _ = self._live
        return asker.ask("special", number, special, arguments)

    return ask


def _binary(special: str) -> Callable:
    def ask(self: Live, other: Any) -> Any:
        asker, number, _ = self._live
        return asker.ask("special", number, special, (other,)) if isinstance(other, Live) else NotImplemented

    return ask


def _await(self: Live) -> Iterator:
    asker, number, _ = self._live
    return asker.ask("special", number, "__await__", ())
    yield  # makes this the generator that `await` asks for


def _next(self: Live) -> Any:
    asker, number, _ = self._live
    if number in asker.exhausted:
        raise StopIteration
    try:
        return asker.ask("special", number, "__next__", (), flow=True)
    except StopIteration:
        asker.exhausted.add(number)
        raise


def _exit(self: Live, *error: Any) -> bool:
    # An error of the tests is theirs: the program neither sees nor swallows it.
    asker, number, _ = self._live
    asker.ask("special", number, "__exit__", (None, None, None))
    return False


def _no_truth(self: Live) -> bool:
    raise TypeError("an object of the program that defines its own length or truth has neither here")


def _instance(self: Live, value: object) -> bool:
    asker, number, _ = self._live
    return isinstance(value, Live) and asker.ask("isinstance", value._live[1], number) is True


_FORWARD: dict[str, Callable] = {
    **{name: _unary(name) for name in SPECIALS},
    **{name: _binary(name) for name in BINARY_SPECIALS},
    "__call__": _call,
    "__await__": _await,
    "__next__": _next,
    "__exit__": _exit,
}
_ALLOWED: dict[str, tuple[str, ...]] = {
    "class": ("__call__",),
    "iterator": ("__iter__", "__next__"),
    "coroutine": ("__await__",),
    "object": ("__call__", "__await__", "__enter__", "__exit__", "__str__", "__repr__"),
}
