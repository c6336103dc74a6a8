"""Runs tests about a program that lives in another process.

The tests see the program's functions, classes and objects as proxies. What a proxy returns is plain data, rebuilt
here; what is no plain data is a proxy again. A proxy never asks the program to compare, to hash, or for the truth of a
value, and no operand that is plain data is ever handed to an operator of the program: it may be the expected value.

Covered: the program's objects cannot pass for values; no function of this process is ever found by a name that the
program gives; names the tests did not define are looked up among builtins and the standard library first; a function
that returns something cannot change what the tests passed to it; a program that the tests never ask for anything does
not pass.

Not covered: tests that compare the program's objects with `==` fail, even where the program defines a fair `__eq__`;
tests that hand the program objects of their own classes cannot be run. A test that passes for any truthy value passes.
Tests about a class of the program believe what its objects answer, each time they are asked.
"""

import builtins
import contextlib
import dis
import importlib
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.sandbox.codec import CodecError
from trl_grpo_ext.sandbox.inside.channel import Channel, ChannelClosed
from trl_grpo_ext.sandbox.inside.live import Live, as_coroutine, is_class, live_type
from trl_grpo_ext.sandbox.inside.worker import PLAIN_TYPES, builtin_name, one_line


_SHORT = 120
_NOTE = 500
_MODULE = "tests"
# Where a bare name that the tests use without importing it belongs, if it is one of these modules' public names.
_WELL_KNOWN = (
    *("math", "collections", "itertools", "functools", "decimal", "fractions", "datetime", "operator", "copy"),
    *("heapq", "bisect", "random", "re", "string", "statistics", "typing", "cmath", "json"),  # all of them are loaded
)
# Judges in their own right: tests that use one without importing it do not get the program's idea of it.
_ALIASES = {"np": "numpy", "pd": "pandas", "nx": "networkx", "plt": "matplotlib", "pytest": "pytest", "numpy": "numpy"}
_JUDGES = frozenset(
    ("allclose", "approx", "array_equal", "assert_allclose", "assert_array_equal", "assert_equal", "isclose", "raises")
)
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_STORES = {dis.opmap["STORE_NAME"], dis.opmap["STORE_GLOBAL"]}
_LOADS = {dis.opmap[name] for name in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS") if name in dis.opmap}
# The lowest bit of this one's argument has another meaning.
_SHIFTED = {dis.opmap["LOAD_GLOBAL"]} if sys.version_info >= (3, 11) else set()
_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit)  # would end a loop of the tests instead of failing it


class Unusable(BaseException):
    """The tests ask for something that cannot be done; no `except Exception` of theirs may hide it."""


class _Failed(BaseException):
    """The program failed in a way that no test can catch."""

    def __init__(self, ended: str, note: str):
        super().__init__(note)
        self.ended, self.note = ended, note


