import pytest

from trl_grpo_ext import shipped
from trl_grpo_ext.errors import ConfigError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder beside `recipes/` and `accelerate_configs/`, as in a source checkout."""
    for file in ("recipes/quickstart/pipeline.yaml", "recipes/r1/small.yaml", "accelerate_configs/cpu.yaml"):
        path = tmp_path / "source" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("version: 1\n")
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "source" / "trl_grpo_ext")
    monkeypatch.chdir(tmp_path)  # away from the recipes of this checkout, which would win as existing files
    return tmp_path / "source"


@pytest.mark.parametrize(
    "name", ["quickstart", "quickstart/pipeline.yaml", "recipes/quickstart/pipeline.yaml", "./quickstart"]
)
def test_a_shipped_recipe_has_a_name_and_a_path(package, name):
    assert shipped.recipe_path(name) == package / "recipes/quickstart/pipeline.yaml"


def test_names(package):
    assert [shipped.recipe_name(path) for path in shipped.list_recipes()] == ["quickstart", "r1/small"]
    assert shipped.accelerate_config_path("cpu") == shipped.list_accelerate_configs()[0]


def test_an_existing_file_wins(package, tmp_path):
    own = tmp_path / "recipes/quickstart/pipeline.yaml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert shipped.recipe_path("recipes/quickstart/pipeline.yaml").resolve() == own


def test_the_wheel_keeps_them_in_the_package(package):
    inside = package / "trl_grpo_ext" / "_shipped" / "recipes" / "quick" / "pipeline.yaml"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert shipped.recipe_path("quick") == inside


def test_the_nearest_names_are_given(package):
    with pytest.raises(ConfigError, match="no shipped recipe is called 'quickstrat'; did you mean 'quickstart'"):
        shipped.recipe_path("quickstrat")
    with pytest.raises(ConfigError, match="shipped: cpu"):
        shipped.accelerate_config_path("zzz")


def test_a_part_of_a_folder_name_is_no_name(package):
    with pytest.raises(ConfigError):
        shipped.recipe_path("start/pipeline.yaml")
