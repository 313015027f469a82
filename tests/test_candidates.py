"""Kernels that wait to be measured on a GPU (bench/candidates): right on the host, within tighter bounds than peers."""

from __future__ import annotations

import re
import shutil
import subprocess
from math import prod
from pathlib import Path

import numpy as np
import pytest

from cudalab import host, registry, source, values
from cudalab.devices import cuda, open_device
from cudalab.dtypes import dtype
from cudalab.inspection import tools
from cudalab.job import Job
from cudalab.parity import compare, expected
from cudalab.plan import Group, Selection
from cudalab.results import OK
from cudalab.spec import Budget, draw

FOLDER = Path(__file__).parent.parent / "bench" / "candidates"
KERNELS = {path.stem: registry.kernel(str(path)) for path in sorted(FOLDER.glob("*.py"))}
SAMPLE = 2**18  # values of float32, no exponent missing


def ran(kernel, entry, arrays, shape):
    """The output of an entry on the host."""
    got = np.full(shape, np.nan, next(iter(arrays.values())).dtype)
    macros = source.defines(dtype(got.dtype.name))
    module = host.load(source.read(kernel.cu), name=kernel.cu.name, defines=macros, include=FOLDER)
    launch = kernel.launch(entry, {**arrays, kernel.output: got})
    module.launch(entry, *launch.dims, launch.args, launch.shared)
    return got


def judged(kernel, entry, arrays, most):
    with np.errstate(all="ignore"):
        want = expected(kernel, arrays)
    got = ran(kernel, entry, arrays, want.shape)
    parity = compare(got, want, dtype(got.dtype.name), Budget(most))
    assert parity.ok, f"{entry}: {parity.message}"


@pytest.mark.parametrize("name", KERNELS)
def test_awkward_shapes(name):
    """In every order of the threads, into poisoned outputs between guard bands, as `cudalab check` does it."""
    kernel = KERNELS[name]
    device, _ = open_device("cpu")
    job = Job(device, Selection(only=("host",)), (), seed=0, budget=0.0, progress=lambda step: None)
    kind = dtype(kernel.dtypes[0])
    edges = sorted((edge for edge in kernel.edges if prod(edge) <= 2**12), key=prod)
    for edge in (edges[0], edges[-1]):  # `cudalab check` takes all of them, in every dtype
        for case in job.cases(Group(kernel, "x".join(map(str, edge)), edge, kind, awkward=True)):
            assert case.status == OK, f"{case.label} at {edge}: {case.reason}"


@pytest.mark.parametrize(
    ("name", "kind", "most"),
    [
        ("gelu", "float32", 4), ("gelu", "float16", 0.51), ("gelu", "bfloat16", 0.63),
        ("gelu_tanh", "float32", 3.5), ("gelu_tanh", "bfloat16", 0.51),
    ],
)  # fmt: skip
def test_digits_are_kept_at_every_value(name, kind, most):
    """Without the absolute tolerance that peers need: the tail is as exact as the rest."""
    kernel = KERNELS[name]
    x = (values.sample(dtype(kind), SAMPLE, 1) if kind == "float32" else values.every(dtype(kind))).reshape(-1)
    for entry in kernel.entries:
        judged(kernel, entry, {"x": x}, most)


@pytest.mark.parametrize(("kind", "most"), [("float32", 4), ("float16", 0.57), ("bfloat16", 0.66)])
def test_gelu_backward_keeps_its_digits(kind, most):
    """In the tail, at the change of sign, and for gradients of every size, infinities and NaN included."""
    kernel, of = KERNELS["gelu_backward"], dtype(kind)
    x = values.sample(of, SAMPLE, 1) if kind == "float32" else values.every(of)
    zero = np.linspace(-0.76, -0.74, 2**12).astype(of.numpy)
    x = np.concatenate([x.reshape(-1), zero])
    for entry in kernel.entries:
        judged(kernel, entry, {"dy": np.ones_like(x), "x": x}, most)
        judged(kernel, entry, {n: values.pairs(of, 2, i, 1) for i, n in enumerate(("dy", "x"))}, most)


