"""The private parts of TRL that the trainer relies on, and the check that they are still there."""

import inspect
from importlib.metadata import version

from trl import GRPOTrainer

from trl_grpo_ext.errors import UpstreamError


TESTED_TRL_VERSIONS = ("1.16.0",)

# Method -> names of its parameters.
METHODS = {
    "_prepare_inputs": ("self", "generation_batch"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_compute_loss": ("self", "model", "inputs"),
    "_get_per_token_logps_and_entropies": (
        *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"),
        *("compute_aux_loss", "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask"),
        *("spatial_shapes", "num_tiles", "image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids"),
    ),
    "_save_checkpoint": ("self", "model", "trial"),
    "_load_optimizer_and_scheduler": ("self", "checkpoint"),
    "_generate": ("self", "prompts"),
    "_get_output_dir": ("self", "trial"),
}

# Instance attributes that are read or rewritten.
ATTRIBUTES = (
    *("_metrics", "_logs", "_buffered_inputs", "_pending_metrics", "_pending_extra_logs"),
    *("beta", "loss_type", "importance_sampling_level", "num_generations", "num_generations_eval", "temperature"),
    *(
        "reward_funcs",
        "reward_func_names",
        "reward_weights",
        "rollout_func",
        "tools",
        "environment_factories",
        "use_vllm",
    ),
)

# Keys of what `_generate_and_score_completions` returns.
OUTPUT_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "num_items_in_batch")


def check_methods(trainer_class: type = GRPOTrainer) -> None:
    """
    Check that TRL's trainer still has the methods that are overridden, with the parameters they had.

    Raises:
        [`~errors.UpstreamError`]: naming the first one that moved.
    """
    for name, expected in METHODS.items():
        method = getattr(trainer_class, name, None)
        found = tuple(inspect.signature(method).parameters) if method is not None else None
        if found != expected:
            raise _moved(f"GRPOTrainer.{name}", f"parameters {expected}", f"{found}")


def check_attributes(trainer: GRPOTrainer) -> None:
    """
    Check that a built trainer has the attributes that are read or rewritten.

    Raises:
        [`~errors.UpstreamError`]: naming the first one that is missing.
    """
    for name in ATTRIBUTES:
        if not hasattr(trainer, name):
            raise _moved(f"GRPOTrainer.{name}", "an attribute of that name", "none")


def check_output(output: dict) -> None:
    """
    Check that a scored batch has the keys that are rewritten.

    Raises:
        [`~errors.UpstreamError`]: naming the first one that is missing.
    """
    for key in OUTPUT_KEYS:
        if key not in output:
            raise _moved("GRPOTrainer._generate_and_score_completions", f"{key!r} in its output", f"{sorted(output)}")


def _moved(seam: str, expected: str, found: str) -> UpstreamError:
    return UpstreamError(
        f"{seam} has changed: expected {expected}, found {found}. Installed: trl {version('trl')}; tested with: "
        f"{', '.join(TESTED_TRL_VERSIONS)}. Install a tested version: pip install 'trl=={TESTED_TRL_VERSIONS[-1]}'"
    )
