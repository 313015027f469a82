"""Races on shared memory: what is one, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cudalab import host
from cudalab.base.errors import LaunchError, Unavailable

DATA = Path(__file__).parents[1] / "data"
ORDERS = ("forward", "reverse", 3)

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")

SOURCE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void lost(int* y) { __shared__ int s[4]; int t = threadIdx.x;
    if (t < 4) s[t] = 0; __syncthreads();
    s[t % 4]++;
    __syncthreads(); y[t] = s[t % 4]; }
__global__ void no_barrier(int* y) { extern __shared__ int s[]; int t = threadIdx.x;
    s[t] = t;
    y[t] = s[t ^ 1]; __syncthreads(); }
__global__ void too_early(int* y) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t; __syncthreads();
    int next = s[(t + 1) % 64];
    s[t] = next + 1; __syncthreads(); y[t] = s[t]; }
__global__ void set_late(int* y) { __shared__ int s; int t = threadIdx.x;
    if (t == 0) s = 1;
    atomicAdd(&s, 1); __syncthreads(); y[t] = s; }
__global__ void other_warp(int* y) { __shared__ int s[64]; int t = threadIdx.x;
    s[t] = t; __syncwarp();
    y[t] = s[t ^ 32]; }

__global__ void fine_atomic(int* y) { __shared__ int s[4]; int t = threadIdx.x;
    if (t < 4) s[t] = 0; __syncthreads(); atomicAdd(&s[t % 4], 1); __syncthreads(); y[t] = s[t % 4]; }
__global__ void fine_same_value(int* y) { __shared__ int flag; flag = 1; __syncthreads(); y[threadIdx.x] = flag; }
__global__ void fine_warp(int* y) { __shared__ int s[64]; int t = threadIdx.x;
    s[t] = t; __syncwarp(); y[t] = s[t ^ 1]; __syncwarp(); s[t] = 0; }
__global__ void fine_own(int* y) { extern __shared__ int s[]; int t = threadIdx.x;
    s[t] = t; s[t] += s[t]; y[t] = s[t]; }
__global__ void fine_tile(int* y) { __shared__ float4 s[64]; int t = threadIdx.x;
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[t] = make_float4(t, t, t, t); tile.sync(); y[t] = s[t ^ 7].w; }
"""


@pytest.fixture(scope="module")
def module() -> host.Module:
    try:
        return host.load(SOURCE, name="r.cu", races=True)
    except Unavailable as reason:
        pytest.skip(str(reason))


def launch(module: host.Module, entry: str, order: host.Order) -> str:
    try:
        module.launch(entry, (2, 1, 1), (64, 1, 1), [np.zeros(64, np.int32)], 256, order)
    except LaunchError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("entry", "lines"),
    [("lost", {5}), ("no_barrier", {8, 9}), ("too_early", {11, 12}), ("set_late", {14, 15}), ("other_warp", {17, 18})],
)
def test_a_race_is_told_with_both_lines_and_threads_in_every_order(module, entry, lines, order):
    said = launch(module, entry, order)
    assert said.startswith(f"{entry}: race on 4 bytes of shared memory in block (")
    assert said.endswith("without a barrier between them") and said.count("thread (") == 2
    assert {int(part.partition(",")[0]) for part in said.split("r.cu:")[1:]} == lines


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entry", ["atomic", "same_value", "warp", "own", "tile"])
def test_what_is_in_order_is_no_race(module, entry, order):
    assert launch(module, f"fine_{entry}", order) == ""


@pytest.mark.sweep
def test_right_kernels_have_none_and_each_missing_barrier_is_one():
    text = (DATA / "host" / "cooperative.cu").read_text()
    pieces = text.split("__syncthreads();")
    x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
    launches = {
        "block_sum": ((3, 1, 1), (256, 1, 1), [out, x, np.int32(5000)], 0),
        "tree_sum": ((2, 1, 1), (256, 1, 1), [out, x, np.int32(512)], 1024),
        "transpose": ((2, 2, 1), (32, 8, 1), [out, x, np.int32(64), np.int32(64)], 0),
    }
    for removed, entry in ((None, ""), (0, "block_sum"), (1, "tree_sum"), (3, "transpose")):
        between = [";" if i == removed else "__syncthreads();" for i in range(len(pieces) - 1)]
        changed = "".join(piece + barrier for piece, barrier in zip(pieces, [*between, ""], strict=True))
        module = host.load(changed, name="c.cu", races=True)
        for name, given in launches.items():
            if name == entry:
                with pytest.raises(LaunchError, match="race on 4 bytes of shared memory"):
                    module.launch(name, *given)
            elif removed is None:
                module.launch(name, *given)


@pytest.mark.parametrize("order", ORDERS)
def test_an_array_of_a_class_is_no_race_by_itself(order):
    """g++ keeps a byte beside it, in shared memory, that says whether it was initialized."""
    text = """#include <cuda_fp16.h>
    __global__ void k(int* y) { __shared__ half s[64]; const int t = threadIdx.x;
        s[t] = __int2half_rn(t); __syncthreads(); y[t] = s[t ^ 1]; }"""
    try:
        assert not launch(host.load(text, name="h.cu", races=True), "k", order)
    except Unavailable as reason:
        pytest.skip(str(reason))
