"""A seccomp filter for untrusted programs: the system calls they may make, and with what arguments.

The filter is a list of what is allowed. Anything else fails with `EPERM`; calls newer than the tables, `clone3` and
`io_uring_*` fail with `ENOSYS`, so that the C library falls back on older calls that can be checked; a call in
another architecture's convention (32 bit, x32) kills the process.

Four profiles. `"program"` is for a Python interpreter that runs untrusted code: threads, but no processes, no sockets
but pairs, no signals to others, no changes of file modes. `"cloned"` is the same for programs in namespaces of their
own, and lets the zygote that clones them go on: it is installed once, in the zygote, and inherited, because installing
a filter takes longer than a clone. `"command"` is for a compiler: it may start processes and signal whatever it can
see. `"executable"` is for what the compiler made, or for another interpreter: as `"program"`, and it may become
another executable.

Not covered: *which* files are opened (see `landlock`); how much is used (see `rlimits` and `cgroup`), in particular
the number of threads, and of a command's processes; what a descriptor that was open before allows. Descriptors that
are handed to a program have to be files, pipes, or connected stream or seqpacket sockets: a datagram socket could
still send to any address. Pointers cannot be looked behind: paths, and the address and the descriptors in a
`sendmsg`, are not seen. A capability the process holds is not taken away, only most calls that would use it. Only
x86_64 and aarch64 have tables. `abort` and `raise` of musl use `tkill`, which a program may not.
"""

import ctypes
import errno
import functools
import os
import signal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass


Instruction = tuple[int, int, int, int | None]
Block = list[Instruction]


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Descriptors that are open already; `splice`, `tee` and `vmsplice` have been a way around the permissions of pages.
_OPEN_FILES = _names(
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 "
    "fstat fsync fdatasync ftruncate fallocate fadvise64 flock getdents getdents64 sendfile copy_file_range "
    "fchdir fstatfs fgetxattr flistxattr"
)
# Paths; which ones is for Landlock to say. No devices and fifos (`mknod`), no owners, no `sync` of the whole machine.
_PATHS = _names(
    "open openat openat2 creat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd "
    "chdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat umask statfs "
    "getxattr lgetxattr listxattr llistxattr"
)
# Changes of files that Landlock lets through; where the host's files are there at all, root could make them.
_FILE_MODES = _names("chmod fchmod fchmodat truncate utime utimes futimesat utimensat")
# Memory of one's own; `mprotect` to executable stays because libffi needs it. No locking, no other process's.
_MEMORY = _names("brk mmap munmap mremap mprotect madvise msync")
# Threads, locks and the end of a process.
_THREADS = _names("futex set_robust_list rseq sched_yield gettid exit exit_group restart_syscall")
# One's own reaction to signals; sending them is checked below.
_SIGNALS = _names(
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause"
)
# Clocks and timers that tick for oneself; none of them can be set.
_TIME = _names(
    "time times gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep alarm getitimer setitimer "
    "timerfd_create timerfd_settime timerfd_gettime"
)
# Waiting for several things at once: select, poll and asyncio.
_WAITING = _names(
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 "
    "eventfd eventfd2 pipe pipe2"
)
# A socket pair that exists already; `setsockopt` is left out because it can load programs into the kernel.
_SOCKET_PAIRS = _names("shutdown getsockname getpeername getsockopt")
# Questions whose answers give nothing away and change nothing.
_QUESTIONS = _names(
    "getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid uname sysinfo "
    "getcpu getrusage getrlimit getpriority getrandom sched_getaffinity sched_getparam sched_getscheduler "
    "sched_get_priority_max sched_get_priority_min sched_rr_get_interval"
)
# What a command needs on top: starting, waiting for and signalling processes, the start of an executable, and what the
# runtimes of other languages ask for.
_COMMAND = _names(
    "fork vfork execve wait4 waitid kill tgkill tkill setpgid setsid arch_prctl set_tid_address membarrier mincore "
    "capget timer_create timer_settime timer_gettime timer_getoverrun timer_delete"
)
_PROGRAM = _OPEN_FILES | _PATHS | _MEMORY | _THREADS | _SIGNALS | _TIME | _WAITING | _SOCKET_PAIRS | _QUESTIONS

# What an executable needs on top that is no interpreter of ours; it may become another, and stays held by this filter.
_EXECUTABLE = _names("execve arch_prctl set_tid_address membarrier mincore")
# What a zygote needs on top, to clone workers and isolate them, of which nothing is of use to a worker: it has no
# capabilities, and in its pid namespace nobody to signal or to wait for.
_CLONED = _names("mount capset wait4 landlock_restrict_self kill tgkill")

