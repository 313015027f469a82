"""Tests of single kernels of the lab: hard inputs, and bounds of their own, on the host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace

import entries
import numpy as np
import pytest
from cpu_rows import cpu_rows

from cudalab.base.errors import InputError, SpecError
from cudalab.checks import hard_inputs
from cudalab.checks.expected import expected
from cudalab.checks.parity import compare
from cudalab.device import cuda
from cudalab.device.arrays import DeviceArray
from cudalab.engine.check_plan import checks
from cudalab.kernels._h200 import even_threads
from cudalab.results.record import OK
from cudalab.spec import cuda_source, find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import blocks, draw
from cudalab.tools.inspect import compilers

KERNELS = find.kernels()
SAMPLE = 2**18  # values of float32, no exponent missing


def judged(kernel, entry, arrays, most):
    """Fail if an entry is off by more than `most` ULP on the host."""
    entries.judged(kernel, entry, dtype(next(iter(arrays.values())).dtype.name), arrays, ulp=most)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_every_float16(name):
    kernel = KERNELS[name]
    for entry in kernel.entries:
        judged(kernel, entry, {"x": hard_inputs.every(dtype("float16")).reshape(-1)}, 0.64)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_gelu_with_several_packs_a_thread(name, kind, monkeypatch):
    """Large arrays take this path; here at small shapes, so that the check is quick: the launch reads the bound from
    the spec."""
    monkeypatch.setattr(sys.modules[f"cudalab.kernels.{name}"], "MANY", 0)
    planned = [group for group in checks([name], kind) if group.awkward][1::2]  # with and without offsets
    assert planned[0].kernel.launch(f"{name}_vec", {"x": np.empty(8), "y": np.empty(8)}).args[-1] == 2
    right_on_the_host(planned)


def test_few_elements_are_spread_evenly_over_the_multiprocessors():
    """With few blocks; all threads fit on an H200 at once, 2,048 on each of 132 multiprocessors."""
    for n in (1, 10_000, 40_000, 100_000, 150_528, 200_000, 2**18):
        threads = even_threads(n)
        grid = blocks(n, threads)
        assert 128 <= threads <= 640 and threads % 32 == 0, n
        each = blocks(grid, 132)
        assert each * threads <= 2048, n
        assert grid <= 132 or grid > 132 * each * 0.9, n
    assert [even_threads(n) for n in (0, 150_528, 2**18, 2**18 + 1)] == [128, 576, 512, 256]


@pytest.mark.parametrize(("name", "few", "many"), [
    ("gelu", "scalar", "vec"), ("gelu_tanh", "scalar", "vec"), ("gelu_backward", "scalar", "vec"),
    ("bias_gelu", "plain", "vec"),
])  # fmt: skip
def test_a_call_gives_few_elements_a_thread_each(name, few, many):
    kernel, one = KERNELS[name], np.zeros(1, np.float16)
    for shape, entry in (((480, 512), few), ((512, 513), many), ((2**18, 8), many)):
        inputs = kernel.make((6, 64), dtype("float16"))
        inputs = {n: np.broadcast_to(one, shape if a.ndim == 2 else shape[1:]) for n, a in inputs.items()}
        assert kernel.entry_of_call(inputs) == f"{name}_{entry}", shape


def right_on_the_host(planned):
    for group in planned:
        for case in cpu_rows(group, "host"):
            assert case.status == OK, f"{case.label} at {group}: {case.reason}"


@pytest.mark.sweep
@pytest.mark.parametrize(("module", "name", "value", "least"), [
    ("spec", "MAX_GRID_Y", 2, 16), ("kernels.bias_gelu", "COUNTED", 0, 0), ("kernels.bias_gelu", "BUSY", 0, 0),
])  # fmt: skip
def test_bias_gelu_where_matrices_are_huge(monkeypatch, module, name, value, least):
    """Blocks in z, more packs than 32 bits count, and several rows a thread, for any number of rows."""
    monkeypatch.setattr(sys.modules[f"cudalab.{module}"], name, value)
    every = (group for kind in ("float32", "float16") for group in checks(["bias_gelu"], kind))
    right_on_the_host([group for group in every if group.awkward and group.shape[:1] > (least,)])


@pytest.mark.parametrize(
    ("kind", "most", "beside_zero"), [("float32", 3.6, 3.6), ("float16", 0.63, 0.74), ("bfloat16", 0.63, 0.63)]
)
def test_gelu_backward_keeps_its_digits(kind, most, beside_zero):
    """In the tail, at the change of sign, and for gradients of every size, infinities and NaN included.

    Beside the zero with every mantissa of dy, where float16 loses most: the 16-bit forms know the zero in float32
    precision only.
    """
    kernel, of = KERNELS["gelu_backward"], dtype(kind)
    x = hard_inputs.sample(of, SAMPLE, 1) if kind == "float32" else hard_inputs.every(of)
    zero = np.linspace(-0.76, -0.74, 2**12).astype(of.numpy)
    x = np.concatenate([x.reshape(-1), zero])
    for entry in kernel.entries:
        judged(kernel, entry, {"dy": np.ones_like(x), "x": x}, most)
        judged(kernel, entry, {n: hard_inputs.pairs(of, i, 1) for i, n in enumerate(("dy", "x"))}, most)
    dy = (1 + np.arange(2**10) / 2**10).astype(of.numpy)
    x = np.full_like(dy, -0.751953125)  # no float16 is closer to the zero
    judged(kernel, "gelu_backward_vec", {"dy": dy, "x": x}, beside_zero)


@pytest.mark.parametrize(("kind", "most"), [("float32", 3.8), ("float16", 0.64), ("bfloat16", 0.63)])
def test_bias_gelu_keeps_its_digits(kind, most):
    """Sums down to -14, though float32 rounds them, and special values in both."""
    kernel, of = KERNELS["bias_gelu"], dtype(kind)
    rng = np.random.default_rng(0)
    tail = {"x": rng.uniform(-8, 2, (200, 260)).astype(of.numpy), "bias": rng.uniform(-6, 2, 260).astype(of.numpy)}
    special = hard_inputs.special(of)
    bias = special[:6]  # the smallest: such a sum is infinite in float32 and finite in float64
    for entry in kernel.entries:
        judged(kernel, entry, tail, most)
        judged(kernel, entry, {"x": np.repeat(special[:, None], bias.size, 1), "bias": bias}, most)


def test_bias_gelu_at_the_worst_sums_that_were_found():
    """The errors are 4.15 to 4.38 ULP at sums below 0, so with a budget of 4 the lab's kernel would fail."""
    kernel = KERNELS["bias_gelu"]
    x = np.array([[-0.0318260826, -0.0129888374, 9.56422446e-05, 0.000337688689, 0.0172960404]], np.float32)
    bias = np.array([3.967738e-07, -0.0188368484, -0.0157455616, 0.000602737942, 0.0410682373], np.float32)
    for entry in kernel.entries:
        judged(kernel, entry, {"x": x, "bias": bias}, min(kernel.budget(dtype("float32")).ulp, 4.4))


