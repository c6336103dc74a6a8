"""What every sandbox has to do: named checks, each given a sandbox, none about a special one.

A check raises `AssertionError`. Checks about isolation ask for no more than the level the sandbox reports.
"""

import contextlib
import datetime
import decimal
import fractions
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trl_grpo_ext.sandbox.jobs import ENDED, Called, Calls, Limits, Ran, Run, Tested, Tests
from trl_grpo_ext.sandbox.options import LEVELS
from trl_grpo_ext.sandbox.self_check import at_least


Check = Callable[[Any], None]
CHECKS: dict[str, Check] = {}

BRIEF = Limits(seconds=0.5)
SMALL = Limits(memory_mb=400)


def check(function: Check) -> Check:
    """Add a check under the name of its function."""
    CHECKS[function.__name__] = function
    return function


def run(sandbox: Any, source: str, *inputs: str, **options: Any) -> list[Ran]:
    return list(sandbox.run(Run(source, inputs or ("",), **options)))


def call(sandbox: Any, source: str, function: str, *arguments: tuple, **options: Any) -> list[Called]:
    return list(sandbox.call(Calls(source, function, arguments or ((),), **options)))


def tested(sandbox: Any, source: str, *tests: str, **options: Any) -> list[Tested]:
    return list(sandbox.test(Tests(source, tests, **options)))


def same(found: Any, expected: Any) -> None:
    assert found == expected, f"expected {expected!r}, got {found!r}"


def ended(results: list[Any], *expected: str) -> None:
    found = [result.ended for result in results]
    assert found == list(expected), f"expected {expected}, got {found}: {[result.note[:200] for result in results]}"


# ------------------------------------------------------------------------------------------------------------- running


@check
def run_gives_the_output_of_each_input_in_order(sandbox):
    results = run(sandbox, "print(int(input()) ** 2)", "7", "8\n", " 9 ")
    same([(ran.ended, ran.output) for ran in results], [("ok", "49\n"), ("ok", "64\n"), ("ok", "81\n")])


@check
def run_reads_standard_input_in_every_way(sandbox):
    ways = [
        "import sys; print(sys.stdin.read().split())",
        "import sys; print([line.strip() for line in sys.stdin])",
        "print(open(0).read().split())",
        "import sys; print(sys.stdin.buffer.read().decode().split())",
        "import os; print(os.read(0, 100).decode().split())",
        "import sys; print([input() for _ in range(2)])",
        "import fileinput; print([line.strip() for line in fileinput.input()])",
    ]
    programs = "\n".join(f"    lambda: exec({way!r}, {{}})," for way in ways)
    source = f"""
import sys
with open(0, closefd=False) as f: n = int(f.readline())
import os; os.lseek(0, 2, 0)
[
{programs}
][n]()
"""
    results = run(sandbox, source, *(f"{n}\na\nb\n" for n in range(len(ways))))
    for way, ran in zip(ways, results, strict=True):
        assert (ran.ended, ran.output) == ("ok", "['a', 'b']\n"), f"{way}: {ran}"


@check
def run_without_input_finds_the_end_at_once(sandbox):
    same(run(sandbox, "import sys; print(repr(sys.stdin.read()))")[0].output, "''\n")
    results = run(sandbox, "input()")
    ended(results, "raised")
    assert results[0].note.startswith("EOFError"), results


@check
def run_is_a_script(sandbox):
    source = "if __name__ == '__main__':\n    import sys\n    print('main', len(sys.argv))"
    same(run(sandbox, source)[0].output, "main 1\n")


@check
def run_tells_ends_apart(sandbox):
    source = "import os, sys\nprint('before')\nexec(input())\nprint('after')"
    ends = {
        "pass": "ok",
        "sys.exit(0)": "ok",
        "exit()": "ok",
        "sys.exit(3)": "exited",
        "sys.exit('bad')": "exited",
        "sys.stdout.flush(); os._exit(4)": "exited",
        "1 / 0": "raised",
        "raise KeyboardInterrupt": "raised",
        "raise ValueError('a message')": "raised",
        "sys.stdout.flush(); os.abort()": "exited",
        "sys.setrecursionlimit(10**4); f = lambda: f(); f()": "raised",
    }
    results = run(sandbox, source, *ends)
    for (statement, expected), ran in zip(ends.items(), results, strict=True):
        assert ran.ended == expected, f"{statement}: expected {expected!r}, got {ran}"
        assert ran.output.startswith("before\n"), f"{statement}: what was printed before is lost: {ran}"
    assert "a message" in results[8].note, results[8]
    assert "3" in results[3].note, results[3]


