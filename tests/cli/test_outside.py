"""Three kernels as a user brings them (tests/data/outside): they pass everywhere, and bugs planted in them do not."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from cudalab.results import record
from cudalab.results.file import load
from cudalab.spec import find

pytestmark = pytest.mark.xdist_group("outside")  # they share runs

OUTSIDE = Path(__file__).parents[1] / "data" / "outside"
KERNELS = ("row_softmax", "tiled_transpose", "block_sum")
SPECS = [str(OUTSIDE / f"{name}.py") for name in KERNELS]
DTYPES = {(name, dtype) for name, spec in zip(KERNELS, SPECS, strict=True) for dtype in find.kernel(spec).dtypes}


class Bug(NamedTuple):
    """Text that occurs once in the kernel's `.cu`, its replacement, and the only entry that becomes wrong."""

    kernel: str
    entry: str
    old: str
    new: str


BARRIER = "__syncthreads();"
PARTIAL_SUMS = "s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s);\n    if (lane == 0) partial[warp]"
NEXT_ROW = "c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];\n    for"
BUGS = {
    # Races: one barrier is missing.
    "sums-before-written": Bug("row_softmax", "row_softmax_block", f"{BARRIER}  // the sums are there", ""),
    "maxima-overwritten": Bug("row_softmax", "row_softmax_block", f"{BARRIER}  // all have read the maxima", "//"),
    "tile-before-written": Bug("tiled_transpose", "transpose_static", f"{BARRIER}\n    col", "\n    col"),
    "cells-before-written": Bug("tiled_transpose", "transpose_dynamic", f"{BARRIER}\n    for", "\n    for"),
    "partial-before-written": Bug("block_sum", "block_sum_shuffle", f"{BARRIER}\n    if", "\n    if"),
    "tree-without-levels": Bug("block_sum", "block_sum_tree", f"        {BARRIER}\n", ""),
    # Off by one.
    "one-row-more": Bug("row_softmax", "row_softmax_warp", "row >= rows", "row > rows"),
    "one-column-more": Bug("tiled_transpose", "transpose_static", "col < rows &&", "col <= rows &&"),
    "one-term-more": Bug("block_sum", "block_sum_shuffle", NEXT_ROW, NEXT_ROW.replace("<", "<=", 1)),
    # A wrong constant.
    "log2-of-e": Bug("row_softmax", "row_softmax_block", "1.44269504f", "1.44296504f"),
    "pitch": Bug("tiled_transpose", "transpose_dynamic", "threadIdx.x * PITCH", "threadIdx.x * TILE"),
    "half-a-warp": Bug("block_sum", "block_sum_shuffle", f"s = 16; {PARTIAL_SUMS}", f"s = 8; {PARTIAL_SUMS}"),
}


