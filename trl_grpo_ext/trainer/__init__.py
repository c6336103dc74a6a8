"""`GRPOTrainer` with the advantage estimator and the rewards chosen by name."""

from trl_grpo_ext.trainer.config import GroupRelativeConfig
from trl_grpo_ext.trainer.trainer import GroupRelativeTrainer


__all__ = ["GroupRelativeConfig", "GroupRelativeTrainer"]
