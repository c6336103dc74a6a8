"""Most machines that run these tests let nobody make a control group, so a folder of plain files stands in for one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trl_grpo_ext.sandbox.local import cgroup


CONTROL_FILES = ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs", "cgroup.kill")


def fake_group(folder: Path, offered="cpu memory pids", handed_down="", processes="", real_root=False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.controllers").write_text(offered + "\n")
    (folder / "cgroup.subtree_control").write_text(handed_down + "\n")
    (folder / "cgroup.procs").write_text(processes)
    if not real_root:
        (folder / "cgroup.type").write_text("domain\n")
    return folder


def member_of(tmp_path: Path, group: str) -> str:
    file = tmp_path / "membership"
    file.write_text(f"4:memory:/elsewhere\n0::{group}\n")
    return str(file)


@pytest.fixture
def kernel(monkeypatch):
    """New folders get the control files, and go with them, as the kernel's do."""
    mkdir, rmdir = os.mkdir, os.rmdir

    def make(path, *arguments):
        mkdir(path, *arguments)
        for name in CONTROL_FILES:
            Path(path, name).write_text("")

    monkeypatch.setattr(cgroup.os, "mkdir", make)

    def remove(path):
        for file in Path(path).glob("*"):
            file.unlink()
        rmdir(path)

    monkeypatch.setattr(cgroup.os, "rmdir", remove)


def test_the_nearest_usable_group_is_found(tmp_path):
    root = fake_group(tmp_path / "cg", handed_down="memory pids", real_root=True)
    user = fake_group(root / "user", handed_down="cpu memory pids", processes="")
    fake_group(user / "job", processes="17\n")
    assert cgroup.find(str(root), member_of(tmp_path, "/user/job")) == str(user)


def test_a_group_without_processes_of_its_own_is_usable(tmp_path):
    root = fake_group(tmp_path / "cg", real_root=True)
    job = fake_group(root / "job")
    assert cgroup.find(str(root), member_of(tmp_path, "/job")) == str(job)


def test_the_real_root_may_hold_processes(tmp_path):
    root = fake_group(tmp_path / "cg", processes="1\n17\n", real_root=True)
    assert cgroup.find(str(root), member_of(tmp_path, "/")) == str(root)


def test_the_root_of_a_container_with_processes_is_no_place(tmp_path):
    root = fake_group(tmp_path / "cg", processes="1\n17\n")
    assert cgroup.find(str(root), member_of(tmp_path, "/")) is None


def test_a_group_that_was_not_given_the_controllers_is_no_place(tmp_path):
    root = fake_group(tmp_path / "cg", offered="hugetlb", real_root=True)
    assert cgroup.find(str(root), member_of(tmp_path, "/")) is None


def test_hybrid_machines_mount_version_2_one_folder_down(tmp_path):
    root = fake_group(tmp_path / "cg" / "unified", real_root=True)
    assert cgroup.find(str(tmp_path / "cg"), member_of(tmp_path, "/")) == str(root)


@pytest.mark.parametrize("line", ["0::/../other\n", "4:memory:/\n", ""])
def test_no_group_of_ones_own_in_sight(tmp_path, line):
    root = fake_group(tmp_path / "cg", real_root=True)
    (tmp_path / "membership").write_text(line)
    assert cgroup.find(str(root), str(tmp_path / "membership")) is None
    assert cgroup.find(str(root), str(tmp_path / "absent")) is None


@pytest.mark.parametrize("closed", ["", "cgroup.procs", "cgroup.subtree_control"])
def test_a_group_that_may_not_be_written_is_no_place(tmp_path, monkeypatch, closed):
    root = fake_group(tmp_path / "cg", real_root=True)
    monkeypatch.setattr(cgroup.os, "access", lambda path, mode: Path(path) != root / closed)
    assert cgroup.find(str(root), member_of(tmp_path, "/")) is None


@pytest.mark.sandbox
def test_this_machine_answers_none_or_a_group_that_can_be_made(tmp_path):
    found = cgroup.find()
    if found is None:
        pytest.skip("no control group of version 2 can be made here")
    group = cgroup.create(found, f"test-{os.getpid()}", 256 << 20, 16)
    try:
        child = subprocess.Popen([sys.executable, "-c", "input(); bytearray(600 << 20)"], stdin=subprocess.PIPE)
        group.add(child.pid)
        child.communicate(b"\n", timeout=60)
        assert child.returncode == -signal.SIGKILL
        assert group.memory_events()["oom_kill"] >= 1
    finally:
        group.kill()
        group.remove()
    assert not os.path.exists(group.path)


@pytest.mark.usefixtures("kernel")
def test_a_group_gets_its_limits(tmp_path):
    root = fake_group(tmp_path / "cg", real_root=True)
    group = cgroup.create(str(root), "one", 1000, 7)
    made = Path(group.path)
    assert made == root / "one"
    assert {name: (made / name).read_text() for name in CONTROL_FILES[:3]} == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "pids.max": "7",
    }
    assert (root / "cgroup.subtree_control").read_text() == "+memory +pids"
    group.add(4711)
    assert (made / "cgroup.procs").read_text() == "4711"
    (made / "memory.events").write_text("low 0\nmax 3\noom 1\noom_kill 2\n")
    assert group.memory_events() == {"low": 0, "max": 3, "oom": 1, "oom_kill": 2}
    group.kill()
    assert (made / "cgroup.kill").read_text() == "1"
    group.remove()
    assert not made.exists()
    group.remove()


@pytest.mark.usefixtures("kernel")
def test_controllers_that_are_handed_down_already_are_left_alone(tmp_path):
    root = fake_group(tmp_path / "cg", handed_down="pids memory", real_root=True)
    cgroup.create(str(root), "one", 1000, 7)
    assert (root / "cgroup.subtree_control").read_text() == "pids memory\n"


def test_no_folder_is_left_when_a_limit_is_refused(tmp_path):
    root = fake_group(tmp_path / "cg", real_root=True)
    with pytest.raises(FileNotFoundError, match=r"memory\.max"):
        cgroup.create(str(root), "one", 1000, 7)
    assert not (root / "one").exists()


def test_a_group_that_is_there_already_is_not_removed(tmp_path):
    root = fake_group(tmp_path / "cg", real_root=True)
    fake_group(root / "one")
    with pytest.raises(FileExistsError):
        cgroup.create(str(root), "one", 1000, 7)
    assert (root / "one").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/a"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    root = fake_group(tmp_path / "cg", real_root=True)
    with pytest.raises(ValueError, match=r"cannot be the name"):
        cgroup.create(str(root), name, 1000, 7)


@pytest.mark.sandbox
def test_processes_are_killed_one_by_one_where_the_kernel_has_no_better_way(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(timeout=60)
    # A process that cannot be seen from here is listed as 0; a signal to 0 would go to these tests themselves.
    (tmp_path / "cgroup.procs").write_text(f"0\n{gone.pid}\n{child.pid}\n")
    (tmp_path / "pids.max").write_text("7")
    cgroup.Group(str(tmp_path)).kill()
    assert child.wait(timeout=60) == -signal.SIGKILL
    assert (tmp_path / "pids.max").read_text() == "0"


def test_a_group_that_stays_busy_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup, "_PATIENCE_S", 0.01)
    calls = []

    def busy(path):
        calls.append(path)
        raise OSError(16, "busy")

    monkeypatch.setattr(cgroup.os, "rmdir", busy)
    with pytest.raises(OSError, match="busy"):
        cgroup.Group(str(tmp_path)).remove()
    assert len(calls) > 1
