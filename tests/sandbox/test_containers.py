"""Containers, against a stand-in for `docker` that takes the same command line; no real one is asked."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.sandbox import fake_docker
from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import SANDBOXES, Calls, Run, containers, retrying
from trl_grpo_ext.sandbox.containers import DockerSandbox, PodmanSandbox


pytestmark = pytest.mark.sandbox

ECHO = Run("print(input())", ("a", "b", "c"))


@pytest.fixture
def state(tmp_path):
    with fake_docker.installed(tmp_path):
        yield tmp_path


@pytest.fixture
def sandbox(state):
    opened = DockerSandbox(workers=2, minimum="limits")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A sandbox that nobody harms, and the folder of its runtime."""
    folder = tmp_path_factory.mktemp("docker")
    with fake_docker.installed(folder):
        opened = DockerSandbox(workers=2, minimum="limits")
        yield opened, folder
        opened.close()


def _records(state):
    return [json.loads(path.read_text()) for path in sorted(state.glob("trl_grpo_ext_*.json"))]


def _processes(sandbox):
    return [] if sandbox._container is None else [sandbox._container.process.pid]


def _outputs(sandbox, job=ECHO):
    return [ran.output for ran in sandbox.run(job)]


def test_the_names_are_known():
    assert SANDBOXES.get("docker") is DockerSandbox
    assert SANDBOXES.get("podman") is PodmanSandbox


def test_one_container_with_every_wall_serves_all_jobs(shared):
    sandbox, state = shared
    for _ in range(3):
        assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    (record,) = _records(state)
    assert record["network"] == "none"
    assert record["cap_drop"] == "ALL"
    assert record["security_opt"] == "no-new-privileges"
    assert record["read_only"]
    assert record["user"] == "65534:65534"
    assert record["image"] == "python:3.12-slim"
    assert record["memory"] == record["memory_swap"] == "3072m"
    assert record["tmpfs"].startswith("/tmp:rw,nosuid,nodev,noexec,size=768m")
    assert _processes(sandbox) == [record["pid"]]


def test_the_agent_finds_what_a_default_container_refuses(shared):
    isolation = shared[0].isolation()
    assert isolation.level in ("restricted", "seccomp", "limits")
    assert isolation.layers["docker container"] == "on"
    assert "unshare" in isolation.layers["namespaces"]


def test_podman_is_called_podman(tmp_path):
    with fake_docker.installed(tmp_path, "podman"):
        sandbox = PodmanSandbox(image="own/image:1", workers=1, minimum="limits", memory_mb=512)
        try:
            assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
        finally:
            sandbox.close()
    (record,) = _records(tmp_path)
    assert (record["image"], record["memory"], record["cpus"]) == ("own/image:1", "512m", "1")


def test_nothing_is_left_after_close(sandbox, state):
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    (record,) = _records(state)
    threads = threading.active_count()
    sandbox.close()
    assert _processes(sandbox) == []
    with pytest.raises(ProcessLookupError):
        os.kill(record["pid"], 0)
    assert threading.active_count() < threads
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"], "a closed sandbox opens again when it is used"


def test_a_container_that_dies_is_replaced_and_the_job_goes_on(sandbox, state):
    results = sandbox.run(ECHO)
    assert next(results).output == "a\n"
    os.kill(_processes(sandbox)[0], signal.SIGKILL)
    assert [ran.output for ran in results] == ["b\n", "c\n"]
    assert len(_records(state)) == 2


def test_a_container_that_stops_answering_is_removed_and_the_job_done_again(sandbox, state, monkeypatch):
    monkeypatch.setattr(containers, "longest_seconds", lambda job, options: 1.0)
    monkeypatch.setattr(containers, "_END_SECONDS", 0.5)
    monkeypatch.setattr(retrying, "_pause", lambda failures, first: 0.0)
    results = sandbox.run(ECHO)
    assert next(results).output == "a\n"
    stopped = _processes(sandbox)[0]
    os.kill(stopped, signal.SIGSTOP)
    assert next(results).output == "b\n"
    results.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(stopped, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the container that did not answer is still there")


@pytest.mark.slow
def test_a_container_that_dies_every_time_is_an_error_and_no_result(sandbox, monkeypatch):
    monkeypatch.setattr(retrying, "_pause", lambda failures, first: 0.0)
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    done = threading.Event()

    def kill():
        while not done.wait(0.01):
            for process in _processes(sandbox):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(SandboxError, match="the container of the sandbox failed"):
            list(sandbox.run(Run("import time; time.sleep(3)", ("",))))
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("mishap", "told"), [("no_daemon", "Cannot connect to the Docker daemon"), ("garbage", "failed")]
)
def test_a_runtime_that_does_not_work_is_told_in_its_words(state, mishap, told):
    (state / mishap).touch()
    with pytest.raises(SandboxError, match=told):
        DockerSandbox(workers=1).isolation()


def test_a_container_that_never_starts_is_given_up(state, monkeypatch):
    (state / "hang").touch()
    monkeypatch.setattr(containers, "_START_SECONDS", 0.5)
    monkeypatch.setattr(containers, "_END_SECONDS", 0.5)
    with pytest.raises(SandboxError, match="has not answered within"):
        DockerSandbox(workers=1).isolation()
    (record,) = _records(state)
    with pytest.raises(ProcessLookupError):
        os.kill(record["pid"], 0)


def test_a_level_that_a_container_does_not_reach_is_refused(state):
    sandbox = DockerSandbox(workers=1, minimum="namespaces")
    with pytest.raises(SandboxError, match="Level 'namespaces' is required"):
        list(sandbox.run(ECHO))


def test_without_the_runtime_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match=r"no 'docker' on the PATH; install Docker"):
        DockerSandbox().isolation()
    with pytest.raises(SandboxError, match=r"no 'podman' on the PATH; install Podman"):
        PodmanSandbox().isolation()


@pytest.mark.parametrize(
    "options", [{"image": ""}, {"image": "--privileged"}, {"memory_mb": 3}, {"workers": 0}, {"imge": "x"}]
)
def test_wrong_options_are_refused_before_anything_starts(options):
    with pytest.raises(ConfigError):
        DockerSandbox(**options)


def test_a_job_that_is_no_plain_data_harms_nobody(shared):
    sandbox, _ = shared
    from trl_grpo_ext.errors import DataError

    with pytest.raises(DataError):
        list(sandbox.call(Calls("def f(x): pass", "f", ((object(),),))))
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]


def test_a_forked_child_starts_a_container_of_its_own(sandbox, state):
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    child = os.fork()
    if child == 0:
        try:
            well = _outputs(sandbox) == ["a\n", "b\n", "c\n"]
            sandbox.close()
            os._exit(0 if well else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    assert len(_records(state)) == 2


@pytest.mark.slow
def test_a_host_that_is_killed_leaves_no_container(state):
    program = (
        "from trl_grpo_ext.sandbox.containers import DockerSandbox\n"
        "sandbox = DockerSandbox(workers=1, minimum='limits')\nsandbox.isolation()\n"
        "print(sandbox._container.process.pid, flush=True)\nimport time; time.sleep(60)"
    )
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    container = int(host.stdout.readline())
    host.kill()
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(container, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the container outlived the host")
