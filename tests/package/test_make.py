"""`make bench` says what it installs before each silent stage of pip, and installs no tools of the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tables import table

ROOT = Path(__file__).parents[2]


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("make"), reason="make is not on PATH")
@pytest.mark.parametrize(("target", "driver", "stages"), table("make", "stages", str, str, str.split))
def test_each_stage_is_named_before_pip_runs(tmp_path, target, driver, stages):
    command = ["make", "--no-print-directory", "-n", target, f"VENV={tmp_path}", f"DRIVER={driver}"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text.startswith('echo "Installing cudalab') and "minutes" in text.partition("pip install")[0]
    installs = [part for part in text.split('stage "')[1:] if "pip install" in part]
    assert ("cudalab toolkit" in text.partition("'cudalab[cuda13]'")[0]) == (driver == "13 toolkit")
    names = ("torch", "report", "inspect", "cuda13", "test", "dev")
    assert [name for name in names if f"'cudalab[{name}]'" in text] == stages
    assert len(installs) == 1 + len(stages) and all(part.partition('"')[0].strip() for part in installs)


@pytest.mark.process
def test_a_users_tests_in_the_checkout_need_no_plugin_of_the_labs_own_tests(tmp_path):
    """`make bench` installs no pytest-timeout, and docs/pytest.md says that `pip install pytest` is enough."""
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass")
    without = [word for plugin in ("timeout", "xdist", "hypothesispytest") for word in ("-p", f"no:{plugin}")]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "setup.cfg"), *without, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
