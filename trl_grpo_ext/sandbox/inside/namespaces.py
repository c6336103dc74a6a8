"""Namespaces of the kernel: a world of its own for the warmed interpreter, and one more for each of its workers.

Covered: after [`enter`], this process and its children see a file system that holds the interpreter, read-only, and
nothing else; no network but an unconnected loopback; no processes of others (see [`clone`]); no System V memory.

Not covered: time, the kernel's version and the machine's load can be seen; the kernel itself is shared, so a hole in
it is a hole here. Where the kernel refuses user namespaces, as in a default Docker container, none of this is on.
"""

import contextlib
import ctypes
import glob
import os
import platform
import signal
import stat
import struct
import sys
from collections.abc import Iterable, Iterator


_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
# Flags of a mount that a user namespace may not take away, as `statvfs` says them and as `mount` takes them.
_LOCKED = {
    **{os.ST_NOSUID: 2, os.ST_NODEV: 4, os.ST_NOEXEC: 8},
    **{os.ST_NOATIME: 1024, os.ST_NODIRATIME: 2048, os.ST_RELATIME: 1 << 21},
}
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = (
    1,
    38,
    24,
    47,
    4,
)
_CAPABILITY_HEADER, _NO_CAPABILITIES = struct.pack("<Ii", 0x20080522, 0), bytes(24)
_NUMBERS = {"x86_64": (56, 155), "aarch64": (220, 41)}  # clone, pivot_root
_NEW_ROOTS = ("/mnt", "/media", "/srv", "/opt", "/run", "/tmp", "/sys")
STDIN_COPY = "/tmp/.stdin"
DEVICES = ("null", "zero", "full", "random", "urandom")
_MASKED = ("site-packages", "dist-packages")

# Not released and taken back around a call, as CDLL would do it: a clone happens in the middle of one.
_libc = ctypes.PyDLL(None, use_errno=True)
_prctl, _capset, _mount_call, _syscall = _libc.prctl, _libc.capset, _libc.mount, _libc.syscall  # looked up once


def supported() -> bool:
    """Whether the system calls of this machine are known."""
    return sys.platform == "linux" and platform.machine() in _NUMBERS


def enter(reads: Iterable[str], packages: Iterable[str]) -> None:
    """
    Leave the host's world: user, mount, network, IPC and host name. Cannot be undone.

    Args:
        reads (`Iterable[str]`):
            Files and folders of the host that stay, read-only, under the same paths.
        packages (`Iterable[str]`):
            Folders and files within masked ones (`site-packages`) that stay all the same.

    Raises:
        `OSError`: if the kernel refuses.
    """
    uid, gid = os.getuid(), os.getgid()  # inside, before they are mapped, both would read as nobody's
    _unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS)
    with contextlib.suppress(OSError):  # kernels before 3.19 have no such file
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _build_root(list(reads), list(packages))
    with contextlib.suppress(OSError):
        _check(_libc.sethostname(b"sandbox", 7), "sethostname")


def private_folder(options: bytes) -> None:
    """
    Mount an empty file system on /tmp, which ends with the last process that sees it.

    Args:
        options (`bytes`):
            What [`folder_options`] returned.
    """
    # Made of constants: in a fresh clone, every page that is written to is first copied.
    _check(_mount_call(b"tmpfs", b"/tmp", b"tmpfs", _MS_NOSUID | _MS_NODEV, options), "mount on /tmp")


def folder_options(size: int) -> bytes:
    """Options of a private folder of at most `size` bytes."""
    return f"size={size},nr_inodes=4096,mode=1777".encode()


def clone(processes: bool, mounts: bool) -> int:
    """
    Fork without the interpreter's own preparations, which take longer than the rest.

    Args:
        processes (`bool`):
            Whether the child is the first process of a namespace: all its descendants end with it.
        mounts (`bool`):
            Whether the child gets mounts of its own.

    Returns:
        `int`: the child's process id; 0 in the child.

    Raises:
        `OSError`: if the kernel refuses.
    """
    flags = signal.SIGCHLD | (_CLONE_NEWPID if processes else 0) | (_CLONE_NEWNS if mounts else 0)
    number = _NUMBERS[platform.machine()][0]
    return _check(_syscall(number, ctypes.c_ulong(flags), None, None, None, None), "clone")


