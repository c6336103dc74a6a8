"""Time of each sequence-level entry on 256 groups of 16, on one core.

    python benchmarks/advantages.py [--folder runs/overhead]

With `--folder` (a run of the quickstart's cold start, made if missing) also the share of a training step of the
quickstart that the entry takes on that step's own batch, 32 groups of 8. The last line is one JSON object.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from trl_grpo_ext.advantages import FAMILIES, bind_params
from trl_grpo_ext.advantages.inputs import INPUTS


# The slower of its two modes.
PARAMS = {"entropic": {"adaptive": True}}


def made_up(name: str, groups: int, size: int, generator: torch.Generator) -> tuple[torch.Tensor, dict]:
    """Binary rewards with a few unscorable completions, and inputs of the right shape."""
    rewards = (torch.rand(groups, size, generator=generator) < 0.5).double()
    rewards[torch.rand(groups, size, generator=generator) < 0.02] = torch.nan
    shapes = {"completion": (groups, size), "group_list": (groups, size), "group": (groups,), "batch": ()}
    estimator = bind_params(name, PARAMS.get(name))
    inputs = {
        key: torch.rand(shapes[INPUTS[key].level], generator=generator, dtype=torch.float64) + 0.5
        for key in estimator.inputs
    }
    inputs |= {"strata": inputs["strata"].round()} if "strata" in inputs else {}
    if estimator.layout == "components":
        rewards = torch.stack([rewards, 1 - rewards, rewards * 0.5], dim=2)
    return rewards, inputs


def milliseconds(name: str, groups: int, size: int, repeats: int = 50) -> float:
    """Median time of one call."""
    estimator = bind_params(name, PARAMS.get(name))
    rewards, inputs = made_up(name, groups, size, torch.Generator().manual_seed(0))
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        estimator(rewards, **inputs)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def sequence_level() -> list[str]:
    """Entries that give one number for each completion."""
    return [name for names in FAMILIES.values() for name in names if bind_params(name).level == "completion"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Compare with a training step of the quickstart's model there.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    times = {name: milliseconds(name, 256, 16) for name in sequence_level()}
    result: dict = {"milliseconds": {name: round(value, 3) for name, value in times.items()}}
    result["slowest"] = max(times, key=times.__getitem__)
    result["slowest_milliseconds"] = round(max(times.values()), 3)
    if arguments.folder:
        from quickstart_model import prepare
        from step_overhead import own_share

        prepare(arguments.folder)
        step = own_share(arguments.folder, steps=10)["step_seconds"]
        shares = {name: milliseconds(name, 32, 8) / 1e3 / step for name in times}
        result |= {"step_seconds": round(step, 3), "largest_share_of_a_step": round(max(shares.values()), 5)}
    for name, value in sorted(times.items(), key=lambda item: -item[1]):
        print(f"{name:28s} {value:7.3f} ms")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
