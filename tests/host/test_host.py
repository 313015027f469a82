"""The CPU executor: sources and launches that it runs, and those that it refuses."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from on_cpu import aligned, run, source

from cudalab import host
from cudalab.backends import host as backend
from cudalab.base import cache as caches
from cudalab.base.errors import (
    CompileError,
    CompilerFailed,
    InputError,
    LaunchError,
    NotFound,
    NotOnCpu,
    OverrunError,
    Unavailable,
)
from cudalab.host import compiler as compiling

NARROW = {"__half": np.dtype(np.float16), "__nv_bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def elementwise() -> host.Module:
    return load("elementwise.cu")


@pytest.fixture(scope="module")
def cooperative() -> host.Module:
    return load("cooperative.cu")


@pytest.fixture(scope="module")
def warp() -> host.Module:
    return load("warp.cu")


@pytest.fixture(scope="module", params=list(NARROW))
def narrow(request: pytest.FixtureRequest) -> tuple[host.Module, np.dtype]:
    return load("narrow.cu", scalar_t=request.param), NARROW[request.param]


def load(name: str, **defines: str) -> host.Module:
    return host.load(source(name), name=name, defines=defines)


def line(n: int, block: int = 256) -> tuple[int, int]:
    return -(-n // block), block


def floats(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(n, dtype=np.float32)


# ---- elementwise ---------------------------------------------------------------------------------


def test_entries_leave_out_templates_comments_and_what_the_preprocessor_removes(elementwise):
    assert elementwise.entries == (*("plus_one", "add_2d", "square", "evaluate", "gelu_vec", "histogram", "where"),)


@pytest.mark.parametrize("n", [0, 1, 31, 256, 257, 100_003])
def test_plus_one_writes_n_elements_and_no_more(elementwise, rng, n):
    x = floats(n, rng)
    y = np.full(n + 64, -7, np.float32)
    run(elementwise, "plus_one", *line(n), y[32:-32], x, np.int64(n))
    np.testing.assert_array_equal(y[32:-32], x + np.float32(1))
    assert (np.delete(y, np.s_[32:-32]) == -7).all()


def test_two_dimensions(elementwise, rng):
    a, b = rng.random((2, 45, 77), dtype=np.float32)
    out = run(elementwise, "add_2d", (3, 6), (32, 8), np.empty_like(a), a, b, np.int32(45), np.int32(77))
    np.testing.assert_array_equal(out, a + b)


def test_device_template_and_constant_memory(elementwise, rng):
    x, n = floats(1000, rng), np.int32(1000)
    np.testing.assert_array_equal(run(elementwise, "square", *line(1000), np.empty_like(x), x, n), x * x)
    y = run(elementwise, "evaluate", *line(1000, 128), np.empty_like(x), x, n)
    np.testing.assert_allclose(y, 1 - 2.0 * x + 0.5 * x * x, rtol=1e-5, atol=1e-6)


def test_float4_with_a_tail(elementwise, rng):
    special = pytest.importorskip("scipy.special")
    x = floats(10_003, rng)
    x[:4] = [np.nan, np.inf, -0.0, 50]
    y, wide = run(elementwise, "gelu_vec", 7, 128, np.empty_like(x), x, np.int32(x.size)), x.astype(np.float64)
    np.testing.assert_allclose(y, special.ndtr(wide) * wide, rtol=1e-6, atol=1e-6)


def atomics_count_every_thread(elementwise, rng):
    x = rng.integers(0, 1000, 50_000, dtype=np.int32)
    counts = run(elementwise, "histogram", *line(x.size), np.zeros(8, np.int32), x, np.int32(x.size))
    np.testing.assert_array_equal(counts, np.bincount(x % 8, minlength=8))


def every_thread_of_every_block_runs_once(elementwise):
    out = run(elementwise, "where", (3, 4, 5), (6, 7, 2), np.zeros((60, 84), np.int32))
    np.testing.assert_array_equal(out, np.add.outer(np.arange(60) * 10000, np.arange(84)))


# ---- threads that wait for each other ------------------------------------------------------------


def block_sum_is_right(module: host.Module, rng: np.random.Generator) -> bool:
    x = rng.random(5000, dtype=np.float32)
    out = run(module, "block_sum", 3, 256, np.zeros(3, np.float32), x, np.int32(x.size))
    return bool(np.isclose(out.sum(), x.sum(dtype=np.float64), rtol=1e-5))


def tree_sum_is_right(module: host.Module, rng: np.random.Generator) -> bool:
    x = rng.random(5000, dtype=np.float32)
    out = run(module, "tree_sum", *line(x.size), np.zeros(1, np.float32), x, np.int32(x.size), shared=1024)
    return bool(np.isclose(out[0], x.sum(dtype=np.float64), rtol=1e-5))


def transpose_is_right(module: host.Module, rng: np.random.Generator) -> bool:
    x, out = rng.random((100, 70), dtype=np.float32), np.empty((70, 100), np.float32)
    return bool((run(module, "transpose", (3, 2), (32, 8), out, x, np.int32(100), np.int32(70)) == x.T).all())


CHECKS = (block_sum_is_right, tree_sum_is_right, transpose_is_right)


@pytest.mark.parametrize(
    ("removed", "notices"),
    [
        (0, block_sum_is_right),
        pytest.param(1, tree_sum_is_right, marks=pytest.mark.sweep),
        pytest.param(2, tree_sum_is_right, marks=pytest.mark.sweep),
        pytest.param(3, transpose_is_right, marks=pytest.mark.sweep),
        pytest.param(4, transpose_is_right, marks=pytest.mark.sweep),
    ],
)
def test_a_missing_barrier_is_noticed(rng, removed, notices):
    pieces = source("cooperative.cu").split("__syncthreads();")
    assert len(pieces) == 6
    pieces[removed : removed + 2] = [f"{pieces[removed]};{pieces[removed + 1]}"]
    assert not notices(host.load("__syncthreads();".join(pieces)), rng)


def test_ballot(cooperative, rng):
    x = floats(1001, rng)
    count = run(cooperative, "count_positive", *line(x.size), np.zeros(1, np.int32), x, np.int32(x.size))
    assert count[0] == (x > 0).sum()


def test_shuffles_with_width(warp):
    x = np.arange(64, dtype=np.int32)
    out = run(warp, "shuffles", 1, 64, np.zeros((8, 64), np.int32), x)
    lane, base = x % 32, x // 32 * 32
    expected = [
        base + 3,
        x // 8 * 8 + 3,
        np.where(lane < 2, x, x - 2),
        np.where(lane % 8 < 2, x, x - 2),
        np.where(lane + 3 > 31, x, x + 3),
        np.where(lane % 16 + 3 > 15, x, x + 3),
        x ^ 1,
        np.where(lane & 8, x ^ 8, x),
    ]
    np.testing.assert_array_equal(out, expected)


def test_votes_masks_and_reductions(warp):
    x = np.arange(64, dtype=np.int32)
    out = run(warp, "votes", 1, 64, np.zeros((8, 64), np.uint32), x)
    first, second = x < 32, x >= 32
    bits = np.uint32(1) << (x % 32).astype(np.uint32)
    ballots = [bits[(x % 3 == 0) & half].sum() for half in (first, second)]
    np.testing.assert_array_equal(out[0], np.where(first, *ballots))
    np.testing.assert_array_equal(out[1], second)
    np.testing.assert_array_equal(out[2], first)
    np.testing.assert_array_equal(out[3], np.where(first, x[first].sum(), x[second].sum()))
    np.testing.assert_array_equal(out[4], np.uint32(0x11111111) << (x % 4).astype(np.uint32))
    np.testing.assert_array_equal(out[5], 0xFFFFFFFF)
    np.testing.assert_array_equal(out[6], np.where(x % 2, 0xAAAAAAAA, 0))
    np.testing.assert_array_equal(out[7], np.where(x % 32 < 16, x ^ 15, x ^ 1))


def barriers_that_count(warp):
    out = run(warp, "barriers", 1, 96, np.zeros((4, 96), np.int32), np.arange(96, dtype=np.int32))
    np.testing.assert_array_equal(out[:, 0], [48, 1, 0, 1])
    assert (out == out[:, :1]).all()


def neighbours(module):
    x = np.arange(64, dtype=np.int32)
    return (run(module, "neighbour", 1, 64, np.zeros_like(x), x) == x ^ 1).all()


def test_syncwarp_is_needed():
    assert not neighbours(host.load(source("warp.cu").replace("__syncwarp();", "")))


def test_lanes_that_have_returned_or_do_not_exist(warp):
    out = run(warp, "exited_lanes", 1, 64, np.zeros(64, np.int32))
    np.testing.assert_array_equal(out, np.where(np.arange(64) % 4, 0, 8))
    assert np.isnan(run(warp, "nobody_there", 1, 16, np.zeros(16, np.float32))).all()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("stuck", r"block \(\d,0,0\) is stuck: of 64 threads 16 wait at a block .* 16 .* 32 have"),
        ("mixed", r"of 64 threads 0 wait at a block .* 32 wait at a warp operation .* 32 have"),
        ("foreign_mask", r"thread \(\d+,0,0\): the mask 0x00000001 .* lacks the calling lane \d+"),
    ],
)
def test_a_block_that_cannot_end_is_diagnosed(warp, entry, says):
    with pytest.raises(LaunchError, match=says):
        run(warp, entry, 4, 64, np.zeros(64, np.float32))
    assert neighbours(warp)  # the module is still good


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc")
def test_modules_do_not_all_keep_their_stacks():
    """A process may have 65530 mappings, and the stacks of one block are up to 2048."""
    text = """__global__ void reversed(int* y) {{ __shared__ int all[1024];
        all[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = all[1023 - threadIdx.x] + {number}; }}"""
    modules = [host.load(text.format(number=number)) for number in range(3)]
    mappings = []
    for number in (0, 0, 1, 2, 1, 0, 2, 2):
        y = run(modules[number], "reversed", 1, 1024, np.empty(1024, np.int32))
        np.testing.assert_array_equal(y, np.arange(1024)[::-1] + number)
        mappings.append(len(Path("/proc/self/maps").read_text().splitlines()))
    assert 2000 < min(mappings) <= max(mappings) < min(mappings) + 100


@pytest.mark.sweep
def test_a_portable_stack_switch_gives_the_same(rng):
    module = load("cooperative.cu", CUDALAB_UCONTEXT="1")
    assert all(is_right(module, rng) for is_right in CHECKS)


@pytest.fixture(scope="module")
def shared() -> host.Module:
    return load("shared.cu")


def test_dynamic_shared_memory_at_file_level_and_aligned(shared, rng):
    x = rng.random(128, dtype=np.float32)
    np.testing.assert_array_equal(run(shared, "reverse", 1, 128, np.zeros_like(x), x, shared=512), x[::-1])


def test_shared_arrays_are_aligned_as_on_a_gpu(shared):
    x = aligned(np.arange(128, dtype=np.float32))
    np.testing.assert_array_equal(run(shared, "copy", 1, 32, aligned(np.zeros_like(x)), x), x)


def test_what_is_written_past_dynamic_shared_memory_is_told_and_nothing_breaks(shared, rng):
    x = rng.random(256, dtype=np.float32)
    for nbytes, past in ((0, 1024), (1000, 24)):
        with pytest.raises(OverrunError, match=f"wrote up to {past} bytes past its .* of {nbytes} bytes.*shared=BYTES"):
            run(shared, "keep", 3, 256, np.zeros_like(x), x, shared=nbytes)
    np.testing.assert_array_equal(run(shared, "keep", 3, 256, np.zeros_like(x), x, shared=1024), x)


STOPPED = re.findall(r"^// ([0-9x]+), n=(\d+): (.*)\n__global__ void (\w+)", source("stopped.cu"), re.MULTILINE)
assert len(STOPPED) == source("stopped.cu").count("__global__ ")
FLAT = ("check", "trap", "at", "vector", "word")


@pytest.fixture(scope="module")
def stopping():
    """The file for kernels that wait for nothing, and for those that may wait."""
    return {
        "flat": load("stopped.cu", BARRIER=""),
        "cooperative": load("stopped.cu", BARRIER="__syncthreads()", COOPERATIVE=""),
    }


def stop(module, entry, block, n):
    x = aligned(np.arange(64, dtype=np.float32))
    run(module, entry, 2, tuple(int(size) for size in block.split("x")), x, np.int32(n))


@pytest.mark.parametrize(
    ("mode", "block", "n", "says", "entry"),
    [(mode, *case) for case in STOPPED for mode in ("flat", "cooperative") if mode != "flat" or case[-1] in FLAT],
)
def test_a_kernel_is_stopped_with_its_line(stopping, mode, block, n, says, entry):
    text = source("stopped.cu")
    start = text.index(f"__global__ void {entry}(")
    line = "" if says.startswith("thread") else f"stopped.cu:{text.count(chr(10), 0, text.index('// <-', start)) + 1}: "
    with pytest.raises(LaunchError, match=re.escape(line) + ".*" + re.escape(says).replace(r"\.\.\.", ".*")):
        stop(stopping[mode], entry, block, n)


@pytest.mark.parametrize(("entry", "n"), [("check", 8), ("trap", 8), ("at", 2), ("vector", 4), ("word", 4)])
def test_a_kernel_is_not_stopped_without_reason(stopping, entry, n):
    for module in stopping.values():
        stop(module, entry, "4x2", n)


# ---- the order of blocks, warps and threads ------------------------------------------------------


def ordered(module: host.Module, order: host.Order) -> host.Module:
    """The module with launches in this order."""
    given = copy(module)
    given.launch = partial(module.launch, order=order)
    return given


@pytest.mark.parametrize("order", ["alternating", "forward", "reverse", 0, 1, 2**70])
def test_every_order_runs_every_thread_once_and_right_kernels_stay_right(elementwise, cooperative, warp, rng, order):
    every_thread_of_every_block_runs_once(ordered(elementwise, order))
    atomics_count_every_thread(ordered(elementwise, order), rng)
    assert all(is_right(ordered(cooperative, order), rng) for is_right in CHECKS)
    assert neighbours(ordered(warp, order))
    barriers_that_count(ordered(warp, order))


@pytest.mark.parametrize(("order", "flawless"), [("forward", True), ("reverse", False), (7, False)])
def test_a_race_that_one_order_forgives_shows_in_another(order, flawless):
    module = host.load("__global__ void k(int* y) { y[threadIdx.x] = threadIdx.x ? y[threadIdx.x - 1] + 1 : 1; }")
    y = run(module, "k", 1, 64, np.zeros(64, np.int32), order=order)
    assert (y == np.arange(1, 65)).all() == flawless


def test_a_shuffle_is_that_of_its_seed():
    text = "__global__ void who(int* y, int* next) { __syncwarp(); y[atomicAdd(next, 1)] = threadIdx.x; }\n"
    module = host.load(text)
    seen = set()
    for order in ("forward", "reverse", 0, 1):
        one, again = (
            tuple(run(module, "who", 1, 96, np.zeros(96, np.int32), np.zeros(1, np.int32), order=order)) for _ in "ab"
        )
        assert one == again and sorted(one) == list(range(96))
        seen.add(one)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("order", "says"), [("backwards", "no order named 'backwards'; known: alternating, forw"), (-1, "seed .* is -1")]
)
def test_an_order_that_there_is_not(elementwise, order, says):
    with pytest.raises((NotFound, InputError), match=says):
        run(elementwise, "plus_one", 1, 1, FLOATS, FLOATS, np.int64(0), order=order)


# ---- newer CUDA, with both compilers -------------------------------------------------------------


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", request.param)
        yield request.param


@pytest.fixture(scope="module")
def modern(compiler: str) -> host.Module:
    return load("modern.cu")


def test_cooperative_groups_of_a_block(modern, rng):
    x = rng.random(1000, dtype=np.float32)
    sums = run(modern, "block_sums", 5, (64, 4), np.zeros(5, np.float32), x, np.int32(x.size))
    expected = [x[256 * i : 256 * (i + 1)].sum(dtype=np.float64) for i in range(5)]
    np.testing.assert_allclose(sums, expected, rtol=1e-5)
    x = np.arange(64, dtype=np.int32)
    y = run(modern, "tiles", 1, 64, np.zeros((5, 64), np.int32), x)
    first = x // 8 * 8
    np.testing.assert_array_equal(y[0], np.where(x % 8 == 7, x, x + 1))
    np.testing.assert_array_equal(y[1], sum(((first + b) % 3 == 0).astype(np.int32) << b for b in range(8)))
    np.testing.assert_array_equal(y[2], first + 7)
    np.testing.assert_array_equal(y[3:], [[0] * 64] * 2)  # all lanes (-1) and 1; none and 0


@pytest.mark.parametrize("given", [0, 1])
def test_static_shared_memory_begins_with_nan_in_every_block(modern, given):
    y = run(modern, "unwritten", 4, 64, np.full(4, given, np.float32))
    assert np.isnan(y).all() == (given == 0)


@pytest.mark.parametrize(("order", "byte"), [("forward", 0x7B), (7, 0), ("reverse", 0xFB), ("alternating", 0xFF)])
def test_each_order_begins_with_other_shared_memory(modern, order, byte):
    """What a maximum, a minimum or a sum does not notice in one order is seen in another."""
    y = run(modern, "unwritten", 4, 64, np.zeros(4, np.float32), order=order)
    np.testing.assert_array_equal(y.view(np.uint8), byte)


def test_integer_functions(modern):
    y, a, b = np.zeros(13, np.uint32), 0x84232221, 0x14131211
    run(modern, "integers", 1, 1, y, np.uint32(a), np.uint32(b))
    both = [(a >> s & 255, b >> s & 255) for s in (0, 8, 16, 24)]
    signed = [((p ^ 128) - 128, (q ^ 128) - 128) for p, q in both]
    expected = [
        *(0x14128422, 0x2121FF00, 0x13121184, 0x11842322, a),
        *(7 + sum(p * q for p, q in both), 7 + sum(p * q for p, q in signed)),
        *(int(f"{a:032b}"[::-1], 2), 12, 0 + 4, 3, -15, b + 2),
    ]
    assert [hex(v) for v in y] == [hex(v & 0xFFFFFFFF) for v in expected]


def test_inverse_error_functions(modern):
    special = pytest.importorskip("scipy.special")
    p = np.array([1e-300, 1e-12, 0.001, 0.02425, 0.3, 0.5, 0.6, 0.99, 1 - 1e-12, 0, 1])
    y = np.zeros((2, p.size))
    run(modern, "inverses", 1, 32, y, p, np.int32(p.size))
    np.testing.assert_allclose(y[0], special.ndtri(p), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(y[1], special.erfinv(2 * p - 1), rtol=1e-9, atol=1e-15)


def test_a_misaligned_vector_is_diagnosed_by_either_compiler(modern):
    x = aligned(np.zeros(40, np.float32))
    run(modern, "vectors", 1, 8, x, x, np.int32(8))
    assert x[:32].reshape(8, 4)[:, 0].all()
    with pytest.raises(LaunchError, match=r"modern.cu:\d+: block .* misaligned address: .* 16 bytes"):
        run(modern, "vectors", 1, 8, x, x[1:], np.int32(8))


def test_barriers_and_half_numbers_with_clang(compiler, rng):
    if compiler == "g++":
        pytest.skip("all other tests are with g++")
    assert all(is_right(load("cooperative.cu"), rng) for is_right in CHECKS)
    ok = run(load("names.cu", scalar_t="__half"), "idioms", 1, 1, np.zeros(32, np.int32))
    assert ok.argmin() == 19


# ---- half and bfloat16 ---------------------------------------------------------------------------


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the last bit, where any NaN equals any NaN."""
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


def every_pattern(dtype: np.dtype) -> np.ndarray:
    return np.arange(65536, dtype=np.uint16).view(dtype)


def test_widening_all_65536_patterns(narrow):
    module, dtype = narrow
    x = every_pattern(dtype)
    y = run(module, "widen", *line(x.size), np.zeros(x.size, np.float32), x, np.int32(x.size))
    same(y, x.astype(np.float32))


def test_rounding_at_and_beside_every_tie(narrow, rng):
    module, dtype = narrow
    exact = every_pattern(dtype).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    ties = exact[:-1] / 2 + exact[1:] / 2
    some = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)  # NaNs among them
    beside = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    top = np.float32([np.inf, -np.inf, 65519.996, 65520, 3.3961775e38, -3.4028235e38])
    x = np.concatenate([exact, ties, *beside, some, top]).astype(np.float32)
    y = run(module, "narrow", *line(x.size), np.zeros(x.size, dtype), x, np.int32(x.size))
    with np.errstate(all="ignore"):
        same(y, x.astype(dtype))


