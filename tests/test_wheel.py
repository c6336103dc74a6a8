"""The wheel carries what the source tree has beside the package, and finds it from any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """A folder with the content of a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def command(unpacked: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    return subprocess.run(
        [sys.executable, "-m", "trl_grpo_ext", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_holds_every_file_that_is_not_code(unpacked):
    recipes = [path for path in (ROOT / "recipes").rglob("*") if path.is_file()]
    for path in [*recipes, *(ROOT / "accelerate_configs").rglob("*.yaml")]:
        assert (unpacked / "trl_grpo_ext" / "_shipped" / path.relative_to(ROOT)).is_file(), path
    for path in (ROOT / "trl_grpo_ext").rglob("*.jinja"):
        assert (unpacked / path.relative_to(ROOT)).is_file(), path


def test_it_lists_its_recipes_from_another_folder(unpacked, tmp_path):
    done = command(unpacked, tmp_path, "list", "recipes")
    assert done.returncode == 0, done.stderr
    assert "quickstart" in done.stdout.split()


def test_it_starts_a_recipe_by_its_path_in_the_source_tree(unpacked, tmp_path):
    (tmp_path / "taken").write_text("")  # stops the run after the recipe was found, read and checked
    done = command(unpacked, tmp_path, "run", "recipes/quickstart/pipeline.yaml", "--output_dir", "taken")
    assert done.returncode == 2
    assert "taken" in done.stderr
    assert "Traceback" not in done.stderr
