"""The imports of the package go down, never up or sideways: the contracts of import-linter in setup.cfg."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_imports_keep_the_contracts():
    pytest.importorskip("importlinter", reason="import-linter is not installed; it needs Python 3.11")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
