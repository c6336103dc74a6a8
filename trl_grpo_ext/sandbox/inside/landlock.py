"""Landlock: the files a process may open, run or create, and an end to its TCP connections.

Covered, as far as the kernel's version reaches: opening, executing, creating, renaming, linking, truncating and
removing files and folders, `ioctl` on devices (version 5), binding and connecting TCP sockets (4), abstract unix
sockets and signals that leave the process's own domain (6). Every right the kernel has is refused unless a rule
grants it; nothing grants devices, sockets, fifos, symbolic links or TCP.

Not covered: descriptors that are open already; `stat`, `access`, `readlink` and `chdir`, so whether a path exists
can be found out; `chmod`, `chown`, times and extended attributes, for which file permissions still hold; UDP, raw
and other sockets, and unix sockets with a path, which are left to `seccomp`; mapping an open file as executable;
signals and abstract sockets before version 6, and TCP before version 4. With version 1, renaming or linking across
folders always fails, and truncating is free. A process that Landlock restricts cannot mount, so namespaces and
mounts come first.
"""

import ctypes
import errno
import functools
import os
import stat
from collections.abc import Iterable


EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_VERSION_1 = (1 << 13) - 1
_NET = 0b11  # Binding and connecting TCP.
_SCOPES = 0b11  # Abstract unix sockets and signals.

_READ = READ_FILE | READ_DIR
_WRITE = _READ | WRITE_FILE | TRUNCATE | MAKE_DIR | MAKE_REG | REMOVE_DIR | REMOVE_FILE | REFER
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_SET_NO_NEW_PRIVS = 38
_VERSION, _PATH_BENEATH, _LOG_SAME_EXEC_OFF = 1, 1, 1
# The same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446


def abi() -> int:
    """Version of Landlock that the kernel has; 0 where it has none or does not switch it on."""
    return max(_libc().syscall(_CREATE_RULESET, 0, 0, _VERSION, 0), 0)


def ruleset(read: Iterable[str], write: Iterable[str] = (), execute: Iterable[str] = ()) -> int:
    """
    Collect what a process may do; everything else that this kernel's Landlock knows is refused.

    Paths that do not exist are skipped. A path that is a file gets the rights that make sense for a file.

    Args:
        read (`Iterable[str]`):
            Files, and folders under which files may be read and folders listed.
        write (`Iterable[str]`, *optional*, defaults to `()`):
            Files, and folders under which, besides, regular files and folders may be written, created, renamed and
            removed.
        execute (`Iterable[str]`, *optional*, defaults to `()`):
            Files, and folders under which files may be executed. Scripts and shared libraries, and the interpreter's
            own files, have to be readable as well.

    Returns:
        `int`: A descriptor for [`restrict`], good for any number of processes; the caller closes it.

    Raises:
        TypeError: A string was given where a list of paths belongs.
        OSError: The kernel has no Landlock, or a path cannot be opened.
    """
    for paths in (read, write, execute):
        if isinstance(paths, (str, bytes)):
            raise TypeError(f"{paths!r} is one path. Give a list of paths; each letter would be taken for one.")
    version = _known_abi()
    handled = _handled(version)
    # Version 1 knows the first field only, version 4 added the second and version 6 the third.
    known = 1 if version < 4 else 2 if version < 6 else 3
    attributes = (ctypes.c_uint64 * known)(*(handled, _NET, _SCOPES)[:known])
    rules = _call("landlock_create_ruleset", _CREATE_RULESET, ctypes.addressof(attributes), ctypes.sizeof(attributes))
    try:
        for paths, rights in ((read, _READ), (write, _WRITE), (execute, EXECUTE)):
            for path in paths:
                _allow(rules, path, rights & handled)
    except BaseException:
        os.close(rules)
        raise
    return rules


def restrict(fd: int) -> None:
    """
    Hold the calling thread, and every thread and process it starts from now on, to a ruleset, for good.

    Other threads that run already are not held. The process cannot gain privileges afterwards.

    Args:
        fd (`int`):
            What [`ruleset`] returned.

    Raises:
        OSError: The kernel refused it.
    """
    libc = _libc()
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _error("prctl(PR_SET_NO_NEW_PRIVS)")
    # An untrusted program could fill the machine's audit log with refusals.
    flags = _LOG_SAME_EXEC_OFF if _known_abi() >= 7 else 0
    _call("landlock_restrict_self", _RESTRICT_SELF, fd, flags)


@functools.cache
def _known_abi() -> int:
    """[`abi`], asked once: a filter that is installed later may refuse the question."""
    return abi()


def _handled(version: int) -> int:
    rights = _VERSION_1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if version >= since:
            rights |= right
    return rights


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, fd)
        _call(f"landlock_add_rule({path!r})", _ADD_RULE, rules, _PATH_BENEATH, ctypes.addressof(rule))
    finally:
        os.close(fd)


class _Beneath(ctypes.Structure):
    """`struct landlock_path_beneath_attr`."""

    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _call(name: str, number: int, *arguments: int) -> int:
    result = _libc().syscall(number, *arguments, *[0] * (4 - len(arguments)))
    if result < 0:
        raise _error(name)
    return result


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EOPNOTSUPP):
        return OSError(
            number, f"{call} failed: this kernel has no Landlock, or it is not switched on (lsm=landlock,…)"
        )
    return OSError(number, f"{call} failed: {os.strerror(number)}")


@functools.cache
def _libc() -> ctypes.CDLL:
    """The C library with its types told once, which spares each fork the making of argument objects."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long] * 5
    libc.syscall.restype = ctypes.c_long
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return libc