@check
def run_of_no_program_raises(sandbox):
    results = run(sandbox, "def f(:\n  pass", "", "")
    ended(results, "raised", "raised")
    assert results[0].note.startswith("SyntaxError"), results


@check
def run_keeps_inputs_apart(sandbox):
    source = """
import os
print(os.path.exists('left'), os.environ.get('LEFT'))
open('left', 'w').write('x')
os.environ['LEFT'] = '1'
"""
    same([ran.output for ran in run(sandbox, source, "", "")], ["False None\n"] * 2)


@check
def run_has_a_folder_to_write_in(sandbox):
    source = """
import tempfile
open('a', 'w').write('hello')
print(open('a').read())
print(tempfile.TemporaryFile().write(b'xy'))
"""
    same(run(sandbox, source)[0].output, "hello\n2\n")


@check
def run_ends_a_loop_and_gives_what_was_printed(sandbox):
    begun = time.monotonic()
    results = run(sandbox, "print('begun', flush=True)\nwhile True: pass", "", "", limits=BRIEF)
    ended(results, "timeout")
    same(results[0].output, "begun\n")
    assert time.monotonic() - begun < 40, "the loop ran on"


@check
def run_ends_a_program_that_sleeps_and_ignores_signals(sandbox):
    source = """
import signal, time
for n in range(1, 32):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
time.sleep(1000)
"""
    ended(run(sandbox, source, limits=BRIEF), "timeout")


@check
def run_ends_a_program_whose_threads_go_on(sandbox):
    source = """
import threading
def f():
    while True: pass
threading.Thread(target=f).start()
print('done', flush=True)
"""
    ended(run(sandbox, source, limits=BRIEF), "timeout")


@check
def run_charges_all_inputs_together(sandbox):
    source = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nprint('done')"
    results = run(sandbox, source, *("" for _ in range(40)), limits=BRIEF)
    assert results[-1].ended == "timeout", "40 runs of 0.4 s took no more than half a second"
    assert len(results) < 40, results


@check
def run_limits_memory(sandbox):
    ended(run(sandbox, "x = bytearray(1 << 30)", limits=SMALL), "memory")
    ended(run(sandbox, "x = []\nwhile True: x.append(bytearray(1 << 22))", limits=SMALL), "memory")
    ended(run(sandbox, "x = bytearray(100 << 20); print(len(x))", limits=SMALL), "ok")


@check
def run_limits_output(sandbox):
    limits = Limits(output_bytes=50_000)
    results = run(sandbox, "print('x' * 49_999)", limits=limits)
    ended(results, "ok")
    same(len(results[0].output), 50_000)
    results = run(
        sandbox, "import sys\nwhile True: sys.stdout.write('y' * 1000)", limits=Limits(0.5, output_bytes=50_000)
    )
    assert results[0].ended in ("output", "timeout", "raised"), results
    assert len(results[0].output) <= 50_000, "more output was kept than is allowed"


@check
def run_output_bytes_are_those_of_one_run(sandbox):
    """Bytes, not characters; of each run for itself; and nothing else that a job writes or returns."""
    limits = Limits(output_bytes=3000)
    results = run(sandbox, "print(input(), end='')", "x" * 3000, "ä" * 1500, "ä" * 1501, "x" * 3001, limits=limits)
    ended(results, "ok", "ok", "output", "output")
    same([len(ran.output.encode()) for ran in results], [3000] * 4)
    same(call(sandbox, "def f():\n    return 'x' * 100_000", "f", limits=limits)[0].value, "x" * 100_000)


@check
def run_passes_large_input_and_output(sandbox):
    text = "".join(f"{n}\n" for n in range(100_000))
    results = run(sandbox, "import sys\nsys.stdout.write(sys.stdin.read())", text)
    assert results[0].ended == "ok", results[0].note
    assert results[0].output == text, f"{len(results[0].output)} of {len(text)} characters came back"


@check
def run_passes_any_text(sandbox):
    text = "äß 漢字 😀 \x00 \x1b[31m \u2028 \ufeff"
    same(run(sandbox, "import sys\nsys.stdout.write(sys.stdin.read())", text)[0].output, text)
    results = run(sandbox, "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb')")
    assert results[0].output.startswith("a"), results
    assert results[0].output.endswith("b"), results