ALLOWED: dict[str, frozenset[str]] = {
    "program": _PROGRAM,
    "command": _PROGRAM | _COMMAND | _FILE_MODES,
    "cloned": _PROGRAM | _CLONED | _FILE_MODES,
    "executable": _PROGRAM | _EXECUTABLE,
}

# fmt: off
X86_64: dict[str, int] = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "ioctl": 16, "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23,
    "sched_yield": 24, "mremap": 25, "msync": 26, "mincore": 27, "madvise": 28, "dup": 32, "dup2": 33, "pause": 34,
    "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38, "getpid": 39, "sendfile": 40, "socket": 41,
    "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "shutdown": 48, "getsockname": 51, "getpeername": 52,
    "socketpair": 53, "getsockopt": 55, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "exit": 60, "wait4": 61,
    "kill": 62, "uname": 63, "fcntl": 72, "flock": 73, "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77,
    "getdents": 78, "getcwd": 79, "chdir": 80, "fchdir": 81, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85,
    "link": 86, "unlink": 87, "symlink": 88, "readlink": 89, "chmod": 90, "fchmod": 91, "umask": 95,
    "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104,
    "geteuid": 107, "getegid": 108, "setpgid": 109, "getppid": 110, "getpgrp": 111, "setsid": 112, "getgroups": 115,
    "getresuid": 118, "getresgid": 120, "getpgid": 121, "getsid": 124, "capget": 125, "capset": 126,
    "rt_sigpending": 127,
    "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sigaltstack": 131, "utime": 132, "statfs": 137, "fstatfs": 138,
    "getpriority": 140, "sched_getparam": 143, "sched_getscheduler": 145, "sched_get_priority_max": 146,
    "sched_get_priority_min": 147, "sched_rr_get_interval": 148, "prctl": 157, "mount": 165, "arch_prctl": 158,
    "gettid": 186,
    "getxattr": 191, "lgetxattr": 192, "fgetxattr": 193, "listxattr": 194, "llistxattr": 195, "flistxattr": 196,
    "tkill": 200, "time": 201, "futex": 202, "sched_setaffinity": 203, "sched_getaffinity": 204, "epoll_create": 213,
    "getdents64": 217, "set_tid_address": 218, "restart_syscall": 219, "fadvise64": 221, "timer_create": 222,
    "timer_settime": 223, "timer_gettime": 224, "timer_getoverrun": 225, "timer_delete": 226, "clock_gettime": 228,
    "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233,
    "tgkill": 234, "utimes": 235, "waitid": 247, "openat": 257, "mkdirat": 258, "futimesat": 261, "newfstatat": 262,
    "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "readlinkat": 267, "fchmodat": 268,
    "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "utimensat": 280, "epoll_pwait": 281,
    "timerfd_create": 283, "eventfd": 284, "fallocate": 285, "timerfd_settime": 286, "timerfd_gettime": 287,
    "eventfd2": 290, "epoll_create1": 291, "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296, "prlimit64": 302,
    "getcpu": 309, "renameat2": 316, "seccomp": 317, "getrandom": 318, "membarrier": 324, "copy_file_range": 326,
    "preadv2": 327, "pwritev2": 328, "statx": 332, "rseq": 334, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439,
    "epoll_pwait2": 441, "landlock_restrict_self": 446,
}
AARCH64: dict[str, int] = {
    "getxattr": 8, "lgetxattr": 9, "fgetxattr": 10, "listxattr": 11, "llistxattr": 12, "flistxattr": 13, "getcwd": 17,
    "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22, "dup": 23, "dup3": 24, "fcntl": 25,
    "ioctl": 29, "flock": 32, "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38,
    "mount": 40,
    "statfs": 43, "fstatfs": 44, "truncate": 45, "ftruncate": 46, "fallocate": 47, "faccessat": 48, "chdir": 49,
    "fchdir": 50, "fchmod": 52, "fchmodat": 53, "openat": 56, "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62,
    "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pwrite64": 68, "preadv": 69, "pwritev": 70,
    "sendfile": 71, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "fsync": 82,
    "fdatasync": 83, "timerfd_create": 85, "timerfd_settime": 86, "timerfd_gettime": 87, "utimensat": 88,
    "capget": 90, "capset": 91, "exit": 93, "exit_group": 94, "waitid": 95, "set_tid_address": 96, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "getitimer": 102, "setitimer": 103, "timer_create": 107,
    "timer_gettime": 108, "timer_getoverrun": 109, "timer_settime": 110, "timer_delete": 111, "clock_gettime": 113,
    "clock_getres": 114, "clock_nanosleep": 115, "sched_getscheduler": 120, "sched_getparam": 121,
    "sched_setaffinity": 122, "sched_getaffinity": 123, "sched_yield": 124, "sched_get_priority_max": 125,
    "sched_get_priority_min": 126, "sched_rr_get_interval": 127, "restart_syscall": 128, "kill": 129, "tkill": 130,
    "tgkill": 131, "sigaltstack": 132, "rt_sigsuspend": 133, "rt_sigaction": 134, "rt_sigprocmask": 135,
    "rt_sigpending": 136, "rt_sigtimedwait": 137, "rt_sigreturn": 139, "getpriority": 141, "getresuid": 148,
    "getresgid": 150, "times": 153, "setpgid": 154, "getpgid": 155, "getsid": 156, "setsid": 157, "getgroups": 158,
    "uname": 160, "getrlimit": 163, "getrusage": 165, "umask": 166, "prctl": 167, "getcpu": 168, "gettimeofday": 169,
    "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "sysinfo": 179, "socket": 198, "socketpair": 199, "getsockname": 204, "getpeername": 205, "sendto": 206,
    "recvfrom": 207, "getsockopt": 209, "shutdown": 210, "sendmsg": 211, "recvmsg": 212, "brk": 214, "munmap": 215,
    "mremap": 216, "clone": 220, "execve": 221, "mmap": 222, "fadvise64": 223, "mprotect": 226, "msync": 227,
    "mincore": 232, "madvise": 233, "wait4": 260, "prlimit64": 261, "renameat2": 276, "seccomp": 277,
    "getrandom": 278, "membarrier": 283, "copy_file_range": 285, "preadv2": 286, "pwritev2": 287, "statx": 291,
    "rseq": 293, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435,
    "close_range": 436, "openat2": 437, "faccessat2": 439, "epoll_pwait2": 441, "landlock_restrict_self": 446,
}
# fmt: on

