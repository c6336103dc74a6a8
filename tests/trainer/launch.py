"""Start a module of the tests as several gloo processes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import torch


ROOT = Path(__file__).parents[2]


def processes(count: int, module: str, request: dict, out: Path) -> dict:
    """Run `module` on `count` processes with `request` as its argument; return what rank 0 wrote to `result.pt`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={count}", f"--master_port={port}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "-m", module, json.dumps(request)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=480,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed with exit code {done.returncode}:\n{done.stdout[-6000:]}")
    return torch.load(out / "result.pt")
