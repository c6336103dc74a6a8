"""Tests about programs: what they may use, what a program cannot do to them, and what is kept between programs."""

import contextlib
from collections.abc import Iterator

import pytest

from trl_grpo_ext.sandbox import Limits, Tested, Tests
from trl_grpo_ext.sandbox.local import LocalSandbox


pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("sandbox-tester-tests")]

BRIEF = Limits(seconds=3)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with contextlib.closing(LocalSandbox(workers=1, isolation="best_effort")) as sandbox:
        yield sandbox


def results(sandbox: LocalSandbox, source: str, *tests: str, **options) -> list[Tested]:
    return list(sandbox.test(Tests(source, tests, **{"limits": BRIEF, **options})))


def ends(sandbox: LocalSandbox, source: str, *tests: str, **options) -> list[str]:
    return [tested.ended for tested in results(sandbox, source, *tests, **options)]


# ----------------------------------------------------------------------------------------------------------- arguments


MUTATIONS = {
    "list": ("def f(x): x.sort()", "a = [3, 1]; b = a; f(a); assert a == [1, 3] and b is a"),
    "list grows": ("def f(x): x.append(1)", "a = []; f(a); f(a); assert a == [1, 1]"),
    "list shrinks": ("def f(x): x.clear()", "a = [1]; f(a); assert a == []"),
    "nested list": ("def f(x): x[0].append(9)", "i = [1]; a = [i, [2]]; f(a); assert i == [1, 9] and a[0] is i"),
    "nested dict": ("def f(x): x[0]['k'] = 1", "i = {}; a = [i]; f(a); assert i == {'k': 1}"),
    "nested set": ("def f(x): x['s'].add(3)", "i = {1}; a = {'s': i}; f(a); assert i == {1, 3}"),
    "matrix": (
        "def f(m):\n    for i in range(2):\n        for j in range(i): m[i][j], m[j][i] = m[j][i], m[i][j]",
        "m = [[1, 2], [3, 4]]; rows = list(m); f(m); assert m == [[1, 3], [2, 4]] and m[1] is rows[1]",
    ),
    "dict": ("def f(x): del x['a']; x['b'] = 2", "a = {'a': 1, 'c': 3}; f(a); assert a == {'c': 3, 'b': 2}"),
    "set": ("def f(x): x.discard(1); x.add(2)", "a = {1}; f(a); assert a == {2}"),
    "bytearray": ("def f(x): x.reverse()", "a = bytearray(b'ab'); f(a); assert a == b'ba'"),
    "keyword": ("def f(*, x): x.append(1)", "a = []; f(x=a); assert a == [1]"),
    "second": ("def f(x, y): y.extend(x)", "a = []; f([1], a); assert a == [1]"),
    "method": (
        "class S:\n    def f(self, x): x.append(1)",
        "a = []; S().f(a); assert a == [1]",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_changes_of_arguments_are_seen_when_none_is_returned(sandbox, name):
    source, test = MUTATIONS[name]
    assert results(sandbox, source, test) == [Tested("ok")]


@pytest.mark.parametrize("value", ["x", "0", "False", "[]", "len(x)"])
def test_changes_of_arguments_are_not_seen_when_something_is_returned(sandbox, value):
    source = f"def f(x):\n    x.clear()\n    return {value}"
    assert ends(sandbox, source, "a = [1, 2]; f(a); assert a == [1, 2]") == ["ok"]


def test_a_program_cannot_fit_the_argument_to_its_answer(sandbox):
    source = "def f(x):\n    x[:] = []\n    return 0"
    assert ends(sandbox, source, "a = [1, 2]; assert f(a) == sum(a)") == ["raised"]


# ---------------------------------------------------------------------------------------------------------- exceptions

RAISING = """
class Mine(ValueError):
    pass
class Other(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
def f(kind):
    if kind == "mine": raise Mine("a message", 3)
    if kind == "other": raise Other(404, "not found")
    if kind == "key": raise KeyError("k")
    if kind == "os": raise FileNotFoundError(2, "none", "a")
    if kind == "stop": raise StopIteration
    if kind == "exit": raise SystemExit(0)
    if kind == "interrupt": raise KeyboardInterrupt
    if kind == "group": raise AssertionError("x")
    if kind == "unicode": b"\\xff".decode("utf-8")
    return kind
"""


@pytest.mark.parametrize(
    "statement",
    [
        "f('mine')\n    except Mine as error:\n        assert error.args == ('a message', 3)",
        "f('mine')\n    except ValueError as error:\n        assert 'a message' in str(error)",
        "f('other')\n    except Other as error:\n        assert error.args == (404, 'not found')",
        "f('key')\n    except KeyError as error:\n        assert error.args[0] == 'k'",
        "f('os')\n    except FileNotFoundError as error:\n        assert error.errno == 2",
        "f('unicode')\n    except UnicodeDecodeError:\n        pass",
        "f('exit')\n    except SystemExit:\n        pass",
        "f('stop')\n    except (StopIteration, RuntimeError):\n        pass",
        "f(1, 2)\n    except TypeError:\n        pass",
    ],
    ids=range(9),
)
def test_exceptions_can_be_caught(sandbox, statement):
    test = "try:\n    " + statement.replace("\n    except", "\nexcept").replace("\n        ", "\n    ")
    test += "\nelse:\n    assert False, 'nothing was raised'"
    assert results(sandbox, RAISING, test) == [Tested("ok")]


@pytest.mark.parametrize("kind", ["mine", "other", "key", "stop", "exit", "interrupt", "group"])
def test_exceptions_that_are_not_caught_fail_the_test_and_no_other(sandbox, kind):
    tests = (f"f({kind!r})", "assert f(1) == 1", f"for value in [1]:\n    f({kind!r})\n    assert value == 1")
    assert ends(sandbox, RAISING, *tests) == ["raised", "ok", "raised"]


def test_a_wrong_exception_fails(sandbox):
    test = "try:\n    f('key')\nexcept Mine:\n    pass"
    assert ends(sandbox, RAISING, test) == ["raised"]


def test_a_program_cannot_pass_by_raising_what_ends_a_loop(sandbox):
    source = "def f(x): raise StopIteration"
    tests = (
        "assert [f(x) for x in [1]] == []",
        "assert list(map(f, [1])) == []",
        "def g():\n    yield f(1)\nassert list(g()) == []",
    )
    assert ends(sandbox, source, *tests) == ["raised"] * 3


# -------------------------------------------------------------------------------------------------- functions, objects

FEATURES = {
    "closures": ("def f(n):\n    return lambda x: x + n", "assert f(2)(3) == 5"),
    "closures keep their state": (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    return g",
        "g, h = f(), f()\nassert (g(), g(), h()) == (1, 2, 1)",
    ),
    "decorators": (
        "def f(g):\n    def h(*a, **k): return g(*a, **k) + 1\n    return h",
        "@f\ndef g(x, y=1): return x * y\nassert g(2) == 3 and g(2, y=5) == 11",
    ),
    "callbacks": ("def f(g, xs): return [g(x) for x in xs]", "assert f(lambda x: x * 2, [1, 2]) == [2, 4]"),
    "callbacks that are builtins": (
        "def f(g, xs): return g(xs)",
        "assert f(len, [1]) == 1 and f(sorted, [2, 1]) == [1, 2]",
    ),
    "callbacks that raise": (
        "def f(g):\n    try: return g(1)\n    except ValueError as error: return 'caught ' + str(error)",
        "def g(x): raise ValueError('v')\nassert 'caught' in f(g)",
    ),
    "callbacks that raise through": (
        "def f(g): return g(1)",
        "def g(x): raise KeyError('v')\ntry: f(g)\nexcept KeyError: pass\nelse: assert False",
    ),
    "callbacks that call back": (
        "def f(g, n): return n if n == 0 else g(n - 1) + 1",
        "assert f(lambda n: n, 5) == 5",
    ),
    "mutual recursion": (
        "def f(g, n): return 0 if n == 0 else 1 + g(n - 1)",
        "def g(n): return f(g, n)\nassert g(20) == 20",
    ),
    "iterators": ("def f(xs): return sum(xs)", "assert f(iter([1, 2])) == 3 and f(x for x in range(4)) == 6"),
    "iterators are used up": (
        "def f(xs): return next(xs)",
        "it = iter([1, 2])\nassert f(it) == 1 and f(it) == 2 and list(it) == []",
    ),
    "endless iterators": (
        "def f(xs): return [next(xs) for _ in range(3)]",
        "import itertools\nassert f(itertools.count()) == [0, 1, 2]",
    ),
    "generators": (
        "def f(n):\n    for i in range(n): yield i",
        "assert list(f(3)) == [0, 1, 2]\nassert sum(f(4)) == 6\nfor x in f(1): assert x == 0",
    ),
    "endless generators": (
        "def f():\n    n = 0\n    while True:\n        yield n\n        n += 1",
        "g = f()\nassert [next(g) for _ in range(3)] == [0, 1, 2]",
    ),
    "coroutines": (
        "async def f(x):\n    import asyncio\n    await asyncio.sleep(0)\n    return x + 1",
        "import asyncio\nassert asyncio.run(f(1)) == 2",
    ),
    "context managers": (
        "class C:\n    def __enter__(self): self.on = True; return self\n    def __exit__(self, *a): self.on = False",
        "c = C()\nwith c as d:\n    assert d.on is True\nassert c.on is False",
    ),
    "isinstance": (
        "class A: pass\nclass B(A): pass\ndef f(): return B()",
        "assert isinstance(f(), A) and isinstance(B(), B) and not isinstance(A(), B) and not isinstance(3, A)",
    ),
    "class attributes": (
        "class A:\n    limit = 5\n    @staticmethod\n    def g(): return 1",
        "assert A.limit == 5 and A.g() == 1",
    ),
    "object attributes": (
        "class A:\n    def __init__(self): self.x = [1]",
        "a = A()\na.x = [2, 3]\nassert a.x == [2, 3]\na.y = 1\nassert a.y == 1",
    ),
    "properties": ("class A:\n    @property\n    def x(self): return 4", "assert A().x == 4"),
    "operators": (
        "class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return V(self.x + o.x)\n"
        "    def __neg__(self): return V(-self.x)\n    def __len__(self): return 7\n"
        "    def __getitem__(self, i): return i",
        "assert (V(1) + V(2)).x == 3 and (-V(1)).x == -1 and len(V(1)) == 7 and V(1)[4] == 4",
    ),
    "linked lists": (
        "class Node:\n    def __init__(self, v, next=None): self.v, self.next = v, next\n"
        "def f(head):\n    out = []\n    while head: out.append(head.v); head = head.next\n    return out",
        "n = Node(1, Node(2))\nassert n.next.v == 2 and n.next.next is None\nassert f(n) == [1, 2]",
    ),
    "identity": (
        "class A: pass\na = A()\ndef f(): return a",
        "assert f() is not None and f() == f() and f() in [f()]",
    ),
    "str": ("class A:\n    def __str__(self): return 'an a'", "assert str(A()) == 'an a' and f'{A()}' == 'an a'"),
    "arguments of every kind": (
        "def f(a, /, b, *c, d=0, **e): return [a, b, c, d, e]",
        "assert f(1, 2, 3, d=4, z=5) == [1, 2, (3,), 4, {'z': 5}]",
    ),
    "default values of functions": (
        "def f(x=[]):\n    x.append(1)\n    return x",
        "assert f() == [1] and f() == [1, 1]",
    ),
    "types": ("def f(): return int\ndef g(t): return t('3')", "assert f() is int and g(int) == 3 and g(float) == 3.0"),
    "named tuples": (
        "import collections\nP = collections.namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2)",
    ),
    "numbers": (
        "def f(x): return x",
        "import math\nassert math.isclose(f(0.1) + f(0.2), 0.3) and f(10**50) == 10**50",
    ),
    "names of functions": ("def f(): pass", "assert f.__name__ == 'f' and callable(f) and f() is None"),
}


@pytest.mark.parametrize("name", FEATURES)
def test_tests_may_use(sandbox, name):
    source, test = FEATURES[name]
    assert results(sandbox, source, test) == [Tested("ok")]


def test_a_failure_within_a_context_manager_of_the_program_is_a_failure(sandbox):
    source = (
        "class C:\n def __enter__(self): return self\n def __exit__(self, *a): return False\n def f(self): return 2"
    )
    assert ends(sandbox, source, "with C() as c:\n    assert c.f() == 1", "assert C().f() == 2") == ["raised", "ok"]


def test_a_context_manager_cannot_swallow_a_failed_assertion_silently(sandbox):
    source = (
        "class C:\n def __enter__(self): return self\n def __exit__(self, *a): return True\n def f(self): return 2"
    )
    assert ends(sandbox, source, "with C() as c:\n    assert c.f() == 1") != ["ok"]


@pytest.mark.parametrize(
    "program",
    [
        "class X:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\ndef f(): return X()",
        "class X(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef f(): return X(1)",
        "class X(list):\n    def __eq__(self, o): return True\ndef f(): return [X()]",
        "class X:\n    def __radd__(self, o): return o\n    def __rsub__(self, o): return 0\ndef f(): return X()",
        "class X:\n    def __lt__(self, o): return True\n    __gt__ = __le__ = __ge__ = __lt__\ndef f(): return X()",
        "class X:\n    def __bool__(self): return True\n    def __len__(self): return 0\ndef f(): return X()",
        "class M(type):\n    def __eq__(self, o): return True\n\nclass X(metaclass=M): pass\ndef f(): return X",
        "import unittest.mock\ndef f(): return unittest.mock.ANY",
        "def f(): return NotImplemented",
    ],
    ids=range(9),
)
@pytest.mark.parametrize(
    "test", ["assert f() == 5", "assert f() in (5, 6)", "assert not f()", "assert 5 - f() == 0", "assert 4 < f() < 6"]
)
def test_no_object_passes_for_a_value(sandbox, program, test):
    assert ends(sandbox, program, test) in (["raised"], ["output"])


FORGED = """
import sys
from trl_grpo_ext.sandbox.inside import worker
frame = sys._getframe()
while not isinstance(frame.f_locals.get("self"), worker.Server):
    frame = frame.f_back
server = frame.f_locals["self"]
class Token:
    pass
token, real = Token(), server._outgoing
server.channel.outgoing = lambda value: (0, what) if value is token else real(value)
what = %r
def yes(*arguments, **options): return True
def build(): return token
def change(x): x.clear(); x.update({"all": yes, "any": yes, "sorted": yes, "sum": yes, "isinstance": yes})
def f(x): return 2
"""


@pytest.mark.parametrize(
    "claim",
    [
        *(
            "builtin:__dict__",
            "builtin:__loader__",
            "builtin:eval",
            "module:builtins",
            "module:sys",
            "back:",
            "class:x:",
        ),
        *("exception:AssertionError:BaseException", "coroutine:x:__await__", "object:x:__class__ __eq__ __dict__"),
        *("builtin:__import__", "module:gc", "module:antigravity", "iterator:", "", "exception::"),
    ],
)
def test_a_program_that_forges_what_it_returns_changes_nothing_in_the_tests(sandbox, claim):
    tests = (
        "d = build()\nchange(d)\nassert f(1) == 1",
        "d = build()\nd.all = d.sum = 3\nassert all([f(1) == 1])",
        "assert all([f(1) == 1])",
        "assert sum([f(1)]) == 1",
        "assert sorted([2, 1]) == [1, 2] and f(1) == 1",
    )
    for tested in results(sandbox, FORGED % claim, *tests):
        assert tested.ended in ("raised", "output", "exited"), tested


RAW = """
import os
def f(x=0):
    data = %s
    os.write(3, len(data).to_bytes(4, "little") + data)
    return 2
"""


@pytest.mark.parametrize(
    "data",
    [
        "b''",
        "b'N'",
        "b't\\0\\0\\0\\0'",
        "b't\\1\\0\\0\\0s\\5\\0\\0\\0value'",
        "b't\\2\\0\\0\\0s\\4\\0\\0\\0nexti' + bytes(8)",
        "b't\\1\\0\\0\\0s\\4\\0\\0\\0next'",
        "b't\\4\\0\\0\\0s\\x08\\0\\0\\0callbackiNNN'",
        "b't\\5\\0\\0\\0s\\6\\0\\0\\0raisedNNNN'",
        "b't\\5\\0\\0\\0s\\6\\0\\0\\0raisedl\\0\\0\\0\\0l\\0\\0\\0\\0l\\0\\0\\0\\0l\\0\\0\\0\\0'",
        "b't\\3\\0\\0\\0s\\6\\0\\0\\0failedNN'",
        "b't\\3\\0\\0\\0s\\6\\0\\0\\0faileds\\7\\0\\0\\0missingN'",
        "b't\\3\\0\\0\\0s\\6\\0\\0\\0faileds\\x08\\0\\0\\0unusableN'",
        "b'q' * 100_000",
        "os.urandom(1000)",
    ],
    ids=range(14),
)
def test_a_program_that_writes_messages_of_its_own_fails(sandbox, data):
    found = ends(sandbox, RAW % data, "assert f() == 1", "assert f(5) == 1", limits=Limits(seconds=1))
    assert found[0] in ("raised", "output", "exited", "missing", "timeout")
    assert "ok" not in found


# ------------------------------------------------------------------------------------------------------------- helpers


def test_functions_of_the_helpers_are_trusted_and_classes_are_the_programs(sandbox):
    helpers = (
        "class Node:\n    def __init__(self, v): self.v = v\n"
        "def values(nodes): return [node.v for node in nodes]\nclose = lambda a, b: abs(a - b) < 1e-6\n"
    )
    source = helpers + "def f(n): return [Node(i) for i in range(n)]\n"
    tests = ("assert values(f(3)) == [0, 1, 2]", "assert isinstance(f(1)[0], Node)", "assert close(f(2)[1].v, 1.0)")
    assert ends(sandbox, source, *tests, helpers=helpers) == ["ok"] * 3
    lying = source + "def values(nodes): return [0, 1, 2]\ndef close(a, b): return True\ndef f(n): return [Node(7)]\n"
    assert ends(
        sandbox, lying, "assert values(f(3)) == [0, 1, 2]", "assert close(f(2)[0].v, 1.0)", helpers=helpers
    ) == [
        "raised",
        "raised",
    ]


def test_objects_of_the_helpers_classes_can_be_passed(sandbox):
    helpers = "class Node:\n    def __init__(self, v, left=None): self.v, self.left = v, left\n"
    source = helpers + "def f(node): return node.v + (f(node.left) if node.left else 0)"
    assert ends(sandbox, source, "assert f(Node(1, Node(2))) == 3", helpers=helpers) == ["ok"]


# --------------------------------------------------------------------------------------------------------------- names

FAKES = """
class math:
    @staticmethod
    def isclose(*a, **k): return True
    sqrt = isclose
def isclose(*a, **k): return True
def Counter(*a): return 1
def sorted(*a, **k): return 1
def set(*a): return 1
def len(*a): return 1
def abs(*a): return 0
def all(*a): return True
def isinstance(*a): return True
class AssertionError(BaseException): pass
def deepcopy(x): return 1
def f(x): return 99
"""


@pytest.mark.parametrize(
    "test",
    [
        "assert math.isclose(f(1), 1)",
        "import math\nassert math.isclose(f(1), 1)",
        "from math import isclose\nassert isclose(f(1), 1)",
        "assert isclose(f(1), 1)",
        "assert Counter([f(1)]) == Counter([1])",
        "assert sorted([f(1)]) == sorted([1])",
        "assert set([f(1)]) == set([1])",
        "assert abs(f(1) - 1) < 1e-6",
        "assert all(f(x) == x for x in [1])",
        "assert isinstance(f(1), str)",
        "assert deepcopy(f(1)) == 1",
        "assert len(str(f(1))) == 1",
    ],
)
def test_a_programs_fakes_are_not_used(sandbox, test):
    assert ends(sandbox, FAKES, test, function="f") == ["raised"]
    if "Counter" not in test and "deepcopy" not in test:  # without the name, these may be what the tests are about
        assert ends(sandbox, FAKES, test) == ["raised"]


@pytest.mark.parametrize(
    "name", ["sum", "max", "gcd", "factorial", "product", "isclose", "math", "Counter", "copy", "f"]
)
def test_the_function_the_tests_are_about_is_the_programs(sandbox, name):
    source = f"def {name}(*a): return ('mine', *a)"
    tests = (f"assert {name}(1, 2) == ('mine', 1, 2)", f"assert {name}(1) == 1")
    assert ends(sandbox, source, *tests, function=name) == ["ok", "raised"]


def test_the_function_is_not_a_stub_of_the_setup(sandbox):
    assert ends(sandbox, "def f(): return 1", "assert f() == 1", setup="def f(): return 2", function="f") == ["ok"]


def test_a_missing_function_is_missing(sandbox):
    assert ends(sandbox, "def g(): return 1", "assert f() == 1", "assert True", function="f")[0] == "missing"
    assert ends(sandbox, "def g(): return 1", "assert f() == 1") == ["raised"]


def test_tests_see_each_others_names_and_the_setups(sandbox):
    tests = ("x = f(1)", "assert x == 2", "def g(y): return y + x + base", "assert g(1) == 13")
    assert ends(sandbox, "def f(x): return x + 1", *tests, setup="import math\nbase = 10") == ["ok"] * 4


# ----------------------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize(
    "job",
    [
        Tests("x = 1", ("assert (",)),
        Tests("x = 1", ("assert True", "def f(")),
        Tests("x = 1", ("assert True",), setup="import ("),
        Tests("x = 1", ("assert True",), setup="1 / 0"),
        Tests("x = 1", ("assert True",), helpers="def ("),
        Tests("x = 1", ("assert True",), helpers="1 / 0"),
        Tests("x = 1", ("assert True",), setup="import no_such_module_at_all"),
        Tests("x = 1", ("assert '\0'",)),
        Tests("x = 1", ("x = " + "(" * 5000 + ")" * 5000,)),
        Tests("def f(x): return 1", ("assert f(object()) == 1",)),
    ],
    ids=range(10),
)
def test_tests_that_are_broken_say_nothing_about_the_program(sandbox, job):
    assert [tested.ended for tested in sandbox.test(job)][-1] == "unusable"


@pytest.mark.parametrize(
    ("setup", "source"),
    [
        ("s = Stack()", "x = 1"),
        ("x = Config.limit", "class Config: pass"),
        ("x = Config().limit", "class Config:\n    @property\n    def limit(self): 1 / 0"),
        ("s = Stack()", "class Stack:\n    def __init__(self): 1 / 0"),
        ("s = make()", "def make(): raise ValueError"),
    ],
)
def test_a_setup_that_a_program_breaks_is_the_programs_failure(sandbox, setup, source):
    (first, *_) = ends(sandbox, source, "assert True", setup=setup)
    assert first in ("raised", "exited", "missing")


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("def f(g, x):\n    g('a' * (17 << 20))\n    return 1", "assert f(lambda x: x * 2, 3) == 12"),
        ("def f(x): return 'a' * (20 << 20)\ndef g(x): return 1", "assert g([f(1), f(2)]) == 2"),
        ("def f(g, x):\n    g(['a'] * 600_000)\n    return 1", "assert f(lambda x: x + x, 3) == 12"),
    ],
    ids=["callback", "argument", "items"],
)
def test_a_program_cannot_make_tests_unusable(sandbox, source, test):
    assert ends(sandbox, source, test)[0] not in ("ok", "unusable")


