"""How fast the command line answers, beside the interpreter alone and beside importing the trainer.

    python benchmarks/startup.py

The last line is one JSON object; `help_over_bare` is a ratio within this run.
"""

import json
import statistics
import subprocess
import sys
import time


COMMANDS = {
    "bare": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import trl_grpo_ext"],
    "help": [sys.executable, "-m", "trl_grpo_ext", "--help"],
    "trainer": [sys.executable, "-c", "from trl_grpo_ext import GroupRelativeTrainer"],
}


def seconds(command: list[str], repeats: int) -> float:
    """Median wall-clock time of a command."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    result = {name: seconds(command, 3 if name == "trainer" else 7) for name, command in COMMANDS.items()}
    result["help_over_bare"] = result["help"] / result["bare"]
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
