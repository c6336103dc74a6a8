"""Runs tests about a program that lives in another process.

The tests see the program's functions, classes and objects as proxies. What a proxy returns is plain data, rebuilt
here; what is no plain data is a proxy again. A proxy never asks the program to compare, to hash, or for the truth of a
value, and no operand that is plain data is ever handed to an operator of the program: it may be the expected value.

Covered: the program's objects cannot pass for values; names the tests did not define are looked up among builtins and
the standard library first; a function that returns something cannot change what the tests passed to it.

Not covered: tests that compare the program's objects with `==` fail, even where the program defines a fair `__eq__`;
tests that hand the program objects of their own classes cannot be run. A test that passes for any truthy value passes.
"""

import builtins
import contextlib
import dis
import importlib
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from trl_grpo_ext.sandbox.codec import CodecError
from trl_grpo_ext.sandbox.inside.channel import Channel, ChannelClosed
from trl_grpo_ext.sandbox.inside.worker import BINARY_SPECIALS, SPECIALS, builtin_name, one_line


_SHORT = 120
_MODULE = "tests"
# Where a bare name that the tests use without importing it belongs, if it is one of these modules' public names.
_WELL_KNOWN = (
    *("math", "collections", "itertools", "functools", "decimal", "fractions", "datetime", "operator", "copy"),
    *("heapq", "bisect", "random", "re", "string", "statistics", "typing", "unittest", "cmath", "json"),
)
# Judges in their own right: tests that use one without importing it do not get the program's idea of it.
_ALIASES = {"np": "numpy", "pd": "pandas", "nx": "networkx", "plt": "matplotlib", "pytest": "pytest", "numpy": "numpy"}
_JUDGES = frozenset(
    ("allclose", "approx", "array_equal", "assert_allclose", "assert_array_equal", "assert_equal", "isclose", "raises")
)
_EXTENDED_ARG, *_STORES = (dis.opmap[name] for name in ("EXTENDED_ARG", "STORE_NAME", "STORE_GLOBAL"))
_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit)  # would end a loop of the tests instead of failing it


class Unusable(BaseException):
    """The tests ask for something that cannot be done; no `except Exception` of theirs may hide it."""


class Live:
    """
    Stands in the tests for an object of the program.

    Args:
        tester (`Tester`):
            Who asks.
        number (`int`):
            The object's number in the program's process.
        name (`str`):
            Its name, where it has one.
    """

    def __init__(self, tester: "Tester", number: int, name: str):
        object.__setattr__(self, "_live", (tester, number, name))

    def __getattr__(self, name: str) -> Any:
        tester, number, own_name = object.__getattribute__(self, "_live")
        if name == "__name__" and own_name:
            return own_name
        if name.startswith("__"):
            raise AttributeError(name)
        return tester.ask("get", number, name)

    def __setattr__(self, name: str, value: Any) -> None:
        tester, number, _ = self._live
        tester.ask("set", number, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Live) and other._live[1] == self._live[1]

    def __hash__(self) -> int:
        return hash(self._live[1])


def _call(self: Live, *arguments: Any, **options: Any) -> Any:
    tester, number, name = self._live
    return tester.call(number, name, arguments, options)


def _unary(special: str) -> Callable:
    def ask(self: Live, *arguments: Any) -> Any:
        tester, number, _ = self._live
        return tester.ask("special", number, special, arguments)

    return ask


def _binary(special: str) -> Callable:
    def ask(self: Live, other: Any) -> Any:
        tester, number, _ = self._live
        return tester.ask("special", number, special, (other,)) if isinstance(other, Live) else NotImplemented

    return ask


def _await(self: Live) -> Iterator:
    tester, number, _ = self._live
    return tester.ask("special", number, "__await__", ())
    yield  # makes this the generator that `await` asks for


def _next(self: Live) -> Any:
    tester, number, _ = self._live
    return tester.ask("special", number, "__next__", (), flow=True)


def _no_truth(self: Live) -> bool:
    raise TypeError("an object of the program that defines its own length or truth has neither here")


def _instance(self: Live, value: object) -> bool:
    tester, number, _ = self._live
    return isinstance(value, Live) and tester.ask("isinstance", value._live[1], number) is True


_FORWARD: dict[str, Callable] = {
    **{name: _unary(name) for name in SPECIALS},
    **{name: _binary(name) for name in BINARY_SPECIALS},
    "__call__": _call,
    "__await__": _await,
    "__next__": _next,
}


