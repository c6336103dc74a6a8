"""
End this process when the driver that started it is gone.

A driver killed with `kill -9` cannot stop its stages, and a stage that runs on holds the accelerator and its lock.
"""

import os
import threading
import time

import psutil


DRIVER_VARIABLE = "TRL_GRPO_EXT_DRIVER"
_INTERVAL = 1.0  # seconds; an orphan should be gone before anybody restarts the run


def watch_driver() -> None:
    """
    Start the watching thread if the environment names a driver (`TRL_GRPO_EXT_DRIVER="<pid>:<create_time>"`).

    The creation time guards against a process id that was given to another program.
    """
    driver = os.environ.get(DRIVER_VARIABLE)
    if driver is None:
        return
    pid, _, created = driver.partition(":")
    launcher = os.getppid()
    arguments = (int(pid), float(created), launcher)
    threading.Thread(target=_watch, args=arguments, name="driver-watch", daemon=True).start()


def _watch(pid: int, created: float, launcher: int) -> None:
    while is_running(pid, created) and os.getppid() == launcher:
        time.sleep(_INTERVAL)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    # Not sys.exit: it would end this thread only, and a main thread inside a collective call never returns.
    os._exit(1)


def is_running(pid: int, created: float) -> bool:
    """Whether the process `pid` that started at `created` (seconds since the epoch) is still alive."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
