"""CUB's block and warp module on the CPU executor, in every order of threads, and what their misuse does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import on_cpu
import pytest

from cudalab import host
from cudalab.base.errors import LaunchError

CU = "cub.cu"
ORDERS = ("alternating", "forward", "reverse", 5)


@pytest.fixture(params=ORDERS)
def run(request, module):
    """Launch one block."""
    return lambda entry, threads, *args: on_cpu.run(module, entry, 1, threads, *args, order=request.param)


def test_reductions_give_thread_0_the_result_and_the_others_nothing(run, rng):
    x, y = rng.integers(-99, 99, 256).astype(np.float32), np.zeros(256, np.float32)
    run("reductions", 256, x, y)
    np.testing.assert_array_equal(y[:4], [x.sum(), x.max(), 3 * 256, x[:70].sum()])
    assert np.isnan(y[4:]).all()


def test_a_thread_may_wait_with_a_load_past_l1(run):
    y = np.zeros(2, np.int32)
    run("waits", 64, np.zeros(1, np.uint32), y)
    assert y[1] == 7


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_a_scan_with_a_running_prefix_through_transposing_loads_and_stores(run, rng, n):
    x, y = rng.integers(-99, 99, n).astype(np.int32), np.full(n + 9, 7, np.int32)
    run("running", 64, x, y, np.int32(n))
    np.testing.assert_array_equal(y[:n], np.cumsum(x))
    assert (y[n:] == 7).all()


def test_every_form_of_a_scan(run, rng):
    x, y = rng.integers(-99, 99, 128).astype(np.int32), np.zeros((8, 128), np.int32)
    run("scans", 64, x, y)
    most = np.maximum.accumulate(x)
    np.testing.assert_array_equal(y[0], np.cumsum(x) - x)
    np.testing.assert_array_equal(y[1], np.cumsum(x))
    np.testing.assert_array_equal(y[2], np.maximum(np.r_[5, most[:-1]], 5))
    np.testing.assert_array_equal(y[3], most)
    np.testing.assert_array_equal(y[4][1:], most[:-1])  # without an initial value the first is undefined
    np.testing.assert_array_equal(y[5], [x.sum()] * 128)
    np.testing.assert_array_equal(y[6][:64], [x.max()] * 64)
    np.testing.assert_array_equal(y[7], np.maximum(most, 50))


def test_a_scan_of_an_operation_that_does_not_commute(run, rng):
    x = rng.integers(0, 10, (96, 2)).astype(np.int32)  # x -> a x + b, modulo a prime
    y = np.zeros((96, 2), np.int32)
    run("affine", 96, x, y)
    a, b = 1, 0
    for (p, q), found in zip(x.tolist(), y.tolist(), strict=True):
        a, b = a * p % 9973, (p * b + q) % 9973
        assert found == [a, b]


@pytest.mark.parametrize("descending", [0, 1])
def test_radix_sort_is_stable_and_knows_signs(run, rng, descending):
    key = rng.integers(-5, 5, 96).astype(np.float32)
    key[:4] = [-0.0, 0.0, np.inf, -np.inf]
    before, value = key.copy(), np.zeros(96, np.int32)
    run("sort", 32, key, value, np.int32(descending))
    order = np.argsort(-before if descending else before, kind="stable")
    np.testing.assert_array_equal(value, order)
    np.testing.assert_array_equal(key, before[order])


def test_radix_sort_of_some_bits(run, rng):
    key = rng.integers(0, 1 << 16, 64).astype(np.uint32)
    before = key.copy()
    run("sort_bits", 32, key)
    np.testing.assert_array_equal(key, before[np.argsort(before >> 4 & 15, kind="stable")])


def test_warp_collectives(run, rng):
    x, y = rng.integers(0, 9, 64).astype(np.int32), np.zeros((8, 64), np.int32)
    run("warps", 64, x, y)
    assert (y[0][0], y[0][32], y[0][1]) == (x[:32].sum(), x[32:].sum(), -1)
    groups = x.reshape(4, 16)
    np.testing.assert_array_equal(y[1].reshape(4, 16), np.cumsum(groups, 1) - groups)
    np.testing.assert_array_equal(y[2].reshape(4, 16), np.tile(groups.sum(1)[:, None], 16))
    heads = [*range(0, 32, 5), 32]
    for first, last in pairwise(heads):
        assert y[3][first] == x[first:last].sum()
    np.testing.assert_array_equal(y[4], np.tile(np.arange(32), 2) + 32)  # item 1 of a striped arrangement
    assert y[5][0] == x[:20].max()
    ends = [-1, *range(4, 32, 5), 31]
    for before, end in pairwise(ends):
        assert y[6][before + 1] == x[before + 1 : end + 1].sum()
    np.testing.assert_array_equal(y[7].reshape(2, 32), np.tile(x.reshape(2, 32)[:, 3:4], 32))


def test_flags_differences_and_counts(run, rng):
    x, y = np.sort(rng.integers(0, 8, 128)).astype(np.int32), np.zeros(8 + 4 * 128, np.int32)
    run("neighbours", 64, x, y)
    counts, heads, tails, left, right = y[:8], *y[8:].reshape(4, 128)
    changes = (x[1:] != x[:-1]).astype(np.int32)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=8))
    np.testing.assert_array_equal(heads, np.r_[1, changes])
    np.testing.assert_array_equal(tails, np.r_[changes, 1])
    np.testing.assert_array_equal(left, np.r_[x[0], np.diff(x)])
    np.testing.assert_array_equal(right, np.r_[x[:-1] - x[1:], x[-1]])


def test_exchanges(run):
    y = np.zeros((4, 96), np.int32)
    run("exchanges", 48, y)
    item = np.arange(96).reshape(48, 2)
    striped = np.arange(96).reshape(2, 48).T  # of thread t: items t and t + 48
    np.testing.assert_array_equal(y[0].reshape(48, 2), striped)
    np.testing.assert_array_equal(y[1].reshape(48, 2), item)
    np.testing.assert_array_equal(y[2].reshape(48, 2), item[::-1, ::-1])
    warp = np.r_[np.arange(64).reshape(2, 32).T, 64 + np.arange(32).reshape(2, 16).T]
    np.testing.assert_array_equal(y[3].reshape(48, 2), warp)


# ---- misuse ----------------------------------------------------------------------------------------------------------

TWICE = on_cpu.source("cub_twice.cu")


def launched(module, order="alternating"):
    x, y = np.arange(64, dtype=np.float32)[::-1] ** 2, np.zeros(2, np.float32)
    on_cpu.run(module, "twice", 1, 64, x, y, order=order)
    return y.tolist()


@pytest.mark.sweep
def test_storage_that_is_used_again_without_a_barrier_gives_a_wrong_result():
    x = np.arange(64, dtype=np.float32) ** 2
    right = host.load(TWICE.replace("BARRIER", "__syncthreads();"))
    assert all(launched(right, order) == [x.sum(), x.max()] for order in ORDERS)
    wrong = host.load(TWICE.replace("BARRIER", "").replace("x[threadIdx.x], cub", "-x[threadIdx.x], cub"))
    assert len({tuple(launched(wrong, order)) for order in (*ORDERS, 6, 7)}) > 1


def test_storage_that_is_used_again_without_a_barrier_is_a_race_on_the_users_line():
    with pytest.raises(LaunchError, match=r"race on 4 bytes of shared memory .* without a barrier between them"):
        launched(on_cpu.watched(TWICE.replace("BARRIER", "")))
    launched(on_cpu.watched(TWICE.replace("BARRIER", "__syncthreads();")))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("using L = cub::BlockLoad<float, 64, 4, cub::BLOCK_LOAD_VECTORIZE>; __shared__ L::TempStorage l; float v[4];\n"
         "L(l).Load(x + 1, v); y[0] = v[0];", "k.cu:6: .*misaligned address: .* 16 bytes, .* is 4 bytes off"),
        ("__shared__ int bins[4]; using H = cub::BlockHistogram<uchar, 64, 1, 4>; __shared__ H::TempStorage h;\n"
         "unsigned char v[1] = {9}; H(h).Histogram(v, bins); y[0] = bins[0];", "k.cu:6: .*bin 9 is not one of 4 bins"),
    ],
)  # fmt: skip
def test_misuse_is_told_with_the_users_line(body, says):
    text = (
        "#include <cub/cub.cuh>\n__global__ void k(const float* x, float* y) {\n"
        "  using R = cub::BlockReduce<float, 64>;\n  __shared__ R::TempStorage t;\n"
    )
    module = host.load(text + body + " if (threadIdx.x == 99) y[0] = R(t).Sum(1.0f); }", name="k.cu")
    with pytest.raises(LaunchError, match=says):
        on_cpu.run(module, "k", 1, 64, np.zeros(300, np.float32), np.zeros(1, np.float32))


def test_a_collective_that_not_all_threads_call_is_remarked_with_the_users_line():
    some = TWICE.replace("float sum =", "float sum = 0; if (threadIdx.x < 32) sum =")
    module = host.load(some.replace("BARRIER", "__syncthreads();"), name="twice.cu")
    launched(module)
    assert "twice.cu:5" in module.remarks["twice"]
