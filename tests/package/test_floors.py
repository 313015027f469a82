"""The imports of the package go down, never up or sideways: the contracts of import-linter in setup.cfg."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cudalab

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_imports_keep_the_contracts():
    pytest.importorskip("importlinter", reason="import-linter is not installed; it needs Python 3.11")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_one_another_in_a_circle():
    """import-linter does not compare a package's `__init__` with its own modules; here every module counts."""
    grimp = pytest.importorskip("grimp", reason="grimp comes with import-linter, which needs Python 3.11")
    graph = grimp.build_graph("cudalab", cache_dir=None)
    below = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    reached = {name: set(graph.find_upstream_modules(name)) for name in graph.modules}
    assert not sorted(name for name, first in below.items() if any(name in reached[other] for other in first))


FILES = [*(ROOT / "cudalab").rglob("*.py")]
FACE = {ROOT / "cudalab" / "__init__.py", ROOT / "cudalab" / "spec" / "__init__.py"}


def test_the_lab_takes_nothing_from_the_public_face():
    """The public names stand on all floors: a module below the command line that imports them reaches upward."""
    for path in set(FILES) - FACE - {*(ROOT / "cudalab" / "cli").rglob("*.py")}:
        for node in ast.walk(ast.parse(path.read_text())):
            names = {alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)}
            if isinstance(node, ast.ImportFrom) and node.module == "cudalab":
                assert not names & set(cudalab.__all__), path
            elif isinstance(node, ast.Import):
                assert "cudalab" not in names, path


def test_kernels_import_the_public_face_and_little_else():
    allowed = re.compile(r"cudalab(\.kernels\.\w+|\.spec\.launch|\.base\.threads)?$")
    for path in (ROOT / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cudalab"):
                assert allowed.match(str(node.module)), f"{path.name}: {node.module}"


NAMED = re.compile(r'"(cudalab(?:\.\w+)+)[.:](\w+)"')


def test_functions_that_are_named_by_a_text_exist():
    """What a child process or a worker calls is named by its module and function: a rename must not miss the text."""
    functions = {match for path in FILES for match in NAMED.findall(path.read_text())}
    assert ("cudalab.engine.worker", "main") in functions
    for module, name in functions:
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError as error:
            pytest.fail(f"{module}.{name} is named in a text: {error}")
        if not hasattr(owner, name):  # a text may name a module too
            importlib.import_module(f"{module}.{name}")
