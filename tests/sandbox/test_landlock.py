"""Each probe runs in an interpreter of its own that restricts itself and reports what happened as JSON."""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from trl_grpo_ext.sandbox.inside import landlock


pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(landlock.abi() == 0, reason="no Landlock here"),
]

# Loaded from its text, because an interpreter that another user can run may not be able to read the package.
PRELUDE = f"""
import errno, json, os, signal, socket, sys, types
landlock = types.ModuleType("landlock")
sys.modules["landlock"] = landlock
exec({Path(landlock.__file__).read_text()!r}, landlock.__dict__)

def kind(action):
    "Name of the error that an action gives, or the empty string."
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""

def report(thing):
    print(json.dumps(thing), flush=True)
"""


@functools.cache
def interpreter(user: int | None) -> str:
    """One that the user can execute: this one may live in a private home."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run([path, "-I", "-c", ""], user=user, check=False, cwd="/")
        except OSError:
            continue
        if done.returncode == 0:
            return path
    pytest.skip("no interpreter that another user can execute")


def answer(code: str, user: int | None = None):
    done = subprocess.run(
        [interpreter(user), "-I", "-"],
        input=PRELUDE + code,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        user=user,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(params=["same user", "nobody"])
def user(request) -> int | None:
    if request.param == "same user":
        return None
    if os.getuid() != 0:
        pytest.skip("changing the user takes root")
    return 65534


@pytest.fixture
def folders():
    """Three folders that any user can reach and write, so that it is Landlock that refuses."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o777)
        made = {}
        for name in ("read", "write", "outside"):
            path = Path(top, name)
            path.mkdir()
            (path / "file").write_text(name)
            (path / "file").chmod(0o666)
            path.chmod(0o777)
            made[name] = str(path)
        yield made


def test_files(folders, user):
    read, write, outside = folders["read"], folders["write"], folders["outside"]
    code = f"""
read, write, outside = {read!r}, {write!r}, {outside!r}
fd = landlock.ruleset([read, "/does/not/exist", read + "/file/below"], [write])
already_open = os.open(outside + "/file", os.O_RDONLY)
landlock.restrict(fd)
def make(path):
    open(path, "w").close()
def within():
    os.mkdir(write + "/a")
    make(write + "/a/b")
    os.rename(write + "/a/b", write + "/c")
    os.truncate(write + "/c", 0)
    os.link(write + "/c", write + "/a/d")
    os.unlink(write + "/a/d")
    os.unlink(write + "/c")
    os.rmdir(write + "/a")
report(dict(
    read=kind(lambda: open(read + "/file").read()),
    list=kind(lambda: os.listdir(read)),
    read_outside=kind(lambda: open(outside + "/file")),
    list_outside=kind(lambda: os.listdir(outside)),
    list_root=kind(lambda: os.listdir("/")),
    passwords=kind(lambda: open("/etc/passwd")),
    up_and_down=kind(lambda: open(read + "/../outside/file")),
    process=kind(lambda: open("/proc/self/status")),
    write_where_reading=kind(lambda: open(read + "/file", "w")),
    make_where_reading=kind(lambda: make(read + "/new")),
    remove_where_reading=kind(lambda: os.unlink(read + "/file")),
    within=kind(within),
    read_where_writing=kind(lambda: open(write + "/file").read()),
    make_outside=kind(lambda: make(outside + "/new")),
    remove_outside=kind(lambda: os.unlink(outside + "/file")),
    move_out=kind(lambda: os.rename(write + "/file", outside + "/stolen")),
    move_in=kind(lambda: os.rename(outside + "/file", write + "/stolen")),
    link_in=kind(lambda: os.link(outside + "/file", write + "/stolen")),
    symbolic=kind(lambda: os.symlink("/etc/passwd", write + "/link")),
    fifo=kind(lambda: os.mkfifo(write + "/fifo")),
    run=kind(lambda: os.execv("/bin/true", ["true"])),
    already_open=kind(lambda: os.read(already_open, 1)),
    metadata=kind(lambda: os.stat(outside + "/file")),
))
"""
    result = answer(code, user)
    allowed = {"read", "list", "within", "read_where_writing", "already_open", "metadata"}
    assert {name for name, error in result.items() if not error} == allowed
    moved = {"move_out", "move_in", "link_in"}
    assert {error for name, error in result.items() if name in moved} <= {"EXDEV", "EACCES"}
    assert {error for name, error in result.items() if name not in allowed | moved} == {"EACCES"}


