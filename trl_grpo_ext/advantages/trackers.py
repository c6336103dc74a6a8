"""
What estimators with a history remember: of each prompt, or of the batches so far.

A tracker gives the inputs of its estimator with `inputs(keys)` and is told the rewards of a batch with
`update(keys, rewards)`; row i of the rewards belongs to `keys[i]`. With several processes every one of them must be
given the same gathered batch. The state is plain Python: `json.dumps(tracker.state_dict())` is a checkpoint, and a
tracker that loads it continues as if it had not stopped. Unscorable completions (NaN) never enter it.
"""

import math
import statistics
from collections.abc import Iterable
from typing import Any

import torch

from trl_grpo_ext.advantages.groups import group_count
from trl_grpo_ext.advantages.history import add_visit, group_moments
from trl_grpo_ext.errors import ConfigError


class SuccessTracker:
    """
    Success rate of each prompt, for [`~advantages.history.spo`]: a Beta distribution that forgets as the policy moves.

        rho = 2^(-D / half_life), clipped to [rho_min, rho_max]
        alpha <- rho alpha + r
        beta  <- rho beta + 1 - r

    r is the mean of all scorable rewards that the prompt got in the batch: a visit counts as one observation however
    many completions it had. SPO samples one completion for each visit, and its rho, between `rho_min` and `rho_max`,
    sets how many *visits* are remembered, at most 1 / (1 - rho_max) = 25; adding every completion would let one group
    of 16 outweigh all that was known. A prompt that stands in several groups of a batch has made one visit, with the
    mean of the drifts of these groups, so the order of the groups does not matter. Rewards outside of [0, 1] keep
    `alpha + beta` positive, so the baseline stays a weighted mean of what was seen.

    An unseen prompt starts as if it had been seen 1 / (1 - rho_min) = 8 times and been right half of the time. The
    authors' code starts from the success rate of warm-up samples, or without any from alpha = beta = 1/2, so that the
    first visits move its baseline further.

    Args:
        rho_min (`float`, *optional*, defaults to `0.875`):
            Smallest factor on what is remembered, in [0, 1).
        rho_max (`float`, *optional*, defaults to `0.96`):
            Largest factor, at least `rho_min` and below 1.
        half_life (`float`, *optional*, defaults to `0.06`):
            Drift, in nats, that halves what is remembered.

    Raises:
        [`~errors.ConfigError`]: if 0 <= `rho_min` <= `rho_max` < 1 or 0 < `half_life` does not hold.
    """

    def __init__(self, rho_min: float = 0.875, rho_max: float = 0.96, half_life: float = 0.06):
        if not 0 <= rho_min <= rho_max < 1:
            raise ConfigError(f"rho_min={rho_min}, rho_max={rho_max}; expected 0 <= rho_min <= rho_max < 1")
        if half_life <= 0:
            raise ConfigError(f"half_life is {half_life}; expected a positive drift")
        self.rho_min = rho_min
        self.rho_max = rho_max
        self.half_life = half_life
        self._counts: dict[str, tuple[float, float]] = {}

    def inputs(self, keys: list[str]) -> dict[str, torch.Tensor]:
        """
        Return `alpha` and `beta` of each prompt, float64 tensors of shape `(N,)`, as of the last update. SPO's
        baseline must not have seen the rewards it is compared with: call this before [`update`].
        """
        counts = [self._counts.get(key) or self._start() for key in keys]
        return {
            "alpha": torch.tensor([alpha for alpha, _ in counts], dtype=torch.float64),
            "beta": torch.tensor([beta for _, beta in counts], dtype=torch.float64),
        }

    def update(self, keys: list[str], rewards: torch.Tensor, drift: torch.Tensor) -> None:
        """
        Take in the rewards of a batch. Prompts without a scorable reward stay as they are.

        Args:
            keys (`list[str]`):
                Prompt of each group.
            rewards (`torch.Tensor` of shape `(N, G)`):
                Rewards in [0, 1]; NaN marks an unscorable completion.
            drift (`torch.Tensor` of shape `(N,)`):
                How far the policy moved since the prompt was last seen: the mean absolute difference of the
                log-probabilities of that visit's tokens, then and now, in nats. NaN counts as 0, as at a first visit.
        """
        totals, counts, drifts = (
            rewards.double().nansum(1).tolist(),
            group_count(rewards)[:, 0].tolist(),
            drift.tolist(),
        )
        for key, visits in _by_key(keys, zip(totals, counts, drifts, strict=True)).items():
            scored = [visit for visit in visits if visit[1] > 0]
            if not scored:
                continue
            reward = math.fsum(total for total, _, _ in scored) / math.fsum(count for _, count, _ in scored)
            moved = [distance for _, _, distance in scored if not math.isnan(distance)]
            rho = 2.0 ** (-max(math.fsum(moved) / len(moved), 0.0) / self.half_life) if moved else 1.0
            rho = min(max(rho, self.rho_min), self.rho_max)
            alpha, beta = self._counts.get(key) or self._start()
            self._counts[key] = (rho * alpha + reward, rho * beta + 1 - reward)

    def state_dict(self) -> dict[str, Any]:
        """Return what is known of each prompt as a dictionary that JSON can hold."""
        return {"counts": {key: list(counts) for key, counts in self._counts.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what [`state_dict`] returned."""
        self._counts = {key: (alpha, beta) for key, (alpha, beta) in state["counts"].items()}

    def _start(self) -> tuple[float, float]:
        half = 0.5 / (1 - self.rho_min)
        return half, half


class MomentTracker:
    """
    Number of visits, mean and standard deviation of the rewards of each prompt, for [`~advantages.history.dcpo_sas`].

        M <- (t M + m) / (t + 1)
        S^2 <- (t S^2 + s^2 + t / (t + 1) (m - M)^2) / (t + 1)
        t <- t + 1

    Each group with at least two scorable completions is a visit; other groups have no deviation and are skipped. A
    prompt that stands in several groups of a batch has made as many visits, and their order does not matter.
    """

    def __init__(self) -> None:
        self._moments: dict[str, tuple[int, float, float]] = {}

    def inputs(self, keys: list[str]) -> dict[str, torch.Tensor]:
        """
        Return `times`, `old_mean` and `old_std` of each prompt, float64 tensors of shape `(N,)`, as of the last
        update; all 0 for unseen prompts. The estimator adds the current visit itself: call this before [`update`].
        """
        moments = [self._moments.get(key, (0, 0.0, 0.0)) for key in keys]
        columns = torch.tensor(moments, dtype=torch.float64).view(-1, 3).unbind(dim=1)
        return dict(zip(("times", "old_mean", "old_std"), columns, strict=True))

    def update(self, keys: list[str], rewards: torch.Tensor, ddof: int = 1) -> None:
        """
        Take in the rewards of a batch.

        Args:
            keys (`list[str]`):
                Prompt of each group.
            rewards (`torch.Tensor` of shape `(N, G)`):
                Rewards; NaN marks an unscorable completion.
            ddof (`int`, *optional*, defaults to `1`):
                The divisor of the variance of a group is n - `ddof`; the same as the estimator's.
        """
        table = rewards.double()
        mean, std = group_moments(table, ddof)
        visits = zip(group_count(table)[:, 0].tolist(), mean[:, 0].tolist(), std[:, 0].tolist(), strict=True)
        for key, groups in _by_key(keys, visits).items():
            for count, mean_of_group, std_of_group in groups:
                if count < 2:
                    continue
                times, old_mean, old_std = self._moments.get(key, (0, 0.0, 0.0))
                moments = add_visit(times, old_mean, old_std, mean_of_group, std_of_group)
                self._moments[key] = (times + 1, *moments)

    def state_dict(self) -> dict[str, Any]:
        """Return what is known of each prompt as a dictionary that JSON can hold."""
        return {"moments": {key: list(moments) for key, moments in self._moments.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what [`state_dict`] returned."""
        self._moments = {key: (times, mean, std) for key, (times, mean, std) in state["moments"].items()}


class PassRateAnchor:
    """
    Smoothed pass rate of the batches so far, for [`~advantages.history.ha_dw`].

        C <- C + eta sigma (y - C)

    y is the mean of all scorable rewards of the batch and sigma the standard deviation (divisor m) of the y of the m
    batches before it, at most `memory` of them: the anchor follows faster while the pass rate moves. It starts as the
    y of the first batch; sigma needs two earlier batches, so the third is the first to move it.

    Unverified: where the anchor starts, what holds before `memory` batches were seen, and of what sigma is the
    deviation; the paper's own text was not read. A secondary transcription takes sigma over the earlier anchors, which
    from a single start would be 0 for ever; here it is taken over the pass rates.

    Args:
        eta (`float`, *optional*, defaults to `0.1`):
            Rate, multiplied by sigma.
        memory (`int`, *optional*, defaults to `50`):
            Number of batches over which sigma is taken.

    Raises:
        [`~errors.ConfigError`]: if `eta` is not in (0, 1] or `memory` is below 2.
    """

    def __init__(self, eta: float = 0.1, memory: int = 50):
        if not 0 < eta <= 1:
            raise ConfigError(f"eta is {eta}; expected a rate in (0, 1]")
        if memory < 2:
            raise ConfigError(f"memory is {memory}; expected at least 2 batches, one has no deviation")
        self.eta = eta
        self.memory = memory
        self._anchor: float | None = None
        self._pass_rates: list[float] = []

    def inputs(self, keys: list[str]) -> dict[str, torch.Tensor]:
        """
        Return the `anchor`, a float64 tensor without dimensions, the same for all prompts. It is NaN before the first
        batch, which [`~advantages.history.ha_dw`] takes as no difference.
        """
        return {"anchor": torch.tensor(math.nan if self._anchor is None else self._anchor, dtype=torch.float64)}

    def update(self, keys: list[str], rewards: torch.Tensor) -> None:
        """
        Take in the rewards of a batch. A batch without a scorable reward changes nothing.

        Args:
            keys (`list[str]`):
                Prompt of each group; the anchor does not depend on it.
            rewards (`torch.Tensor` of shape `(N, G)`):
                Rewards in [0, 1]; NaN marks an unscorable completion.
        """
        pass_rate = rewards.double().nanmean().item()
        if math.isnan(pass_rate):
            return
        if self._anchor is None:
            self._anchor = pass_rate
        else:
            self._anchor += self.eta * statistics.pstdev(self._pass_rates) * (pass_rate - self._anchor)
        self._pass_rates = [*self._pass_rates, pass_rate][-self.memory :]

    def state_dict(self) -> dict[str, Any]:
        """Return the anchor and the remembered pass rates as a dictionary that JSON can hold."""
        return {"anchor": self._anchor, "pass_rates": list(self._pass_rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what [`state_dict`] returned."""
        self._anchor = state["anchor"]
        self._pass_rates = list(state["pass_rates"])


def _by_key(keys: list[str], visits: Iterable[tuple]) -> dict[str, list[tuple]]:
    """Collect the groups of each prompt, sorted, so that what follows does not depend on their order in the batch."""
    collected: dict[str, list[tuple]] = {}
    for key, visit in zip(keys, visits, strict=True):
        collected.setdefault(key, []).append(visit)
    return {key: sorted(groups) for key, groups in collected.items()}
