"""The recipes about programs load, and say what they are about."""

import pytest

from trl_grpo_ext.pipeline import load_recipe
from trl_grpo_ext.shipped import list_recipes, recipe_name, recipe_path


@pytest.mark.parametrize("name", ["tiny_programs", "qwen2.5-coder-0.5b"])
def test_they_are_trained_and_evaluated_by_the_same_reward(name):
    assert name in [recipe_name(path) for path in list_recipes()]
    recipe = load_recipe(recipe_path(name))
    judged = [stage for stage in recipe.stages if stage.kind in ("eval", "grpo")]
    assert {stage.kind for stage in judged} == {"eval", "grpo"}
    assert all([reward["name"] for reward in stage.rewards] == ["code"] for stage in judged)
    evaluations = [stage.evaluation for stage in judged if stage.kind == "eval"]
    assert all(evaluation == evaluations[0] for evaluation in evaluations)
    assert recipe.stages[-1].kind == "report"