class TestFile:
    """
    Tests, compiled once and run for one program after another.

    Args:
        helpers, setup, tests, function, until_failure:
            As in [`~trl_grpo_ext.sandbox.jobs.Tests`].
    """

    def __init__(self, helpers: str, setup: str, tests: list[str], function: str | None, until_failure: bool):
        self.function = function
        self.until_failure = until_failure
        self.texts = {"<helpers>": helpers, "<setup>": setup, **{f"<test {i}>": test for i, test in enumerate(tests)}}
        self.fault = ""
        try:
            codes = [compile(text, name, "exec", dont_inherit=True) for name, text in self.texts.items()]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.fault = one_line(error)
            return
        self.helpers, self.setup, *self.tests = codes
        self.used = {name for code in codes for name in _names_used(code)}
        self.defined = {name for code in codes for name in _names_stored(code)}

    def line(self, name: str, number: int) -> str | None:
        """A line of a text of these tests."""
        lines = self.texts.get(name, "").splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else None


class Tester:
    """
    Runs tests about one program and reports how each ended.

    Args:
        tests ([`TestFile`]):
            The tests.
        host (`Channel`):
            Where reports go.
        program (`Channel`):
            The process that holds the program.
    """

    def __init__(self, tests: TestFile, host: Channel, program: Channel):
        self.tests = tests
        self.host = host
        self.program = program
        program.outgoing, program.incoming = self._outgoing, self._incoming
        self._lent: list[Any] = []  # functions and iterators of the tests that the program may use
        self._kinds: dict[tuple[str, str], type] = {}
        self._exceptions: dict[int, type[BaseException]] = {}
        self._last: tuple | None = None
        self._failure: _Failed | None = None

    def run(self) -> None:
        """Run the tests, in order, in one namespace; report each as it ends."""
        if self.tests.fault:
            return self._report(0, "unusable", self.tests.fault)
        namespace: dict[str, Any] = {"__name__": _MODULE, "__builtins__": builtins}
        ended, note = self._one(self.tests.helpers, namespace)
        if ended == "ok":
            ended, note = self._prepare(namespace)
        if ended != "ok":
            return self._report(0, ended, note)
        for index, code in enumerate(self.tests.tests):
            ended, note = self._one(code, namespace)
            self._report(index, ended, note)
            if ended not in ("ok", "raised") or (ended == "raised" and self.tests.until_failure):
                return

    def _prepare(self, namespace: dict[str, Any]) -> tuple[str, str]:
        function = self.tests.function
        try:
            found = self._find(namespace)
        except _Failed as failure:
            return failure.ended, failure.note
        namespace.update(found)
        self._last = None
        ended, note = self._one(self.tests.setup, namespace)
        if ended == "raised" and self._last is None:
            return "unusable", note  # it broke before it had asked the program for anything
        namespace.update({function: found[function]} if function in found else {})  # not a stub of the same name
        return ("exited", note) if ended == "raised" else (ended, note)

    def _report(self, index: int, ended: str, note: str) -> None:
        self.host.send((index, ended, note))

    def _one(self, code: types.CodeType, namespace: dict[str, Any]) -> tuple[str, str]:
        outcome = ("ok", "")
        try:
            exec(code, namespace)
        except Unusable as error:
            return "unusable", str(error)
        except BaseException as error:
            outcome = ("raised", self._explain(error))
        if self._failure is not None:  # a test that catches everything may have caught this
            return self._failure.ended, self._failure.note
        return outcome

    def _explain(self, error: BaseException) -> str:
        line = ""
        trace = error.__traceback__
        while trace is not None:
            line = self.tests.line(trace.tb_frame.f_code.co_filename, trace.tb_lineno) or line
            trace = trace.tb_next
        what = "" if isinstance(error, AssertionError) else f"{one_line(error)} in "
        return f"{what}{line}{self._shown_call()}"

    def _shown_call(self) -> str:
        if self._last is None:
            return ""
        name, arguments, options, outcome = self._last
        shown = [_short(value) for value in arguments] + [f"{key}={_short(value)}" for key, value in options.items()]
        told = "did not return" if outcome is None else f"{outcome[0]} {_short(outcome[1])}"
        return f"; {name}({', '.join(shown)}) {told}"

    # ---------------------------------------------------------------------------------------------------------- names

    def _find(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """What the names stand for that the tests use and do not define; classes of the helpers are the program's."""
        function = self.tests.function
        helpers = {name: value for name, value in namespace.items() if isinstance(value, type)}
        classes = {name for name, value in helpers.items() if value.__module__ == _MODULE}
        found: dict[str, Any] = {}
        wanted = []
        for name in sorted(self.tests.used - (self.tests.defined - classes) - {function}):
            trusted = None if hasattr(builtins, name) or name in classes else _standard(name, function is not None)
            if trusted is not None:
                found[name] = trusted
            elif not (hasattr(builtins, name) or name in _ALIASES or name in _JUDGES):
                wanted.append(name)
        theirs = self.ask("names", wanted, function)
        if type(theirs) is not dict:
            raise self._fail("raised", "the program's process does not answer as agreed")
        return {**found, **{name: value for name, value in theirs.items() if name in wanted or name == function}}

    # -------------------------------------------------------------------------------------------------------- asking

    def call(self, number: int, name: str, arguments: tuple, options: dict[str, Any]) -> Any:
        """Call a function of the program."""
        self._last = (name or "the object", arguments, options, None)
        value, changed = self._request(("call", number, arguments, options), False)
        self._last = (name or "the object", arguments, options, ("returned", value))
        if value is None and type(changed) is tuple and len(changed) == 2:
            for before, after in zip(arguments, changed[0], strict=False):
                _take_over(before, after)
            for key, before in options.items():
                if type(changed[1]) is dict and key in changed[1]:
                    _take_over(before, changed[1][key])
        return value

    def ask(self, *request: Any, flow: bool = False) -> Any:
        """Ask the program's process for something else."""
        return self._request(request, flow)[0]

    def _request(self, request: tuple, flow: bool) -> tuple[Any, Any]:
        if self._failure is not None:
            raise self._failure
        try:
            self._send(request)
        except CodecError as error:
            raise Unusable(f"the tests pass something that cannot leave their process: {error}") from None
        while True:
            reply = self._receive()
            if reply[0] == "value" and len(reply) == 3:
                return reply[1], reply[2]
            if reply[0] == "raised" and len(reply) == 5:
                raise self._exception(*reply[1:], flow)
            if reply[0] == "failed" and len(reply) == 3 and reply[1] in ("raised", "memory", "missing"):
                raise self._fail(reply[1], str(reply[2]))
            if reply[0] == "unfit":
                raise self._fail("output", f"what the program returned is no plain data: {str(reply[1])[:300]}")
            self._serve(reply)

    def _fail(self, ended: str, note: str) -> "_Failed":
        self._failure = _Failed(ended, note)
        return self._failure

    def _send(self, message: tuple) -> None:
        try:
            self.program.send(message)
        except ChannelClosed:
            raise self._fail("exited", "the program ended its process" + self._shown_call()) from None

    def _receive(self) -> tuple:
        try:
            reply = self.program.receive()
        except CodecError as error:
            raise self._fail("output", f"what the program returned cannot be read: {error}") from None
        except ChannelClosed:
            raise self._fail("exited", "the program ended its process" + self._shown_call()) from None
        if type(reply) is not tuple or not reply:
            raise self._fail("raised", "the program's process does not answer as agreed")
        return reply

    def _serve(self, request: tuple) -> None:
        """Let the program use a function or an iterator that a test passed to it."""
        try:
            if request[0] == "next":
                answer = self._next_of(self._lent[request[1]])
            elif request[0] == "callback":
                answer = self._lent[request[1]](*request[2], **request[3])
            else:
                raise self._fail("raised", "the program's process does not answer as agreed")
        except (_Failed, Unusable):
            raise
        except BaseException as error:
            self._send(("refused", type(error).__name__, one_line(error)))
            return
        try:
            self._send(("given", answer))
        except CodecError as error:
            raise Unusable(f"a function of the tests returns what cannot leave its process: {error}") from None

    def _next_of(self, source: Iterator) -> tuple[bool, Any]:
        for value in source:
            return True, value
        return False, None

    def _exception(self, name: str, own: Any, arguments: Any, note: Any, flow: bool) -> BaseException:
        if self._last is not None:
            self._last = (*self._last[:3], ("raised", note))
        kind = self._exceptions.get(own) if own is not None else None
        kind = kind or getattr(builtins, str(name), None)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            return RuntimeError(str(note))
        if issubclass(kind, MemoryError):
            return self._fail("memory", str(note))
        if issubclass(kind, _FLOW) and not (flow and kind is StopIteration):
            return RuntimeError(str(note))
        try:
            return kind(*arguments)
        except Exception:
            return RuntimeError(str(note))

    # ------------------------------------------------------------------------------------------------- what crosses

    def _outgoing(self, value: Any) -> tuple[int, str] | None:
        if isinstance(value, Live):
            return value._live[1], "object"
        name = builtin_name(value)
        if name is not None:
            return 0, f"builtin:{name}"
        if isinstance(value, type) and issubclass(value, BaseException) and value in self._exceptions.values():
            return next(number for number, kind in self._exceptions.items() if kind is value), "object"
        if callable(value):
            return self._lend(value), f"callback:{getattr(value, '__name__', 'function')}"
        if hasattr(value, "__next__"):
            return self._lend(value), "iterator:"
        return None

    def _lend(self, value: Any) -> int:
        self._lent.append(value)
        return len(self._lent) - 1

    def _incoming(self, number: int, text: str) -> Any:
        kind, _, rest = text.partition(":")
        if kind == "back":
            return self._lent[number]
        if kind == "builtin":
            return getattr(builtins, rest)
        if kind == "module":
            return _standard(rest)
        name, _, specials = rest.partition(":")
        if kind == "exception":
            return self._exception_class(number, name, specials)
        key = (kind, specials)
        if key not in self._kinds:
            self._kinds[key] = _live_kind(kind, specials.split())
        live = self._kinds[key](self, number, name)
        return _coroutine(live) if kind == "coroutine" else live

    def _exception_class(self, number: int, name: str, base: str) -> type[BaseException]:
        if number not in self._exceptions:
            kind = getattr(builtins, base, None)
            kind = kind if isinstance(kind, type) and issubclass(kind, Exception) else Exception
            self._exceptions[number] = type(name if name.isidentifier() else "Error", (kind,), {})
        return self._exceptions[number]


class _Failed(BaseException):
    """The program failed in a way that no test can catch."""

    def __init__(self, ended: str, note: str):
        super().__init__(note)
        self.ended, self.note = ended, note


def _live_kind(kind: str, specials: list[str]) -> type:
    methods: dict[str, Callable] = {name: _FORWARD[name] for name in specials if name in _FORWARD}
    if "__len__" in methods:
        methods["__bool__"] = _no_truth
    if kind == "class":
        methods["__instancecheck__"] = _instance
    return type("Live", (Live,), {**methods, "__eq__": Live.__eq__, "__hash__": Live.__hash__})


async def _coroutine(live: Any) -> Any:
    """What runs a coroutine insists on a real one."""
    return await live


def _names_used(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_used(constant)


def _names_stored(code: types.CodeType) -> set[str]:
    names, extended = set(), 0
    for position in range(0, len(code.co_code), 2):  # faster than `dis`, which makes an object of each instruction
        operation, argument = code.co_code[position : position + 2]
        argument |= extended
        extended = argument << 8 if operation == _EXTENDED_ARG else 0
        if operation in _STORES:
            names.add(code.co_names[argument])
    return names


def _standard(name: str, well_known: bool = True) -> Any:
    """
    A module of the standard library, or a well-known thing in one, by the name it usually has. Where the tests do not
    say which function they are about, a well-known name may be that of the function.
    """
    if name in _ALIASES:
        with contextlib.suppress(ImportError):
            return importlib.import_module(_ALIASES[name])
        return None
    if name in sys.stdlib_module_names and not name.startswith("_"):
        return importlib.import_module(name)
    for module in _WELL_KNOWN if well_known else ():
        if name in getattr(importlib.import_module(module), "__all__", dir(importlib.import_module(module))):
            return getattr(importlib.import_module(module), name)
    return None


def _take_over(before: Any, after: Any) -> None:
    """Make a value of the tests equal to what the program made of its copy, keeping the objects the tests hold."""
    if type(before) is not type(after):
        return
    if type(before) is list:
        if len(before) == len(after):
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                if type(old) is type(new) and isinstance(old, (list, dict, set)):
                    _take_over(old, new)
                else:
                    before[index] = new
        else:
            before[:] = after
    elif type(before) is dict:
        for key in before.keys() - after.keys():
            del before[key]
        for key, new in after.items():
            old = before.get(key)
            if type(old) is type(new) and isinstance(old, (list, dict, set)):
                _take_over(old, new)
            else:
                before[key] = new
    elif isinstance(before, (set, bytearray, deque)):
        before.clear()
        before.extend(after) if isinstance(before, (bytearray, deque)) else before.update(after)


def _short(value: Any) -> str:
    if isinstance(value, Live):
        return "an object of the program"
    try:
        text = repr(value)
    except BaseException:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
