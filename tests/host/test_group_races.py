"""Races between blocks that live at the same time: on shared memory of a cluster, and around barriers of the grid."""

from __future__ import annotations

import re

import numpy as np
import pytest
from on_cpu import error_of

CU = "g.cu"
SOURCE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define HEAD extern __shared__ int d[]; __shared__ int s[64]; auto c = cg::this_cluster(); const int t = threadIdx.x; \\
    const int rank = c.block_rank(), i = blockIdx.x * 64 + t; s[t] = t, d[t] = t; \\
    int *rs = c.map_shared_rank(s, 1 - rank), *rd = c.map_shared_rank(d, 1 - rank); c.sync();
__global__ void overwritten(int* y) { HEAD
    y[i] = rs[63 - t] + rd[t];
    s[t] = 7; c.sync(); }
__global__ void pushed(int* y) { HEAD
    rd[t] = 100 + rank;
    y[i] = d[t]; c.sync(); }
__global__ void same_place(int* y) { HEAD int* first = c.map_shared_rank(d, 0);
    first[t] = 100 + rank;
    c.sync(); y[i] = first[t]; c.sync(); }
__global__ void block_barrier(int* y) { HEAD
    rs[t] = 100 + t; __syncthreads();
    y[i] = s[t]; c.sync(); }
__global__ void within_a_block(int* y) { HEAD
    rs[t] = 100 + t;
    y[i] = rs[t ^ 32]; c.sync(); }

__global__ void fine_read(int* y) { HEAD y[i] = rs[63 - t] + rd[t]; c.sync(); s[t] = 7; c.sync(); }
__global__ void fine_pushed(int* y) { HEAD rd[t] = 100 + rank; c.sync(); y[i] = d[t]; c.sync(); }
__global__ void fine_own(int* y) { HEAD rs[t] = 100 + t; __syncthreads(); y[i] = rs[t ^ 32]; c.sync(); }
__global__ void fine_atomics(int* y) { HEAD atomicAdd(c.map_shared_rank(d, 0), 1); c.sync(); y[i] = d[0]; c.sync(); }
__global__ void fine_halves(int* y) { HEAD int v = rs[t]; auto k = c.barrier_arrive(); c.barrier_wait(); s[t] = v; }
__global__ void fine_flag(int* y) { HEAD if (t == 0) {
        if (rank == 0) { rd[5] = 77; __threadfence(); atomicExch(rs + 9, 1); }
        else { while (atomicAdd(s + 9, 0) != 1); __threadfence(); y[i] = d[5]; } }
    c.sync(); }

__global__ void grid_late(int* y) { const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    y[i] = t;
    y[256 + i] = y[(i + 64) % 256]; cg::this_grid().sync(); }
__global__ void fine_grid(int* y) { const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    y[i] = t; cg::this_grid().sync(); y[256 + i] = y[(i + 64) % 256]; cg::this_grid().sync(); y[i] = 0; }
"""


@pytest.fixture(params=["alternating", "reverse", 3])
def said(request, watched):
    def said(entry):
        how = {"cooperative": True} if "grid" in entry else {"cluster": (2,)}
        return error_of(watched, entry, 4, 64, np.zeros(512, np.int32), shared=256, order=request.param, **how)

    return said


@pytest.mark.parametrize(
    ("entry", "lines"),
    [
        ("overwritten", {7, 8}), ("pushed", {10, 11}), ("same_place", {13}), ("block_barrier", {16, 17}),
        ("within_a_block", {19, 20}),
    ],
)  # fmt: skip
def test_a_race_on_another_blocks_shared_memory_is_told_with_lines_blocks_and_threads(said, entry, lines):
    place = r"\(\d+,0,0\)"
    who = rf"thread {place} of block {place} (?:reads|writes) at g.cu:(\d+)"
    what = rf"{entry}: race on 4 bytes of the shared memory of block {place}"
    found = re.match(rf"{what}: {who}, {who}, without a barrier of the cluster between them$", said(entry))
    assert found, said(entry)
    assert {int(line) for line in found.groups()} == lines


@pytest.mark.parametrize("entry", ["read", "pushed", "own", "atomics", "halves", "flag", "grid"])
def test_what_is_in_order_is_no_race(said, entry):
    assert said(f"fine_{entry}") == ""


def test_a_barrier_of_the_grid_orders_global_memory(said):
    assert said("grid_late").startswith("grid_late: race on 4 bytes of global memory (argument 1): ")
