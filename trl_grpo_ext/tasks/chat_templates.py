"""Chat templates by name. One template serves supervised training, reinforcement learning and evaluation.

Every assistant turn ends with the end marker and nothing after it, so the last trained token is the one that ends
generation. No template opens `<think>` for the model: the completion holds all four tags.
"""

from pathlib import Path

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.registry import nearest_names


_FOLDER = Path(__file__).parent / "templates"


def list_templates() -> list[str]:
    """Names of the chat templates that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.jinja"))


def load_template(name_or_path: str | Path) -> str:
    """
    Return the Jinja text of a chat template.

    Args:
        name_or_path (`str` or `Path`):
            One of [`list_templates`], or the path of a file.

    Raises:
        [`~errors.ConfigError`]: if there is no such template and no such file.
    """
    names = list_templates()
    path = _FOLDER / f"{name_or_path}.jinja" if str(name_or_path) in names else Path(name_or_path)
    if not path.is_file():
        nearest = nearest_names(str(name_or_path), names)
        hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"known: {', '.join(names)}"
        raise ConfigError(f"no chat template and no file is called {str(name_or_path)!r}; {hint}")
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a chat template: {error}") from error
