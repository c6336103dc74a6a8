"""A package that is installed beside this one adds an estimator: no line of this one is changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "thirdparty_package"
# All in one process, which imports torch and TRL once.
SCRIPT = """
import contextlib, io, json
from trl_grpo_ext import cli, estimate, list_advantages
from trl_grpo_ext.advantages import bind_params
from trl_grpo_ext.errors import DataError
from trl_grpo_ext.trainer.inputs import find_sources

def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    return [code, out.getvalue(), err.getvalue()]

rewards, lengths = [[1, 0, None], [1, 1, 1]], [[10, 30, 90], [10, 20, 30]]
try:
    without_lengths = estimate("length_centred", rewards)
except DataError as error:
    without_lengths = str(error)
print(json.dumps({
    "listed": list_advantages(),
    "default": estimate("length_centred", rewards, extra={"lengths": lengths}),
    "factor 0": estimate("length_centred", rewards, extra={"lengths": lengths}, params={"factor": 0}),
    "without lengths": without_lengths,
    "source": find_sources(bind_params("length_centred"), {}, [], False)["lengths"].kind,
    "list": run("list", "advantages"),
    "long list": run("list", "advantages", "--long"),
    "compare": run("advantages", "compare", "--rewards", "1,0", "--variants", "length_centred"),
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """What a fresh interpreter finds once the package is installed into a folder, without the network."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    installed = subprocess.run(
        [*install, "--target", str(folder), str(PACKAGE)], capture_output=True, text=True, env=environment
    )
    assert installed.returncode == 0, installed.stderr
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, cwd=folder, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_unknown_without_the_package():
    from trl_grpo_ext import list_advantages

    assert "length_centred" not in list_advantages()


def test_it_runs_by_its_name(found):
    assert "length_centred" in found["listed"]
    assert found["default"][0] == pytest.approx([0.6, -0.6, 0.0])
    assert found["default"][1] == pytest.approx([0.1, 0.0, -0.1])
    assert found["factor 0"] == [[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]


def test_what_it_needs_is_read_from_its_signature(found):
    assert found["without lengths"].startswith("'length_centred' needs the input 'lengths'")
    assert found["source"] == "supplied"


def test_the_command_line_knows_it(found):
    code, listed, _ = found["list"]
    assert code == 0
    assert "length_centred" in listed.split()
    code, listed, _ = found["long list"]
    assert code == 0
    assert "Length-centred:" in listed
    code, _, refusal = found["compare"]
    assert code == 2
    assert refusal.startswith("error: 'length_centred' needs 'lengths'")
