"""Races on shared memory: what is one, and what only looks like it."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import error_of, source
from on_cpu import watched as compiled

CU, ORDERS = "r.cu", ("forward", "reverse", 3)
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


@pytest.fixture(params=ORDERS)
def said(request):
    return lambda module, entry: error_of(module, entry, 2, 64, np.zeros(64, np.int32), shared=256, order=request.param)


@pytest.mark.parametrize(
    ("entry", "lines"),
    [("lost", {5}), ("no_barrier", {8, 9}), ("too_early", {11, 12}), ("set_late", {14, 15}), ("other_warp", {17, 18})],
)
def test_a_race_is_told_with_both_lines_and_threads_in_every_order(watched, said, entry, lines):
    text = said(watched, entry)
    assert text.startswith(f"{entry}: race on 4 bytes of shared memory in block (")
    assert text.endswith("without a barrier between them") and text.count("thread (") == 2
    assert {int(part.partition(",")[0]) for part in text.split("r.cu:")[1:]} == lines


@pytest.mark.parametrize("entry", ["atomic", "same_value", "warp", "own", "tile"])
def test_what_is_in_order_is_no_race(watched, said, entry):
    assert said(watched, f"fine_{entry}") == ""


@pytest.mark.sweep
@pytest.mark.parametrize(("removed", "wrong"), [(None, ""), (0, "block_sum"), (1, "tree_sum"), (3, "transpose")])
def test_right_kernels_have_none_and_each_missing_barrier_is_one(removed, wrong):
    pieces = source("cooperative.cu").split("__syncthreads();")
    between = [";" if i == removed else "__syncthreads();" for i in range(len(pieces) - 1)]
    module = compiled("".join(piece + barrier for piece, barrier in zip(pieces, [*between, ""], strict=True)))
    x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
    found = {
        "block_sum": error_of(module, "block_sum", 3, 256, out, x, np.int32(5000)),
        "tree_sum": error_of(module, "tree_sum", 2, 256, out, x, np.int32(512), shared=1024),
        "transpose": error_of(module, "transpose", (2, 2), (32, 8), out, x, np.int32(64), np.int32(64)),
    }
    assert not any(found.values()) if removed is None else "race on 4 bytes of shared memory" in found[wrong]


def test_an_array_of_a_class_is_no_race_by_itself(said):
    """g++ keeps a byte beside it, in shared memory, that says whether it was initialized."""
    text = """#include <cuda_fp16.h>
    __global__ void k(int* y) { __shared__ half s[64]; const int t = threadIdx.x;
        s[t] = __int2half_rn(t); __syncthreads(); y[t] = s[t ^ 1]; }"""
    assert not said(compiled(text), "k")