# Calls from here on are newer than the tables; the C library falls back on older ones when it sees ENOSYS.
_FIRST_UNKNOWN = 451
_X32 = 0x40000000


@dataclass(frozen=True)
class Machine:
    numbers: dict[str, int]
    audit: int
    end: int


MACHINES: dict[str, Machine] = {
    "x86_64": Machine(X86_64, audit=0xC000003E, end=_X32),
    "aarch64": Machine(AARCH64, audit=0xC00000B7, end=1 << 32),
}

_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_ALLOW: Block = [(_RETURN, 0, 0, 0x7FFF0000)]
_KILL: Block = [(_RETURN, 0, 0, 0x80000000)]
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16
_OWN_PID = None

_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_ALL_THREADS = 1
_CLONE_THREAD = 0x00010000
_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_PR_SET_PDEATHSIG = 1
_RLIMIT_CPU = 0
_UNSTOPPABLE = (signal.SIGKILL, signal.SIGSTOP)
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; and PARENT, which would make a child of somebody else's.
_CLONE_FORBIDDEN = 0x7E020000 | 0x00008000
_MSG_OOB = 1
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 1, 5, 0xF
# DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETLK, SETLKW, OFD locks, DUPFD_CLOEXEC, GETPIPE_SZ. Never SETOWN and
# SETSIG: they send any signal to any process of the same user.
_FCNTL = (*range(8), 36, 37, 38, 1030, 1032)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# SET_NAME, GET_NAME, SET_NO_NEW_PRIVS, SET_VMA (names of mappings), and reads: PDEATHSIG, DUMPABLE, SECCOMP, CAPBSET,
# TIMERSLACK, NO_NEW_PRIVS.
_PRCTL = (15, 16, 38, 0x53564D41, 2, 3, 21, 23, 30, 39)


@dataclass(frozen=True)
class Filter:
    """
    A filter, ready but for the number of the process it is for.

    Args:
        code (`bytes`):
            Instructions of eight bytes each.
        pid_offsets (`tuple[int, ...]`):
            Where in `code` the process's own number belongs.
    """

    code: bytes
    pid_offsets: tuple[int, ...]

    def for_pid(self, pid: int) -> bytes:
        """
        The filter for one process, to be given to [`install`].

        Args:
            pid (`int`):
                The number the process sees itself: 1 for the first of a pid namespace.

        Returns:
            `bytes`: The instructions.
        """
        code = bytearray(self.code)
        for offset in self.pid_offsets:
            struct.pack_into("=I", code, offset, pid)
        return bytes(code)