def test_double_rounds_once(narrow):
    module, dtype = narrow
    step = float(np.float32(ml_dtypes.finfo(dtype).eps))
    x = np.array([1 + step / 2 + 2.0**-40, 1 + step / 2, 1 + step / 2 - 2.0**-40])
    y = run(module, "from_double", 1, 3, np.zeros(3, dtype), x, np.int32(3))
    np.testing.assert_array_equal(y.astype(np.float64), [1 + step, 1, 1])


def test_arithmetic_and_comparisons_round_like_numpy(narrow, rng):
    module, dtype = narrow
    n = 65536
    a, b = every_pattern(dtype), rng.permutation(every_pattern(dtype))
    y = run(module, "arithmetic", *line(n), np.zeros((7, n), dtype), a, b, np.int32(n))
    with np.errstate(all="ignore"):
        f, g = a.astype(np.float32), b.astype(np.float32)
        expected = [f + g, f - g, f * g, f / g, -f, f + g]
        for got, wide in zip(y, expected, strict=False):
            same(got, wide.astype(dtype))
        np.testing.assert_array_equal(y[6].astype(np.float32), np.fmax(f, g))
    truth = run(module, "compare", *line(n), np.zeros(n, np.int32), a, b, np.int32(n))
    bits = [f < g, f <= g, f == g, f != g, f > g]
    np.testing.assert_array_equal(truth, sum(bit.astype(np.int32) << i for i, bit in enumerate(bits)))


