"""YAML as recipes mean it: `1e-6` is a number, and a key given twice is a mistake."""

import re
from pathlib import Path
from typing import Any

import yaml

from trl_grpo_ext.errors import ConfigError


class _StrictLoader(yaml.SafeLoader):
    pass


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict:
    keys = [loader.construct_object(key) for key, _ in node.value]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            line = node.value[index][0].start_mark.line + 1
            raise ConfigError(f"line {line}: key {key!r} is given twice; keep one of them")
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
# PyYAML follows YAML 1.1, in which a number in scientific notation needs a dot; everybody writes 1e-6.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: str | Path) -> Any:
    """
    Read a YAML file.

    Raises:
        [`~errors.ConfigError`]: if the file cannot be read, is no YAML, or gives a key twice.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_StrictLoader)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no valid YAML: {' '.join(str(error).split())}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except (ValueError, RecursionError) as error:  # an impossible date, an endless number, a thousand brackets
        raise ConfigError(f"{path} holds a value that cannot be read: {error}") from error
