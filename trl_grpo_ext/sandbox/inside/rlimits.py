"""Resource limits of a process, lowered for good.

Covered: address space, processor time, size of a written file, open files, core dumps, locked memory, message queues,
pending signals.

Not covered: time that passes without work; the memory of several processes together, or of files in a tmpfs (see
`cgroup`); how much many small files take. The number of processes is no limit at all for real user 0, also in a user
namespace that root made, and for anybody else it counts every process and thread of that user on the machine, so it is
a pid namespace, `cgroup` and `seccomp` that bound processes. A process that holds `CAP_SYS_RESOURCE` outside of every
user namespace can raise its limits again, so drop capabilities as well.
"""

import math
import resource


# Enough for timers and real-time signals of an honest program.
_PENDING_SIGNALS = 64


def apply(memory_bytes: int, cpu_seconds: float | None, file_bytes: int, open_files: int) -> None:
    """
    Lower the limits of this process and of those it starts. Where the hard limit is lower already, it stays.

    Args:
        memory_bytes (`int`):
            Address space.
        cpu_seconds (`float` or `None`):
            Processor time, rounded up and one second more: a last resort behind a clock that kills more exactly. Not
            limited if it is `None`.
        file_bytes (`int`):
            Size to which a file can be written.
        open_files (`int`):
            One more than the highest descriptor there can be.

    Raises:
        OSError: The kernel refused one.
        ValueError: A limit is no number that the kernel takes.
    """
    _lower(resource.RLIMIT_CORE, 0)
    if cpu_seconds is not None:
        _lower(resource.RLIMIT_CPU, math.ceil(cpu_seconds) + 1)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    _lower(resource.RLIMIT_NOFILE, open_files)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS)
    # Last, because the calls above may need memory themselves.
    _lower(resource.RLIMIT_AS, memory_bytes)


def _lower(limit: int, value: int) -> None:
    # -1 would be read as "no limit".
    if value < 0:
        raise ValueError(f"A limit of {value} was asked for. Use zero or more.")
    hard = resource.getrlimit(limit)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))
