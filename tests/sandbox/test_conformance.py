"""Every sandbox against the same checks.

All checks are made of the local sandbox. The others bring it to another place, and the services start it for each job:
they get a part of the checks, and the rest under the mark `slow`. In a container, and for a user without privileges,
programs are isolated in other ways, so these get all that is about isolation.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import conformance, fake_docker, fake_ray
from tests.sandbox.services import service
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.self_check import CHECKS, self_check


pytestmark = pytest.mark.sandbox

ALWAYS = (
    *("run_gives_the_output_of_each_input_in_order", "call_passes_every_kind_of_plain_data", "run_passes_any_text"),
    *("tests_use_closures_callbacks_and_generators",),
)
ALWAYS_OF_SERVICES = ("call_passes_every_kind_of_plain_data", "run_passes_any_text")
ALWAYS_OF_AGENTS = ("many_jobs_from_many_threads", "an_iterator_that_is_closed_early_frees_its_worker")


@contextlib.contextmanager
def local(folder: Any) -> Iterator[Any]:
    yield LocalSandbox(minimum="limits")


@contextlib.contextmanager
def local_unprivileged(folder: Any) -> Iterator[Any]:
    """The local sandbox of a user who is not root, which is reached as one in a container is."""
    if os.getuid() != 0:
        pytest.skip("this user is unprivileged already")
    from trl_grpo_ext.sandbox.containers import DockerSandbox

    with fake_docker.installed(folder) as state:
        (state / "namespaces").touch()
        yield DockerSandbox(minimum="limits")


@contextlib.contextmanager
def docker(folder: Any) -> Iterator[Any]:
    from trl_grpo_ext.sandbox.containers import DockerSandbox

    with fake_docker.installed(folder):
        yield DockerSandbox(minimum="limits")


@contextlib.contextmanager
def sandbox_fusion(folder: Any) -> Iterator[Any]:
    from trl_grpo_ext.sandbox.remote import SandboxFusion

    with service() as running:
        yield SandboxFusion(running.url, minimum="limits")


@contextlib.contextmanager
def piston(folder: Any) -> Iterator[Any]:
    from trl_grpo_ext.sandbox.remote import PistonSandbox

    with service() as running:
        yield PistonSandbox(running.url, minimum="limits")


@contextlib.contextmanager
def ray(folder: Any) -> Iterator[Any]:
    from trl_grpo_ext.sandbox.cluster import RaySandbox

    with fake_ray.installed():
        yield RaySandbox(minimum="limits")


BACKENDS = {kind.__name__: kind for kind in (local, local_unprivileged, docker, sandbox_fusion, piston, ray)}


@pytest.fixture(scope="module")
def opened(request, tmp_path_factory) -> Iterator[Any]:
    with BACKENDS[request.param](tmp_path_factory.mktemp(request.param)) as sandbox, contextlib.closing(sandbox):
        yield sandbox


def _wanted(backend: str) -> tuple[str, ...]:
    """Checks that are made whenever tests are run."""
    if backend == "local":
        return tuple(conformance.CHECKS)
    isolation = [name for name in conformance.CHECKS if name.startswith("isolation")]
    return {
        "local_unprivileged": tuple(isolation),
        "docker": (*ALWAYS, *ALWAYS_OF_AGENTS, *isolation),
        "ray": (*ALWAYS, *ALWAYS_OF_AGENTS),
    }.get(backend, ALWAYS_OF_SERVICES)


def _cases() -> Iterator[Any]:
    for backend in BACKENDS:
        group = pytest.mark.xdist_group(f"sandbox-{backend}")
        for name in conformance.CHECKS:
            slow = [] if name in _wanted(backend) else [pytest.mark.slow]
            yield pytest.param(backend, name, marks=[group, *slow], id=f"{backend}-{name}")


@pytest.mark.parametrize(("opened", "name"), list(_cases()), indirect=["opened"])
def test_conformance(opened, name):
    conformance.CHECKS[name](opened)


def _backends() -> Iterator[Any]:
    for backend in BACKENDS:
        slow = [] if backend == "local" else [pytest.mark.slow]
        yield pytest.param(backend, marks=[pytest.mark.xdist_group(f"sandbox-{backend}"), *slow])


@pytest.mark.parametrize("opened", list(_backends()), indirect=True)
def test_self_check(opened):
    assert self_check(opened) == [(name, "ok") for name in CHECKS]


def test_self_check_names_what_is_wrong():
    class Lying:
        def run(self, job):
            return iter(())

        call = test = run

        def isolation(self):
            return LocalSandbox(isolation="best_effort").isolation()

    found = dict(self_check(Lying()))  # type: ignore[arg-type]
    assert "got []" in found["runs a program"]
    assert found["hides the host's environment"] == "there is no result"
