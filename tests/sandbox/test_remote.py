"""The services over HTTP, against a server that speaks as they do; no real one is asked."""

import base64
import os
import shutil
import subprocess
import sys
import threading

import pytest

from tests.sandbox.services import Service, service
from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import SANDBOXES, Calls, Limits, Run, Tests, open_sandbox, options, retrying
from trl_grpo_ext.sandbox.remote import PistonSandbox, SandboxFusion


pytestmark = pytest.mark.sandbox

JOB = Calls("def f(x):\n    return x + 1", "f", ((1,), (2,)))
SERVICES = [SandboxFusion, PistonSandbox]
ONE_ALWAYS = [SandboxFusion, pytest.param(PistonSandbox, marks=pytest.mark.slow)]  # what hardly differs
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")


@pytest.fixture
def running(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(retrying, "_pause", lambda failures, first: 0.0)
    with service() as started:
        yield started


def _values(sandbox, job=JOB):
    return [called.value for called in sandbox.call(job)]


def test_the_names_are_known(running):
    assert SANDBOXES.get("sandbox_fusion") is SandboxFusion
    assert SANDBOXES.get("piston") is PistonSandbox
    opened = open_sandbox({"name": "sandbox_fusion", "url": running.url, "minimum": "limits"})
    assert _values(opened) == [2, 3]


@pytest.mark.parametrize("kind", SERVICES)
def test_a_job_is_one_request_and_tests_are_not_in_the_program(running, kind):
    sandbox = kind(running.url, minimum="limits")
    assert _values(sandbox) == [2, 3]
    assert len(running.requests) == 2, "one to find the isolation, one for the job"
    list(sandbox.test(Tests("def f(): pass", ("assert f() == 'expected_9137'",))))
    body = running.requests[-1]
    assert len(running.requests) == 3
    code = body["code"] if kind is SandboxFusion else body["files"][0]["content"]
    assert "expected_9137" not in code
    assert len(code) < 500


@pytest.mark.parametrize("kind", ONE_ALWAYS)
def test_requests_have_headers_and_limits(running, kind):
    sandbox = kind(running.url + "/", minimum="limits", headers={"Authorization": "Bearer x"}, time_scale=1.0)
    job = Calls(JOB.source, JOB.function, JOB.arguments, limits=Limits(seconds=3.0))
    assert _values(sandbox, job) == [2, 3]
    assert running.headers[-1]["Authorization"] == "Bearer x"
    assert running.headers[-1]["Content-Type"] == "application/json"
    body = running.requests[-1]
    assert body["run_timeout"] == (72.0 if kind is SandboxFusion else 72_000)


@pytest.mark.parametrize("kind", ONE_ALWAYS)
def test_a_service_that_fails_is_asked_again(running, kind):
    sandbox = kind(running.url, minimum="limits")
    sandbox.isolation()
    running.mishaps += ["500", "closed", "half"]
    assert _values(sandbox) == [2, 3]
    assert running.mishaps == []


MISHAPS = ["500", "429", "garbage", "truncated", "closed", "empty"]


@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize("kind", SERVICES)
def test_every_mishap_is_met_with_another_attempt(running, kind, mishap):
    running.mishaps += [mishap, "", mishap]
    results = kind(running.url, attempts=2).run(Run("cat", ("a", "b"), language="bash"))
    assert [ran.output for ran in results] == ["a", "b"]
    assert running.mishaps == []


@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize("kind", SERVICES)
def test_a_service_that_goes_on_failing_is_an_error_and_no_result(running, kind, mishap):
    running.mishaps += [mishap] * 3
    with pytest.raises(SandboxError, match=running.url):
        list(kind(running.url, attempts=3).run(Run("cat", ("a",), language="bash")))
    assert running.mishaps == []


@pytest.mark.parametrize("kind", SERVICES)
def test_a_service_that_hangs_is_given_up(running, kind, monkeypatch):
    from trl_grpo_ext.sandbox import remote

    monkeypatch.setattr(options, "_SPARE_SECONDS", 0.1)
    monkeypatch.setattr(remote, "_COMPILE_SECONDS", 0.1)
    sandbox = kind(running.url, attempts=2, patience=0.1, minimum="limits")
    running.mishaps += ["hang"] * 2
    with pytest.raises(SandboxError, match="cannot be reached"):
        sandbox.isolation()


def test_a_service_that_is_not_there_is_told():
    with Closed() as url, pytest.raises(SandboxError, match="is the service running"):
        SandboxFusion(url, attempts=1).isolation()


class Closed:
    """The address of a server that has gone."""

    def __enter__(self) -> str:
        gone = Service()
        gone.close()
        return gone.url

    def __exit__(self, *error: object) -> None:
        pass


def test_the_pause_grows_and_differs():
    first, fourth = ([retrying._pause(n, 0.5) for _ in range(50)] for n in (1, 4))
    assert max(first) <= 0.5 < min(fourth)
    assert len(set(first)) > 10
    assert retrying._pause(40, 0.5) <= 30
    assert retrying._pause(40, 0.0) == 0.0


def test_a_job_goes_on_where_it_was_and_what_cannot_change_is_not_tried_again():
    begun = []

    def attempt(error):
        begun.append(error)
        yield from range(len(begun))
        raise error

    results = retrying.resumed(lambda: attempt(retrying.Unavailable("gone")), 3, pause=0.0)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(retrying.Unavailable):
        next(results)
    assert len(begun) == 3
    begun.clear()
    with pytest.raises(SandboxError, match="no compiler"):
        list(retrying.resumed(lambda: attempt(SandboxError("no compiler")), 3))
    assert len(begun) == 1


def test_a_request_that_is_wrong_is_not_repeated(running):
    sandbox = PistonSandbox(running.url, minimum="limits")
    sandbox.isolation()
    running.most_milliseconds = 3000
    before = len(running.requests)
    with pytest.raises(SandboxError, match=r"cannot exceed the configured limit of 3000; .*PISTON_RUN_TIMEOUT"):
        _values(sandbox)
    assert len(running.requests) == before + 1


def test_a_request_that_is_too_large_for_piston_is_told(running):
    too_large = {"stack": f"PayloadTooLargeError: request entity too large\n{'    at somewhere' * 50}"}
    running.answers["/api/v2/execute"] = lambda body: (400, too_large)
    with pytest.raises(SandboxError, match="this task is not for Piston"):
        PistonSandbox(running.url).isolation()


def test_a_language_that_the_service_does_not_have_is_told_in_its_words(running):
    with pytest.raises(SandboxError, match="cobol-\\* runtime is unknown"):
        list(PistonSandbox(running.url).run(Run("", ("",), language="cobol")))
    with pytest.raises(SandboxError, match="Input should be"):
        list(SandboxFusion(running.url).run(Run("", ("",), language="cobol")))


def test_a_piston_with_its_own_defaults_is_found_out(running):
    running.output_max_size = 1024
    with pytest.raises(SandboxError, match="PISTON_OUTPUT_MAX_SIZE=1048576"):
        PistonSandbox(running.url, minimum="limits").isolation()
    assert _values(PistonSandbox(_small(running), output_max_size=50_000, minimum="limits")) == [2, 3]


def _small(running):
    running.output_max_size = 50_000
    return running.url


@pytest.mark.parametrize("kind", ONE_ALWAYS)
def test_results_that_are_more_than_comes_through_are_output(running, kind):
    running.output_max_size = 50_000
    options = {"output_max_size": 50_000} if kind is PistonSandbox else {}
    results = list(kind(running.url, minimum="limits", **options).run(Run("print('x' * 20_000)", ("",) * 3)))
    if kind is PistonSandbox:
        assert [ran.ended for ran in results] == ["ok", "output"]
    else:
        assert [len(ran.output) for ran in results] == [20_001] * 3


@pytest.mark.parametrize("kind", SERVICES)
def test_a_level_that_is_too_low_is_refused(running, kind, monkeypatch):
    from trl_grpo_ext.sandbox import agent

    answer = agent.join([agent.FAILED + b"this machine isolates programs at the level limits", b""])

    def answered(self, files, seconds):
        nonce = agent.decode(agent.split(files["order.bin"])[0])[0]
        return nonce + base64.b64encode(answer), ""

    monkeypatch.setattr(kind, "_run_agent", answered)
    with pytest.raises(SandboxError, match="at the level limits"):
        kind(running.url, attempts=5).isolation()


@pytest.mark.parametrize("kind", SERVICES)
def test_an_agent_that_does_not_start_is_told_in_its_words(running, kind, monkeypatch):
    from trl_grpo_ext.sandbox import remote

    monkeypatch.setattr(remote, "bundle", lambda: b"no zip at all")
    with pytest.raises(SandboxError, match=r"gave no answer: .*Error"):
        kind(running.url, attempts=2).isolation()


@pytest.mark.parametrize("kind", ONE_ALWAYS)
def test_what_a_program_prints_is_no_answer(running, kind):
    fake = base64.b64encode(b"anything").decode()
    source = f"""
import os
for fd in range(64):
    try: os.write(fd, b'{fake}')
    except OSError: pass
def f():
    return 1
"""
    for called in kind(running.url, minimum="limits").call(Calls(source, "f", ((),))):
        assert called.ended in ("ok", "raised", "exited", "output")


@pytest.mark.parametrize("kind", SERVICES)
class TestOtherLanguages:
    """Bash stands for all that the services run directly; C++ for those that are compiled."""

    def test_each_input_is_a_request(self, running, kind):
        results = list(kind(running.url).run(Run("read x; echo $((x + 1))", ("1\n", "41\n"), language="bash")))
        assert [(ran.ended, ran.output) for ran in results] == [("ok", "2\n"), ("ok", "42\n")]
        assert [body["stdin"] for body in running.requests] == ["1\n", "41\n"]

    def test_ends_are_told_apart(self, running, kind):
        job = Run('read x; echo begun; eval "$x"', ("exit 3", "kill -SEGV $$", "sleep 20"), language="bash")
        limited = Run(job.source, job.inputs, "bash", Limits(seconds=0.5))
        results = list(kind(running.url).run(limited))
        assert [ran.ended for ran in results] == ["exited", "exited", "timeout"]
        assert "3" in results[0].note
        assert results[0].output == "begun\n"

    def test_too_much_output_is_told(self, running, kind):
        running.output_max_size = 100_000
        job = Run("yes | head -c 300000", ("",), language="bash")
        assert [ran.ended for ran in kind(running.url).run(job)] == ["output"]
        small = Run("echo 1234567890", ("",), "bash", Limits(output_bytes=5))
        assert [(ran.ended, ran.output) for ran in kind(running.url).run(small)] == [("output", "12345")]

        wide = Run("echo äää", ("",), "bash", Limits(output_bytes=4))
        assert [ran.output for ran in kind(running.url).run(wide)] == ["ää"], "bytes count, not characters"

    def test_all_inputs_share_the_time(self, running, kind):
        job = Run('read x; echo begun; sleep "$x"', ("0.6", "0", "5", "0"), "bash", Limits(seconds=0.75))
        results = list(kind(running.url, time_scale=2.0).run(job))
        assert [ran.ended for ran in results] == ["ok", "ok", "timeout"]
        assert "not done within" in results[-1].note
        given = [body["run_timeout"] for body in running.requests]
        assert given[0] == (1.5 if kind is SandboxFusion else 1500)
        assert given[1] < given[0] * 0.61
        assert given[2] < given[1]

    def test_an_input_without_time_left_is_not_sent(self, running, kind):
        job = Run("sleep 0.2", ("", "", ""), "bash", Limits(seconds=5.0))
        sandbox = kind(running.url)
        answer = running.answers[sandbox.path]

        def slow(body):
            status, said = answer(body)
            stage = said.get("run_result") or said["run"]
            stage.update({"execution_time": 5.5, "wall_time": 5500})
            return status, said

        running.answers[sandbox.path] = slow
        assert [ran.ended for ran in sandbox.run(job)] == ["ok", "timeout"]
        assert len(running.requests) == 1

    @needs_compiler
    def test_a_program_that_does_not_compile_has_raised_once(self, running, kind):
        (ran,) = kind(running.url).run(Run("int main( {", ("", "", ""), language="cpp"))
        assert ran.ended == "raised"
        assert ran.note.startswith("CompileError: ")
        assert len(running.requests) == 1

    @needs_compiler
    def test_a_compiled_program_runs(self, running, kind):
        source = "#include <iostream>\nint main() { int x; std::cin >> x; std::cout << 2 * x; }"
        results = list(kind(running.url).run(Run(source, ("21",), language="cpp")))
        assert [(ran.ended, ran.output) for ran in results] == [("ok", "42")]


def test_a_service_that_says_it_failed_is_asked_again(running):
    told = {"status": "SandboxError", "message": "no more processes", "compile_result": None, "run_result": None}
    running.answers["/run_code"] = lambda body: (200, told)
    with pytest.raises(SandboxError, match="no more processes"):
        list(SandboxFusion(running.url, attempts=3).run(Run("echo", ("",), language="bash")))
    assert len(running.requests) == 3


def test_a_program_that_piston_could_not_run_is_no_failure_of_it(running):
    stage = {"stdout": "", "stderr": "", "code": None, "signal": None, "message": "no such box", "status": "XX"}
    running.answers["/api/v2/execute"] = lambda body: (200, {"run": stage})
    with pytest.raises(SandboxError, match="no such box"):
        list(PistonSandbox(running.url, attempts=2).run(Run("echo", ("",), language="bash")))


def test_a_program_that_piston_killed_at_its_limit_was_out_of_memory(running):
    stage = {"stdout": "", "stderr": "", "code": None, "signal": "SIGKILL", "status": "SG", "memory": 100_000_000}
    running.answers["/api/v2/execute"] = lambda body: (200, {"run": stage})
    (ran,) = PistonSandbox(running.url).run(Run("x", ("",), "bash", Limits(memory_mb=64)))
    assert ran.ended == "memory"
    (ran,) = PistonSandbox(running.url).run(Run("x", ("",), "bash", Limits(memory_mb=640)))
    assert ran.ended == "exited"


def test_memory_is_limited_where_what_is_reserved_counts(running):
    stage = {"status": "Finished", "execution_time": 0.1, "return_code": 0, "stdout": "", "stderr": ""}
    running.answers["/run_code"] = lambda body: (200, {"status": "Success", "run_result": stage})
    sandbox = SandboxFusion(running.url)
    for language in ("cpp", "javascript"):
        assert [ran.ended for ran in sandbox.run(Run("", ("",), language))] == ["ok"]
    assert [body["language"] for body in running.requests] == ["cpp", "nodejs"]
    assert ["memory_limit_MB" in body for body in running.requests] == [True, False]


def test_a_compiler_that_takes_too_long_is_the_programs_fault(running):
    stage = {"status": "TimeLimitExceeded", "execution_time": 60.0, "return_code": None, "stdout": "", "stderr": ""}
    running.answers["/run_code"] = lambda body: (200, {"status": "Failed", "compile_result": stage})
    (ran,) = SandboxFusion(running.url).run(Run("", ("", ""), "cpp"))
    assert (ran.ended, ran.note) == ("raised", "CompileError: not done within 60 s")


@pytest.mark.parametrize(
    "given",
    [
        {"url": "localhost:8080"},
        {"url": "http://x", "workers": 0},
        {"url": "http://x", "attempts": 0},
        {"url": "http://x", "patience": 0},
        {"url": "http://x", "wrokers": 1},
    ],
)
@pytest.mark.parametrize("kind", SERVICES)
def test_wrong_options_are_refused(kind, given):
    with pytest.raises(ConfigError):
        kind(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "sandbox_fusion"}, "'sandbox_fusion' needs the option 'url'"),
        ({"name": "sandbox_fusion", "ulr": "http://x"}, "no option 'ulr'; did you mean 'url'"),
        ({"name": "piston", "url": "http://x", "atempts": 1}, "no option 'atempts'; did you mean 'attempts'"),
        ({"name": "docker", "imge": "x"}, "no option 'imge'; did you mean 'image'"),
        ({"name": "docker", "pakages": ["numpy"]}, "no option 'pakages'; did you mean 'packages'"),
        ({"name": "local", "packages": "numpy"}, r"packages is 'numpy'; give a list, such as \['numpy'\]"),
        ({"name": "local", "packages": 3}, "packages is 3; give a list"),
        ({"name": "local", "time_scale": "2"}, "time_scale is '2'; it must be a number above 0"),
        ({"name": "local", "time_scale": True}, "time_scale is True"),
    ],
)
def test_wrong_options_of_a_sandbox_by_name_are_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        open_sandbox(given)