@check
def run_ignores_standard_error(sandbox):
    results = run(sandbox, "import sys\nprint('seen')\nprint('x' * 100_000, file=sys.stderr)")
    same((results[0].ended, results[0].output), ("ok", "seen\n"))


@check
def run_of_threads_and_async_programs_works(sandbox):
    source = """
import asyncio, threading, queue
from concurrent.futures import ThreadPoolExecutor
async def double(x):
    await asyncio.sleep(0.001)
    return 2 * x
async def main():
    return await asyncio.gather(*map(double, range(3)))
print(asyncio.run(main()))
with ThreadPoolExecutor(2) as threads:
    print(list(threads.map(abs, [-1, -2])))
"""
    same(run(sandbox, source)[0].output, "[0, 2, 4]\n[1, 2]\n")


@check
def run_has_the_standard_library(sandbox):
    names = "math re json heapq bisect collections itertools functools random decimal fractions datetime string copy "
    names += "statistics typing dataclasses enum operator sqlite3 zoneinfo hashlib csv pprint inspect timeit array"
    source = "import importlib\nfor name in input().split():\n    importlib.import_module(name)\nprint('all')"
    results = run(sandbox, source, names)
    assert results[0].output == "all\n", results


@check
def run_does_not_believe_printed_results(sandbox):
    source = """
import os, sys
for fd in range(1, 64):
    try: os.write(fd, b'ok\\n' * 5)
    except OSError: pass
raise ValueError
"""
    (ran,) = run(sandbox, source)
    assert ran.ended != "ok", ran


# ------------------------------------------------------------------------------------------------------------- calling


@check
def call_calls_in_order_in_one_process(sandbox):
    source = "seen = []\ndef f(x, y=1):\n    seen.append(x)\n    return seen, y"
    results = call(sandbox, source, "f", (1,), (2, 5))
    same([called.value for called in results], [([1], 1), ([1, 2], 5)])


@check
def call_finds_a_method_of_solution(sandbox):
    source = "class Solution:\n    def add(self, a, b):\n        return a + b"
    same([called.value for called in call(sandbox, source, "add", (1, 2), ("a", "b"))], [3, "ab"])


@check
def call_goes_on_after_an_exception(sandbox):
    results = call(sandbox, "def f(x):\n    return 10 // x", "f", (0,), (2,))
    ended(results, "raised", "ok")
    assert results[0].note.startswith("ZeroDivisionError"), results
    same(results[1].value, 5)


@check
def call_tells_what_is_missing_or_broken(sandbox):
    ended(call(sandbox, "def g(): pass", "f"), "missing")
    results = call(sandbox, "def f(:", "f", (), ())
    assert results[0].ended == "raised", results
    assert results[0].note.startswith("SyntaxError"), results
    assert call(sandbox, "import nowhere_to_be_found", "f")[0].ended == "raised"


@check
def call_ends_with_the_process(sandbox):
    for statement in ("import os; os._exit(0)", "import os; os.abort()"):
        results = call(sandbox, f"def f(x):\n    if x: {statement}\n    return x", "f", (0,), (1,), (0,))
        ended(results, "ok", "exited")
    assert call(sandbox, "def f():\n    raise SystemExit(0)", "f")[0].ended in ("raised", "exited")


@check
def call_limits_time_and_memory(sandbox):
    ended(call(sandbox, "def f():\n    while True: pass", "f", (), (), limits=BRIEF), "timeout")
    (called,) = call(sandbox, "def f():\n    return len(bytearray(1 << 30))", "f", limits=SMALL)
    assert called.ended in ("memory", "raised"), called


VALUES: list[Any] = [
    *(None, ..., True, False, 0, -1, 2**62, -(2**63), 2**64, 10**300, -(10**40)),
    *(
        0.5,
        -0.0,
        math.inf,
        -math.inf,
        1e308,
        3 + 4j,
        "",
        "text ä 😀 \x00",
        "\ud800",
        b"",
        b"\x00\xff",
        bytearray(b"ab"),
    ),
    *([], [1, [2, [3]]], list(range(1000)), [0.5] * 1000, (), (1, ("a", None)), {}, {"a": [1], 2: (3,), None: {}}),
    *(set(), {1, 2}, frozenset({"a"}), {(1, 2): {3}}, deque([1, 2]), range(1, 10, 3), [True, 1, 1.0]),
    *(decimal.Decimal("1.50"), fractions.Fraction(1, 3), datetime.date(2024, 2, 29), datetime.timedelta(1, 2, 3)),
    *(datetime.datetime(2024, 2, 29, 12, 30, 1, 5), datetime.time(1, 2, 3)),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
]


