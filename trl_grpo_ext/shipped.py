"""The recipes and accelerate configs that come with the package, found in the wheel or in a source checkout."""

from pathlib import Path

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names


_PACKAGE = Path(__file__).parent


def list_recipes() -> list[Path]:
    """Paths of the shipped recipes, sorted."""
    return sorted(_folder("recipes").rglob("*.yaml"))


def list_accelerate_configs() -> list[Path]:
    """Paths of the shipped accelerate configs, sorted."""
    return sorted(_folder("accelerate_configs").rglob("*.yaml"))


def recipe_name(path: Path) -> str:
    """
    The short name of a shipped recipe: its path without `.yaml`, and without `pipeline` where the folder says it all.

    Example:

    ```python
    recipe_name(recipe_path("recipes/quickstart/pipeline.yaml"))  # 'quickstart'
    ```
    """
    name = path.relative_to(_folder("recipes")).with_suffix("").as_posix()
    return name.removesuffix("/pipeline")


def recipe_path(name_or_path: str | Path) -> Path:
    """
    Find a recipe.

    Args:
        name_or_path (`str` or `Path`):
            An existing file; or the name (`"quickstart"`) or path (`"recipes/quickstart/pipeline.yaml"`) of a shipped
            recipe.

    Raises:
        [`~errors.ConfigError`]: if there is none; the message lists the nearest names.
    """
    return _find(name_or_path, "recipe", {recipe_name(path): path for path in list_recipes()})


def accelerate_config_path(name_or_path: str | Path) -> Path:
    """
    Find an accelerate config.

    Args:
        name_or_path (`str` or `Path`):
            An existing file; or the name (`"cpu"`) or path (`"accelerate_configs/cpu.yaml"`) of a shipped config.

    Raises:
        [`~errors.ConfigError`]: if there is none; the message lists the nearest names.
    """
    folder = _folder("accelerate_configs")
    names = {path.relative_to(folder).with_suffix("").as_posix(): path for path in list_accelerate_configs()}
    return _find(name_or_path, "accelerate config", names)


def _folder(name: str) -> Path:
    in_wheel = _PACKAGE / "_shipped" / name
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / name


def _find(name_or_path: str | Path, what: str, shipped: dict[str, Path]) -> Path:
    path = Path(name_or_path)
    if path.is_file():
        return path
    asked = path.as_posix()
    for name, candidate in shipped.items():
        if asked == name or candidate.as_posix().endswith(f"/{asked}"):
            return candidate
    nearest = nearest_names(asked, list(shipped))
    hint = (
        f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"shipped: {', '.join(shipped) or 'none'}"
    )
    raise ConfigError(f"no file and no shipped {what} is called {asked!r}; {hint}")