def test_an_error_of_a_sandbox_itself_is_not_taken_for_a_wrong_option(monkeypatch):
    def broken(self, *arguments, **options):
        raise TypeError("a mistake of ours")

    monkeypatch.setattr(SandboxFusion, "__init__", lambda self, url: broken(self))
    with pytest.raises(TypeError, match="a mistake of ours"):
        open_sandbox({"name": "sandbox_fusion", "url": "http://mistaken"})


def test_time_to_compile_is_no_time_of_the_program():
    given = options.SandboxOptions(time_scale=1.0)
    python, cpp = (Run("", ("",), language, Limits(seconds=3.0)) for language in ("python", "cpp"))
    assert options.longest_seconds(python, given) == 72.0
    assert options.longest_seconds(cpp, given) == 192.0
    assert options.longest_seconds(python, options.SandboxOptions()) == 108.0


def test_no_more_requests_at_a_time_than_workers(running):
    sandbox = SandboxFusion(running.url, workers=2)
    at_once, most, counting = 0, 0, threading.Lock()
    answer = running.answers["/run_code"]

    def count(body):
        nonlocal at_once, most
        with counting:
            at_once += 1
            most = max(most, at_once)
        try:
            return answer(body)
        finally:
            with counting:
                at_once -= 1

    running.answers["/run_code"] = count
    job = Run("sleep 0.1", ("",), language="bash")
    threads = [threading.Thread(target=lambda: list(sandbox.run(job))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_nothing_starts_at_import():
    code = "import sys, trl_grpo_ext.sandbox.remote, trl_grpo_ext.sandbox.containers, trl_grpo_ext.sandbox.cluster"
    code += "\nprint('ray' in sys.modules)"
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout == "False\n", done.stderr