def build(profile: str) -> Filter:
    """
    Build the filter of a profile for this machine.

    Args:
        profile (`str`):
            `"program"`, `"cloned"`, `"command"` or `"executable"`.

    Returns:
        [`Filter`]: To be kept, and patched for each process.

    Raises:
        ValueError: There is no such profile.
        OSError: There is no table for this machine (`ENOTSUP`).
    """
    if profile not in ALLOWED:
        raise ValueError(f"There is no seccomp profile {profile!r}. Use one of {sorted(ALLOWED)}.")
    machine = MACHINES.get(os.uname().machine)
    if machine is None or not _is_64_bit():
        raise OSError(
            errno.ENOTSUP,
            f"No table of system calls for {os.uname().machine!r}. Use one of {sorted(MACHINES)}, 64 bit.",
        )
    _libc()
    return _encode(_instructions(machine, profile))


def install(program: bytes) -> None:
    """
    Put a filter on this process for good, and forbid it to gain privileges.

    All its threads get it, and every process it starts. Namespaces, Landlock, and the dropping of capabilities come
    first: what they call is refused afterwards. Limits can still be set, and raised by who holds `CAP_SYS_RESOURCE`.

    Args:
        program (`bytes`):
            What [`Filter.for_pid`] returned.

    Raises:
        OSError: The kernel refused it.
    """
    libc = _libc()
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _error("prctl(PR_SET_NO_NEW_PRIVS)")
    described = _Described(len(program) // 8, program)
    failed = libc.syscall(_seccomp_number(), _SET_MODE_FILTER, _ALL_THREADS, ctypes.addressof(described))
    if failed < 0:
        raise _error("seccomp(SECCOMP_SET_MODE_FILTER)")
    if failed:
        raise OSError(errno.EBUSY, f"Thread {failed} has a seccomp filter of its own. Install this one first.")


def supported() -> bool:
    """Whether this machine has a table and its kernel takes filters that kill a process. Changes nothing."""
    if os.uname().machine not in MACHINES or not _is_64_bit() or not sys.platform.startswith("linux"):
        return False
    action = ctypes.c_uint32(0x80000000)
    return not _libc().syscall(_seccomp_number(), _GET_ACTION_AVAIL, 0, ctypes.addressof(action))


class _Described(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))