@check
def call_passes_every_kind_of_plain_data(sandbox):
    results = call(sandbox, "def f(x):\n    return x", "f", *((value,) for value in VALUES))
    same(len(results), len(VALUES))
    for value, called in zip(VALUES, results, strict=True):
        assert called.ended == "ok", f"{value!r}: {called}"
        assert type(called.value) is type(value), f"{value!r} came back as {called.value!r}"
        assert repr(called.value) == repr(value), f"{value!r} came back as {called.value!r}"
    (called,) = call(sandbox, "def f(x):\n    return x", "f", (math.nan,))
    assert math.isnan(called.value)


@check
def call_flattens_subclasses(sandbox):
    source = """
import collections, enum
class I(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
class L(list):
    def __len__(self): return 99
    def __eq__(self, other): return True
class S(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
class E(enum.IntEnum):
    A = 7
P = collections.namedtuple("P", "x y")
def f():
    return [I(3), L([1]), S("s"), E.A, P(1, 2), collections.Counter("aa"), collections.OrderedDict(a=1), {I(1): L()}]
"""
    (called,) = call(sandbox, source, "f")
    same(called.value, [3, [1], "s", 7, (1, 2), {"a": 2}, {"a": 1}, {1: []}])
    same([type(value) for value in called.value], [int, list, str, int, tuple, dict, dict, dict])


@check
def call_refuses_what_is_no_plain_data(sandbox):
    source = """
def f(kind):
    generator, module = (x for x in ()), __import__('sys')
    return {'object': object(), 'function': f, 'generator': generator, 'module': module}[kind]
"""
    for called in call(sandbox, source, "f", *((kind,) for kind in ("object", "function", "generator", "module"))):
        assert called.ended in ("raised", "output"), called
        assert called.value is None, called


@check
def call_survives_values_without_end(sandbox):
    source = """
def f(kind):
    if kind == "cycle":
        x = []; x.append(x); return x
    if kind == "dict":
        x = {}; x[1] = x; return x
    if kind == "deep":
        x = []
        for _ in range(100_000): x = [x]
        return x
    return 1
"""
    results = call(sandbox, source, "f", ("cycle",), ("dict",), ("deep",), ("fine",))
    for called in results[:3]:
        assert called.ended not in ("ok", "unusable"), called
    assert results[-1].ended != "ok" or results[-1].value == 1, results


@check
def call_passes_large_values(sandbox):
    results = call(sandbox, "def f(n):\n    return ['x' * 100] * n, list(range(n))", "f", (4000,))
    same((results[0].ended, len(results[0].value[0]), results[0].value[1][-1]), ("ok", 4000, 3999))
    text = "ab" * 200_000
    same(call(sandbox, "def f(x):\n    return x", "f", (text,))[0].value, text)


@check
def call_refuses_values_that_are_too_large(sandbox):
    (called,) = call(sandbox, "def f():\n    return 'x' * (40 << 20)", "f")
    assert called.ended != "ok", "a value of 40 MB came through"
    (called,) = call(sandbox, "def f():\n    return [None] * 3_000_000", "f")
    assert called.ended != "ok", "a list of 3,000,000 came through"


@check
def call_does_not_show_output(sandbox):
    results = call(
        sandbox, "import sys\nprint('loading')\ndef f():\n    print('x' * 100_000)\n    return 1", "f", (), ()
    )
    same([called.value for called in results], [1, 1])


@check
def call_survives_a_program_that_writes_to_every_descriptor(sandbox):
    source = """
import os
def f():
    for fd in range(64):
        try: os.write(fd, b'\\x04\\x00\\x00\\x00abcd' * 50)
        except OSError: pass
    return 7
"""
    for called in call(sandbox, source, "f", (), ()):
        assert called.ended in ENDED, called
        assert called.ended != "unusable", called


GOODBYES = {
    "closes every descriptor and goes on": "import os, time\nos.closerange(3, 64)\ntime.sleep(30)",
    "writes nonsense to every descriptor and goes on": (
        "import os, time\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 50)\n    except OSError: pass\n"
        "time.sleep(30)"
    ),
    "kills itself": "import os, time\nos.kill(os.getpid(), 9)\nraise ValueError('still there')",
    "kills its thread": "import ctypes, os\nctypes.CDLL(None).abort()",
}