@pytest.mark.sweep
def test_softmax_of_rows_that_are_masked():
    """exp(-inf) counts as 0, a row of only -inf is NaN, and numbers near the largest do not overflow."""
    kernel, big = KERNELS["softmax"], np.finfo(np.float32).max
    x = draw((6, 257), np.dtype("float32"), np.random.default_rng(0))
    x[0, ::3], x[1], x[2], x[3], x[4, 5], x[5, 200:] = -np.inf, -np.inf, -big, big, np.nan, -big
    for entry in kernel.entries:
        judged(kernel, entry, {"x": x}, 8)


@pytest.mark.parametrize("kind", [pytest.param("float16", marks=pytest.mark.sweep), "bfloat16"])
def test_softmax_of_16_bits_down_to_the_smallest_numbers(kind):
    """What is masked is 0 and not -0, and a probability below 2^-126 is rounded once, as others are."""
    kernel, of = KERNELS["softmax"], dtype(kind)
    x = np.random.default_rng(0).uniform(-100, 0, (2, 1032)).astype(of.numpy)
    x[1, ::3] = -np.inf
    for entry in ("softmax_short", "softmax_vec", "softmax_cluster"):
        judged(kernel, entry, {"x": x}, 0.6)
        y = entries.outputs(kernel, entry, of, {"x": x})[kernel.output]
        assert not np.signbit(y.astype("float32")).any()


def test_a_call_of_softmax_runs_the_entry_for_its_rows():
    """The one for short rows exactly where both would be launched in the same way."""
    kernel, of = KERNELS["softmax"], np.dtype("float16")
    for shape, entry in (((2**18, 128), "short"), ((2**18, 512), "short"), ((2**18, 513), "vec"), ((256, 512), "vec"),
                         ((3, 31), "short"), ((8192, 4096), "vec"), ((2, 32768), "vec"),
                         ((2, 32776), "cluster")):  # fmt: skip
        x = np.broadcast_to(np.zeros(1, of), shape)
        chosen = kernel.entry_of_call({"x": x})
        same = len({kernel.launch(e, {"x": x, "y": x[:]}).dims for e in ("softmax_short", "softmax_vec")}) == 1
        assert (chosen, same and shape[1] <= 512) == (f"softmax_{entry}", entry == "short"), shape
    x = kernel.make((5, 40), dtype("float32"))["x"]
    wrong = replace(kernel, called=lambda x: "softmax_shorter")
    with pytest.raises(SpecError, match="called: no entry named 'softmax_shorter'; did you mean 'softmax_short'"):
        wrong(x)
    with np.errstate(all="ignore"):
        want = expected(kernel, {"x": x})
    assert compare(kernel(x), want, dtype("float32"), kernel.budget(dtype("float32"))).ok