class Tester:
    """
    Runs tests about a program and reports how each ended.

    Args:
        host (`Channel`):
            Where reports go.
        program (`Channel`):
            The process that holds the program.
    """

    def __init__(self, host: Channel, program: Channel):
        self.host = host
        self.program = program
        self.exhausted: set[int] = set()  # iterators of the program that have come to their end
        program.outgoing, program.incoming = self._outgoing, self._incoming
        self._texts: dict[str, list[str]] = {}
        self._lent: list[Any] = []  # functions and iterators of the tests that the program may use
        self._kinds: dict[tuple[str, str], type[Live]] = {}
        self._lives: dict[tuple[int, str], Live] = {}
        self._exceptions: dict[int, type[BaseException]] = {}
        self._objects = False  # whether the tests name a class of the program
        self._asked = False  # whether they have asked the program for anything
        self._answered = False
        self._last: tuple | None = None
        self._failure: _Failed | None = None

    def run(self, helpers: str, setup: str, tests: list[str], function: str | None, until_failure: bool) -> None:
        """Run the tests, in order, in one namespace; report each as it ends."""
        waiting = []
        for index, (ended, note) in enumerate(self._outcomes(helpers, setup, tests, function)):
            waiting.append((index, ended, note))
            if self._asked or ended != "ok":  # passing without asking is no merit of the program
                for report in waiting:
                    self.host.send(report)
                waiting.clear()
            if ended not in ("ok", "raised") or (ended == "raised" and until_failure):
                return
        if waiting:
            note = "the tests never ask the program for anything; say which function they are about"
            self.host.send((0, "unusable", note))

    def _outcomes(self, helpers: str, setup: str, tests: list[str], function: str | None) -> Iterator[tuple[str, str]]:
        try:
            shared, prepared, *codes = self._compile(helpers, setup, tests)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            yield "unusable", one_line(error)
            return
        namespace: dict[str, Any] = {"__name__": _MODULE, "__builtins__": builtins}
        ended, note = self._one(shared, namespace)
        if ended == "raised":
            ended = "unusable"
        if ended == "ok":
            ended, note = self._prepare(namespace, [shared, prepared, *codes], function)
        for code in codes:
            yield (ended, note) if ended != "ok" else self._one(code, namespace)

    def _compile(self, helpers: str, setup: str, tests: list[str]) -> list[types.CodeType]:
        named = {"<helpers>": helpers, "<setup>": setup, **{f"<test {i}>": test for i, test in enumerate(tests)}}
        self._texts = {name: text.splitlines() for name, text in named.items()}
        return [compile(text, name, "exec", dont_inherit=True) for name, text in named.items()]

    def _prepare(
        self, namespace: dict[str, Any], codes: list[types.CodeType], function: str | None
    ) -> tuple[str, str]:
        setup = codes[1]
        try:
            found, wanted = self._find(namespace, codes, function)
        except Unusable as error:
            return "unusable", str(error)
        except BaseException as error:  # it is the program that answers, or does not
            ended = error.ended if isinstance(error, _Failed) else "raised"
            return ended, str(error)[:_NOTE]
        namespace.update(found)
        uses, self._asked = self._asked, False
        ended, note = self._one(setup, namespace)
        of_the_program = self._asked or _loads(setup) & {*wanted, function}
        self._asked = self._asked or uses
        if ended == "raised" and not of_the_program:
            return "unusable", note
        namespace.update({function: found[function]} if function in found else {})  # not a stub of the same name
        return ended, note

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
            lines = self._texts.get(trace.tb_frame.f_code.co_filename, [])
            line = lines[trace.tb_lineno - 1].strip() if 0 < trace.tb_lineno <= len(lines) else line
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

    def _find(
        self, namespace: dict[str, Any], codes: list[types.CodeType], function: str | None
    ) -> tuple[dict[str, Any], list[str]]:
        """What the names stand for that the tests use and do not define; classes of the helpers are the program's."""
        helpers = {name: value for name, value in namespace.items() if isinstance(value, type)}
        classes = {name for name, value in helpers.items() if value.__module__ == _MODULE}
        used = {name for code in codes for name in _loads(code, deep=True)}
        defined = {name for code in codes for name in _stores(code)} - classes
        found: dict[str, Any] = {}
        wanted = []
        for name in sorted(used - defined - {function}):
            if hasattr(builtins, name):
                continue
            trusted = None if name in classes else _standard(name, function is not None)
            if trusted is not None:
                found[name] = trusted
            elif name not in _ALIASES and name not in _JUDGES:
                wanted.append(name)
        theirs = self._request(("names", wanted, function), False)[0]
        if type(theirs) is not dict:
            raise self._disagree()
        # The program decides what a name is, the tests which names there are: a function that turns out to be a class
        # is not one that they name.
        named = [value for name, value in theirs.items() if name in wanted]
        self._objects = any(is_class(value) for value in named) or (function or "").istitle()
        self._asked = bool(named) or (function in theirs and not isinstance(theirs[function], Live))
        return {
            **found,
            **{name: value for name, value in theirs.items() if name in wanted or name == function},
        }, wanted

    # -------------------------------------------------------------------------------------------------------- asking

    def call(self, number: int, name: str, arguments: tuple, options: dict[str, Any]) -> Any:
        """Call a function of the program."""
        self._asked = True
        self._last = (name or "the object", arguments, options, None)
        value, changed = self._request(("call", number, arguments, options), False)
        self._answered = True
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
        self._asked = True
        value, _ = self._request(request, flow)
        self._answered = True
        return value

    def _request(self, request: tuple, flow: bool) -> tuple[Any, Any]:
        if self._failure is not None:
            raise self._failure
        try:
            self._send(request)
        except CodecError as error:
            raise self._unfit(error, "the tests pass on", self._answered) from None
        while True:
            reply = self._receive()
            match reply:
                case ("value", value, changed):
                    return value, changed
                case ("raised", str(name), own, tuple(arguments), str(note)) if own is None or type(own) is int:
                    raise self._exception(name, own, arguments, note[:_NOTE], flow)
                case ("failed", "raised" | "memory" | "missing" as ended, str(note)):
                    raise self._fail(ended, note[:_NOTE])
                case ("unfit", str(note)):
                    raise self._fail("output", f"what the program returned is no plain data: {note[:_NOTE]}")
                case ("next", int(number)):
                    self._answered = True
                    self._serve(lambda number=number: self._next_of(self._lent[number]))
                case ("callback", int(number), tuple(arguments), dict(options)):
                    self._answered = True
                    self._serve(lambda number=number, a=arguments, o=options: self._lent[number](*a, **o))
                case _:
                    raise self._disagree()

    def _fail(self, ended: str, note: str) -> _Failed:
        self._failure = _Failed(ended, note)
        return self._failure

    def _disagree(self) -> _Failed:
        return self._fail("exited", "the program's process does not answer as agreed")

    def _unfit(self, error: CodecError, what: str, of_the_program: bool) -> BaseException:
        """Something cannot leave this process: the tests' fault, unless it may have come from the program."""
        if of_the_program and type(error.value).__module__ != _MODULE:
            return self._fail("output", f"{what} something of the program's that cannot leave their process: {error}")
        return Unusable(f"{what} something that cannot leave their process: {error}")

    def _send(self, message: tuple) -> None:
        try:
            self.program.send(message)
        except ChannelClosed:
            raise self._fail("exited", "the program ended its process" + self._shown_call()) from None

    def _receive(self) -> Any:
        try:
            return self.program.receive()
        except CodecError as error:
            raise self._fail("output", f"what the program returned cannot be read: {error}") from None
        except ChannelClosed:
            raise self._fail("exited", "the program ended its process" + self._shown_call()) from None

    def _serve(self, work: Any) -> None:
        """Let the program use a function or an iterator that a test passed to it."""
        try:
            answer = work()
        except (_Failed, Unusable):
            raise
        except BaseException as error:
            self._send(("refused", type(error).__name__, one_line(error)))
            return
        try:
            self._send(("given", answer))
        except CodecError as error:
            if type(error.value).__module__ != _MODULE:
                raise self._unfit(error, "a function of the tests returns", True) from None
            self._send(("refused", "TypeError", "an object of the tests cannot be handed to the program"))

    def _next_of(self, source: Iterator) -> tuple[bool, Any]:
        for value in source:
            return True, value
        return False, None

    def _exception(self, name: str, own: int | None, arguments: tuple, note: str, flow: bool) -> BaseException:
        self._answered = True
        if self._last is not None:
            self._last = (*self._last[:3], ("raised", note))
        kind = self._exceptions.get(own) if own is not None else None
        kind = kind or getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            return RuntimeError(note)
        if issubclass(kind, MemoryError):
            return self._fail("memory", note)
        if issubclass(kind, _FLOW) and not (flow and kind is StopIteration):
            return RuntimeError(note)
        try:
            return kind(*arguments)
        except Exception:
            return RuntimeError(note)

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
            return PLAIN_TYPES[rest]
        name, _, more = rest.partition(":")
        if kind == "exception":
            return self._exception_class(number, name, more)
        key = (kind, more)
        if key not in self._kinds:
            self._kinds[key] = live_type(kind, more.split(), self._objects)
        live = self._lives.setdefault((number, kind), self._kinds[key](self, number, name))  # `is` holds
        return as_coroutine(live) if kind == "coroutine" else live

    def _exception_class(self, number: int, name: str, base: str) -> type[BaseException]:
        """A class of this process for one of the program's: an `except` that names it must not catch more than it."""
        if number not in self._exceptions:
            kind = getattr(builtins, base, None)
            kind = kind if isinstance(kind, type) and issubclass(kind, Exception) else Exception
            self._exceptions[number] = type(name if name.isidentifier() else "Error", (kind,), {})
        return self._exceptions[number]


def _loads(code: types.CodeType, deep: bool = False) -> set[str]:
    """Global names that code looks up; with those of the functions and classes in it."""
    return _names(code, _LOADS) | (_of_inner(code, lambda inner: _loads(inner, True)) if deep else set())


def _stores(code: types.CodeType) -> set[str]:
    return _names(code, _STORES)


def _of_inner(code: types.CodeType, names: Any) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {name for part in inner for name in names(part)}


def _names(code: types.CodeType, operations: set[int]) -> set[str]:
    names, extended, instructions = set(), 0, code.co_code
    for position in range(0, len(instructions), 2):  # faster than `dis`, which makes an object of each instruction
        operation, argument = instructions[position], instructions[position + 1] | extended
        extended = argument << 8 if operation == _EXTENDED_ARG else 0
        if operation in operations:
            names.add(code.co_names[argument >> 1 if operation in _SHIFTED else argument])
    return names


def _standard(name: str, well_known: bool) -> Any:
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
    for home in map(importlib.import_module, _WELL_KNOWN if well_known and len(name) > 1 else ()):
        found = getattr(home, name, None) if name in getattr(home, "__all__", dir(home)) else None
        if found is not None and not (isinstance(found, type) and issubclass(found, BaseException)):
            return found
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
