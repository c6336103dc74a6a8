"""A stand-in for `docker`: takes the same command line, and runs what it starts on this machine.

As Docker's default profile does, it refuses `unshare`; it drops the user it is told to and the environment. It has no
images, so the interpreter is the one of the system if the user may run it. Behaviour for tests is asked for by files
in the folder `FAKE_DOCKER`: `namespaces` (refuse nothing), `no_daemon`, `garbage`, `hang`.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Iterator
from unittest import mock


UNSHARE = {"x86_64": 272, "aarch64": 97}


def refuse_unshare() -> None:
    code = [
        (0x20, 0, 0, 0),  # the number of the call
        (0x15, 0, 1, UNSHARE[platform.machine()]),
        (0x06, 0, 0, 0x00050001),  # EPERM
        (0x06, 0, 0, 0x7FFF0000),
    ]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
        sys.exit("seccomp is not to be had")


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    for name in ("--rm", "--interactive", "--read-only"):
        parser.add_argument(name, action="store_true", required=True)
    for name in ("--name", "--network", "--tmpfs", "--cap-drop", "--security-opt", "--user", "--pids-limit"):
        parser.add_argument(name, required=True)
    for name in ("--memory", "--memory-swap", "--cpus", "--ulimit", "--env", "--workdir", "--entrypoint"):
        parser.add_argument(name, required=True)
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    state = pathlib.Path(os.environ["FAKE_DOCKER"])
    (state / f"{asked.name}.json").write_text(json.dumps({**vars(asked), "pid": os.getpid()}))
    if (state / "no_daemon").exists():
        sys.exit("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
    if (state / "garbage").exists():
        os.write(1, b"Unable to find image; pulling\n" * 5)
        sys.exit(1)
    if (state / "hang").exists():
        signal.pause()
    restricted = not (state / "namespaces").exists()
    python = sys.executable
    system = shutil.which("python3", path="/usr/bin:/bin")
    if os.getuid() == 0 and system is not None:
        python = system
        user, group = map(int, asked.user.split(":"))
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    if restricted:
        refuse_unshare()
    os.chdir(asked.workdir)
    os.execve(python, [python, *asked.command], {"PATH": "/usr/bin:/bin", "TMPDIR": os.environ["FAKE_DOCKER_TMP"]})


def remove(name: str) -> None:
    record = pathlib.Path(os.environ["FAKE_DOCKER"]) / f"{name}.json"
    if record.exists():
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


@contextlib.contextmanager
def installed(folder: pathlib.Path, name: str = "docker") -> Iterator[pathlib.Path]:
    """Put this program on the PATH, and say where its state is."""
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{pathlib.Path(__file__).read_text()}")
    program.chmod(0o755)
    scratch = tempfile.mkdtemp(prefix="fake_docker_")  # not in `folder`, which another user cannot enter
    os.chmod(scratch, 0o777)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    with mock.patch.dict(os.environ, PATH=path, FAKE_DOCKER=str(folder), FAKE_DOCKER_TMP=scratch):
        yield folder
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2:])
    elif sys.argv[1:3] == ["rm", "-f"]:
        remove(sys.argv[3])
    else:
        sys.exit(f"unknown command {sys.argv[1:]}")
