"""The README's tables are those of the registries, and its commands and examples exist."""

import doctest
import re
import types

import trl_grpo_ext
from tests.docs.scripts import ROOT, script


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_are_fresh():
    assert script("tables").with_tables(README) == README, "run: python docs/tables.py --write"


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


def test_the_recipe_it_shows_loads(tmp_path):
    from trl_grpo_ext.pipeline import load_recipe

    (text,) = [block for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) if "version: 1" in block]
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    assert [stage.id for stage in load_recipe(tmp_path / "recipe.yaml").stages] == [
        "data",
        "before",
        "rl",
        "after",
        "report",
    ]


def test_the_python_it_shows_compiles_and_its_numbers_are_right():
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    for block in blocks:
        if ">>>" not in block:
            compile(block, "README.md", "exec")
    result = doctest.testmod(types.ModuleType("readme", "\n".join(block for block in blocks if ">>>" in block)))
    assert result.attempted > 0
    assert result.failed == 0


def test_nothing_was_left_to_fill_in():
    texts = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "recipes").rglob("*.yaml"))]
    for text in texts:
        assert not re.search(r"\b(TODO|FIXME|XXX)\b|@[A-Z]+@|^[A-Z_]{6,}$", text, re.MULTILINE)


def test_public_names_exist_and_have_docstrings():
    for name in trl_grpo_ext.__all__:
        assert getattr(trl_grpo_ext, name).__doc__, name