@pytest.mark.skipif(landlock.abi() < 3, reason="truncating is free before version 3")
def test_truncating(folders):
    path = folders["outside"] + "/file"
    code = f"landlock.restrict(landlock.ruleset([], []))\nreport(kind(lambda: os.truncate({path!r}, 0)))"
    assert answer(code) == "EACCES"
    assert Path(path).read_text() == "outside"


def test_single_files(folders):
    read, write = folders["read"], folders["write"]
    code = f"""
read, write = {read!r}, {write!r}
landlock.restrict(landlock.ruleset([read + "/file"], [write + "/file", "/dev/null"]))
report([
    kind(lambda: open(read + "/file").read()), kind(lambda: open(write + "/file", "w")),
    kind(lambda: open("/dev/null", "w").write("x")), kind(lambda: os.listdir(read)),
    kind(lambda: os.unlink(write + "/file")),
])
"""
    assert answer(code) == ["", "", "", "EACCES", "EACCES"]


def test_executing(folders):
    shutil.copy("/bin/true", folders["outside"] + "/true")
    libraries = [path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache") if os.path.exists(path)]
    code = f"""
landlock.restrict(landlock.ruleset({libraries!r} + [{folders["outside"]!r}], [], {libraries!r}))
pid = os.fork()
if pid == 0:
    os.execv("/bin/true", ["true"])
report([os.waitpid(pid, 0)[1], kind(lambda: os.execv({folders["outside"] + "/true"!r}, ["true"]))])
"""
    assert answer(code) == [0, "EACCES"]


@pytest.mark.skipif(landlock.abi() < 4, reason="TCP is not covered before version 4")
def test_tcp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
address = ("127.0.0.1", {server.getsockname()[1]})
before = kind(lambda: socket.create_connection(address, 5).close())
landlock.restrict(landlock.ruleset([]))
connect = kind(lambda: socket.create_connection(address, 5))
report([before, connect, kind(lambda: socket.socket().bind(("127.0.0.1", 0)))])
"""
        assert answer(code) == ["", "EACCES", "EACCES"]


@pytest.mark.skipif(landlock.abi() < 6, reason="scopes came with version 6")
def test_abstract_sockets_and_signals_of_others():
    name = f"\0trl-grpo-ext-{os.getpid()}-{threading.get_ident()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"""
def connect():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect({name!r})
before = [kind(connect), kind(lambda: os.kill(os.getppid(), 0))]
landlock.restrict(landlock.ruleset([]))
report([before, kind(connect), kind(lambda: os.kill(os.getppid(), 0)), kind(lambda: os.kill(os.getpid(), 0))])
"""
        assert answer(code) == [["", ""], "EPERM", "EPERM", ""]


def test_children_are_held_and_nothing_lifts_it(folders):
    code = f"""
outside = {folders["outside"]!r}
landlock.restrict(landlock.ruleset([]))
landlock.restrict(landlock.ruleset([outside]))
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, kind(lambda: open(outside + "/file")).encode())
    os._exit(0)
os.wait()
report(os.read(read, 100).decode())
"""
    assert answer(code) == "EACCES"


def test_one_path_instead_of_a_list_is_refused():
    """Its first letter would be `/`, and grant everything."""
    for wrong in ({"read": "/usr"}, {"read": [], "write": "/tmp"}, {"read": [], "execute": b"/bin"}):
        with pytest.raises(TypeError, match="Give a list of paths"):
            landlock.ruleset(**wrong)


def test_a_path_that_cannot_be_opened_leaves_no_descriptor():
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="File name too long"):
        landlock.ruleset(["/usr", "/" + "x" * 300])
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_descriptor_that_is_no_ruleset():
    code = "try:\n    landlock.restrict(1)\nexcept OSError as error:\n    report(str(error))"
    assert "landlock_restrict_self failed" in answer(code)


@pytest.mark.parametrize(
    ("version", "rights"), [(1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (4, 0x7FFF), (5, 0xFFFF), (7, 0xFFFF), (9, 0xFFFF)]
)
def test_what_each_version_handles(version, rights):
    assert landlock._handled(version) == rights


@pytest.mark.parametrize("version", range(1, landlock.abi() + 1))
def test_an_older_kernel_is_asked_for_what_it_knows(monkeypatch, version):
    monkeypatch.setattr(landlock, "abi", lambda: version)
    os.close(landlock.ruleset(["/usr"], ["/tmp", "/dev/null"], ["/usr"]))