@check
def run_judges_a_program_that_does_not_answer(sandbox):
    for name, source in GOODBYES.items():
        (ran,) = run(sandbox, source, limits=BRIEF)
        assert ran.ended in ("raised", "exited", "timeout", "output"), f"a program that {name}: {ran}"


@check
def call_judges_a_program_that_does_not_answer(sandbox):
    for name, source in GOODBYES.items():
        (called,) = call(sandbox, f"def f():\n    exec({source!r})", "f", limits=BRIEF)
        assert called.ended in ("raised", "exited", "timeout", "output"), f"a program that {name}: {called}"


# ------------------------------------------------------------------------------------------------------------- testing


@check
def tests_pass_and_fail(sandbox):
    source = "def joined(a, b):\n    return a + b"
    tests = ("assert joined(1, 2) == 3", "assert joined(1, 2) == 4", "assert joined([1], [2]) == [1, 2]")
    results = tested(sandbox, source, *tests)
    ended(results, "ok", "raised", "ok")
    assert "joined(1, 2)" in results[1].note, results[1]


@check
def tests_share_a_namespace(sandbox):
    results = tested(sandbox, "def f(x):\n    return x", "y = f(2)", "assert y == 2", "y += 1\nassert f(y) == 3")
    ended(results, "ok", "ok", "ok")


@check
def tests_see_what_a_function_does_to_its_arguments(sandbox):
    source = (
        "def in_order(x):\n    x.sort()\ndef both(x):\n    x.append(1)\n    return x\ndef fill(d):\n    d['a'] = [1]"
    )
    results = tested(
        sandbox,
        source,
        "x = [2, 1]\nin_order(x)\nassert x == [1, 2]",
        "d = {}\nfill(d)\nassert d == {'a': [1]}",
        "x = []\nassert both(x) == [1]\nassert x == []",
    )
    ended(results, "ok", "ok", "ok")


@check
def tests_see_exceptions(sandbox):
    source = """
class Own(ValueError): pass
def f(x):
    raise {0: KeyError('k'), 1: Own('mine'), 2: ZeroDivisionError()}[x]
"""
    catch = "try:\n    f({})\nexcept {}{}:\n    pass\nelse:\n    assert False"
    results = tested(
        sandbox,
        source,
        catch.format(0, "KeyError", " as error"),
        catch.format(1, "Own", ""),
        catch.format(1, "ValueError", ""),
        catch.format(2, "ArithmeticError", ""),
        "f(0)",
    )
    ended(results, "ok", "ok", "ok", "ok", "raised")


@check
def tests_use_closures_callbacks_and_generators(sandbox):
    source = """
def adding(n):
    return lambda x: x + n
def apply_all(f, xs):
    return [f(x) for x in xs]
def up_to(n):
    i = 0
    while i < n:
        yield i
        i += 1
def added(xs):
    return sum(xs)
async def plus_one(x):
    return x + 1
"""
    results = tested(
        sandbox,
        source,
        "assert adding(2)(3) == 5",
        "assert apply_all(lambda x: x * 2, [1, 2]) == [2, 4]",
        "assert list(up_to(3)) == [0, 1, 2]",
        "g = up_to(2)\nassert next(g) == 0 and next(g) == 1\n"
        "try:\n    next(g)\nexcept StopIteration:\n    pass\nelse:\n    assert False",
        "assert added(x for x in [1, 2]) == 3",
        "import asyncio\nassert asyncio.run(plus_one(1)) == 2",
        "assert apply_all(adding(1), [1]) == [2]",
    )
    ended(results, *["ok"] * 7)


@check
def tests_use_classes(sandbox):
    source = """
class Stack:
    def __init__(self, items=()):
        self.items = list(items)
    def push(self, x):
        self.items.append(x)
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i]
    def __add__(self, other):
        return Stack(self.items + other.items)
def make():
    return Stack([1])
"""
    results = tested(
        sandbox,
        source,
        "s = Stack()\ns.push(5)\nassert s.items == [5] and len(s) == 1 and s[0] == 5",
        "assert isinstance(make(), Stack)",
        "assert not isinstance(3, Stack)",
        "assert (make() + Stack([2])).items == [1, 2]",
    )
    ended(results, "ok", "ok", "ok", "ok")


