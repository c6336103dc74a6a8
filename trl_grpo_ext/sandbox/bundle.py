"""The agent as one file, for machines where this package is not installed.

Covered: the file holds all modules of this package that the agent needs; it unpacks them into a temporary folder, runs
the agent, and removes the folder.

Not covered: the interpreter that runs it has to be Python 3.10 or newer with its standard library.
"""

import ast
import functools
import io
import json
import tokenize
import zipfile
from pathlib import Path


_NOT_THERE = ("bundle.py", "backend.py", "self_check.py", "containers.py", "remote.py", "cluster.py")
_MAIN = """import json, os, shutil, sys, tempfile
if sys.version_info < (3, 10):
    sys.exit("the sandbox's agent needs Python 3.10 or newer; this is " + sys.version.split()[0])
folder = tempfile.mkdtemp(prefix="trl_grpo_ext_agent_")
try:
    modules = json.loads(__loader__.get_data(os.path.join(__loader__.archive, "modules.json")).decode())
    for name, source in modules.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
    sys.path.insert(0, folder)
    from trl_grpo_ext.sandbox.agent import main
    main(sys.argv[1:])
finally:
    shutil.rmtree(folder, ignore_errors=True)
"""


@functools.cache
def bundle() -> bytes:
    """
    The agent as one file that `python FILE` runs: a zip of the few modules it needs, without their documentation.

    Some services take requests of 100 kB at most, so its size counts.

    Returns:
        `bytes`: the same for the same sources and the same Python.
    """
    package = Path(__file__).parents[1]
    sandbox = sorted(path for path in (package / "sandbox").rglob("*.py") if path.name not in _NOT_THERE)
    paths = [package / name for name in ("__init__.py", "errors.py", "registry.py")] + sandbox
    modules = {str(path.relative_to(package.parent)): _bare(path.read_text("utf-8")) for path in paths}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in (("__main__.py", _MAIN), ("modules.json", json.dumps(modules))):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _bare(source: str) -> str:
    """A module without docstrings and comments; every other line as it is."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            text = node.body[0]  # type: ignore[attr-defined]
            lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
            lines[text.lineno - 1] = f"{' ' * text.col_offset}''"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row = token.start[0] - 1
        if token.type == tokenize.COMMENT and lines[row].lstrip().startswith("#"):
            lines[row] = ""
    return "\n".join(lines) + "\n"
