"""How several rewards become one number per completion."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trl_grpo_ext.errors import ConfigError


if TYPE_CHECKING:
    import torch

    from trl_grpo_ext.rewards.spec import RewardSpec


class Composition:
    """
    The combination of several rewards: `prod(gates) * sum(weight * clip(reward))`, the sum over the added rewards. A
    negative sum stays as it is: no punishment can be escaped by breaking the format.

    A gate turns an added format reward into a condition: a completion that breaks the format earns nothing, and a
    group in which nobody is right has nothing to learn from. With added rewards alone, without clipping, this is TRL's
    own weighted sum.

    A row is unscorable, and its reward is NaN, if a gate or a required reward could not judge it, or none could. Other
    rewards that could not judge are left out of the sum.

    Args:
        specs (`list[RewardSpec]`):
            One spec per column of the reward matrix. An undecided mode or required flag is decided here.
    """

    def __init__(self, specs: "Sequence[RewardSpec]"):
        self.specs = [spec if spec.mode and spec.required is not None else spec.resolve() for spec in specs]

    @property
    def weights(self) -> list[float]:
        """The weights, in order; what TRL calls `reward_weights`."""
        return [float(spec.weight) for spec in self.specs]

    def unscorable(self, matrix: "torch.Tensor") -> "torch.Tensor":
        """
        Say which rows have no reward.

        Args:
            matrix (`torch.Tensor`):
                Rewards of shape (N, K), NaN where a reward could not judge.

        Returns:
            `torch.Tensor`: Booleans of shape (N,).

        Raises:
            [`~errors.ConfigError`]: if the matrix does not have one column per reward.
        """
        self._check(matrix)
        missing = matrix.isnan()
        unscorable = missing.all(dim=1)
        for column, spec in enumerate(self.specs):
            if spec.required or spec.mode == "gate":
                unscorable = unscorable | missing[:, column]
        return unscorable

    def clip(self, matrix: "torch.Tensor") -> "torch.Tensor":
        """Clip each column of (N, K) rewards as its spec says."""
        clipped = matrix.clone()
        for column, spec in enumerate(self.specs):
            if spec.clip is not None:
                clipped[:, column] = clipped[:, column].clamp(*spec.clip)
        return clipped

    def combine(self, matrix: "torch.Tensor") -> "torch.Tensor":
        """
        Combine the rewards of each row.

        Args:
            matrix (`torch.Tensor`):
                Rewards of shape (N, K), NaN where a reward could not judge.

        Returns:
            `torch.Tensor`: Shape (N,), in the dtype of `matrix`; NaN where the row is unscorable.

        Raises:
            [`~errors.ConfigError`]: if the matrix does not have one column per reward.
        """
        unscorable = self.unscorable(matrix)
        clipped = self.clip(matrix)
        added = [column for column, spec in enumerate(self.specs) if spec.mode == "add"]
        gates = [column for column, spec in enumerate(self.specs) if spec.mode == "gate"]
        weights = matrix.new_tensor(self.weights)
        total = (clipped[:, added] * weights[added].unsqueeze(0)).nansum(dim=1)  # (N,)
        if gates:
            gate = clipped[:, gates].prod(dim=1)  # (N,)
            total = gate * total.clamp(min=0) + total.clamp(max=0) if added else gate
        return total.masked_fill(unscorable, float("nan"))

    def _check(self, matrix: "torch.Tensor") -> None:
        if matrix.ndim != 2 or matrix.shape[1] != len(self.specs):
            raise ConfigError(
                f"the reward matrix has shape {tuple(matrix.shape)}; expected one column for each of the "
                f"{len(self.specs)} rewards"
            )
