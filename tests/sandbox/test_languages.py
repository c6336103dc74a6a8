"""Programs in other languages, where their tools are there."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from trl_grpo_ext.errors import SandboxError
from trl_grpo_ext.sandbox import Limits, Ran, Run, close_sandboxes
from trl_grpo_ext.sandbox.languages import LANGUAGES, find_toolchain, toolchain_of
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.verify.code import verify_code


pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("sandbox-language-tests")]

PROGRAMS = {
    "cpp": {
        "right": "#include <iostream>\nint main() { long long n; while (std::cin >> n) std::cout << n * n << '\\n'; }",
        "syntax": "int main() { return }",
        "type": "#include <string>\nint main() { std::string s = 5 + std::vector<int>(); }",
        "exits": '#include <cstdio>\nint main() { puts("out"); return 3; }',
        "crashes": "int main() { volatile int *p = (int *)8; return *p; }",
        "aborts": "#include <cstdlib>\nint main() { abort(); }",
        "throws": '#include <stdexcept>\nint main() { throw std::runtime_error("x"); }',
        "endless": "int main() { volatile int x = 0; while (true) x = x + 1; }",
        "memory": "#include <vector>\n#include <cstdio>\nint main() { std::vector<char> v(1L << 30, 1);\n"
        'printf("%d", v[9999]); }',
        "forks": '#include <unistd.h>\n#include <cstdio>\nint main() { printf("%d", (int)fork()); }',
        "reads": '#include <fstream>\n#include <iostream>\nint main() { std::ifstream f("PATH");\n'
        "std::cout << (f.good() ? 1 : 0); }",
        "output": '#include <cstdio>\nint main() { while (true) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); }',
        "includes": '#include "/etc/passwd"\nint main() {}',
        "deep": "#include <cstdio>\n"
        "int f(int n) { volatile int a[8] = {n}; return n == 0 ? 0 : 1 + f(n - 1) + a[0] - n; }\n"
        'int main() { printf("%d", f(200000)); }',
    },
    "javascript": {
        "right": "for (const line of require('fs').readFileSync(0, 'utf8').trim().split('\\n'))\n"
        "console.log(Number(line) ** 2);",
        "syntax": "let x = ;",
        "exits": "console.log('out'); process.exitCode = 3;",
        "throws": "throw new Error('x');",
        "endless": "while (true) {}",
        "waits": "setInterval(() => {}, 1000);",
        "memory": "const a = []; while (true) a.push(new Array(1000000).fill(1.5));",
        "forks": "console.log(require('child_process').spawnSync('true').error ? -1 : 1);",
        "reads": "try { require('fs').readFileSync('PATH'); console.log(1) } catch { console.log(0) }",
        "output": "while (true) console.log('x'.repeat(1000));",
        "deep": "const f = n => n === 0 ? 0 : 1 + f(n - 1); console.log(f(50000));",
    },
    "rust": {
        "right": "use std::io::*;\nfn main() { let mut s = String::new(); stdin().read_to_string(&mut s).unwrap();\n"
        'for w in s.split_whitespace() { let n: i64 = w.parse().unwrap(); println!("{}", n * n); } }',
        "syntax": "fn main() { let x = ; }",
        "type": 'fn main() { let x: i32 = "a"; }',
        "exits": 'fn main() { println!("out"); std::process::exit(3); }',
        "throws": 'fn main() { panic!("x"); }',
        "endless": "fn main() { let mut x = 0u64; loop { x = std::hint::black_box(x + 1); } }",
        "memory": 'fn main() { let v = vec![1u8; 1 << 30]; println!("{}", v[std::hint::black_box(9999)]); }',
        "forks": 'fn main() { println!("{}",\n'
        'if std::process::Command::new("true").status().is_ok() { 1 } else { -1 }); }',
        "reads": 'fn main() { println!("{}", std::fs::read("PATH").is_ok() as i32); }',
        "includes": 'fn main() { print!("{}", include_str!("/etc/passwd")); }',
        "deep": "fn f(n: u64) -> u64 { if n == 0 { 0 } else { 1 + f(std::hint::black_box(n - 1)) } }\n"
        'fn main() { println!("{}", f(100000)); }',
    },
}
# Expected: how it ends, and what it prints; a tuple where there are several that are right.
ENDS = {
    "syntax": ("raised",),
    "type": ("raised",),
    "exits": ("exited",),
    "crashes": ("exited",),
    "aborts": ("exited",),
    "throws": ("exited",),
    "endless": ("timeout",),
    "waits": ("timeout",),
    "memory": ("exited", "memory"),
    "output": ("output",),
    "includes": ("raised",),
}
BRIEF = Limits(seconds=1.0, memory_mb=512, output_bytes=1 << 20)


def language(name: str):
    missing = find_toolchain(name) is None
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{LANGUAGES[name].tool} is not installed"))


EACH = pytest.mark.parametrize("name", [language(name) for name in LANGUAGES])


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with contextlib.closing(LocalSandbox(workers=1, isolation="best_effort", time_scale=1.0)) as sandbox:
        yield sandbox


def run(sandbox: LocalSandbox, name: str, source: str, *inputs: str, limits: Limits = BRIEF) -> list[Ran]:
    return list(sandbox.run(Run(source, inputs or ("",), language=name, limits=limits)))


@EACH
def test_a_right_program_prints_what_it_should(sandbox, name):
    ran = run(sandbox, name, PROGRAMS[name]["right"], "3\n4\n", "5\n", "100000\n", limits=Limits(seconds=5))
    assert [(one.ended, one.output) for one in ran] == [("ok", "9\n16\n"), ("ok", "25\n"), ("ok", "10000000000\n")]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        pytest.param(*language(name).values, what, marks=language(name).marks)
        for name in LANGUAGES
        for what in PROGRAMS[name]
        if what in ENDS
    ],
)
def test_a_program_that_fails_is_told(sandbox, name, what):
    (ran,) = run(sandbox, name, PROGRAMS[name][what])
    assert ran.ended in ENDS[what], ran
    if what in ("syntax", "type", "includes") and name != "javascript":
        assert ran.note.startswith("CompileError"), ran
    assert "root:" not in ran.output + ran.note
    if what == "exits":
        assert ran.output == "out\n"


ENDS["syntax"] = ("raised", "exited")  # what is interpreted has no build that fails


@EACH
def test_a_program_starts_no_process(sandbox, name):
    (ran,) = run(sandbox, name, PROGRAMS[name]["forks"], limits=Limits(seconds=5))
    assert ran.output.strip() != "1"
    assert ran.output.strip() in ("-1", "") or ran.ended == "exited"


@EACH
def test_a_program_reads_no_file_of_the_host(sandbox, name):
    if sandbox.isolation().level not in ("restricted", "namespaces"):
        pytest.skip("files of the host can be read here")
    for path in ("/etc/passwd", os.path.abspath(__file__), "/proc/self/environ", "/proc/1/environ"):
        (ran,) = run(sandbox, name, PROGRAMS[name]["reads"].replace("PATH", path), limits=Limits(seconds=5))
        assert (ran.ended, ran.output.strip()) == ("ok", "0"), path


@EACH
def test_deep_recursion_works(sandbox, name):
    (ran,) = run(sandbox, name, PROGRAMS[name]["deep"], limits=Limits(seconds=5))
    assert ran.ended == "ok", ran
    assert int(ran.output) >= 50_000


@EACH
def test_verify_code_takes_the_language(name):
    tag = {"cpp": "cpp", "javascript": "javascript", "rust": "rust"}[name]
    case = {
        "format": "stdio",
        "tests": [{"input": "3\n", "output": "9\n"}, {"input": "5\n", "output": "25\n"}],
        "language": name,
    }
    try:
        right = verify_code(f"```{tag}\n{PROGRAMS[name]['right']}\n```", case)
        assert right.value == 1.0, right
        wrong = verify_code(
            f"```{tag}\n{PROGRAMS[name]['right'].replace('n * n', 'n + n').replace('** 2', '* 2')}\n```", case
        )
        assert wrong.value == 0.0, wrong
        broken = verify_code(f"```{tag}\n{PROGRAMS[name]['syntax']}\n```", case)
        assert broken.value == 0.0, broken
    finally:
        close_sandboxes()


def test_an_unknown_language_is_refused(sandbox):
    with pytest.raises(SandboxError, match="cpp"):
        run(sandbox, "cobol", "x")


def test_a_language_without_its_tool_is_refused(sandbox, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    find_toolchain.cache_clear()
    try:
        with pytest.raises(SandboxError, match="PATH"):
            toolchain_of("cpp")
    finally:
        find_toolchain.cache_clear()


@pytest.mark.skipif(find_toolchain("cpp") is None, reason="g++ is not installed")
def test_languages_have_zygotes_of_their_own_and_close_ends_them(sandbox):
    with contextlib.closing(LocalSandbox(workers=1, isolation="best_effort")) as other:
        run(other, "cpp", "int main() {}")
        list(other.run(Run("print(1)", ("",))))
        processes = other.processes()
        assert len(processes) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in processes)


@pytest.mark.skipif(find_toolchain("cpp") is None, reason="g++ is not installed")
@pytest.mark.parametrize(
    "source",
    [
        "template <int N> struct A { static const int v = A<N - 1>::v + A<N - 2>::v; };\n"
        "int main() { return A<100000>::v; }",
        "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(x))))))\n"
        'const char *s = B(B("a"));\nint main() {}',
        "int x[1 << 28] = {1};\nint main() {}",
        "#include <main.cpp>\nint main() {}",
        '#include "/dev/zero"\nint main() {}',
        "\0\0\0",
        "\ud800",
        "",
    ],
    ids=["templates", "macros", "large", "itself", "device", "zeros", "surrogate", "empty"],
)
@pytest.mark.slow
def test_a_compiler_that_is_attacked_ends(sandbox, source):
    (ran,) = run(sandbox, "cpp", source)
    assert ran.ended in ("raised", "ok", "exited", "memory")
