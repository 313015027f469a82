"""Three kernels as a user brings them (tests/data/outside): they pass everywhere, and on a GPU their bugs do not."""

from __future__ import annotations

import subprocess
import sys

import planted
import pytest

from cudalab.results import record
from cudalab.results.file import load
from cudalab.spec import find

pytestmark = [pytest.mark.process, pytest.mark.sweep, pytest.mark.xdist_group("outside")]  # they share runs

OUTSIDE = planted.DATA / "outside"
KERNELS = ("row_softmax", "tiled_transpose", "block_sum")
SPECS = [str(OUTSIDE / f"{name}.py") for name in KERNELS]
DTYPES = {(name, dtype) for name, spec in zip(KERNELS, SPECS, strict=True) for dtype in find.kernel(spec).dtypes}


def cudalab(folder, command, *arguments):
    """Exit code and results of a command."""
    file = folder / "results.json"
    words = [sys.executable, "-m", "cudalab", command, *arguments, "-o", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert file.exists(), done.stderr
    return done.returncode, load(file)


def test_they_are_right_on_the_cpu(tmp_path):
    status, run = cudalab(tmp_path, "check", *SPECS, "--only", "host,numpy,torch_eager", "--device", "cpu")
    bad = [f"{c.label} {c.group}: {c.reason}" for c in run.cases if c.status in (record.WRONG, record.ERROR)]
    assert (status, bad) == (0, [])
    for backend in ("host", "numpy", "torch_eager"):
        assert {(c.kernel, c.dtype) for c in run.cases if c.backend == backend and c.status == record.OK} == DTYPES
    assert {case.size for case in run.cases} > {"small", "7x1023"}
    assert {c.variant for c in run.cases if c.backend == "host"} == {e for s in SPECS for e in find.kernel(s).entries}


# ---- the GPU -----------------------------------------------------------------------------------------------------

# cupy.fuse knows neither .T nor ascontiguousarray.
UNFUSED = {"tiled_transpose": ("--skip", "cupy_fuse")}
# Warps that arrive at different times: more blocks than fit at once, and 8 equal shares of a row, or 9 for the first.
RACY = "small,7x1023,2048x2048,2048x2049"
# A wrong answer would need a warp that passes over its part of the row while another reads 8 numbers.
UNSEEN = "outside/row_softmax: barrier: the maxima are overwritten while they are read"


@pytest.mark.gpu
@pytest.mark.parametrize("spec", SPECS, ids=KERNELS)
def test_they_are_right_on_every_backend_of_the_gpu(spec, tmp_path):
    kernel = find.kernel(spec)
    status, run = cudalab(tmp_path, "check", spec, "--device", "cuda", *UNFUSED.get(kernel.name, ()))
    bad = [f"{c.label} {c.group}: {c.reason}" for c in run.cases if c.status in (record.WRONG, record.ERROR)]
    assert (status, bad) == (0, [])
    right = {(c.variant, c.dtype) for c in run.cases if c.backend == "pycuda" and c.status == record.OK}
    assert right == {(entry, dtype) for entry in kernel.entries for dtype in kernel.dtypes}


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_planted_bugs_are_caught_on_the_gpu(name, tmp_path):
    bugs = [bug for bug in planted.bugs(f"outside/{name}") if str(bug) != UNSEEN]
    spec = str(planted.write(f"outside/{name}", tmp_path, bugs))
    options = ("--device", "cuda", "--only", "pycuda,cupy_raw", "--dtypes", "float32", "--sizes", RACY)
    status, run = cudalab(tmp_path, "check", spec, *options)
    found = {}
    for case in run.cases:
        found.setdefault((case.variant.partition("::")[0], case.backend), set()).add(case.status)
    assert status == 1
    assert found[planted.RIGHT, "pycuda"] == {record.OK}
    assert found[planted.RIGHT, "cupy_raw"] <= {record.OK, record.SKIPPED}
    for bug in bugs:
        assert record.WRONG in found[bug.space, "pycuda"], bug
        assert record.WRONG in found[bug.space, "cupy_raw"] or found[bug.space, "cupy_raw"] == {record.SKIPPED}, bug


@pytest.mark.gpu
def test_the_race_that_no_answer_shows_is_caught_under_the_sanitizer(tmp_path):
    from cudalab.tools.sanitize import compute

    if reason := compute.missing():
        pytest.skip(reason)
    (bug,) = (bug for bug in planted.bugs("outside/row_softmax") if str(bug) == UNSEEN)
    spec = str(planted.write(bug.kernel, tmp_path, [bug]))
    options = ("--device", "cuda", "--only", "pycuda", "--dtypes", "float32", "--sizes", "7x1023", "--sanitize")
    status, run = cudalab(tmp_path, "check", *SPECS, spec, *options)
    assert status == 1
    bad = {case.variant: case.reason for case in run.cases if case.status != record.OK}
    assert list(bad) == [f"{bug.space}::{bug.entry}"], bad
    assert "race" in bad[f"{bug.space}::{bug.entry}"]
