"""Run the quickstart for several seeds and its control, and print what each learned and how long it took.

    python benchmarks/quickstart_seeds.py --seeds 42 43 44 --control --output_dir runs/seeds

`--recipe tiny_programs` does the same with another recipe; for that one it is not yet run. The last line is one JSON
object.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def run(recipe: str, out: Path, seed: int, control: bool) -> dict:
    """Run the recipe in a folder of its own; return its evaluations in stage order and the wall-clock seconds."""
    command = [sys.executable, "-m", "trl_grpo_ext", "run", recipe, "--output_dir", str(out), "--seed", str(seed)]
    started = time.monotonic()
    subprocess.run([*command, *(["--control", "shuffled-rewards"] if control else [])], check=True)
    seconds = time.monotonic() - started
    report = subprocess.run(
        [sys.executable, "-m", "trl_grpo_ext", "report", str(out), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    stages = json.loads(report.stdout)["stages"]
    return {
        "seed": seed,
        "control": control,
        "seconds": round(seconds, 1),
        "stage_seconds": {stage["id"]: stage["seconds"] for stage in stages},
        "evals": {stage["id"]: stage["eval"] for stage in stages if stage["eval"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--control", action="store_true", help="Also run the shuffled-rewards control of each seed.")
    parser.add_argument("--output_dir", type=Path, required=True)
    arguments = parser.parse_args()
    results = []
    for seed in arguments.seeds:
        for control in (False, True) if arguments.control else (False,):
            out = arguments.output_dir / f"seed-{seed}{'-control' if control else ''}"
            results.append(run(arguments.recipe, out, seed, control))
    print(json.dumps({"runs": results}))


if __name__ == "__main__":
    main()