def test_no_tests_give_no_results(sandbox):
    assert ends(sandbox, "def f(): return 1") == []
    assert ends(sandbox, "while True: pass") == []
    assert ends(sandbox, "def f(): return 1", "") == ["unusable"]  # they say nothing


def test_until_failure_stops_at_the_first_that_fails(sandbox):
    tests = ("assert f() == 1", "assert f() == 2", "assert f() == 1", "assert (", "assert f() == 1")[:3]
    assert ends(sandbox, "def f(): return 1", *tests, until_failure=True) == ["ok", "raised"]
    assert ends(sandbox, "def f(): return 1", *tests) == ["ok", "raised", "ok"]


def test_the_note_says_what_was_called_and_what_came_back(sandbox):
    (tested,) = results(sandbox, "def f(x): return x * 2", "assert f([1, 'a']) == 3")
    assert tested.note == "assert f([1, 'a']) == 3; f([1, 'a']) returned [1, 'a', 1, 'a']"
    (tested,) = results(sandbox, "def f(x): return 'a' * 10**7", "assert f(1) == 3")
    assert len(tested.note) < 500


# ------------------------------------------------------------------------------------------- kept from one to the next


def group(sandbox: LocalSandbox, *sources: str, tests: tuple[str, ...], **options) -> list[list[str]]:
    return [ends(sandbox, source, *tests, **options) for source in sources]