def forbid_privileges() -> None:
    """Have this process and all that come of it gain no privileges: not by executables, not in any other way."""
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    capability = 0
    while _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up every capability."""
    _check(_capset(_CAPABILITY_HEADER, _NO_CAPABILITIES), "capset")


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _check(_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def interpreter_files() -> list[str]:
    """What an interpreter needs of the host to go on: its library, the shared libraries, time zones."""
    triplet = f"{platform.machine()}-linux-gnu"
    found = [path for path in sys.path if os.path.isdir(path)]
    found += ["/lib64", "/usr/lib64", f"/lib/{triplet}", f"/usr/lib/{triplet}"]
    found += ["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"]
    with open("/proc/self/maps") as maps:
        mapped = {line.split(None, 5)[5].strip() for line in maps if ".so" in line}
    found += [os.path.dirname(path) for path in mapped if path.startswith("/")]
    return [path for path in dict.fromkeys(found) if os.path.exists(path) and path != "/"]


def masked_folders(folder: str) -> list[str]:
    """Folders of installed packages below a folder: they are no part of the interpreter."""
    below = [*(f"{folder}/{name}" for name in _MASKED), *(f"{folder}/python*/{name}" for name in _MASKED)]
    return [path for pattern in below for path in glob.glob(pattern) if os.path.isdir(path)]


def unmasked_parts(folder: str) -> Iterator[str]:
    """A folder, or, if there are masked folders in it, its parts without them."""
    masked = set(masked_folders(folder))
    if not masked:
        yield folder
        return
    for entry in os.scandir(folder):
        if any(path.startswith(f"{entry.path}/") for path in masked):
            yield from unmasked_parts(entry.path)
        elif entry.path not in masked:
            yield entry.path


def _build_root(reads: list[str], packages: list[str]) -> None:
    root = next(path for path in _NEW_ROOTS if os.path.isdir(path) and not _holds(path, [*reads, *packages]))
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=16m,mode=755")
    real = {os.path.realpath(path): _mirror(root, path) for path in reads}
    outermost = [path for path in real if not any(_holds(other, [path]) for other in real if other != path)]
    for path in outermost:
        _bind(path, real[path])
    for path in outermost:
        for masked in masked_folders(path):
            _mount("tmpfs", root + os.path.realpath(masked), "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for path in packages:
        _bind(path, _mirror(root, path))
    for device in DEVICES:
        _bind(f"/dev/{device}", _mirror(root, f"/dev/{device}"), device=True)
    os.symlink(STDIN_COPY, f"{root}/dev/stdin")  # there is no /proc to find the real one by
    os.mkdir(f"{root}/tmp", 0o1777)
    os.chdir(root)
    pivot_root = _NUMBERS[platform.machine()][1]
    _check(_syscall(pivot_root, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _holds(folder: str, paths: list[str]) -> bool:
    folder = os.path.realpath(folder)
    return any(f"{os.path.realpath(path)}/".startswith(f"{folder}/") for path in paths)


def _mirror(root: str, path: str) -> str:
    """Make, below `root`, the folders and links that lead to a path of the host; return where it will be mounted."""
    at, rest = "", path.strip("/").split("/")
    while rest:
        name = rest.pop(0)
        here = f"{at}/{name}"
        if os.path.islink(here):
            target = os.readlink(here)
            if not os.path.islink(root + here):
                os.symlink(target, root + here)
            rest = os.path.normpath(os.path.join(at or "/", target)).strip("/").split("/") + rest
            at = ""
            continue
        if os.path.isdir(here):
            if not os.path.isdir(root + here):
                os.mkdir(root + here, 0o755)
        elif not os.path.exists(root + here):
            os.close(os.open(root + here, os.O_CREAT | os.O_WRONLY, 0o644))
        at = here
    return root + at


def _bind(source: str, target: str, device: bool = False) -> None:
    source = os.path.realpath(source)
    _mount(source, target, None, _MS_BIND)
    if device and not stat.S_ISCHR(os.stat(source).st_mode):
        raise OSError(f"{source} is no character device")
    kept = sum(flag for seen, flag in _LOCKED.items() if os.statvfs(source).f_flag & seen)
    wanted = _MS_NOSUID | (0 if device else _MS_NODEV | _MS_RDONLY)
    _mount(None, target, None, _MS_REMOUNT | _MS_BIND | wanted | kept)


def _unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = _mount_call(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(result, f"mount {source or ''} on {target}")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