def cudalab(folder, command, *arguments):
    """Exit code and results of a command."""
    file = folder / "results.json"
    words = [sys.executable, "-m", "cudalab", command, *arguments, "-o", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert file.exists(), done.stderr
    return done.returncode, load(file)


def planted(folder, *names):
    """Paths of the specs of the kernels that have these bugs (none: all), each in a folder that is named as the bug."""
    paths = []
    for name in names or BUGS:
        bug = BUGS[name]
        place, text = folder / name, (OUTSIDE / f"{bug.kernel}.cu").read_text()
        assert text.count(bug.old) == 1, name
        place.mkdir()
        (place / f"{bug.kernel}.cu").write_text(text.replace(bug.old, bug.new))
        (place / f"{bug.kernel}.py").write_text((OUTSIDE / f"{bug.kernel}.py").read_text())
        paths.append(str(place / f"{bug.kernel}.py"))
    return paths


def statuses(run, name):
    """Of the cases of one bug: those of the entry that it is in, by backend, and all others."""
    bug, spoilt, others = BUGS[name], {}, set()
    for case in run.cases:
        if case.kernel == f"{name}/{bug.kernel}":
            (spoilt.setdefault(case.backend, set()) if case.variant == bug.entry else others).add(case.status)
    return spoilt, others


# ---- the CPU -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The commands of the tests below, two at once. PyTorch's compilers take long: one kernel stands for all there.

    The sizes for the bugs are two of those that a check looks at by itself; libraries are not asked about the others.
    """
    bugs = planted(tmp_path_factory.mktemp("planted"))
    quick = ("--sizes", "small", "--budget", "0.01", "--only")
    commands = {
        "check": ("check", *SPECS, "--only", "host"),
        "libraries": ("check", *SPECS, "--only", "numpy,torch_eager", "--sizes", "small"),
        "bugs": ("check", *bugs, "--only", "host", "--dtypes", "float32", "--sizes", "small,7x1023"),
        "compiled": ("bench", SPECS[0], *quick, "torch_compile,torch_script"),
        "bench": ("bench", *SPECS, *quick, "numpy,host"),
    }
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(cudalab, tmp_path_factory.mktemp(name), *command, "--device", "cpu")
            for name, command in commands.items()
        }


@pytest.mark.process
@pytest.mark.sweep
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


@pytest.mark.process
@pytest.mark.sweep
def test_they_can_be_benchmarked(runs):
    for name, timed in (
        ("bench", {(name, "numpy") for name in KERNELS}),
        ("compiled", {(KERNELS[0], "torch_compile"), (KERNELS[0], "torch_script")}),
    ):
        status, run = runs[name].result()
        assert status == 0
        assert {c.status for c in run.cases if c.variant != "max_autotune"} == {record.OK}  # that one is for a GPU
        assert {(c.kernel, c.backend) for c in run.cases if c.times} == timed


@pytest.mark.process
@pytest.mark.sweep
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


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_by_the_host(runs, name):
    status, run = runs["bugs"].result()
    spoilt, others = statuses(run, name)
    assert status == 1
    assert record.WRONG in spoilt["host"], name
    assert others == {record.OK}


# ---- the GPU -----------------------------------------------------------------------------------------------------

# cupy.fuse knows neither .T nor ascontiguousarray.
UNFUSED = {"tiled_transpose": ("--skip", "cupy_fuse")}
# Warps that arrive at different times: more blocks than fit at once, and 8 equal shares of a row, or 9 for the first.
RACY = "small,7x1023,2048x2048,2048x2049"
# A wrong answer would need a warp that passes over its part of the row while another reads 8 numbers.
UNSEEN = "maxima-overwritten"


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.gpu
@pytest.mark.parametrize("spec", SPECS, ids=KERNELS)
def test_they_are_right_on_every_backend_of_the_gpu(spec, tmp_path):
    kernel = find.kernel(spec)
    status, run = cudalab(tmp_path, "check", spec, "--device", "cuda", *UNFUSED.get(kernel.name, ()))
    bad = [f"{c.label} {c.group}: {c.reason}" for c in run.cases if c.status in (record.WRONG, record.ERROR)]
    assert (status, bad) == (0, [])
    right = {(c.variant, c.dtype) for c in run.cases if c.backend == "pycuda" and c.status == record.OK}
    assert right == {(entry, dtype) for entry in kernel.entries for dtype in kernel.dtypes}


@pytest.fixture(scope="module")
def gpu_run(tmp_path_factory):
    """The kernels that have a bug, on the GPU."""
    specs = planted(tmp_path_factory.mktemp("planted"))
    options = ("--device", "cuda", "--only", "pycuda,cupy_raw", "--dtypes", "float32", "--sizes", RACY)
    return cudalab(tmp_path_factory.mktemp("gpu"), "check", *specs, *options)


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in BUGS if name != UNSEEN])
def test_a_planted_bug_is_caught_on_the_gpu(gpu_run, name):
    status, run = gpu_run
    spoilt, others = statuses(run, name)
    assert status == 1
    assert record.WRONG in spoilt["pycuda"]
    assert record.WRONG in spoilt["cupy_raw"] or spoilt["cupy_raw"] == {record.SKIPPED}
    assert others <= {record.OK, record.SKIPPED}


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.gpu
def test_the_race_that_no_answer_shows_is_caught_under_the_sanitizer(tmp_path):
    from cudalab.tools.sanitize import compute

    if reason := compute.missing():
        pytest.skip(reason)
    options = ("--device", "cuda", "--only", "pycuda", "--dtypes", "float32", "--sizes", "7x1023", "--sanitize")
    status, run = cudalab(tmp_path, "check", *SPECS, *planted(tmp_path, UNSEEN), *options)
    assert status == 1
    bad = {(c.kernel, c.variant): c.reason for c in run.cases if c.status != record.OK}
    bug = BUGS[UNSEEN]
    assert list(bad) == [(f"{UNSEEN}/{bug.kernel}", bug.entry)], bad
    assert "race" in bad[f"{UNSEEN}/{bug.kernel}", bug.entry]
