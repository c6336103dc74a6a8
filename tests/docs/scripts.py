"""The scripts of docs/, which are no package, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """Load docs/<name>.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