@check
def tests_find_the_function_they_are_about_where_a_library_has_the_name(sandbox):
    for name in ("add", "count", "sum", "reduce", "math"):
        source = f"def {name}(x):\n    return [x]"
        ended(tested(sandbox, source, f"assert {name}(1) == [1]", function=name), "ok")
        ended(tested(sandbox, "x = 1", f"assert {name}(1) == [1]", function=name), "missing")


@check
def tests_have_setup_and_helpers(sandbox):
    helpers = "def helper(x):\n    return x + 1\nclass Node:\n    def __init__(self, v):\n        self.v = v"
    source = f"{helpers}\ndef f(x):\n    return helper(x)\ndef g(node):\n    return node.v"
    setup = "def check(candidate):\n    assert candidate(1) == 2"
    tests = ("check(f)", "assert f(1) == helper(1)", "assert g(Node(4)) == 4")
    ended(tested(sandbox, source, *tests, setup=setup, helpers=helpers, function="f"), "ok", "ok", "ok")


@check
def tests_that_cannot_be_run_are_unusable(sandbox):
    source = "def f():\n    return 1"
    ended(tested(sandbox, source, "assert f( == 1"), "unusable")
    ended(tested(sandbox, source, "assert f() == 1", setup="import nowhere_to_be_found"), "unusable")


@check
def tests_without_the_function_fail(sandbox):
    results = tested(sandbox, "def g():\n    return 1", "assert f() == 1", function="f")
    ended(results, "missing")


@check
def tests_end_with_the_programs_process(sandbox):
    for statement in ("os._exit(0)", "os.abort()"):
        results = tested(
            sandbox, f"import os\ndef f(x):\n    if x: {statement}\n    return x", "assert f(0) == 0", "f(1)", "f(0)"
        )
        ended(results, "ok", "exited")
    for statement in ("sys.exit(0)", "raise SystemExit"):
        results = tested(sandbox, f"import sys\ndef f():\n    {statement}", "f()")
        assert results[0].ended in ("raised", "exited"), results


@check
def tests_judge_a_program_that_does_not_answer(sandbox):
    for name, source in GOODBYES.items():
        for program in (source, f"def f():\n    exec({source!r})"):
            (result,) = tested(sandbox, program, "f()", limits=BRIEF)
            assert result.ended in ("raised", "exited", "timeout", "output"), f"a program that {name}: {result}"


@check
def tests_of_a_program_that_ends_while_it_is_loaded_fail(sandbox):
    for program in ("raise SystemExit(0)", "import os; os._exit(0)", "import sys; sys.exit()", "1 / 0", "def f(:"):
        results = tested(sandbox, program, "assert f() == 1")
        assert results[0].ended in ("raised", "exited"), f"{program}: {results}"
        same(len(results), 1) if results[0].ended != "raised" else None


@check
def tests_limit_time(sandbox):
    source = "def f(x):\n    while x: pass\n    return x"
    ended(tested(sandbox, source, "assert f(0) == 0", "f(1)", "f(0)", limits=BRIEF), "ok", "timeout")


@check
def tests_limit_memory(sandbox):
    results = tested(sandbox, "def f():\n    return len(bytearray(1 << 30))", "assert f() == 1 << 30", limits=SMALL)
    ended(results, "memory")


@check
def tests_are_not_fooled_by_objects(sandbox):
    source = """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    def __hash__(self): return 0
    def __bool__(self): return True
    def __contains__(self, other): return True
    def __instancecheck__(self, other): return True
class Number(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
def f(x):
    return {0: Any(), 1: Number(1), 2: [Any()], 3: {"a": Any()}}[x]
"""
    tests = ("assert f(0) == 2", "assert f(1) == 2", "assert f(2) == [2]", "assert f(3)['a'] == 2")
    tests += ("assert 5 in f(0)", "assert abs(f(1) - 2) < 1e-6")
    for test, result in zip(tests, tested(sandbox, source, *tests), strict=False):
        assert result.ended != "ok", f"{test} passed"


@check
def tests_do_not_reach_the_program(sandbox):
    secret = "secret_" + "9137"
    source = """
import builtins, gc, sys, os
def f():
    frames, frame = [], sys._getframe()
    while frame is not None:
        frames.append(str(frame.f_locals)[:100_000] + str(list(frame.f_globals.values()))[:100_000])
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) in (list, dict, tuple) and len(thing) < 100:
            try: frames.append(str(thing)[:10_000])
            except BaseException: pass
    word = "secret_" + str(9000 + 137)
    return any(word in text for text in frames)
def unused(): return 1
"""
    results = tested(sandbox, source, f"assert f() == False, {secret!r}", f"assert unused() == {secret!r}")
    ended(results, "ok", "raised")


