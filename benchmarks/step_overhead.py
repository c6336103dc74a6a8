"""What GroupRelativeTrainer adds to a training step of the quickstart.

    python benchmarks/step_overhead.py --folder runs/overhead

Two measures, in one process:

* `own_share`: the time spent in this package's hooks, less the time they spend in the TRL methods that they wrap, over
  the time of the steps.
* `interleaved_ratio`: steps of our trainer and of TRL's by turns, the median of ours over the median of TRL's. It also
  holds the noise of the machine, and rewards are combined by a gate in ours and summed in TRL's.

The last line is one JSON object.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import torch
from quickstart_model import build, prepare
from transformers import TrainerCallback
from trl import GRPOTrainer

from trl_grpo_ext import GroupRelativeTrainer


HOOKS = (
    *("_prepare_inputs", "_generate_and_score_completions", "_calculate_rewards", "_compute_loss"),
    "_get_per_token_logps_and_entropies",
)


@contextmanager
def timed(owner: type, totals: dict[str, float]):
    """Add up the seconds spent in the hooks as `owner` defines them."""
    originals = {name: getattr(owner, name) for name in HOOKS}

    def wrap(name):
        def method(*args, **kwargs):
            started = time.perf_counter()
            try:
                return originals[name](*args, **kwargs)
            finally:
                totals[name] += time.perf_counter() - started

        return method

    for name in HOOKS:
        setattr(owner, name, wrap(name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


class StepTimes(TrainerCallback):
    """Seconds of each optimizer step."""

    def __init__(self):
        self.seconds: list[float] = []

    def on_step_begin(self, *args, **kwargs):
        self._started = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.seconds.append(time.perf_counter() - self._started)


def own_share(folder: Path, steps: int, **overrides) -> dict:
    """Share of the step time that our hooks take, and the seconds of a step."""
    outer: dict[str, float] = defaultdict(float)
    inner: dict[str, float] = defaultdict(float)
    trainer = build(folder, folder / "own", max_steps=steps, **overrides)
    times = StepTimes()
    trainer.add_callback(times)
    with timed(GRPOTrainer, inner), timed(GroupRelativeTrainer, outer):
        trainer.train()
    total = sum(times.seconds)
    # A hook's own time is its time less that of the method it wraps; a nested hook counts in both and so cancels.
    own = {name: outer[name] - inner[name] for name in HOOKS}
    return {"own_share": sum(own.values()) / total, "step_seconds": statistics.median(times.seconds)}


def interleaved(folder: Path, rounds: int, steps: int) -> dict:
    """Median seconds of a step of either trainer, measured by turns."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for round_ in range(rounds):
        for ours in (True, False) if round_ % 2 else (False, True):
            trainer = build(folder, folder / "turns", ours=ours, max_steps=steps, seed=round_)
            times = StepTimes()
            trainer.add_callback(times)
            trainer.train()
            seconds[ours] += times.seconds
    return {
        "ours_seconds": statistics.median(seconds[True]),
        "trl_seconds": statistics.median(seconds[False]),
        "interleaved_ratio": statistics.median(seconds[True]) / statistics.median(seconds[False]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="Holds the cold-started model; made if missing.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4, help="Turns of the interleaved comparison.")
    parser.add_argument("--advantages", nargs="+", default=["grpo"], help="Estimators whose share to measure.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # two spinning threads on a shared machine measure the neighbours
    prepare(arguments.folder)
    shares = {name: own_share(arguments.folder, arguments.steps, advantage=name) for name in arguments.advantages}
    print(json.dumps({"shares": shares, **interleaved(arguments.folder, arguments.rounds, arguments.steps // 2)}))


if __name__ == "__main__":
    main()
