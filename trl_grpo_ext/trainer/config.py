"""`GRPOConfig` with the options of this package."""

import logging
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from trl import GRPOConfig

from trl_grpo_ext.advantages import bind_params
from trl_grpo_ext.advantages.estimation import Estimator
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.planner.batch import check_group_batch
from trl_grpo_ext.trainer.shaping import Shaper, parse_shaping


logger = logging.getLogger(__name__)
KL_ESTIMATORS = ("k1", "k2", "k3")
KL_PLACES = ("loss", "reward")


@dataclass
class GroupRelativeConfig(GRPOConfig):
    """
    Configuration of [`GroupRelativeTrainer`]: every argument of [`~trl.GRPOConfig`], and the ones below.

    Args:
        advantage (`str`, *optional*, defaults to `"grpo"`):
            Name of the advantage estimator (see [`list_advantages`]), or an import path. The default is TRL's own.
        advantage_kwargs (`dict` or `str`, *optional*):
            Parameters of the estimator that differ from its defaults; a string is read as JSON.
        advantage_inputs (`dict` or `str`, *optional*):
            Where inputs of the estimator come from that the trainer cannot supply, or another source than its own:
            input to the name of a supplied input (`{"metric": "seq_entropy"}`) or to the import path of a function
            with the signature of a reward function, which returns a value, or a list with one value for each token,
            for each completion. A string is read as JSON.
        reward_shaping (`list`, *optional*):
            Shapers of the combined reward, applied in order: names (`"shorterbetter"`) or mappings of a name and
            parameters (`{"name": "dapo_overlong", "max_len": 1024, "cache_len": 256}`); text in braces is JSON.
        kl_estimator (`str`, *optional*, defaults to `"k3"`):
            Estimator of the KL penalty whose coefficient is `beta`: `"k1"`, `"k2"` or `"k3"` (TRL's). As a term of the
            loss, the gradient of KL(policy || reference) is in expectation that of k2 with
            `use_bias_correction_kl=False`, and that of k3 (and k1) with `use_bias_correction_kl=True`, TRL's default.
        kl_in (`str`, *optional*, defaults to `"loss"`):
            Whether the KL penalty is a term of the loss, or `"reward"`: subtracted, summed over the tokens of the
            completion, from its reward before advantages are computed (`use_bias_correction_kl` is then without
            effect).
        allow_k1_in_loss (`bool`, *optional*, defaults to `False`):
            Permit `kl_estimator="k1"` in the loss. Its expected gradient is zero without `use_bias_correction_kl`.
        max_unscored_frac (`float`, *optional*, defaults to `0.2`):
            Training stops with an error when a larger share of the recent completions could not be judged. A judge
            that is down must not look like a model that does not learn.
        shuffle_rewards (`bool`, *optional*, defaults to `False`):
            Control experiment: permute the rewards at random within each generation batch, so that they carry no
            information. A run that still improves learns from something other than its rewards.

    Raises:
        [`~errors.ConfigError`]: if a name or a parameter is unknown, if an argument would be ignored or a combination
        makes no sense, or if `num_generations` does not divide the generation batch.
    """

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "advantage_kwargs", "advantage_inputs"]  # noqa: RUF012

    advantage: str = field(
        default="grpo",
        metadata={"help": "Name of the advantage estimator, or an import path. The default is TRL's own."},
    )
    advantage_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Parameters of the advantage estimator that differ from its defaults; a string is JSON."},
    )
    advantage_inputs: dict[str, Any] | str | None = field(
        default=None,
        metadata={
            "help": "Source of inputs of the advantage estimator: input to the name of a supplied input, or to the "
            "import path of a function; a string is JSON."
        },
    )
    reward_shaping: list[str] | None = field(
        default=None,
        metadata={"help": "Shapers of the reward, in order: names, or mappings of a name and parameters (JSON)."},
    )
    kl_estimator: str = field(
        default="k3",
        metadata={"help": "Estimator of the KL penalty.", "choices": list(KL_ESTIMATORS)},
    )
    kl_in: str = field(
        default="loss",
        metadata={"help": "Where the KL penalty goes.", "choices": list(KL_PLACES)},
    )
    allow_k1_in_loss: bool = field(
        default=False,
        metadata={"help": "Permit kl_estimator=k1 in the loss, where its expected gradient is zero."},
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
        estimator = self.bind_advantage()
        if self.scale_rewards != "group":
            raise ConfigError(
                f"scale_rewards={self.scale_rewards!r} has no effect beside advantage={self.advantage!r}, which "
                "scales (or not) by its own definition; drop scale_rewards, and use advantage='dr_grpo' for no "
                "scaling or 'ppo_lite' for the standard deviation of the batch"
            )
        if self.multi_objective_aggregation != "sum_then_normalize":
            raise ConfigError(
                f"multi_objective_aggregation={self.multi_objective_aggregation!r} has no effect beside "
                f"advantage={self.advantage!r}; drop it, and use advantage='gdpo' to normalise rewards one by one"
            )
        if not isinstance(self.max_unscored_frac, (int, float)) or not 0.0 <= self.max_unscored_frac <= 1.0:
            raise ConfigError(f"max_unscored_frac={self.max_unscored_frac!r} is no number in [0, 1]")
        for option in ("shuffle_rewards", "allow_k1_in_loss"):
            if not isinstance(getattr(self, option), bool):
                raise ConfigError(f"{option}={getattr(self, option)!r} is neither true nor false")
        if self.shuffle_rewards and estimator.layout == "step_rewards":
            raise ConfigError(f"shuffle_rewards permutes one reward for each completion; {self.advantage!r} has steps")
        self.input_overrides()
        self._check_shaping(estimator)
        self._check_kl(estimator)
        self._check_token_level(estimator)

    def bind_advantage(self) -> Estimator:
        """
        Return the chosen advantage estimator with its parameters set.

        Raises:
            [`~errors.ConfigError`]: if the estimator or one of its parameters is unknown, or it is no estimator.
        """
        if not isinstance(self.advantage, str):
            raise ConfigError(f"advantage={self.advantage!r} is a {type(self.advantage).__name__}, not a name")
        if not isinstance(self.advantage_kwargs, (dict, NoneType)):
            raise ConfigError(
                f"advantage_kwargs={self.advantage_kwargs!r} is not a mapping; write JSON: '{{\"eps\": 1e-6}}'"
            )
        for prefix, option in (("shape/", "reward_shaping"), ("kl/", "kl_estimator")):
            if self.advantage.startswith(prefix):
                raise ConfigError(f"{self.advantage!r} is not an advantage estimator; it belongs in {option}")
        if self.advantage.startswith("select/"):
            raise ConfigError(f"{self.advantage!r} is not an advantage estimator; it says which groups to keep")
        return bind_params(self.advantage, self.advantage_kwargs)

    def input_overrides(self) -> dict[str, str]:
        """
        Return `advantage_inputs` as a mapping.

        Raises:
            [`~errors.ConfigError`]: if it is none.
        """
        overrides = self.advantage_inputs
        if not isinstance(overrides, (dict, NoneType)):
            raise ConfigError(
                f'advantage_inputs={overrides!r} is not a mapping; write JSON: \'{{"metric": "seq_entropy"}}\''
            )
        for name, value in (overrides or {}).items():
            if not isinstance(value, str):
                raise ConfigError(f"advantage_inputs: {name}={value!r} is neither a name nor an import path")
        return dict(overrides or {})

    def shapers(self) -> list[Shaper]:
        """
        Return the shapers that `reward_shaping` names.

        Raises:
            [`~errors.ConfigError`]: if a name or a parameter is unknown, or a penalty could never apply.
        """
        return parse_shaping(self.reward_shaping, self.max_completion_length)

    def _check_groups(self):
        steps = self.steps_per_generation  # TRL has derived it from whichever of the batch arguments were given
        check_group_batch(self.per_device_train_batch_size, self.world_size, steps or 1, self.num_generations or 0)

    def _check_shaping(self, estimator: Estimator):
        if not self.shapers():
            return
        if estimator.layout != "rewards":
            raise ConfigError(
                f"reward_shaping shapes one reward for each completion, but advantage={self.advantage!r} compares "
                f"{'each reward by itself' if estimator.layout == 'components' else 'the rewards of steps'}; drop it"
            )
        if "greedy_reward" in estimator.inputs or "ref_rewards" in estimator.inputs:
            raise ConfigError(
                f"reward_shaping would make rewards differ from the baseline of advantage={self.advantage!r}, which "
                "is not shaped; drop it"
            )

    def _check_kl(self, estimator: Estimator):
        for option, known in (("kl_estimator", KL_ESTIMATORS), ("kl_in", KL_PLACES)):
            value = getattr(self, option)
            if value not in known:
                raise ConfigError(f"{option}={value!r} is unknown; expected one of {', '.join(known)}")
        if self.beta == 0.0 and (self.kl_estimator != "k3" or self.kl_in != "loss"):
            raise ConfigError(
                f"kl_estimator={self.kl_estimator!r} with kl_in={self.kl_in!r} has no effect with beta=0; set beta"
            )
        if self.kl_estimator == "k1" and self.kl_in == "loss" and not self.allow_k1_in_loss:
            raise ConfigError(
                "kl_estimator='k1' with kl_in='loss': the expected gradient of k1 is zero, so the penalty does "
                "nothing on average (but for what use_bias_correction_kl adds). Set kl_in='reward', or "
                "kl_estimator='k2' or 'k3'; or allow_k1_in_loss=True to insist"
            )
        if self.kl_estimator == "k2" and self.kl_in == "loss" and self.use_bias_correction_kl:
            logger.warning(
                "kl_estimator='k2' has the gradient of KL(policy || reference) by itself; multiplied by the ratio of "
                "use_bias_correction_kl=True (TRL's default) it has not. Set use_bias_correction_kl=False."
            )
        if self.kl_in == "reward" and self.mask_truncated_completions:
            raise ConfigError(
                "kl_in='reward' with mask_truncated_completions=True: TRL masks truncated completions for the "
                "reference too, so their KL is not known; drop one of the two"
            )
        if self.kl_in == "reward" and estimator.layout != "rewards":
            raise ConfigError(
                f"kl_in='reward' needs one reward for each completion; advantage={self.advantage!r} compares several. "
                "Set kl_in='loss'"
            )
        if "token_kl" in estimator.inputs:
            self._check_token_kl(estimator)

    def _check_token_kl(self, estimator: Estimator):
        if self.beta == 0.0 or self.kl_in != "reward" or self.kl_estimator != "k1":
            raise ConfigError(
                f"advantage={self.advantage!r} takes the KL to the reference out of the return: set beta to its "
                "coefficient, kl_in='reward' and kl_estimator='k1'"
            )
        if estimator.params.get("kl_coef", self.beta) != self.beta:
            raise ConfigError(
                f"the KL coefficient is given twice: beta={self.beta} and kl_coef={estimator.params['kl_coef']}; "
                "set beta alone"
            )

    def _check_token_level(self, estimator: Estimator):
        if estimator.level == "completion":
            return
        reason = f"needs one advantage for each completion; advantage={self.advantage!r} gives more"
        if self.loss_type == "vespo":
            raise ConfigError(f"loss_type='vespo' {reason}")
        if self.off_policy_mask_threshold is not None:
            raise ConfigError(f"off_policy_mask_threshold={self.off_policy_mask_threshold} {reason}")
