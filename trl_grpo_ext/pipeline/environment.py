"""What a run ran on: versions, platform, commit and GPUs, found without importing what it asks about."""

import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


_PACKAGES = (
    "trl-grpo-ext",
    "trl",
    "transformers",
    "torch",
    "accelerate",
    "datasets",
    "tokenizers",
    "math-verify",
    "deepspeed",
    "vllm",
    "peft",
)
_TIMEOUT = 20  # seconds; nvidia-smi takes several on a machine that has just started
_CHECKOUT = Path(__file__).parents[2]


def describe_environment() -> dict[str, Any]:
    """Return the content of `environment.json`."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "git_sha": _git_sha(),
        "gpus": (_output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader") or "").splitlines(),
    }


def _git_sha() -> str | None:
    # Asked only in a checkout: an installed package may lie inside a repository that is not its own.
    if not (_CHECKOUT / ".git").exists():
        return None
    return _output("git", "-C", str(_CHECKOUT), "rev-parse", "HEAD")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