@functools.cache
def _libc() -> ctypes.CDLL:
    """The C library with its types told once, which spares each fork the making of argument objects."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long] * 4
    libc.syscall.restype = ctypes.c_long
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return libc


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call} failed: {os.strerror(number)}")


def _is_64_bit() -> bool:
    return struct.calcsize("P") == 8


def _seccomp_number() -> int:
    return MACHINES[os.uname().machine].numbers["seccomp"]


def _encode(instructions: Block) -> Filter:
    code = b"".join(struct.pack("=HBBI", op, yes, no, value or 0) for op, yes, no, value in instructions)
    offsets = tuple(8 * index + 4 for index, instruction in enumerate(instructions) if instruction[3] is _OWN_PID)
    return Filter(code, offsets)


def _instructions(machine: Machine, profile: str) -> Block:
    actions: dict[int, Block] = {}
    for name, number in machine.numbers.items():
        if name in ALLOWED[profile]:
            actions[number] = _ALLOW
    for name, block in _checks(profile).items():
        if name in machine.numbers:
            actions[machine.numbers[name]] = block
    return [
        (_LOAD, 0, 0, _AUDIT),
        (_EQUAL, 1, 0, machine.audit),
        *_KILL,
        (_LOAD, 0, 0, _NUMBER),
        *_tree(_ranges(actions, machine.end)),
    ]


def _checks(profile: str) -> dict[str, Block]:
    """The calls whose arguments matter. The kernel takes all but pointers as 32-bit numbers, so the low half tells."""
    own = (0,) if profile == "command" else (0, _OWN_PID)
    checks = {
        "clone": _require(0, [0], mask=_CLONE_FORBIDDEN) + _ALLOW,
        "fcntl": _require(1, _FCNTL) + _ALLOW,
        "ioctl": _require(1, _IOCTL, denied=errno.ENOTTY) + _ALLOW,
        "prctl": _require(0, _PRCTL) + _ALLOW,
        # Limits of this process alone; without capabilities, no hard limit can be raised. That of processor time kills
        # as if from outside.
        "prlimit64": _require(0, own) + _if_equal(1, _RLIMIT_CPU, _require_null(2)) + _ALLOW,
        "sched_setaffinity": _require(0, own) + _ALLOW,
        "socket": _deny(errno.EACCES),
        # A datagram socket, even of a pair, can send to any address that it names.
        "socketpair": _require(0, [_AF_UNIX], denied=errno.EACCES)
        + _require(1, [_SOCK_STREAM, _SOCK_SEQPACKET], mask=_SOCK_TYPE, denied=errno.EACCES)
        + _ALLOW,
        # Out-of-band data on unix sockets serves nobody but those who look for bugs in the kernel.
        "sendto": _require(3, [0], mask=_MSG_OOB) + _ALLOW,
        "recvfrom": _require(3, [0], mask=_MSG_OOB) + _ALLOW,
        "sendmsg": _require(2, [0], mask=_MSG_OOB) + _ALLOW,
        "recvmsg": _require(2, [0], mask=_MSG_OOB) + _ALLOW,
    }
    checks.update(
        dict.fromkeys(("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"), _deny(errno.ENOSYS))
    )
    threads_only = _require(0, [_CLONE_THREAD], mask=_CLONE_FORBIDDEN | _CLONE_THREAD) + _ALLOW
    if profile in ("program", "executable"):
        checks["clone"] = threads_only
        # A process that kills or stops itself would look like one that was killed or stopped from outside.
        checks["kill"] = _require(0, [_OWN_PID]) + _refuse(1, _UNSTOPPABLE) + _ALLOW
        checks["tgkill"] = _require(0, [_OWN_PID]) + _refuse(2, _UNSTOPPABLE) + _ALLOW
    if profile == "cloned":
        # New namespaces take a capability, which workers have given up.
        checks["clone"] = _if_equal(0, _CLONE_NEWNS | _CLONE_NEWPID | signal.SIGCHLD, _ALLOW) + threads_only
        checks["prctl"] = _if_equal(0, _PR_SET_PDEATHSIG, _require(1, [signal.SIGKILL]) + _ALLOW) + checks["prctl"]
    return checks


def _ranges(actions: dict[int, Block], end: int) -> list[tuple[int, Block]]:
    """Where, going up through the numbers, what happens changes."""
    ranges: list[tuple[int, Block]] = []
    for number in range(_FIRST_UNKNOWN):
        block = actions.get(number, _deny(errno.EPERM))
        if not ranges or ranges[-1][1] != block:
            ranges.append((number, block))
    ranges.append((_FIRST_UNKNOWN, _deny(errno.ENOSYS)))
    if end < 1 << 32:
        ranges.append((end, _KILL))
    return ranges


def _tree(ranges: list[tuple[int, Block]]) -> Block:
    """Binary search: the kernel walks the filter for every number when it is installed, so depth is its cost."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    lower, upper = _tree(ranges[:middle]), _tree(ranges[middle:])
    first = ranges[middle][0]
    # Conditional jumps reach 255 instructions.
    if len(lower) <= 255:
        return [(_AT_LEAST, len(lower), 0, first), *lower, *upper]
    return [(_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(lower)), *lower, *upper]


def _require(
    argument: int, values: Iterable[int | None], mask: int | None = None, denied: int = errno.EPERM, high: bool = False
) -> Block:
    """Go on where the low (or high) half of an argument is one of the values, else answer with an error."""
    values = list(values)
    block: Block = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4 * high)]
    if mask is not None:
        block.append((_AND, 0, 0, mask))
    block += [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return block + _deny(denied)


def _require_null(argument: int) -> Block:
    """Go on where both halves of an argument are zero, else answer with an error."""
    return _require(argument, [0]) + _require(argument, [0], high=True)


def _if_equal(argument: int, value: int, block: Block) -> Block:
    """Do this where the low half of an argument is that value, else go on."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_EQUAL, 0, len(block), value), *block]


def _refuse(argument: int, values: Iterable[int]) -> Block:
    return [step for value in values for step in _if_equal(argument, value, _deny(errno.EPERM))]


def _deny(number: int) -> Block:
    return [(_RETURN, 0, 0, 0x00050000 | number)]
