"""No process of any command imports a Python file of the current folder instead of a module."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cudalab import host
from cudalab.base.errors import CudalabError
from cudalab.device.arrays import torch_missing
from cudalab.report.html import need

NAMES = ("copy", "json", "select", "queue", "vl_convert", "torch")
SCRIPT = "from cudalab.cli import main\nmain()\n"  # as an installed cudalab: its own folder is first, not the current


@pytest.fixture
def run(tmp_path):
    """Runs cudalab in a folder with such files, and returns its standard output."""
    folder, elsewhere, marker = tmp_path / "mine", tmp_path / "bin", tmp_path / "executed"
    folder.mkdir()
    elsewhere.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write(__file__)\nraise RuntimeError('mine')\n")
    (elsewhere / "cudalab.script").write_text(SCRIPT)

    def cudalab(*arguments):
        command = [sys.executable, elsewhere / "cudalab.script", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield cudalab
    assert not marker.exists(), marker.read_text()


@pytest.mark.sweep
def test_bench_and_report(run, tmp_path):
    try:
        need(".html")
    except CudalabError as error:
        pytest.skip(str(error))
    quick = ("--sizes", "64", "--device", "cpu", "--budget", "0.01", "--only", "numpy")
    run("bench", "plus_one", *quick, "-o", "r.json")
    run("report", "r.json", "-o", "page.html")
    assert "<svg" in (tmp_path / "mine" / "page.html").read_text()


@pytest.mark.sweep
def test_check_with_sanitizers(run):
    try:
        host.address_sanitizer()
    except CudalabError as error:
        pytest.skip(str(error))
    options = ("--sizes", "64", "--dtypes", "float32", "--only", "host:plus_one_vec")
    run("check", "plus_one", "--device", "cpu", *options, "--sanitize")


@pytest.mark.sweep
def test_profile(run):
    if reason := torch_missing("cpu"):
        pytest.skip(reason)
    assert "torch_native" in run("profile", "gelu", "--device", "cpu", "--size", "64", "--only", "torch_native")


@pytest.mark.sweep
def test_a_study_with_ranks(run):
    if reason := torch_missing("cpu"):
        pytest.skip(reason)
    said = run("study", "ddp", "--sizes", "tiny", "--device", "cpu", "--budget", "0.01", "--only", "one,ddp")
    assert "error" not in said
