"""What some estimators remember of earlier batches, in one file next to each checkpoint."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.advantages.trackers import MomentTracker, PassRateAnchor, SuccessTracker
from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.files import write_json
from trl_grpo_ext.trainer.policy import loss_mask, without_dropout


if TYPE_CHECKING:
    from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer

STATE_FILE = "advantage_state.json"
# The drift is a mean over tokens, of which this many completions of each process hold thousands.
PROBE_ROWS = 32
PROBE_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask")
# Kind of history -> the inputs that it gives.
TRACKERS: dict[Any, set[str]] = {
    SuccessTracker: {"alpha", "beta"},
    MomentTracker: {"times", "old_mean", "old_std"},
    PassRateAnchor: {"anchor"},
}
HISTORY_INPUTS = set().union(*TRACKERS.values())


def prompt_key(prompt: Any) -> str:
    """
    A prompt (text or messages) as a short key, whatever order its messages hold their fields in.

    Raises:
        [`~errors.DataError`]: if the prompt holds something else than text, such as an image.
    """
    try:
        text = json.dumps(prompt, sort_keys=True)
    except TypeError as error:
        raise DataError(
            f"a prompt cannot be recognised when it comes again: {error}; it must hold text only"
        ) from error
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def save_state(checkpoint: Path, name: str, state: dict[str, Any]) -> None:
    """Write the state of the estimator `name` next to a checkpoint."""
    write_json(checkpoint / STATE_FILE, {"advantage": name, "state": state})


def load_state(checkpoint: Path, name: str) -> dict[str, Any]:
    """
    Read the state of the estimator `name` that was saved next to a checkpoint.

    Raises:
        [`~errors.ConfigError`]: if there is none, or it is another estimator's.
    """
    path = checkpoint / STATE_FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        found, state = saved["advantage"], saved["state"]
    except FileNotFoundError as error:
        raise ConfigError(
            f"advantage {name!r} remembers earlier batches, but {path} is missing: the checkpoint was saved with "
            "another advantage, or by another trainer. Start afresh, or resume with the advantage it was saved with"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); resume from another checkpoint") from error
    if found != name:
        raise ConfigError(f"{path} holds the state of advantage {found!r}, not of {name!r}; resume with {found!r}")
    return state


class History:
    """
    What an estimator remembers of each prompt, or of the batches.

    Args:
        estimator ([`Estimator`]):
            The estimator.
        inputs (`set[str]`):
            The inputs that it takes from a history; they say which.

    Raises:
        [`~errors.ConfigError`]: if the inputs belong to different histories.
    """

    def __init__(self, estimator: Estimator, inputs: set[str]):
        wanted = [tracker for tracker in TRACKERS if inputs & TRACKERS[tracker]]
        if len(wanted) > 1:
            raise ConfigError(
                f"advantage {estimator.name!r} takes inputs of two histories ({', '.join(sorted(inputs))}); use one"
            )
        self.tracker = wanted[0]()
        # A history of standard deviations is taken with the divisor of the estimator that reads it.
        ddof = estimator.option("ddof")
        self._options = {"ddof": ddof} if wanted[0] is MomentTracker and ddof is not None else {}
        self.clock = DriftClock() if isinstance(self.tracker, SuccessTracker) else None
        self._last_visit: dict[str, float] = {}

    def inputs(self, keys: list[str]) -> dict[str, torch.Tensor]:
        """Return the inputs for prompts with these keys, before the current batch is remembered."""
        return self.tracker.inputs(keys)

    def update(self, trainer: "GroupRelativeTrainer", keys: list[str], rewards: torch.Tensor, output: dict) -> None:
        """Remember a batch of (N, G) rewards; every process calls, with the rewards of all."""
        rewards = rewards.cpu()
        if self.clock is None:
            self.tracker.update(keys, rewards, **self._options)
            return
        now = self.clock.start(trainer, output)
        drift = [now - self._last_visit.get(key, now) for key in keys]
        self.tracker.update(keys, rewards, torch.tensor(drift, dtype=torch.float64))
        self._last_visit.update(dict.fromkeys(keys, now))

    def state_dict(self, trainer: "GroupRelativeTrainer") -> dict[str, Any]:
        """Return what must survive, as JSON takes it. Every process calls, since the drift is measured once more."""
        state: dict[str, Any] = {"tracker": self.tracker.state_dict()}
        if self.clock is not None:
            state |= {"drift": self.clock.read(trainer), "last_visit": self._last_visit}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what [`state_dict`] returned."""
        self.tracker.load_state_dict(state["tracker"])
        if self.clock is not None:
            self.clock.reading = state["drift"]
            self._last_visit = state["last_visit"]


class DriftClock:
    """
    How far the policy has moved since training began, as the length of its path.

    The distance between two policies is the mean |log-probability difference| over the tokens of a batch. It is
    measured between consecutive generation batches, on some completions of the earlier one, and added up, so that
    nothing has to be kept for each prompt but the reading of the clock at its last visit. By the triangle inequality
    the path is no shorter than the straight distance: memories fade at least as fast as they should.
    """

    def __init__(self) -> None:
        self.reading = 0.0
        self._probe: tuple[dict[str, Any], torch.Tensor] | None = None

    def read(self, trainer: "GroupRelativeTrainer") -> float:
        """Return how far the policy has moved by now. Every process calls; it changes nothing."""
        if self._probe is None:
            return self.reading
        output, before = self._probe
        now, mask = _logps(trainer, output), loss_mask(output)
        moved = torch.where(mask, (now - before).abs(), 0.0).sum()
        total = trainer.accelerator.reduce(torch.stack([moved, mask.sum().to(moved.dtype)]), reduction="sum")
        return self.reading + (total[0] / total[1].clamp(min=1)).item()

    def start(self, trainer: "GroupRelativeTrainer", output: dict[str, Any]) -> float:
        """Return the reading, and measure from now on, on the batch that was just sampled. Every process calls."""
        self.reading = self.read(trainer)
        # A copy of what the model needs: rows that are taken out of the loss later must not change the probe.
        kept = {key: output[key][:PROBE_ROWS] for key in PROBE_KEYS if key in output}
        self._probe = (kept, _logps(trainer, kept))
        return self.reading


def _logps(trainer: "GroupRelativeTrainer", output: dict[str, Any]) -> torch.Tensor:
    """Log-probabilities without dropout, which would look like a move of the policy."""
    with without_dropout(trainer.model):
        return trainer.passes.measure(output).logps