def test_fused_multiply_add_rounds_once(narrow, rng):
    module, dtype = narrow
    info = ml_dtypes.finfo(dtype)
    n, step, least = 100_000, float(info.eps), float(info.smallest_subnormal)
    a, b, c = rng.standard_normal((3, n)).astype(dtype)
    # (1 + step) * 1.5 lies on a tie; the smallest number decides it, and is lost if the sum
    # is rounded to float or double first.
    a[:2], b[:2], c[:2] = 1 + step, 1.5, [least, -least]
    y = run(module, "multiply_add", *line(n), np.zeros(n, dtype), a, b, c, np.int32(n))
    np.testing.assert_array_equal(y[:2].astype(np.float64), [1.5 + 2 * step, 1.5 + step])
    exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    error = np.abs(y.astype(np.longdouble) - exact)[2:]
    for side in (-1, 1):  # no neighbour is closer
        neighbour = (y.view(np.uint16).astype(np.int32) + side).astype(np.uint16).view(dtype)
        closer = error > np.abs(neighbour.astype(np.longdouble) - exact)[2:]  # a NaN is not
        assert not closer.any()


def test_a_narrow_number_by_value(narrow):
    module, dtype = narrow
    y = run(module, "by_value", 1, 1, np.zeros(1, np.float32), dtype.type(1.5))
    assert y[0] == 1.5
    with pytest.raises(LaunchError, match=r"argument 2 of 2 is np.float32 with 4 bytes, .* has 2 bytes"):
        run(module, "by_value", 1, 1, y, np.float32(1.5))