@check
def tests_are_not_changed_by_a_program_that_patches(sandbox):
    source = """
import builtins, math
builtins.abs = lambda x: 0
builtins.len = lambda x: 3
math.isclose = lambda *a, **k: True
abs = len = lambda x: 0
def f():
    return 5
"""
    tests = ("import math", "assert math.isclose(f(), 6)", "assert abs(f() - 6) < 1e-9", "assert len([f()]) == 3")
    for test, result in zip(tests[1:], tested(sandbox, source, *tests)[1:], strict=False):
        assert result.ended != "ok", f"{test} passed"


# ----------------------------------------------------------------------------------------------------------- isolation


@check
def isolation_is_reported(sandbox):
    isolation = sandbox.isolation()
    assert isolation.level in LEVELS, isolation
    assert isolation.layers, "no layer is named"
    assert str(isolation).startswith(isolation.level)


@check
def isolation_hides_files(sandbox):
    if not at_least(sandbox, "restricted"):
        return
    source = """
import os
def look(path):
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False
"""
    paths = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/home", "/var/log", "/proc/self/environ"]
    paths += ["/proc/1/environ", "/proc/1/root/etc/passwd", "/proc/self/maps", "/sys/kernel", "/dev/mem", "/dev/kmsg"]
    # Of the home folder, an interpreter that is installed in there may show, and nothing else.
    paths += [__file__, *(os.path.expanduser(f"~/{name}") for name in (".bashrc", ".profile", ".ssh", ".netrc"))]
    for path, called in zip(paths, call(sandbox, source, "look", *((path,) for path in paths)), strict=True):
        assert called.value is False, f"a program can read {path}: {called}"


@check
def isolation_keeps_files_as_they_are(sandbox):
    if not at_least(sandbox, "restricted"):
        return
    source = """
import os
def harm(how, path):
    try:
        if how == "write":
            open(path + "/trl_grpo_ext_was_here", "w").close()
        elif how == "link":
            os.symlink("/etc/passwd", "link"); open("link").read()
        else:
            os.mknod("device", 0o20666, os.makedev(1, 3)); open("device", "wb").write(b"x")
    except OSError:
        return False
    return True
"""
    folders = ["/", "/etc", "/usr/lib", "/var/tmp", "/dev/shm", "/root", "/proc/self"]
    asked = [("write", folder) for folder in folders] + [("link", ""), ("device", "")]
    for (how, path), called in zip(asked, call(sandbox, source, "harm", *asked), strict=True):
        assert called.value is False, f"a program can {how} {path}: {called}"


@check
def isolation_hides_the_environment(sandbox):
    (called,) = call(sandbox, "import os\ndef f():\n    return dict(os.environ)", "f")
    for name, value in called.value.items():
        assert "SECRET" not in name.upper(), f"a program sees {name}"
        assert "/root" not in value, f"a program sees {name}={value}"
        assert "/home" not in value, f"a program sees {name}={value}"


@check
def isolation_refuses_network_processes_and_signals(sandbox):
    if not at_least(sandbox, "seccomp"):
        return
    source = """
import ctypes, os, signal, socket, subprocess
def attempt(what):
    try:
        if what == "tcp": socket.create_connection(("127.0.0.1", 22), 0.2)
        elif what == "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
        elif what == "listen": socket.create_server(("127.0.0.1", 0))
        elif what == "unix": socket.socket(socket.AF_UNIX).bind("x")
        elif what == "subprocess": subprocess.run(["/bin/true"])
        elif what == "system": return os.system("true") == 0
        elif what == "exec": os.execv("/bin/true", ["true"])
        elif what == "fork": os.fork() or os._exit(0)
        elif what == "parent": os.kill(os.getppid() or 2, 0)
        elif what == "all": os.kill(-1, 0)
        elif what == "ptrace": return ctypes.CDLL(None).ptrace(16, os.getppid() or 2, 0, 0) == 0
        elif what == "unshare": return ctypes.CDLL(None).unshare(0x10000000) == 0
        elif what == "mount": return ctypes.CDLL(None).mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0
        elif what == "setuid": os.setuid(0 if os.getuid() else 1)
    except OSError:
        return False
    return True
"""
    asked = ("tcp", "udp", "listen", "unix", "subprocess", "system", "exec", "fork", "parent", "all", "ptrace")
    asked += ("unshare", "mount", "setuid")
    for what, called in zip(asked, call(sandbox, source, "attempt", *((what,) for what in asked)), strict=True):
        assert called.value is False, f"not refused to a program: {what} ({called})"


