"""Run one stage: `accelerate launch … -m trl_grpo_ext.stages --stage_dir DIR` (the pipeline's runner does this)."""

import argparse
import contextlib
import datetime
import importlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator

from filelock import FileLock, Timeout

from trl_grpo_ext.errors import ConfigError, ExtError, StageError
from trl_grpo_ext.files import read_json, write_json
from trl_grpo_ext.stages.driver_watch import watch_driver
from trl_grpo_ext.stages.stage import Stage


_MODULES = {"prepare": "prepare", "sft": "sft", "grpo": "grpo", "eval": "evaluate", "report": "report"}
# These are no work for several processes: the other ranks leave at once, without a barrier (which would import torch).
_SINGLE = {"prepare", "report"}

EXIT_CRASH = 1
EXIT_USER = 2


def main(argv: list[str] | None = None) -> int:
    """Run the stage of `--stage_dir`; the exit code is 0, 1 (it crashed) or 2 (the user has to change something)."""
    parser = argparse.ArgumentParser(prog="python -m trl_grpo_ext.stages", description=__doc__)
    parser.add_argument("--stage_dir", required=True, help="Stage directory with a stage.json.")
    arguments = parser.parse_args(argv)
    watch_driver()
    try:
        stage = Stage.load(arguments.stage_dir)
        with _lock(stage):
            return _run(stage)
    except ExtError as error:  # without the lock the directory is somebody else's: say it, write nothing
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USER if isinstance(error, ConfigError) else EXIT_CRASH


@contextlib.contextmanager
def _lock(stage: Stage) -> Iterator[None]:
    if stage.rank != 0:
        yield
        return
    holder = stage.dir / ".lock.json"  # beside the lock: whoever asks for the lock truncates that file
    lock = FileLock(stage.dir / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        by = read_json(holder) if holder.is_file() else "another process"
        raise StageError(f"{stage.dir} is in use by {by}; wait for it, or stop it") from error
    write_json(holder, {"pid": os.getpid(), "host": socket.gethostname(), "started": _now()})
    try:
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _run(stage: Stage) -> int:
    started = time.monotonic()
    error_file = stage.dir / "error.json"
    if stage.rank == 0:
        error_file.unlink(missing_ok=True)
    try:
        if stage.kind not in _MODULES:
            raise ConfigError(f"unknown stage kind {stage.kind!r}; expected one of {', '.join(_MODULES)}")
        if stage.rank == 0 or stage.kind not in _SINGLE:
            importlib.import_module(f"trl_grpo_ext.stages.{_MODULES[stage.kind]}").run(stage)
    except Exception as error:
        user = isinstance(error, ExtError) and not isinstance(error, StageError)
        if not error_file.exists():  # the first rank to fail knows why; the others only see it gone
            write_json(
                error_file,
                {
                    "kind": "user" if user else "crash",
                    "message": str(error) if isinstance(error, ExtError) else f"{type(error).__name__}: {error}",
                    "traceback": traceback.format_exc(),
                    "rank": stage.rank,
                },
            )
        traceback.print_exc()
        return EXIT_USER if user else EXIT_CRASH
    if stage.kind not in _SINGLE:
        stage.barrier()
    if stage.rank == 0:
        seconds = round(time.monotonic() - started, 3)
        write_json(stage.dir / "DONE", {"finished": _now(), "seconds": seconds})
    return 0


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