KEPT = {
    "names": ("def f(): return 1\nhelper = 3", "def f(): return 1", "assert f() and helper == 3", ["ok"], ["raised"]),
    "globals of the tests": (
        "def f(): return 1",
        "def f(): return 2",
        "found = globals().get('found', []) + [f()]\nassert len(found) == 1",
        ["ok"],
        ["ok"],
    ),
    "files": (
        "def f(): return 1",
        "def f(): return 1  #",
        "import os\nos.mkdir('d')\nassert f() == 1",
        ["ok"],
        ["ok"],
    ),
    "attributes of modules": (
        "def f(): return 1",
        "def f(): return 2",
        "import math\nmath.seen = getattr(math, 'seen', []) + [f()]\nassert len(math.seen) == 1",
        ["ok"],
        ["ok"],
    ),
    "environment": (
        "def f(): return 'a'",
        "def f(): return 'b'",
        "import os\nassert os.environ.setdefault('KEPT', f()) == f()",
        ["ok"],
        ["ok"],
    ),
    "random state": (
        "def f(): return 1",
        "def f(): return 2",
        "import random\nif f() == 1: random.seed(1)\n"
        "assert (random.getstate() == random.Random(1).getstate()) == (f() == 1)",
        ["ok"],
        ["ok"],
    ),
    "standard output": (
        "def f(): return 1",
        "def f(): return 2",
        "import io, sys\nassert not isinstance(sys.stdout, io.StringIO)\nsys.stdout = io.StringIO()\nf()",
        ["ok"],
        ["ok"],
    ),
    "timers": (
        "def f(): return 1",
        "import time\ndef f():\n    time.sleep(0.5)\n    return 2",
        "import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\n"
        "if f() == 1: signal.setitimer(signal.ITIMER_REAL, 0.3)",
        ["ok"],
        ["ok"],
    ),
    "threads": (
        "def f(): return 1",
        "def f(): return 2",
        "import threading, time\nassert threading.active_count() == 1\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\nf()",
        ["ok"],
        ["ok"],
    ),
    "exceptions": (
        "class E(Exception): pass\ndef f(): raise E",
        "class E(Exception): pass\ndef f(): raise KeyError",
        "try:\n    f()\nexcept E:\n    pass",
        ["ok"],
        ["raised"],
    ),
    "recursion limit": (
        "def f(): return 1",
        "def f(): return 2",
        "import sys\nassert sys.getrecursionlimit() < 5000\nsys.setrecursionlimit(9999)\nf()",
        ["ok"],
        ["ok"],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_kept_from_one_program_for_the_next(sandbox, name):
    first, second, test, expected_first, expected_second = KEPT[name]
    for _ in range(2):
        assert group(sandbox, first, second, tests=(test,)) == [expected_first, expected_second]


def test_a_group_is_judged_each_for_itself(sandbox):
    sources = ["def f(x): return x", "def f(x): return -x", "1 / 0", "def f(", "import os\ndef f(x): os._exit(0)"] * 3
    tests = ("assert f(1) == 1", "assert f(2) == 2")
    for source, found in zip(sources, group(sandbox, *sources, tests=tests, function="f"), strict=True):
        if source.endswith("return x"):
            assert found == ["ok", "ok"]
        else:
            assert "ok" not in found
            assert found[0] in ("raised", "exited")
            assert "timeout" not in found


def test_a_program_after_an_endless_one_has_all_of_its_time(sandbox):
    loop = "def f(x):\n    while True: pass"
    slow = "import time\ndef f(x):\n    time.sleep(0.6)\n    return 1"
    options = {"tests": ("assert f(1) == 1",), "limits": Limits(seconds=1)}
    assert group(sandbox, slow, loop, slow, slow, **options) == [["ok"], ["timeout"], ["ok"], ["ok"]]


@pytest.mark.parametrize("memory", [64, 128])
def test_little_memory_is_no_failure_of_the_machinery(sandbox, memory):
    limits = Limits(memory_mb=memory, seconds=3)
    assert ends(sandbox, "def f(): return 1", "assert f() == 1", limits=limits)[0] in ("ok", "memory")
    large = "def f(): return list(range(3_000_000))"
    assert ends(sandbox, large, "assert f() == 1", limits=limits)[0] in ("raised", "memory", "output")