@check
def isolation_gives_each_job_an_empty_folder(sandbox):
    source = """
import os, tempfile
def f():
    before = os.listdir('.'), os.listdir(tempfile.gettempdir())
    open('mine', 'w').write('x')
    return before
"""
    for _ in range(2):
        (called,) = call(sandbox, source, "f")
        same(called.value, ([], []))


WRITE = """
import os

def write(name, size):
    try:
        with open(name, 'wb', buffering=0) as file:
            while size:
                size -= file.write(bytes(min(size, 1 << 20)))
    except OSError:
        return os.path.getsize(name)
    return 'written'
"""


@check
def file_bytes_bound_the_size_of_one_file(sandbox):
    """Of each file for itself; with `output_bytes` above it, that is the bound."""
    most = 2 << 20
    files = (("first", most), ("second", most), ("third", most + 1))
    results = call(sandbox, WRITE, "write", *files, limits=Limits(file_bytes=most, output_bytes=most // 2))
    same([called.value for called in results], ["written", "written", most])
    results = call(
        sandbox, WRITE, "write", ("first", most), ("second", most + 2), limits=Limits(file_bytes=10, output_bytes=most)
    )
    same(results[0].value, "written")
    assert results[1].value in (most, most + 1), results  # by one more, a sandbox sees that there would be more output


@check
def isolation_bounds_what_is_written_in_all(sandbox):
    if at_least(sandbox, "namespaces"):  # below, the folder is one of the machine's
        results = call(sandbox, WRITE, "write", *((str(number), 1 << 20) for number in range(33)))
        assert results[-1].value != "written", "33 MiB fitted into a folder of 32"
        assert all(called.value == "written" for called in results[:30]), results


@check
def isolation_hides_other_jobs(sandbox):
    """No program sees a folder, a process or a variable of another that runs at the same time."""
    source = """
import os, time
open('mine', 'w').write('x')
first = os.listdir('.')
time.sleep(0.2)
print(first, os.listdir('.'))
"""
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: run(sandbox, source), range(4)))
    for (ran,) in results:
        same(ran.output, "['mine'] ['mine']\n")


# -------------------------------------------------------------------------------------------------------- many at once


@check
def many_jobs_from_many_threads(sandbox):
    def job(number: int) -> None:
        if number % 3 == 0:
            same(run(sandbox, "print(int(input()) + 1)", str(number))[0].output, f"{number + 1}\n")
        elif number % 3 == 1:
            same(call(sandbox, "def f(x):\n    return [x]", "f", (number,))[0].value, [number])
        else:
            ended(tested(sandbox, "def f(x):\n    return x", f"assert f({number}) == {number}"), "ok")

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(job, number) for number in range(24)]:
            done.result(timeout=120)


@check
def an_iterator_that_is_closed_early_frees_its_worker(sandbox):
    job = Run("print(input())", tuple(map(str, range(50))))
    for _ in range(sandbox.workers + 1):
        results = iter(sandbox.run(job))
        same(next(results).output, "0\n")
        results.close()
    abandoned = [iter(sandbox.run(job)) for _ in range(sandbox.workers)]
    for results in abandoned:
        next(results)
    del results, abandoned
    done = threading.Event()

    def last() -> None:
        same(run(sandbox, "print(1)")[0].output, "1\n")
        done.set()

    threading.Thread(target=last, daemon=True).start()
    assert done.wait(60), "no worker was free after iterators had been closed"


@check
def an_iterator_that_was_never_begun_holds_no_worker(sandbox):
    waiting = [sandbox.run(Run("print(1)", ("",))) for _ in range(sandbox.workers + 2)]
    same(run(sandbox, "print(2)")[0].output, "2\n")
    for results in waiting:
        with contextlib.closing(results):
            same(next(iter(results)).output, "1\n")


@check
def no_results_are_asked_for_nothing(sandbox):
    same(list(sandbox.run(Run("print(1)", ()))), [])
    same(list(sandbox.call(Calls("def f(): pass", "f", ()))), [])