def test_pairs(narrow, rng):
    module, _ = narrow
    x = rng.standard_normal((1000, 2)).astype(np.float16)
    y = run(module, "half_pairs", *line(1000), np.zeros_like(x), x, np.int32(1000))
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(y, (wide[:, ::-1] * [2, 0.5] + wide).astype(np.float16))
    x = x.astype(ml_dtypes.bfloat16)
    y = run(module, "bfloat16_pairs", *line(1000), np.zeros_like(x), x, np.int32(1000))
    low, high = x.astype(np.float32).T
    expected = np.stack([high + low, low * high], axis=1).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y, expected)


FUNCTIONS = (
    *(np.exp, np.exp2, np.log, np.log2, np.log10, np.sqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / x),
    *(np.sin, np.cos, np.tanh, np.floor, np.ceil, np.trunc, np.rint, np.negative, np.abs),
    *(lambda x: x + 2, lambda x: x * x, lambda x: np.maximum(x - 1, 0)),
)


@pytest.mark.sweep
@pytest.mark.parametrize("scalar_t", list(NARROW))
def test_the_functions_of_both_narrow_types(rng, scalar_t):
    module, dtype = load("names.cu", scalar_t=scalar_t), NARROW[scalar_t]
    x = rng.standard_normal(2000).astype(dtype)
    y = np.zeros((len(FUNCTIONS), x.size), dtype)
    run(module, "all_unary", *line(x.size), y, x, np.int32(x.size))
    with np.errstate(all="ignore"):
        for got, function in zip(y, FUNCTIONS):
            same(got, function(x.astype(np.float64)).astype(dtype))
    ok = np.zeros(32, np.int32)
    run(module, "idioms", 1, 1, ok)
    np.testing.assert_array_equal(ok[: ok.argmin()], 1)
    assert ok.argmin() == 19


