"""A wheel, installed in an environment of its own, finds its kernels and runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    copy.mkdir()
    for name in ("cudalab", "kernels", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        (copy / name).symlink_to(ROOT / name)  # so that nothing is built into the checkout
    pytest.importorskip("setuptools")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(copy)], check=True)
    (path,) = folder.glob("cudalab-*.whl")
    return path


def test_the_wheel_holds_what_is_needed(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("kernels/gelu.cu", "kernels/common/pack.cuh", "kernels/triton/softmax.py", "device/lab.cu",
                 "host/cuda_host.h", "host/include/cuda_fp16.h", "py.typed",
                 "report/html/page.html.j2", "report/html/style.css", "report/html/script.js"):  # fmt: skip
        assert f"cudalab/{name}" in names
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "cudalab").rglob("*.py")} <= set(names)
    assert {n.split("/")[0] for n in names if not n.startswith("cudalab-")} == {"cudalab"}
    assert any(re.fullmatch(r"cudalab-[^/]+\.dist-info/(licenses/)?LICENSE", n) for n in names)


def test_it_runs_where_nothing_else_of_the_lab_is(wheel, tmp_path):
    """The new environment has the wheel; its dependencies are lent by this one, which also has the checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    zipfile.ZipFile(wheel).extractall(site)
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    listed = subprocess.run(
        [python, "-m", "cudalab.cli", "list"], capture_output=True, text=True, check=True, cwd=tmp_path, env=env
    )
    assert "gelu: y = x * Phi(x)" in listed.stdout
    where = "import cudalab, cudalab.spec.find as r; print(cudalab.__file__, r.kernel('gelu').cu)"
    shown = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path, env=env)
    assert all(part.startswith(site) for part in shown.stdout.split())
    subprocess.run(
        [python, "-m", "cudalab.cli", "check", "plus_one", "--only", "host", "--device", "cpu"],
        check=True, cwd=tmp_path, env=env, capture_output=True,
    )  # fmt: skip