@pytest.mark.parametrize(
    ("cols", "kind"), [(33001, "float32"), (33016, "float32"), pytest.param(65544, "float16", marks=pytest.mark.sweep)]
)
def test_softmax_of_rows_beyond_the_registers(cols, kind):
    """The rest of a row is read again, by pack or by element; a maximum may stand in either part."""
    kernel = KERNELS["softmax"]
    x = draw((2, cols), np.dtype(kind), np.random.default_rng(0))
    x[0, -1], x[1, 0], x[1, -200:-100] = 9, 9, -np.inf
    judged(kernel, "softmax_vec", {"x": x}, 16 if kind == "float32" else 0.6)


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ["layernorm_eight", "layernorm_vec"])
@pytest.mark.parametrize("cols", [17001, 17016])
def test_layernorm_beyond_the_registers_and_far_from_zero(cols, entry):
    """A mean of 1000: the difference of mean square and squared mean would have lost half of the digits."""
    kernel, rng = KERNELS["layernorm"], np.random.default_rng(0)
    x = (1000 + rng.standard_normal((2, cols))).astype("float32")
    rows = {"gamma": np.ones(cols, "float32"), "beta": np.zeros(cols, "float32")}
    want = expected(kernel, {"x": x, **rows})
    got = entries.outputs(kernel, entry, dtype("float32"), {"x": x, **rows})[kernel.output]
    assert np.abs(got - want).max() < 1e-4


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["float32", "float16"])  # bfloat16 is shared out as float16
@pytest.mark.parametrize("entry", ["softmax_short", "softmax_vec", "layernorm_vec"])
def test_rows_are_right_however_they_are_shared_out(entry, kind):
    """One to many packs a thread, whole or in turns, on part of a warp to several warps, as for many rows."""
    kernel, of, rows = KERNELS[entry.split("_")[0]], dtype(kind), 5
    most = 32 if entry == "softmax_short" else 64
    for cols, threads in ((24, 2), (128, 4), (200, 8), (1016, 8), (1016, 32), (1000, most), (1040, 16), (1033, most)):
        arrays = kernel.make((rows, cols), of)
        want = expected(kernel, arrays)
        got = np.full(want.shape, np.nan, of.numpy)
        planned = kernel.launch(entry, {**arrays, kernel.output: got})
        shared = max(64 // threads, 1) if threads <= 32 else 1
        grid = (-(-rows // shared), 1, 1)
        entries.loaded(kernel, of).launch(entry, grid, (threads, shared, 1), planned.args, planned.shared)
        parity = compare(got, want, of, kernel.budget(of))
        assert parity.ok, f"{cols} columns, {threads} threads: {parity.message}"


@pytest.mark.parametrize(("shape", "kind", "entry"), [
    ((128, 4096), "float32", "layernorm_vec"), ((16384, 4096), "float32", "layernorm_eight"),
    ((16384, 4096), "float16", "layernorm_eight"), ((16384, 4100), "float32", "layernorm_vec"),
    ((65536, 512), "float32", "layernorm_eight"), ((16384, 4095), "float32", "layernorm_vec"),
    ((65536, 508), "float32", "layernorm_vec"), ((65536, 516), "float16", "layernorm_vec"),
    ((16384, 8192), "float16", "layernorm_vec"),
])  # fmt: skip
def test_what_a_call_of_layernorm_runs(shape, kind, entry):
    arrays = {name: DeviceArray(shape[i:], dtype(kind).numpy, 256) for name, i in (("x", 0), ("gamma", 1), ("beta", 1))}
    assert KERNELS["layernorm"].entry_of_call(arrays) == entry


def test_sum_has_the_same_bits_every_time():
    """The bits do not depend on which block ends last; and the counter is reset for the next launch."""
    kernel = KERNELS["sum"]
    x = kernel.make((2**16 + 5,), dtype("float32"))["x"]
    for entry in ("sum_blocks", "sum_vec"):
        found = {entries.outputs(kernel, entry, dtype("float32"), {"x": x})["y"].tobytes() for _ in range(4)}
        assert len(found) == 1, entry


@pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.sweep)])
def test_sum_in_many_turns(kind):
    """Whole ones and one that is cut off anywhere, as where an array is large: here for two blocks of few threads."""
    kernel, of = KERNELS["sum"], dtype(kind)
    turn = 2 * 64 * 8 * 16 // of.itemsize  # elements: 8 packs for each of 128 threads
    module = entries.loaded(kernel, of)
    for n in (3 * turn, 3 * turn + 7 * turn // 8 + 3, 2 * turn + turn // 8 + turn // 16 - 1, turn - 1, turn // 8 + 1):
        for first in (0, 1):  # on a boundary of 16 bytes, and off it
            x = kernel.make((n + 1,), of)["x"][first:]
            got = np.full(1, np.nan, of.numpy)
            module.launch("sum_vec", (2, 1, 1), (64, 1, 1), (x, got, np.int64(x.size)), 0)
            parity = compare(got, expected(kernel, {"x": x}), of, kernel.budget(of))
            assert parity.ok, f"{n} elements from {first}: {parity.message}"


def test_the_table_of_sum_has_room():
    kernel = KERNELS["sum"]
    x = np.empty(2**30, np.uint8).view(np.float32)  # never touched
    table = int(re.search(r"#define MOST_BLOCKS (\d+)", cuda_source.read(kernel.cu))[1])
    assert all(kernel.launch(entry, {"x": x, "y": x[:1]}).grid[0] <= table for entry in kernel.entries)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_transpose_of_more_columns_than_a_grid_has_in_y(kind, monkeypatch):
    """The columns of tiles are spread over y and z, and the last z need not be full: here 3 at most in y."""
    kernel, of = KERNELS["transpose"], dtype(kind)
    spec = sys.modules["cudalab.kernels.transpose"]
    monkeypatch.setattr("cudalab.spec.launch.MAX_GRID_Y", 3)
    for fewest in (spec.MULTIPROCESSORS, 0):  # tiles of 32 words, and of 64
        monkeypatch.setattr(spec, "MULTIPROCESSORS", fewest)
        x = kernel.make((40, 1100), of)["x"]
        assert kernel.launch("transpose_vec", {"x": x, "y": x.T}).grid[2] > 1
        judged(kernel, "transpose_vec", {"x": x}, 0)


def test_transpose_of_long_matrices_fits_the_limits_of_a_grid():
    """As many rows or columns as a kernel can count, more than fit in memory: nothing is read here."""
    kernel, one = KERNELS["transpose"], np.zeros(1, np.float32)
    for shape in ((8, 2**31), (1, 2**27 + 1), (4096, 2**24), (2**32 - 2**18 - 1, 8)):
        x = np.broadcast_to(one, shape)
        down, across, deep = kernel.launch("transpose_vec", {"x": x, "y": x.T}).grid
        assert max(across, deep) <= 65535 and down < 2**31, shape
        assert down * 64 >= shape[0] and 0 <= across * deep * 64 - shape[1] < deep * 64, shape


@pytest.mark.parametrize(("entry", "shape"), [
    ("transpose_vec", (2**32 - 2**18, 8)), ("transpose_plain", (8, 2**32)), ("add2d_plain", (2**32, 1)),
    ("bias_gelu_plain", (2**32, 1)),
    ("softmax_vec", (1, 2**31)), ("layernorm_vec", (1, 2**31)), ("matmul_plain", (2**31, 1)),
])  # fmt: skip
def test_what_a_kernel_cannot_count_is_an_error(entry, shape):
    """The kernel must not get a number that has wrapped around, as NumPy 1 makes it."""
    kernel, x = KERNELS[entry.rpartition("_")[0]], np.broadcast_to(np.zeros(1, np.float32), shape)
    arrays = dict.fromkeys((*kernel.input_names, kernel.output), x)
    with pytest.raises(InputError, match=r"length of [\d,]{13} does not fit the kernel's u?int32; give the array"):
        kernel.launch(entry, arrays)


@pytest.mark.sweep
@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on PATH")
@pytest.mark.parametrize("kernel", [k for k in KERNELS.values() if not k.pointwise], ids=lambda kernel: kernel.name)
def test_compiles_without_a_spill(kernel, tmp_path):
    """Compile for the H200 with warnings as errors; a spilled register costs memory traffic.

    Only kernels that keep many numbers, in one dtype, since nvcc is slow; the table in bench/NOTES.md has all.
    """
    name = kernel.dtypes[-1]
    macros = [f"-D{k}={v}" for k, v in kernel.macros(dtype(name)).items()]
    options = ["-arch=sm_90", "-Werror=all-warnings", "--resource-usage", *cuda.FLAGS, *macros]
    command = ["nvcc", "--cubin", *options, str(kernel.cu), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = compilers.resources(done.stdout + done.stderr)
    assert found.keys() >= kernel.entries.keys()  # an entry may have further launches
    assert not any(r.stack or r.spill_stores or r.spill_loads for r in found.values()), found
