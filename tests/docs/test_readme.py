"""The README's tables are those of the registries, and its commands and examples exist."""

import importlib.util
import re
from pathlib import Path

import trl_grpo_ext


ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tables_module():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_fresh():
    assert tables_module().with_tables(README) == README, "run: python docs/tables.py --write"


def test_the_two_commands_are_named():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("quickstart", "test"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_files_the_readme_names_exist():
    named = re.findall(r"`((?:recipes|benchmarks|docs|accelerate_configs)/[\w./-]+)`", README)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_public_names_exist_and_have_docstrings():
    for name in trl_grpo_ext.__all__:
        assert getattr(trl_grpo_ext, name).__doc__, name