# ---- launches that are refused -------------------------------------------------------------------

FLOATS = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([FLOATS, FLOATS], "plus_one has 3 parameters, got 2 arguments"),
        ([FLOATS, FLOATS, np.int32(4)], "argument 3 of 3 is np.int32 with 4 bytes, .* has 8 bytes"),
        ([FLOATS, FLOATS, np.float64(4)], "argument 3 of 3 is np.float64, .* an integer"),
        ([FLOATS, FLOATS, 4], "argument 3 of 3 is a int; .* NumPy scalar"),
        ([FLOATS, FLOATS, FLOATS], "argument 3 of 3 is an array, but the parameter is an integer"),
        ([FLOATS, np.int64(0), np.int64(4)], "argument 2 of 3 is the scalar np.int64, .* a pointer"),
    ],
)
def test_arguments_that_do_not_fit(elementwise, args, says):
    with pytest.raises(LaunchError, match=says):
        run(elementwise, "plus_one", 1, 4, *args)


@pytest.mark.parametrize(
    ("grid", "block", "shared", "says"),
    [
        ((1, 1, 1), (32, 33, 1), 0, "block .* has 1056 threads, CUDA allows 1024"),
        ((1, 1, 1), (1025, 1, 1), 0, "block x is 1025, CUDA allows 1 to 1024"),
        ((1, 1, 1), (1, 1, 65), 0, "block z is 65, CUDA allows 1 to 64"),
        ((1, 1, 1), (0, 1, 1), 0, "block x is 0"),
        ((1, 65536, 1), (1, 1, 1), 0, "grid y is 65536, CUDA allows 0 to 65535"),
        ((1, 1, 65536), (1, 1, 1), 0, "grid z is 65536"),
        ((-1, 1, 1), (1, 1, 1), 0, "grid x is -1"),
        ((1, 1, 1), (1, 1, 1), 10**6, "1000000 bytes of shared memory"),
    ],
)
def test_shapes_that_cuda_refuses(elementwise, grid, block, shared, says):
    with pytest.raises(LaunchError, match=says):
        run(elementwise, "plus_one", grid, block, FLOATS, FLOATS, np.int64(0), shared=shared)


