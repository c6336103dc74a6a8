"""Batch arithmetic of GRPO, without torch: does a generation batch hold whole groups?"""

from trl_grpo_ext.errors import ConfigError


def check_group_batch(per_device: int, world: int, steps: int, num_generations: int) -> None:
    """
    Check that a generation batch of `per_device * world * steps` completions is made of whole groups.

    Args:
        per_device (`int`):
            `per_device_train_batch_size`, in completions.
        world (`int`):
            Number of processes.
        steps (`int`):
            `steps_per_generation` (by default `gradient_accumulation_steps`).
        num_generations (`int`):
            Group size G.

    Raises:
        [`~errors.ConfigError`]: if it is not; the message names the group sizes that would fit.
    """
    batch = per_device * world * steps
    if num_generations >= 2 and batch % num_generations == 0:
        return
    fitting = [size for size in range(2, batch + 1) if batch % size == 0]
    choices = ", ".join(map(str, fitting)) if fitting else "none: raise per_device_train_batch_size"
    problem = (
        f"num_generations={num_generations} is too small: a group needs at least 2 completions"
        if num_generations < 2
        else f"num_generations={num_generations} does not divide the generation batch of {batch} completions"
    )
    raise ConfigError(
        f"{problem} (per_device_train_batch_size={per_device} x processes={world} x steps_per_generation={steps}); "
        f"num_generations that would fit: {choices}"
    )
