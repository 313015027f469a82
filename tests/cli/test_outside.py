"""Three kernels as a user brings them (tests/data/outside): they pass everywhere, and on a GPU their bugs do not."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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


# ---- the CPU -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The commands of the tests below, two at once. PyTorch's compilers take long: one kernel stands for all there."""
    quick = ("--sizes", "small", "--budget", "0.01", "--only")
    commands = {
        "check": ("check", *SPECS, "--only", "host"),
        "libraries": ("check", *SPECS, "--only", "numpy,torch_eager", "--sizes", "small"),
        "compiled": ("bench", SPECS[0], *quick, "torch_compile,torch_script"),
        "bench": ("bench", *SPECS, *quick, "numpy,host"),
    }
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(cudalab, tmp_path_factory.mktemp(name), *command, "--device", "cpu")
            for name, command in commands.items()
        }


def test_they_are_right_on_the_cpu(runs):
    for name, backends in (("check", ("host",)), ("libraries", ("numpy", "torch_eager"))):
        status, run = runs[name].result()
        bad = [f"{c.label} {c.group}: {c.reason}" for c in run.cases if c.status in (record.WRONG, record.ERROR)]
        assert (status, bad) == (0, [])
        for backend in backends:
            assert {(c.kernel, c.dtype) for c in run.cases if c.backend == backend and c.status == record.OK} == DTYPES
    _, run = runs["check"].result()
    assert {case.size for case in run.cases} > {"small", "7x1023"}
    assert {c.variant for c in run.cases} == {entry for spec in SPECS for entry in find.kernel(spec).entries}


def test_they_can_be_benchmarked(runs):
    for name, timed in (
        ("bench", {(name, "numpy") for name in KERNELS}),
        ("compiled", {(KERNELS[0], "torch_compile"), (KERNELS[0], "torch_script")}),
    ):
        status, run = runs[name].result()
        assert status == 0
        assert {c.status for c in run.cases if c.variant != "max_autotune"} == {record.OK}  # that one is for a GPU
        assert {(c.kernel, c.backend) for c in run.cases if c.times} == timed


def test_they_pass_in_pytest(tmp_path):
    """The tests run in a user's folder, without this suite's settings."""
    for file in OUTSIDE.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    options = ("--cudalab", "--cudalab-only", "host", "-k", "float32", "-q")
    words = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    counts = re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.MULTILINE)
    specs = [find.kernel(spec) for spec in SPECS]
    assert counts, done.stdout
    assert int(counts[1]) >= sum(len(k.entries) * (1 + len(k.edges)) for k in specs)


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