def test_a_grid_with_a_zero_launches_nothing(elementwise):
    y = np.zeros(4, np.float32)
    for grid in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        assert not run(elementwise, "plus_one", grid, 4, y, y, np.int64(4)).any()


def test_one_packed_buffer_of_arguments(elementwise, rng):
    """A negative number of workers: how PyCUDA hands arguments to the driver's stand-in."""
    x, y = rng.random((2, 100), dtype=np.float32)
    library = ctypes.CDLL(str(host.build(source("elementwise.cu"), name="x.cu")))
    packed = struct.pack("PPi", y.ctypes.data, x.ctypes.data, 100)
    run = library.cudalab_run_square
    assert run(1, 1, 1, 128, 1, 1, ctypes.c_size_t(0), packed, -2) == 0
    np.testing.assert_array_equal(y, x * x)


def test_launches_from_several_python_threads(cooperative):
    def total(seed: int) -> bool:
        return tree_sum_is_right(cooperative, np.random.default_rng(seed))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(total, range(8)))


def test_an_unknown_entry_names_the_close_one(elementwise):
    with pytest.raises(NotFound, match="did you mean 'plus_one'"):
        run(elementwise, "plus_on", 1, 1)


# ---- the cache -----------------------------------------------------------------------------------


def test_the_same_content_is_compiled_once_and_a_changed_include_again(tmp_path):
    text = '#include "value.h"\n__global__ void set(int* x) { *x = VALUE; }\n'
    x, libraries = np.zeros(1, np.int32), []
    for value in (1, 2, 1):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        libraries.append(host.build(text, name="set.cu", defines=None, include=tmp_path))
        run(host.load(text, name="set.cu", include=tmp_path), "set", 1, 1, x)
        assert x[0] == value
    assert libraries[0] == libraries[2] != libraries[1]


