"""Ray, against a stand-in for the few functions of it that are used; no real cluster is started."""

import sys
import threading
import time

import pytest

from tests.sandbox import fake_ray
from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import SANDBOXES, Run, cluster, retrying
from trl_grpo_ext.sandbox.cluster import RaySandbox


pytestmark = pytest.mark.sandbox

ECHO = Run("print(input())", ("a", "b", "c"))


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setattr(retrying, "_pause", lambda failures, first: 0.0)
    with fake_ray.installed(nodes=2) as module:
        yield module


def _outputs(sandbox):
    return [ran.output for ran in sandbox.run(ECHO)]


def test_the_name_is_known():
    assert SANDBOXES.get("ray") is RaySandbox


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'trl-grpo-ext\[ray\]'"):
        RaySandbox()


def test_one_actor_on_each_node_that_lives_takes_its_turn(ray):
    sandbox = RaySandbox(workers_per_actor=3, minimum="limits")
    assert sandbox.workers == 6
    for _ in range(4):
        assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    assert [placed.node_id for placed in ray.placed] == ["node0", "node1"]
    assert [placed.soft for placed in ray.placed] == [False, False]
    sandbox.close()
    for handle in ray.handles:
        handle.process.join(10)
        assert not handle.process.is_alive()


def test_as_many_actors_as_asked_for_are_spread(ray):
    sandbox = RaySandbox(actors=1, workers_per_actor=1, minimum="limits")
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    assert ray.placed == ["SPREAD"]
    assert sandbox.isolation().layers
    sandbox.close()


def test_a_free_actor_is_taken_before_anybody_waits(ray):
    sandbox = RaySandbox(actors=2, workers_per_actor=1, minimum="limits")
    held = sandbox.run(ECHO)
    next(held)
    begun = time.monotonic()
    for _ in range(3):
        assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    held.close()
    assert time.monotonic() - begun < 30
    sandbox.close()


def test_an_actor_that_dies_is_replaced_and_the_job_goes_on(ray):
    sandbox = RaySandbox(actors=1, minimum="limits")
    results = sandbox.run(ECHO)
    assert next(results).output == "a\n"
    ray.handles[0].process.kill()
    assert [ran.output for ran in results] == ["b\n", "c\n"]
    assert len(ray.handles) == 2
    sandbox.close()


def test_an_actor_that_does_not_answer_is_replaced(ray, monkeypatch):
    monkeypatch.setattr(cluster, "longest_seconds", lambda job, options: 1.0)
    sandbox = RaySandbox(actors=1, minimum="limits")
    results = sandbox.run(Run("import time; print(input())", ("a", "b", "c")))
    assert next(results).output == "a\n"
    import os
    import signal

    os.kill(ray.handles[0].process.pid, signal.SIGSTOP)
    assert [ran.output for ran in results] == ["b\n", "c\n"]
    sandbox.close()


def test_actors_that_die_every_time_are_an_error_and_no_result(ray):
    sandbox = RaySandbox(actors=1, minimum="limits")
    assert _outputs(sandbox) == ["a\n", "b\n", "c\n"]
    done = threading.Event()

    def kill():
        while not done.wait(0.05):
            for handle in ray.handles:
                handle.process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(SandboxError, match="an actor of the sandbox failed"):
            list(sandbox.run(Run("import time; time.sleep(3)", ("",))))
    finally:
        done.set()
        thread.join()


def test_a_level_that_a_node_does_not_reach_is_refused(ray, monkeypatch):
    from trl_grpo_ext.sandbox import agent

    sandbox = RaySandbox(actors=1, minimum="limits")
    monkeypatch.setattr(sandbox, "_get", lambda *arguments: (agent.FAILED, b"this machine isolates less"))
    with pytest.raises(SandboxError, match="on a node of the cluster, this machine isolates less"):
        sandbox.isolation()
    sandbox.close()


def test_a_package_that_a_node_lacks_is_told_at_once(ray):
    sandbox = RaySandbox(actors=1, minimum="limits", packages=["not_installed_anywhere"])
    for ask in (sandbox.isolation, lambda: _outputs(sandbox)):
        with pytest.raises(SandboxError, match=r"on a node of the cluster, .*'not_installed_anywhere'"):
            ask()
    assert len(ray.handles) == 1
    assert ray.handles[0].process.is_alive(), "the actor was killed for what another has to mend"
    sandbox.close()


def test_what_it_started_is_shut_down_and_what_it_found_is_not(ray):
    started = RaySandbox(actors=1, minimum="limits")
    found = RaySandbox(actors=1, minimum="limits")
    found.close()
    assert ray.is_initialized()
    started.close()
    assert not ray.is_initialized()
    with pytest.raises(SandboxError, match="the connection to the Ray cluster is closed"):
        _outputs(started)
    assert not ray.is_initialized(), "Ray was started again behind the back of all"
    started.close()


def test_a_cluster_that_is_not_there_is_told(ray):
    with pytest.raises(SandboxError, match=r"no connection to the Ray cluster at 'nowhere:6379'"):
        RaySandbox(address="nowhere:6379")


@pytest.mark.parametrize("options", [{"actors": 0}, {"workers_per_actor": 0}, {"workers": 3}, {"actros": 1}])
def test_wrong_options_are_refused(ray, options):
    with pytest.raises(ConfigError):
        RaySandbox(**options)
