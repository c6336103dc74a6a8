from trl_grpo_ext.pipeline import load_recipe
from trl_grpo_ext.pipeline.recipe import resolved
from trl_grpo_ext.shipped import recipe_path


def test_the_offline_recipe_differs_in_where_model_and_data_come_from():
    hub, offline = (load_recipe(recipe_path(f"recipes/smollm2-135m/{name}.yaml")) for name in ("pipeline", "offline"))
    assert hub.base.model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert hub.stages[0].task_params == {"dataset": "openai/gsm8k"}
    assert (hub.seed, hub.template_text()) == (offline.seed, offline.template_text())
    assert [resolved(stage) for stage in hub.stages[1:]] == [resolved(stage) for stage in offline.stages[1:]]
    assert hub.stages[0].sizes == offline.stages[0].sizes