def test_what_another_copy_of_the_lab_compiled_is_not_taken_for_its_headers_have_other_paths(tmp_path, monkeypatch):
    found = compiling._headers.__wrapped__()
    monkeypatch.setattr(compiling, "_HERE", shutil.copytree(compiling._HERE, tmp_path / "host"))
    assert compiling._headers.__wrapped__() != found


def test_headers_of_the_current_folder_are_not_found(tmp_path, monkeypatch):
    """The compiler reads its standard input, whose folder would be the current one."""
    for name, value in (("beside", 1), ("current", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "value.h").write_text(f"#define VALUE {value}\n")
    (tmp_path / "current" / "other.h").write_text("#define VALUE 3\n")
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("CXX", os.path.relpath(shutil.which("g++")))
    x = np.zeros(1, np.int32)
    text = '#include "value.h"\n__global__ void set(int* x) { *x = VALUE; }\n'
    module = host.load(text, name="set.cu", include=tmp_path / "beside")
    run(module, "set", 1, 1, x)
    assert x[0] == 1
    with pytest.raises(CompileError, match=r"other\.h"):
        host.load(text.replace("value.h", "other.h"), name="set.cu")


@pytest.mark.process
def test_two_processes_may_build_at_once(tmp_path):
    script = (
        "from cudalab import host\n"
        "import numpy as np\n"
        "x = np.zeros(1, np.int32)\n"
        "text = '__global__ void set(int* x) { *x = 41; }'\n"
        "host.load(text).launch('set', (1, 1, 1), (1, 1, 1), [x])\n"
        "assert x[0] == 41\n"
    )
    env = {**os.environ, "CUDALAB_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    kept = sorted(path.suffix for path in (tmp_path / "host").iterdir())
    assert kept == [".flag", ".o", ".so"]  # no scratch left behind


@pytest.mark.sweep
def test_kernels_of_one_mode_share_what_runs_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path))
    flat, cooperative = (
        "__global__ void f(int* x) { *x = %d; }",
        "__global__ void f(int* x) { __syncthreads(); *x = %d; }",
    )
    for number in (1, 2):
        for text in (flat, cooperative):
            x = np.zeros(1, np.int32)
            host.load(text % number).launch("f", (1, 1, 1), (32, 1, 1), [x])
            assert x[0] == number
    assert sorted(path.suffix for path in (tmp_path / "host").iterdir()) == [".o"] * 2 + [".so"] * 4


