import subprocess
import sys

import pytest


HEAVY = {"torch", "trl", "transformers", "accelerate", "datasets", "matplotlib"}


def imported(code):
    """Top-level packages that a fresh interpreter imports to run `code`."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize(
    "code",
    [
        "import trl_grpo_ext",
        "import trl_grpo_ext.cli",
        "import trl_grpo_ext.pipeline.runner",
        "import trl_grpo_ext.planner.batch",
        "from trl_grpo_ext import list_rewards, list_advantages; list_rewards(); list_advantages()",
        "from trl_grpo_ext.tasks import list_tasks; list_tasks()",
        "from trl_grpo_ext.rewards import RewardSpec; RewardSpec.parse({'name': 'math', 'weight': 2.0})",
        "from trl_grpo_ext.cli import main; main(['list'])",
        "from trl_grpo_ext.cli import main; main(['verify', 'math', '--gold', '1/2', '--answer', '0.5'])",
    ],
)
def test_nothing_heavy_is_imported(code):
    assert imported(code) & HEAVY == set()
