"""What a worker does with the program it is given: run it, or load it and answer calls of its functions.

A worker is a fresh process for one program. Everything in here shares that process with the program, which may read
and change all of it: nothing a worker says is more than a claim of the program. Tests, expected values and anything
else that is worth stealing never come here.
"""

import atexit
import builtins
import io
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.sandbox.codec import CodecError, encode
from trl_grpo_ext.sandbox.inside import rlimits
from trl_grpo_ext.sandbox.inside.channel import Channel, ChannelClosed
from trl_grpo_ext.sandbox.jobs import Limits


MODULE = "candidate"  # the name of a program that is not run as a script; `if __name__ == "__main__"` does not fire
_MUTABLE = (list, dict, set, bytearray)
_STDIN_PATHS = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
# What a live object may be asked without telling it anything but what it is asked for. Comparisons are not among them.
SPECIALS = tuple(
    f"__{name}__"
    for name in (
        *("call", "iter", "next", "len", "getitem", "setitem", "delitem", "await", "enter", "exit", "str", "repr"),
        *("int", "float", "index", "neg", "pos", "abs", "invert", "reversed", "round"),
    )
)
# Asked only with another live object as operand: a plain operand may be the expected value.
BINARY_SPECIALS = tuple(
    f"__{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
)
# The classes that a program may hand out by name. No function is among them, and no exception that is a failed test.
PLAIN_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, object),
        *(ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, AttributeError, RuntimeError, LookupError),
        *(ArithmeticError, OverflowError, NotImplementedError, StopIteration, OSError, NameError, RecursionError),
    )
}
_PLAIN_BASES = (int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_SIMPLE = (str, bytes, int, float, bool, type(None))
_TYPE_NAME = type.__dict__["__name__"]
_OBJECT_STR = object.__str__, object.__repr__


def apply_limits(limits: dict[str, Any]) -> None:
    """Set the limits of the kernel that depend on the job."""
    wanted = Limits(**limits)
    rlimits.apply(
        memory_bytes=wanted.memory_mb << 20,
        cpu_seconds=None,  # the host's clock sees to it; a filter forbids programs to set this limit, for it may kill
        file_bytes=max(wanted.file_bytes, wanted.output_bytes + 1),  # to see that it would print more
        open_files=wanted.open_files,
    )


def one_line(error: BaseException) -> str:
    """An exception in one line, whatever its author did to `__str__`."""
    name = _TYPE_NAME.__get__(type(error))
    try:
        text = str(error)
    except BaseException:
        text = "(its text could not be made)"
    return f"{name}: {text}"[:500] if text else name


def ended_by(error: BaseException) -> str:
    """The key of `ENDED` for an exception of the program."""
    return "memory" if isinstance(error, MemoryError) else "raised"


# ------------------------------------------------------------------------------------------------------------ running


def run(channel: Channel, descriptors: list[int], source: str, limits: dict[str, Any]) -> None:
    """
    Run a program as a script, report how it ended, and end the process.

    Args:
        channel (`Channel`):
            Where the report goes.
        descriptors (`list[int]`):
            Its standard input and output.
        source (`str`):
            The program.
        limits (`dict`):
            Fields of [`~trl_grpo_ext.sandbox.jobs.Limits`].
    """
    for standard, given in enumerate(descriptors):
        os.dup2(given, standard)
        os.close(given)
    apply_limits(limits)
    _open_standard_streams()
    if any(path in source for path in _STDIN_PATHS):
        _open_stdin_by_path()
    code, ended, note = 0, "ok", ""
    namespace = _new_module("__main__", "main.py")
    try:
        _execute(source, namespace)
        threading._shutdown()  # type: ignore[attr-defined]  # a script waits for its threads, too
    except SystemExit as error:
        code, note = _exit_code(error)
    except BaseException as error:
        code, ended, note = 1, ended_by(error), one_line(error)
    try:
        atexit._run_exitfuncs()
        namespace.clear()  # files that the program has left open are written when they go
        for stream in (sys.stdout, sys.__stdout__):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException as error:
        code, ended, note = 1, ended_by(error), one_line(error)
    if code and ended == "ok":
        ended, note = "exited", note or f"exit code {code}"
    try:
        channel.send((ended, note))
    finally:
        os._exit(code)


def _exit_code(error: SystemExit) -> tuple[int, str]:
    if error.code is None or error.code is False:
        return 0, ""
    if isinstance(error.code, int):
        return error.code & 255, ""
    return 1, one_line(error)


def _open_standard_streams() -> None:
    """New text streams: those of the warmed interpreter know the files it was started with."""
    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w")):
        stream = os.fdopen(descriptor, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _open_stdin_by_path() -> None:
    """There is no /proc to find descriptors by; programs that use such a path mean descriptor 0."""
    real_open = builtins.open

    def open(file, *arguments, **options):
        return real_open(0 if file in _STDIN_PATHS else file, *arguments, **options)

    builtins.open = io.open = open  # type: ignore[assignment]


def _new_module(name: str, filename: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # dataclasses and pickling look a class's module up
    sys.argv = [filename]
    return module.__dict__


def _execute(source: str, namespace: dict[str, Any]) -> None:
    code = compile(source, namespace["__file__"], "exec", dont_inherit=True)
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(sys.getrecursionlimit() + depth)  # programs find the depth that they would find alone
    exec(code, namespace)


# ------------------------------------------------------------------------------------------------------------ serving


class Callback:
    """Stands in the program for a function of the tests."""

    def __init__(self, server: "Server", number: int, name: str):
        self._server, self._number = server, number
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments, **options):
        return self._server.ask("callback", self._number, arguments, options)


class Source:
    """Stands in the program for an iterator of the tests."""

    def __init__(self, server: "Server", number: int):
        self._server, self._number = server, number

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        more, value = self._server.ask("next", self._number)
        if more:
            return value
        raise StopIteration


class Server:
    """
    Holds a loaded program and answers requests about it.

    Args:
        channel (`Channel`):
            Where requests come from.
    """

    def __init__(self, channel: Channel):
        self.channel = channel
        channel.outgoing, channel.incoming = self._outgoing, self._incoming
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._namespace: dict[str, Any] = {}
        self._asking = threading.RLock()

    def serve(self, source: str, limits: dict[str, Any]) -> None:
        """Load the program, then answer until the other side goes away."""
        apply_limits(limits)
        failure = None
        self._namespace = _new_module(MODULE, "candidate.py")
        try:
            _execute(source, self._namespace)
        except BaseException as error:
            # A script that ends itself peacefully has defined what it had to define.
            if not (isinstance(error, SystemExit) and _exit_code(error)[0] == 0):
                failure = ("failed", ended_by(error), one_line(error))
        while True:
            try:
                request = self.channel.receive()
            except ChannelClosed:
                return
            self._reply(failure or self._answer(request))

    def ask(self, *request: Any) -> Any:
        """Ask the other side for something, answering what it asks meanwhile."""
        with self._asking:
            self.channel.send(request)
            while True:
                message = self.channel.receive()
                if message[0] == "given":
                    return message[1]
                if message[0] == "refused":
                    raise _exception(message[1], message[2])
                self._reply(self._answer(message))

    def _reply(self, reply: tuple) -> None:
        try:
            self.channel.send(reply)
        except ChannelClosed:
            raise
        except BaseException as error:  # its attributes are asked for, and may be anything
            self.channel.send(("unfit", one_line(error)))

    def _answer(self, request: tuple) -> tuple:
        try:
            return getattr(self, f"_do_{request[0]}")(*request[1:])
        except BaseException as error:
            return self._raised(error)

    def _do_names(self, names: list[str], function: str | None) -> tuple:
        found = {name: self._namespace[name] for name in names if name in self._namespace}
        if function is not None:
            found.pop(function, None)
            candidate = self._function(function)
            if candidate is None:
                return ("failed", "missing", f"the program defines no {function}")
            found[function] = candidate
        return ("value", {name: self._portable(value) for name, value in found.items()}, None)

    def _function(self, name: str) -> Any:
        if name in self._namespace:
            return self._namespace[name]
        solution = self._namespace.get("Solution")
        return getattr(solution(), name, None) if isinstance(solution, type) else None

    def _portable(self, value: Any) -> Any:
        """A variable's value, if it can cross: a function or an object does by reference, a bottomless list not."""
        try:
            encode(value, self._outgoing)
        except CodecError:
            return None
        return value

    def _do_invoke(self, function: str, arguments: tuple) -> tuple:
        candidate = self._function(function)
        if candidate is None:
            return ("failed", "missing", f"the program defines no {function}")
        return ("value", candidate(*arguments), None)

    def _do_call(self, number: int, arguments: tuple, options: dict[str, Any]) -> tuple:
        result = self._objects[number](*arguments, **options)
        # What a function did to its arguments is shown only where that is all it did: a test that computes the
        # expected value from an argument must not be handed one that fits the answer.
        changed = result is None and any(isinstance(value, _MUTABLE) for value in (*arguments, *options.values()))
        return ("value", result, (arguments, options) if changed else None)

    def _do_get(self, number: int, name: str) -> tuple:
        return ("value", getattr(self._objects[number], name), None)

    def _do_set(self, number: int, name: str, value: Any) -> tuple:
        setattr(self._objects[number], name, value)
        return ("value", None, None)

    def _do_special(self, number: int, name: str, arguments: tuple) -> tuple:
        if name == "__await__":
            import asyncio

            return ("value", asyncio.run(_awaited(self._objects[number])), None)
        target = self._objects[number]
        return ("value", getattr(type(target), name)(target, *arguments), None)

    def _do_isinstance(self, number: int, kind: int) -> tuple:
        return ("value", isinstance(self._objects[number], self._objects[kind]), None)

    def _raised(self, error: BaseException) -> tuple:
        kind = _builtin_kind(type(error))
        own = None if kind == type(error).__name__ else self._number(type(error))
        arguments = [value if type(value) in _SIMPLE else str(value) for value in error.args]
        return ("raised", kind, own, tuple(arguments), one_line(error))

    def _number(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _outgoing(self, value: Any) -> tuple[int, str] | None:
        if isinstance(value, Callback):
            return value._number, "back"
        if isinstance(value, type) and PLAIN_TYPES.get(value.__name__) is value:
            return 0, f"builtin:{value.__name__}"
        if isinstance(value, (*_PLAIN_BASES, *_VIEWS)):
            return None
        if type(value).__module__ in ("datetime", "decimal", "fractions", "collections", "numpy"):
            return None
        number, name = self._number(value), getattr(value, "__name__", "")
        if isinstance(value, type) and issubclass(value, BaseException):
            return number, f"exception:{name}:{_builtin_kind(value)}"
        kinds = {"class": type, "coroutine": types.CoroutineType, "iterator": Iterator, "object": object}
        kind = next(kind for kind, base in kinds.items() if isinstance(value, base))
        return number, f"{kind}:{name}:{' '.join(_specials(value))}"

    def _incoming(self, number: int, text: str) -> Any:
        kind, _, name = text.partition(":")
        if kind == "object":
            return self._objects[number]
        if kind == "builtin":
            return getattr(builtins, name)
        return Source(self, number) if kind == "iterator" else Callback(self, number, name)


def builtin_name(value: Any) -> str | None:
    """The name of a builtin type or function, which both sides have of their own."""
    if not isinstance(value, (type, types.BuiltinFunctionType)):
        return None
    name = value.__name__
    return name if getattr(builtins, name, None) is value else None


def _builtin_kind(kind: type) -> str:
    return next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins")


async def _awaited(value: Any) -> Any:
    return await value


def _exception(name: str, note: str) -> BaseException:
    kind = getattr(builtins, name, None)
    return kind(note) if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError(note)


def _specials(value: Any) -> list[str]:
    kind = type(value)
    names = [name for name in (*SPECIALS, *BINARY_SPECIALS) if getattr(kind, name, None) is not None]
    return [name for name in names if getattr(kind, name) not in _OBJECT_STR]
