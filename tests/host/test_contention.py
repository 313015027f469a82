"""In a shuffled order threads are interrupted before atomic operations: updates get lost where a GPU may lose them."""

from __future__ import annotations

import numpy as np
import on_cpu
import pytest
from on_cpu import error_of, run

from cudalab import host

CU = "l.cu"
BLOCKS, THREADS = 13, 64  # no multiple of the blocks that live at the same time
SEEDS = (3, 4, 5)
SOURCE = """#include <cuda/atomic>
__global__ void retried(int* y) { int seen = *y, old;
    while ((old = atomicCAS(y, seen, seen + 1)) != seen) seen = old; }
__global__ void by_object(int* y) { cuda::atomic_ref<int> all(*y); int seen = all.load();
    while (!all.compare_exchange_weak(seen, seen + 1)) {} }
__global__ void by_shared(int* y) { __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads(); int seen = s, old;
    while ((old = atomicCAS(&s, seen, seen + 1)) != seen) seen = old;
    __syncthreads(); if (threadIdx.x == 0) atomicAdd(y, s); }
__global__ void locked(int* y) { for (bool done = false; !done;)
    if (atomicCAS(y + 1, 0, 1) == 0) {
        __threadfence(); *y = *y + 1; __threadfence(); atomicExch(y + 1, 0), done = true; } }
__global__ void last(int* y) { __shared__ int before; if (threadIdx.x == 0) before = atomicAdd(y, 1); __syncthreads();
    if (before == gridDim.x - 1) atomicAdd(y, threadIdx.x == 0 ? 832 - 13 : 0); }

__global__ void once(int* y) { const int old = *y; atomicCAS(y, old, old + 1); }
__global__ void once_by_object(int* y) { cuda::atomic_ref<int> all(*y); int seen = all.load();
    all.compare_exchange_strong(seen, seen + 1); }
__global__ void once_a_block(int* y) { if (threadIdx.x == 0) { const int old = *y; atomicCAS(y, old, old + 64); } }
__global__ void once_in_shared(int* y) { __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();
    const int old = s; atomicCAS(&s, old, old + 1);
    __syncthreads(); if (threadIdx.x == 0) atomicAdd(y, s); }
__global__ void exchanged(int* y) { const int old = atomicAdd(y, 0); atomicExch(y, old + 1); }
__global__ void tested_and_set(int* y) { for (bool done = false; !done;)
    if (atomicAdd(y + 1, 0) == 0) {
        atomicExch(y + 1, 1); __threadfence(); *y = *y + 1; __threadfence(); atomicExch(y + 1, 0), done = true; } }
__global__ void unlocked(int* y) { atomicAdd(y + 1, 0); __threadfence();
    *y = *y + 1; __threadfence(); atomicAdd(y + 1, 0); }
__global__ void unfenced(int* y) { for (bool done = false; !done;)
    if (atomicCAS(y + 1, 0, 1) == 0) {
        *y = *y + 1; atomicExch(y + 1, 0), done = true; } }
"""
RIGHT = ("retried", "by_object", "by_shared", "locked", "last")
LOST = ("once", "once_by_object", "once_a_block", "once_in_shared", "exchanged")


def counted(module: host.Module, entry: str, order: host.Order) -> int:
    y = np.zeros(2, np.int32)  # the second is the lock
    run(module, entry, BLOCKS, THREADS, y, order=order)
    return int(y[0])


@pytest.mark.parametrize("order", ["alternating", "forward", "reverse", *SEEDS])
@pytest.mark.parametrize("entry", RIGHT)
def test_right_kernels_lose_nothing_in_any_order(module, entry, order):
    assert counted(module, entry, order) == BLOCKS * THREADS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entry", LOST)
def test_an_update_that_is_tried_once_is_lost_in_each_shuffled_order(module, entry, seed):
    assert counted(module, entry, seed) < BLOCKS * THREADS


def test_each_block_runs_once_in_a_grid_of_three_dimensions(module):
    text = """__global__ void k(int* y) {
        atomicExch(&y[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], 1 + threadIdx.x);
        if (threadIdx.x == 0) atomicAdd(&y[105], 1); }"""
    y = np.zeros(106, np.int32)
    run(host.load(text), "k", (7, 5, 3), 4, y, order=9)
    assert y[105] == 105 and y[:105].min() >= 1


# ---- under the race detector -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watched():
    lines = [line for line in SOURCE.splitlines() if "atomic_ref" not in line and "compare_exchange" not in line]
    return on_cpu.watched("\n".join(lines[1:]))


def said(module, entry, order):
    return error_of(module, entry, BLOCKS, THREADS, np.zeros(2, np.int32), order=order)


@pytest.mark.parametrize("order", ["alternating", *SEEDS])
@pytest.mark.parametrize("entry", [name for name in RIGHT if name != "by_object"])
def test_locks_and_loops_that_try_again_are_no_races(watched, entry, order):
    assert said(watched, entry, order) == ""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entry", ["tested_and_set", "unlocked", "unfenced"])
def test_a_lock_that_is_none_is_a_race_in_each_shuffled_order(watched, entry, seed):
    assert "race on 4 bytes of global memory (argument 1)" in said(watched, entry, seed)
