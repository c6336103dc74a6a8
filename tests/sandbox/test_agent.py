"""The agent: its bundle, its bytes, and its two ways to be spoken to."""

import base64
import os
import subprocess
import sys
import zipfile

import pytest

from trl_grpo_ext.errors import DataError, SandboxError
from trl_grpo_ext.sandbox import agent
from trl_grpo_ext.sandbox import bundle as bundles
from trl_grpo_ext.sandbox.codec import encode
from trl_grpo_ext.sandbox.jobs import Called, Calls, Limits, Ran, Run, Tested, Tests
from trl_grpo_ext.sandbox.options import Isolation


JOBS = [
    Run("print(1)", ("a", "\ud800"), limits=Limits(seconds=2.5)),
    Run("", (), language="cpp"),
    Calls("def f(): pass", "f", ((1, [2]), ({"a": {3}},))),
    Tests("x = 1", ("assert x", "assert y"), setup="y = 1", helpers="z = 2", function="x"),
]
RESULTS = [
    Ran("ok", "out\x00", "note", 0.25),
    Called("ok", {"a": [1, (2, None)]}),
    Called("raised", None, "ValueError: no"),
    Tested("raised", "assert f() == 1"),
]


@pytest.mark.parametrize("job", JOBS)
def test_jobs_survive_the_way(job):
    assert agent.job_from_bytes(agent.job_to_bytes(job)) == job


@pytest.mark.parametrize("result", RESULTS)
def test_results_survive_the_way(result):
    assert agent.result_from_bytes(agent.result_to_bytes(result)) == result


def test_a_job_with_something_else_than_plain_data_is_the_callers_mistake():
    with pytest.raises(DataError, match="plain data"):
        agent.job_to_bytes(Calls("", "f", ((object(),),)))


def test_each_value_has_the_whole_depth_for_itself():
    value: list = []
    for _ in range(198):
        value = [value]
    assert agent.result_from_bytes(agent.result_to_bytes(Called("ok", value))).value == value


def test_a_result_that_is_too_large_says_so():
    huge = agent.result_from_bytes(agent.result_to_bytes(Ran("ok", "�" * (12 << 20))))
    assert (huge.ended, huge.output) == ("output", "")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x01", b"\xff\xff\xff\xff", agent.join([b"garbage"]), agent.join([encode([1])])),
        agent.join([encode({"kind": "ran", "ended": "won", "note": ""})]),
        agent.join([encode({"kind": "ran", "ended": "ok", "note": 5})]),
        agent.join([encode({"kind": "nothing"})]),
        agent.join([encode({"kind": "ran", "ended": "ok"}), encode(1)]),
    ],
)
def test_what_is_no_result_is_refused(data):
    with pytest.raises(agent.Closed):
        agent.result_from_bytes(data)


@pytest.mark.parametrize("data", [b"", b"x", encode(1), encode(("best", {})), encode(("limits", 1))])
def test_what_is_no_isolation_is_refused(data):
    with pytest.raises(agent.Closed):
        agent.isolation_from_bytes(data)


def test_frames_are_read_as_they_were_written():
    data = bytearray(agent.frame(agent.RESULT, 7, b"payload") + agent.frame(agent.END, 8))

    def read(size: int) -> bytes:
        part = bytes(data[: min(size, 3)])
        del data[: len(part)]
        return part

    assert agent.read_frame(read) == (agent.RESULT, 7, b"payload")
    assert agent.read_frame(read) == (agent.END, 8, b"")
    with pytest.raises(agent.Closed):
        agent.read_frame(read)


def test_a_frame_that_announces_too_much_is_refused():
    with pytest.raises(agent.Closed, match="bytes"):
        agent.read_frame(lambda size: (b"R" + b"\xff" * 8)[:size])


def test_the_bundle_is_small_and_always_the_same():
    bundles.bundle.cache_clear()
    first = bundles.bundle()
    bundles.bundle.cache_clear()
    assert bundles.bundle() == first
    assert len(first) < 60_000, "with base64 and a job, a service that takes 100 kB would refuse it"


def test_the_bundle_holds_the_modules_without_their_documentation():
    import io
    import json

    modules = json.loads(zipfile.ZipFile(io.BytesIO(bundles.bundle())).read("modules.json"))
    assert "trl_grpo_ext/sandbox/inside/zygote.py" in modules
    assert not any("remote" in name or "containers" in name for name in modules)
    for name, source in modules.items():
        compile(source, name, "exec")
        assert "Args:" not in source, name