def test_fresh_caches_are_empty_folders_that_are_there_and_go_again(monkeypatch):
    monkeypatch.setenv("CUDALAB_CACHE", "mine")
    monkeypatch.delenv("PYCUDA_CACHE_DIR", raising=False)
    with caches.fresh():
        folders = [Path(os.environ[name]) for name in caches.VARIABLES]
        assert all(list(folder.iterdir()) == [] for folder in folders)
    assert os.environ["CUDALAB_CACHE"] == "mine"
    assert "PYCUDA_CACHE_DIR" not in os.environ
    assert not any(folder.exists() for folder in folders)


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match=r"cannot write .* set CUDALAB_CACHE"):
        host.load("__global__ void nothing() {}")


def test_without_a_home_the_cache_has_to_be_named(tmp_path, monkeypatch):
    """A container may run as a user that the system does not know."""
    for name in ("HOME", "XDG_CACHE_HOME", "CUDALAB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with pytest.raises(Unavailable, match="no home folder for the cache; set CUDALAB_CACHE"):
        caches.folder("host")
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path))
    assert caches.folder("host") == tmp_path / "host"


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    says = "no C\\+\\+ compiler: no-such-compiler is not on PATH \\(install g\\+\\+, or set CXX\\)"
    with pytest.raises(CompileError, match=says):
        host.load("__global__ void nothing() {}")


@pytest.mark.process
@pytest.mark.parametrize(
    ("does", "says"),
    [
        (
            "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
            "ended with exit code 1:\n.*Killed",
        ),
        ("kill -9 $$", "was killed by SIGKILL"),
    ],
)
def test_a_compiler_that_is_killed_says_nothing_of_a_kernel(tmp_path, monkeypatch, does, says):
    """Else a machine without memory would leave the check to nvcc, and a kernel that was not run would pass."""
    fake = tmp_path / "fake++"
    fake.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec g++ "$@";; esac\n{does}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    with pytest.raises(CompilerFailed, match=rf"cannot compile k.cu for the CPU: .*fake\+\+ {says}") as failed:
        host.compile_source("__global__ void f() {}", name="k.cu")
    tries = iter([failed.value, NotOnCpu("no")])
    monkeypatch.setattr(backend.host, "compile_source", lambda *_, **__: (_ for _ in ()).throw(next(tries)))
    with pytest.raises(CompilerFailed):
        backend._module("", tmp_path / "k.cu", (), (), "", True)
    assert isinstance(backend._module("", tmp_path / "k.cu", (), (), "", True), NotOnCpu)  # it is tried again
