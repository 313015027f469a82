"""A wheel and an sdist are complete; the wheel, installed in an environment of its own, runs without the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("kernels/gelu.cu", "kernels/common/pack.cuh", "kernels/triton/softmax.py", "device/lab.cu",
          "host/cuda_host.h", "host/include/cuda_fp16.h", "py.typed",
          "host/include/cub/cub.cuh", "host/include/cub/block/block_reduce.cuh", "host/include/cuda/std/complex",
          "report/html/page.html.j2", "report/html/style.css", "report/html/script.js")  # fmt: skip


def index():
    """Skip where no packages can be downloaded."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "setuptools>=77"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs a package index: {done.stderr.splitlines()[-1]}")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, sdist); the wheel is built from the sdist, as `python -m build` does it."""
    pytest.importorskip("build")
    index()
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "source"
    copy.mkdir()
    for name in ("cudalab", "kernels", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        (copy / name).symlink_to(ROOT / name)  # so that nothing is built into the checkout
    done = subprocess.run(
        [sys.executable, "-m", "build", "-o", folder, copy], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,), (sdist,) = folder.glob("cudalab-*.whl"), folder.glob("cudalab-*.tar.gz")
    return wheel, sdist


@pytest.mark.network
@pytest.mark.process
def test_the_wheel_holds_what_is_needed(built):
    names = zipfile.ZipFile(built[0]).namelist()
    assert {f"cudalab/{name}" for name in NEEDED} <= set(names)
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "cudalab").rglob("*.py")} <= set(names)
    assert {n.split("/")[0] for n in names if not n.startswith("cudalab-")} == {"cudalab"}
    assert any(re.fullmatch(r"cudalab-[^/]+\.dist-info/(licenses/)?LICENSE", n) for n in names)


@pytest.mark.network
def test_the_sdist_holds_what_is_needed(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {n if n.startswith("kernels/") else f"cudalab/{n}" for n in NEEDED} <= names
    assert {"LICENSE", "README.md", "setup.cfg", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("tests")], "setuptools adds tests/test*.py alone"


@pytest.mark.network
@pytest.mark.process
@pytest.mark.skipif(not find_spec("twine"), reason="twine is not installed; it is in the extra test")
def test_an_index_would_take_both(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory):
    """Runs a command of an environment that has the wheel and its base dependencies alone; returns what it printed."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{env['PATH']}", "CUDALAB_CACHE": str(folder / "cache")}

    def run(*words):
        done = subprocess.run(
            [folder / "venv" / "bin" / words[0], *words[1:]],
            capture_output=True, text=True, check=False, cwd=folder, env=env,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    run("python", "-m", "pip", "install", "-q", built[0])
    return run


@pytest.mark.network
@pytest.mark.process
def test_it_runs_where_nothing_else_of_the_lab_is(bare):
    assert "bench" in bare("cudalab", "--help")
    assert "gelu: y = x * Phi(x)" in bare("cudalab", "list")
    for program in (("cudalab",), ("python", "-m", "cudalab")):
        said = bare(*program, "check", "plus_one", "--device", "cpu", "--dtypes", "float32")
        assert re.search(r"host:plus_one_vec( \*)? +right", said) and "next: cudalab bench plus_one" in said
    said = bare("cudalab", "bench", "plus_one", "--sizes", "small", "--device", "cpu", "--quick", "-o", "run.json")
    assert re.search(r"plus_one small float32: all 3 right; (shortest )?(time, on a busy machine: )?numpy", said)
    assert "PyTorch is not installed; pip install 'cudalab[torch]'" in " ".join(said.split())
    assert "not timed" in bare("cudalab", "show", "run.json")


@pytest.mark.network
@pytest.mark.process
def test_it_is_imported_from_python(bare):
    where = bare(
        "python", "-c", "import cudalab; from cudalab.spec import find; print(cudalab.__file__, find.kernel('gelu').cu)"
    )
    assert all("site-packages" in part for part in where.split())
    program = "import cudalab; run = cudalab.check('plus_one', only='host', device='cpu'); print(len(run.broken))"
    assert bare("python", "-c", program).split()[-1] == "0"