def test_removing_documentation_keeps_the_code():
    source = '''"""Doc
string."""
# comment
class A(Exception):
    """Only this."""

class B:
    """Doc."""
    x = """# no comment
    stays"""  # goes? no, it stands behind code
'''
    namespace: dict = {}
    exec(bundles._bare(source), namespace)
    assert namespace["B"].x == "# no comment\n    stays"
    assert issubclass(namespace["A"], Exception)
    assert "Doc" not in bundles._bare(source)


@pytest.fixture
def bundle(tmp_path):
    path = tmp_path / "agent.zip"
    path.write_bytes(bundles.bundle())
    return path


def _run(bundle, *arguments: str, **options):
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(bundle.parent)}
    command = [sys.executable, "-I", str(bundle), *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, env=environment, cwd="/", **options)


@pytest.mark.sandbox
def test_the_bundle_does_a_job_without_this_package(bundle, tmp_path):
    order = tmp_path / "order"
    job = Tests("def f(x):\n    return x", ("assert f(1) == 1", "assert f(1) == 2"))
    order.write_bytes(agent.order_once(b"nonce", {"minimum": "limits"}, job, 1 << 20))
    done = _run(bundle, "--once", str(order), "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"nonce")
    isolation, results = agent.read_once(base64.b64decode(done.stdout[5:]))
    assert isinstance(isolation, Isolation)
    assert [result.ended for result in results] == ["ok", "raised"]
    assert not order.exists(), "what holds the tests is still there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.zip"], "something was left behind"


@pytest.mark.sandbox
def test_all_results_together_are_bounded(bundle, tmp_path):
    order = tmp_path / "order"
    job = Run("print('x' * 1000)", ("",) * 5)
    order.write_bytes(agent.order_once(b"n", {"minimum": "limits"}, job, 2500))
    done = _run(bundle, "--once", str(order), str(tmp_path / "answer"))
    assert done.stdout == b""
    _, results = agent.read_once(base64.b64decode((tmp_path / "answer").read_bytes()[1:]))
    assert [result.ended for result in results] == ["ok", "ok", "output"]


@pytest.mark.sandbox
def test_a_refusal_is_told(bundle, tmp_path):
    order = tmp_path / "order"
    order.write_bytes(agent.order_once(b"n", {"packages": ("not_installed_anywhere",)}, Run("", ()), 1000))
    done = _run(bundle, "--once", str(order), "-")
    with pytest.raises(SandboxError, match="not_installed_anywhere"):
        agent.read_once(base64.b64decode(done.stdout[1:]))


@pytest.mark.sandbox
def test_it_serves_several_jobs_at_a_time_one_result_each(bundle):
    job = agent.job_to_bytes(Run("print(input())", ("a", "b", "c")))
    asked = [
        agent.frame(agent.OPEN, 0, encode({"minimum": "limits", "workers": 2})),
        agent.frame(agent.BEGIN, 1, job),
        agent.frame(agent.BEGIN, 2, job),
    ]
    given, answers = os.pipe(), os.pipe()
    process = subprocess.Popen([sys.executable, "-I", str(bundle)], stdin=given[0], stdout=answers[1])
    os.close(given[0])
    os.close(answers[1])

    def say(kind: bytes, number: int) -> None:
        os.write(given[1], agent.frame(kind, number))

    def hear() -> tuple:
        kind, number, payload = agent.read_frame(lambda size: os.read(answers[0], size))
        return kind, number, agent.result_from_bytes(payload).output if kind == agent.RESULT else payload

    os.write(given[1], b"".join(asked))
    kind, number, payload = hear()
    assert (kind, number) == (agent.READY, 0)
    assert agent.isolation_from_bytes(payload).layers
    assert sorted(hear() for _ in range(2)) == [(agent.RESULT, 1, "a\n"), (agent.RESULT, 2, "a\n")]
    say(agent.CLOSE, 1)
    for text in ("b\n", "c\n"):
        say(agent.NEXT, 2)
        assert hear() == (agent.RESULT, 2, text)
    say(agent.NEXT, 2)
    assert hear() == (agent.END, 2, b"")
    say(agent.NEXT, 1)
    assert hear()[0] == agent.FAILED, "a job that was closed goes on"
    os.close(given[1])
    assert process.wait(20) == 0
    os.close(answers[0])


@pytest.mark.sandbox
def test_it_refuses_options_that_it_does_not_know(bundle):
    done = _run(bundle, input=agent.frame(agent.OPEN, 0, encode({"wrokers": 1})))
    assert done.stdout[:1] == agent.REFUSED
    assert b"did you mean 'workers'" in done.stdout


def test_an_old_python_is_told(tmp_path, bundle):
    import io

    source = zipfile.ZipFile(io.BytesIO(bundles.bundle())).read("__main__.py").decode()
    code = f"import sys\nsys.version_info = (3, 8)\nexec({source!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "needs Python 3.10 or newer" in done.stderr
    assert done.returncode == 1
