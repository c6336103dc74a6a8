"""`GRPOConfig` with the options of this package."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from trl_grpo_ext.advantages import bind_params
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.planner.batch import check_group_batch


@dataclass
class GroupRelativeConfig(GRPOConfig):
    """
    Configuration of [`GroupRelativeTrainer`]: every argument of [`~trl.GRPOConfig`], and the ones below.

    Args:
        advantage (`str`, *optional*, defaults to `"grpo"`):
            Name of the advantage estimator (see [`list_advantages`]), or an import path. The default is TRL's own.
        advantage_kwargs (`dict` or `str`, *optional*):
            Parameters of the estimator that differ from its defaults; a string is read as JSON.
        max_unscored_frac (`float`, *optional*, defaults to `0.2`):
            Training stops with an error when a larger share of the recent completions could not be judged. A judge
            that is down must not look like a model that does not learn.
        shuffle_rewards (`bool`, *optional*, defaults to `False`):
            Control experiment: permute the rewards at random within each generation batch, so that they carry no
            information. A run that still improves learns from something other than its rewards.

    Raises:
        [`~errors.ConfigError`]: if the advantage or one of its parameters is unknown, if an inherited argument would
        be ignored, or if `num_generations` does not divide the generation batch.
    """

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "advantage_kwargs"]  # noqa: RUF012

    advantage: str = field(
        default="grpo",
        metadata={"help": "Name of the advantage estimator, or an import path. The default is TRL's own."},
    )
    advantage_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Parameters of the advantage estimator that differ from its defaults; a string is JSON."},
    )
    max_unscored_frac: float = field(
        default=0.2,
        metadata={"help": "Stop when a larger share of the recent completions could not be judged."},
    )
    shuffle_rewards: bool = field(
        default=False,
        metadata={"help": "Control experiment: permute the rewards at random within each generation batch."},
    )

    def __post_init__(self):
        try:
            super().__post_init__()
        except ValueError as error:
            if "num_generations" in str(error):  # TRL says that G does not divide the batch; say which values would
                self._check_groups()
            raise
        self.bind_advantage()
        if self.scale_rewards != "group":
            raise ConfigError(
                f"scale_rewards={self.scale_rewards!r} has no effect beside advantage={self.advantage!r}, which "
                "scales (or not) by its own definition; drop scale_rewards, and use advantage='dr_grpo' for no scaling"
            )
        if self.multi_objective_aggregation != "sum_then_normalize":
            raise ConfigError(
                f"multi_objective_aggregation={self.multi_objective_aggregation!r} has no effect beside "
                f"advantage={self.advantage!r}, which sees the combined reward; drop it"
            )
        if not 0.0 <= self.max_unscored_frac <= 1.0:
            raise ConfigError(f"max_unscored_frac={self.max_unscored_frac} is outside [0, 1]")

    def bind_advantage(self) -> Callable:
        """
        Return the chosen advantage estimator with its parameters set.

        Raises:
            [`~errors.ConfigError`]: if the estimator or one of its parameters is unknown.
        """
        if isinstance(self.advantage_kwargs, str):
            raise ConfigError(
                f"advantage_kwargs={self.advantage_kwargs!r} is not a mapping; write JSON: '{{\"eps\": 1e-6}}'"
            )
        return bind_params(self.advantage, self.advantage_kwargs)

    def _check_groups(self):
        steps = self.steps_per_generation  # TRL has derived it from whichever of the batch arguments were given
        check_group_batch(self.per_device_train_batch_size, self.world_size, steps or 1, self.num_generations or 0)
