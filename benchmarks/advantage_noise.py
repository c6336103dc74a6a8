"""Advantages of groups in which every completion earned the same reward: TRL's and this package's.

    python benchmarks/advantage_noise.py

They should be 0. The last line is one JSON object: the largest absolute advantage over rewards 0.01 ... 0.99 and
group sizes 2 ... 16 in float32.
"""

import json

import torch
from trl.trainer.utils import nanstd

from trl_grpo_ext import estimate


def trl_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """The `scale_rewards="group"` branch of TRL 1.16, on a (1, G) tensor."""
    return (rewards - rewards.nanmean(dim=1, keepdim=True)) / (nanstd(rewards, dim=1).unsqueeze(1) + 1e-4)


def main() -> None:
    groups = [torch.full((1, size), reward / 100) for reward in range(1, 100) for size in range(2, 17)]
    worst = {
        "groups": len(groups),
        "trl": max(trl_advantages(group).abs().max().item() for group in groups),
        "trl_grpo_ext": max(estimate("grpo", group).abs().max().item() for group in groups),
    }
    print(json.dumps(worst))


if __name__ == "__main__":
    main()
