"""From a recipe to a finished run: reads the recipe, remembers what is done, starts each stage as a process.

Nothing here imports torch or TRL; the stages do, in their own processes.
"""

from trl_grpo_ext.pipeline.loading import load_recipe
from trl_grpo_ext.pipeline.recipe import Recipe


__all__ = ["Recipe", "load_recipe"]