@pytest.mark.parametrize(("kind", "most"), [("float32", 4), ("bfloat16", 0.63)])
def test_bias_gelu_keeps_its_digits(kind, most):
    """Sums down to -14, though float32 rounds them, and special values in both."""
    kernel, of = KERNELS["bias_gelu"], dtype(kind)
    rng = np.random.default_rng(0)
    tail = {"x": rng.uniform(-8, 2, (200, 260)).astype(of.numpy), "bias": rng.uniform(-6, 2, 260).astype(of.numpy)}
    special = values.special(of)
    bias = special[:6]  # the smallest: a sum beyond float32 is infinite, in float64 it is not
    for entry in kernel.entries:
        judged(kernel, entry, tail, most)
        judged(kernel, entry, {"x": np.repeat(special[:, None], bias.size, 1), "bias": bias}, most)


def test_softmax_of_rows_that_are_masked():
    """-inf counts as 0, a row of nothing else is NaN, and numbers near the largest do not overflow."""
    kernel, big = KERNELS["softmax"], np.finfo(np.float32).max
    x = draw((6, 257), np.dtype("float32"), np.random.default_rng(0))
    x[0, ::3], x[1], x[2], x[3], x[4, 5], x[5, 200:] = -np.inf, -np.inf, -big, big, np.nan, -big
    for entry in kernel.entries:
        judged(kernel, entry, {"x": x}, 8)


@pytest.mark.parametrize("cols", [33001, 33016])
def test_softmax_of_rows_beyond_the_registers(cols):
    """The rest of a row is read again, by pack or by element; a maximum may stand in either part."""
    kernel = KERNELS["softmax"]
    x = draw((2, cols), np.dtype("float32"), np.random.default_rng(0))
    x[0, -1], x[1, 0], x[1, 32800:32900] = 9, 9, -np.inf
    judged(kernel, "softmax_vec", {"x": x}, 16)


@pytest.mark.parametrize("cols", [17001, 17016])
def test_layernorm_beyond_the_registers_and_far_from_zero(cols):
    """A mean of 1000: the difference of mean square and squared mean would have lost half of the digits."""
    kernel, rng = KERNELS["layernorm"], np.random.default_rng(0)
    x = (1000 + rng.standard_normal((2, cols))).astype("float32")
    rows = {"gamma": np.ones(cols, "float32"), "beta": np.zeros(cols, "float32")}
    want = expected(kernel, {"x": x, **rows})
    got = ran(kernel, "layernorm_vec", {"x": x, **rows}, want.shape)
    assert np.abs(got - want).max() < 1e-4


def test_sum_has_the_same_bits_every_time():
    """Whichever block comes last; and the counter is where it was for the launch that follows."""
    kernel = KERNELS["sum"]
    x = kernel.make((2**16 + 5,), dtype("float32"))["x"]
    for entry in ("sum_blocks", "sum_vec"):
        found = {ran(kernel, entry, {"x": x}, (1,)).tobytes() for _ in range(4)}
        assert len(found) == 1, entry


def test_the_table_of_sum_has_room():
    text = (FOLDER / "sum.cu").read_text()
    x = np.empty(2**30, np.uint8).view(np.float32)  # never touched
    grids = [KERNELS["sum"].entries[entry](x, x[:1]).grid[0] for entry in ("sum_blocks", "sum_vec")]
    assert max(grids) <= int(re.search(r"#define MOST_BLOCKS (\d+)", text)[1])


@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on PATH")
@pytest.mark.parametrize("kernel", [k for k in KERNELS.values() if not k.pointwise], ids=lambda kernel: kernel.name)
def test_compiles_without_a_spill(kernel, tmp_path):
    """For the H200 and with warnings as errors; a register that goes to memory is traffic that no one asked for.

    Those that keep many numbers, in one dtype, since nvcc takes its time; the table in bench/NOTES.md has all.
    """
    name = kernel.dtypes[-1]
    macros = [f"-D{k}={v}" for k, v in source.defines(dtype(name)).items()]
    options = ["-arch=sm_90", "-Werror=all-warnings", "--resource-usage", *cuda.FLAGS, *macros]
    command = ["nvcc", "--cubin", *options, str(kernel.cu), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = tools.resources(done.stdout + done.stderr)
    assert found.keys() == kernel.entries.keys()
    assert not any(r.stack or r.spill_stores or r.spill_loads for r in found.values()), found
