"""Races on global memory, fences and scopes: what is one, and what only looks like it."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import error_of, run
from on_cpu import watched as compiled

from cudalab import host
from cudalab.base.errors import OverrunError

CU = "g.cu"
SOURCE = """
#define ARGS const float* x, float* part, float* y, int n
#define HERE const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
__device__ unsigned arrived = 0;
__device__ bool last_block() { return atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1; }
__device__ void add_up(float* part, float* y) {
    if (threadIdx.x == 0) { float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += part[b]; y[0] = a; } }

__global__ void two_threads(ARGS) { HERE if (i < n) y[i % 7] += x[i]; }
__global__ void two_blocks(ARGS) { HERE if (i < n) y[t] += x[i]; }
__global__ void halo(ARGS) { HERE if (i + 1 < n) part[i] = part[i + 1] + 1; }
__global__ void of_block(ARGS) { HERE if (i < n) atomicAdd_block(&y[i % 7], x[i]); }
__global__ void no_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }
__global__ void late_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; last = last_block(); __threadfence(); } __syncthreads();
    if (last) add_up(part, y); }
__global__ void other_fence(ARGS) { HERE __shared__ bool last;
    if (t == 33) part[blockIdx.x] = x[i];
    if (t == 0) { __threadfence(); last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }

__global__ void late_guard(ARGS) { HERE const float a = x[i]; if (i >= n) return; y[i] = a; }

__global__ void fine_atomic(ARGS) { HERE if (i < n) atomicAdd(&y[i % 7], x[i]); }
__global__ void fine_own_bins(ARGS) { HERE y[i] = x[i]; atomicAdd_block(&y[i], 1.f); __syncthreads(); y[i] += y[i]; }
__global__ void fine_same(ARGS) { y[0] = 3; }
__global__ void fine_barrier(ARGS) { HERE part[i] = x[i]; __syncthreads(); y[i] = part[i ^ 63]; }
__global__ void fine_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; __threadfence(); last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }
__global__ void fine_fence_of_all(ARGS) { HERE __shared__ bool last;
    part[i] = x[i]; __threadfence(); __syncthreads();
    if (t == 0) last = last_block();
    __syncthreads();
    if (last) for (int k = t; k < n; k += 64) y[k] = part[k]; }
__global__ void fine_fence_of_one(ARGS) { HERE __shared__ bool last;
    part[i] = x[i]; __syncthreads();
    if (t == 0) { __threadfence(); last = last_block(); }
    __syncthreads();
    if (last) for (int k = t; k < n; k += 64) y[k] = part[k]; }
__global__ void fine_cas(ARGS) { HERE int* a = (int*)y; int old = *a, was;
    do { was = old; old = atomicCAS(a, was, __float_as_int(__int_as_float(was) + x[i])); } while (old != was); }
__global__ void fine_max(ARGS) { HERE int* a = (int*)y; if (i > *a) atomicMax(a, i); }
"""
WRONG = ("two_threads", "two_blocks", "halo", "of_block", "no_fence", "late_fence", "other_fence")
RIGHT = ("atomic", "own_bins", "same", "barrier", "fence", "fence_of_all", "fence_of_one", "cas", "max")
SAYS = {
    "two_threads": "without a barrier between them",
    "two_blocks": "nothing orders the two blocks: use atomics, or a __threadfence() and a flag",
    "of_block": "an atomic of block scope (_block) orders the threads of one block only",
    "no_fence": "may set its flag or counter before the write is visible: call __threadfence() between them",
}


def said(module, entry, order="alternating"):
    """What the race detector says of a launch."""
    x, part, y = np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    return error_of(module, entry, 4, 64, x, part, y, np.int32(256), order=order)


@pytest.mark.parametrize("entry", WRONG)
def test_a_race_on_global_memory_is_told_with_lines_blocks_and_reason(watched, entry):
    text = said(watched, entry)
    assert text.startswith(f"{entry}: race on 4 bytes of global memory (argument ")
    assert text.count("thread (") == 2 and text.count("block (") == 2 and text.count("at g.cu:") == 2
    assert SAYS.get(entry, "") in text


@pytest.mark.parametrize("entry", RIGHT)
def test_what_is_in_order_is_no_race(watched, entry):
    assert [said(watched, f"fine_{entry}") for _ in range(2)] == ["", ""]


@pytest.mark.parametrize(("entry", "n"), [("fine_atomic", 65), ("late_guard", 64)])  # the guard comes after the read
def test_a_read_beside_an_array_is_an_overrun_where_nothing_else_lies_there(watched, monkeypatch, entry, n):
    room = np.zeros(4096, np.float32)
    x, part, y = room[1024:1088], np.zeros(64, np.float32), np.zeros(64, np.float32)
    monkeypatch.setattr(watched, "reach", 1024)
    with pytest.raises(OverrunError, match=r"reads 4 bytes outside an array \(argument 1\).*element (64|127) of 64"):
        run(watched, entry, 2, 64, x, part, y, np.int32(n))


def test_an_access_beyond_the_static_shared_arrays_is_an_overrun():
    module = compiled("""__global__ void next(float* y, int by) { __shared__ float s[64];
        s[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[threadIdx.x + by]; }""")
    run(module, "next", 1, 64, np.zeros(64, np.float32), np.int32(0))
    with pytest.raises(OverrunError, match="reads 4 bytes outside an array: 0 bytes beyond its static shared arrays"):
        run(module, "next", 1, 64, np.zeros(64, np.float32), np.int32(1))


ORDERED = """
#include <cuda/atomic>
#define ARGS const float* x, float* part, float* y, int n
#define LAST cuda::atomic_ref<unsigned, cuda::thread_scope_device>(arrived)
#define ADD if (last) { float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += part[b]; y[0] = a; }
__device__ unsigned arrived = 0;
__device__ volatile unsigned flags[4];
__global__ void acquire_release(ARGS) { __shared__ bool last;
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x];
        last = LAST.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1; if (last) arrived = 0; } __syncthreads();
    if (threadIdx.x == 0) ADD }
__global__ void relaxed(ARGS) { __shared__ bool last;
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x];
        last = LAST.fetch_add(1, cuda::memory_order_relaxed) == gridDim.x - 1; if (last) arrived = 0; } __syncthreads();
    if (threadIdx.x == 0) ADD }
__global__ void by_flag(ARGS) {
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x]; __threadfence(); flags[blockIdx.x] = 1;
        if (blockIdx.x) { while (!flags[blockIdx.x - 1]) {} y[blockIdx.x] = part[blockIdx.x - 1]; } } }
__global__ void by_flag_without_fence(ARGS) {
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x]; flags[blockIdx.x] = 1;
        if (blockIdx.x) { while (!flags[blockIdx.x - 1]) {} y[blockIdx.x] = part[blockIdx.x - 1]; } } }
// The first block writes, and the second one waits for its flag.
#define WAIT(some, barrier) const int t = threadIdx.x; volatile float& flag = part[255]; \
    if (blockIdx.x == 0) { part[t] = x[t]; __threadfence(); __syncthreads(); if (t == 0) flag = 1; } \
    if (blockIdx.x == 1) { if (some) { while (!flag) {} __threadfence(); } barrier; y[t] = part[t]; }
__global__ void all_wait(ARGS) { WAIT(true, ) }
__global__ void one_waits(ARGS) { WAIT(t == 0, ) }
__global__ void one_waits_for_all(ARGS) { WAIT(t == 0, __syncthreads()) }
__global__ void one_waits_for_its_warp(ARGS) { WAIT(t % 32 == 0, __syncwarp()) }
// Threads of one block, each with a flag of its own.
#define FLAGS(mine, sees) __shared__ float s[64]; \
    const int t = threadIdx.x; int* const set = (int*)part + 64 * blockIdx.x; \
    s[t] = x[t]; __threadfence_block(); mine; sees; y[64 * blockIdx.x + t] = s[t ^ 33];
__global__ void sees_the_other_flag(ARGS) { FLAGS(atomicExch(set + t, 1), while (!((volatile int*)set)[t ^ 33]) {}) }
__global__ void sees_its_own_flag(ARGS) { FLAGS(atomicExch(set + t, 1), while (!((volatile int*)set)[t]) {}) }
__global__ void by_a_third_thread(ARGS) { __shared__ float s; int* const set = (int*)part + 64 * blockIdx.x;
    if (threadIdx.x == 0) { s = x[0]; __threadfence(); atomicExch(set, 1); }
    if (threadIdx.x == 32) { while (!atomicAdd(set, 0)) {} __threadfence(); atomicExch(set + 1, 1); }
    if (threadIdx.x == 33) { while (!atomicAdd(set + 1, 0)) {} y[blockIdx.x] = s; } }
// One thread waits for the other block's flag, and tells the others by one in shared memory.
__global__ void tells_by_shared(ARGS) { __shared__ int s; const int t = threadIdx.x; int* const set = (int*)part + 255;
    if (t == 0) s = 0;
    __syncthreads();
    if (blockIdx.x == 0 && t == 0) { part[0] = x[0]; __threadfence(); atomicExch(set, 1); }
    if (blockIdx.x == 1) {
        if (t == 0) { while (!atomicAdd(set, 0)) {} __threadfence(); atomicExch(&s, 1); }
        else { while (!atomicAdd(&s, 0)) {} __threadfence_block(); }
        y[t] = part[0]; } }
// One lane of each warp hands over what its warp has written, or waits for it.
#define WARPS(barrier) __shared__ int s; __shared__ float v[32]; const int t = threadIdx.x; \
    if (t == 0) s = 0; \
    __syncthreads(); \
    if (t < 32) { v[t] = x[t]; barrier; if (t == 0) { __threadfence_block(); atomicExch(&s, 1); } } \
    else { if (t == 32) { while (!atomicAdd(&s, 0)) {} __threadfence_block(); } __syncwarp(); \
        y[64 * blockIdx.x + t] = v[t - 32]; }
__global__ void warps(ARGS) { WARPS(__syncwarp()) }
__global__ void warps_without_barrier(ARGS) { WARPS() }
// A chain whose blocks take their numbers from a counter.
#define CHAIN(scope, stores, loads, after) \\
    if (threadIdx.x) return; \\
    unsigned* const chain = (unsigned*)part + 64; \\
    const unsigned b = atomicAdd(chain + 64, 1u); \\
    if (b) { cuda::atomic_ref<unsigned, cuda::thread_scope_##scope> before(chain[b - 1]); \\
        while (!before.load(cuda::memory_order_##loads)) {} after; } \\
    part[b] = x[b] + (b ? part[b - 1] : 0); \\
    cuda::atomic_ref<unsigned, cuda::thread_scope_##scope>(chain[b]).store(1, cuda::memory_order_##stores);
__global__ void chain_acquires(ARGS) { CHAIN(device, release, acquire, ) }
__global__ void chain_fence(ARGS) { CHAIN(device, release, relaxed, __threadfence()) }
__global__ void chain_atomic_fence(ARGS) {
    CHAIN(device, release, relaxed, cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device)) }
__global__ void chain_relaxed_load(ARGS) { CHAIN(device, release, relaxed, ) }
__global__ void chain_relaxed_store(ARGS) { CHAIN(device, relaxed, acquire, ) }
__global__ void chain_of_block(ARGS) { CHAIN(block, release, acquire, ) }
__global__ void chain_fence_of_block(ARGS) {
    CHAIN(device, release, relaxed, cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_block)) }
__global__ void chain_volatile(ARGS) {
    if (threadIdx.x) return;
    volatile unsigned* const chain = (unsigned*)part + 64;
    const unsigned b = atomicAdd((unsigned*)part + 128, 1u);
    if (b) while (!chain[b - 1]) {}
    part[b] = x[b] + (b ? part[b - 1] : 0);
    __threadfence();
    chain[b] = 1; }
__global__ void own_counter(ARGS) {
    if (threadIdx.x) return;
    const unsigned b = blockIdx.x;
    part[b] = x[b];
    __threadfence();
    atomicAdd((unsigned*)part + 64 + 2 * b, 1u);
    y[b] = b ? part[b - 1] : 0; }
__global__ void own_bins_of_block(ARGS) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_block>(((unsigned*)part)[blockIdx.x]).fetch_add(1); }
__global__ void cas_of_block(ARGS) { if (threadIdx.x == 0) atomicCAS_block((int*)y, 0, int(blockIdx.x) + 1); }
#define PARTIALS(fence, read, ...) volatile float* const seen = part; if (threadIdx.x) return; \\
    seen[blockIdx.x] = x[blockIdx.x]; fence; \\
    if (atomicAdd((unsigned*)part + 64, 1u) != gridDim.x - 1) { __VA_ARGS__; return; } \\
    float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += read; y[0] = a;
__global__ void volatile_partials(ARGS) { PARTIALS(__threadfence(), seen[b]) }
__global__ void volatile_partials_without_fence(ARGS) { PARTIALS(, seen[b]) }
__global__ void volatile_partials_of_block(ARGS) { PARTIALS(__threadfence_block(), part[b]) }
__global__ void volatile_partials_past_l1(ARGS) { PARTIALS(, __ldcg(part + b)) }
__global__ void volatile_partials_late_fence(ARGS) { PARTIALS(, seen[b], __threadfence(), seen[100] = 1) }
__global__ void volatile_flag(ARGS) { volatile float* const flag = part;
    if (threadIdx.x == 0 && blockIdx.x == 0) flag[0] = 7;
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (!flag[0]) {} y[0] = flag[0]; } }
__global__ void volatile_by_two(ARGS) { __shared__ int s; volatile float* const seen = part;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 40) { seen[0] = x[0]; __threadfence(); atomicExch(&s, 1); }
    if (blockIdx.x == 0 && threadIdx.x == 0) { while (!atomicAdd(&s, 0)) {} __threadfence(); seen[1] = 1; }
    if (blockIdx.x == 1 && threadIdx.x == 0) { while (!seen[1]) {} __threadfence(); y[0] = seen[0]; } }
// Blocks that live at the same time read again what they have seen.
__global__ void volatile_again(ARGS) { volatile float* const flag = part; if (threadIdx.x) return;
    if (blockIdx.x == 0) { y[0] = 7; flag[0] = 7; return; }
    while (!flag[0]) {}
    for (int k = 0; k < 32; ++k) if (flag[0] != 7) y[0] = 0; }
"""


@pytest.fixture(scope="module")
def ordered():
    return compiled(ORDERED)


@pytest.mark.parametrize(
    ("entry", "sees"),
    [("volatile_partials", 10), ("volatile_partials_without_fence", 4), ("volatile_partials_of_block", 4),
     ("volatile_partials_past_l1", 4), ("volatile_partials_late_fence", 7),
     ("volatile_flag", 7), ("volatile_again", 7), ("volatile_by_two", 1)],
)  # fmt: skip
def test_a_volatile_value_without_a_fence_behind_it_is_seen_late(ordered, entry, sees):
    """The last of four blocks adds 1, 2, 3 and its own 4, as far as it sees them; who waits for a value sees it."""
    x, part, y = np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    run(ordered, entry, 4, 64, x, part, y, np.int32(256), order="forward", cooperative=entry == "volatile_again")
    assert y[0] == sees


NO_NOTICE = "the second block took no notice of the first one's flag or counter"
LATE = "may set its flag or counter before the write is visible"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        *((right, "") for right in ("chain_acquires", "chain_volatile", "chain_fence", "chain_atomic_fence")),
        *((right, "") for right in ("acquire_release", "by_flag", "own_bins_of_block")),
        *((right, "") for right in ("all_wait", "one_waits_for_all", "one_waits_for_its_warp")),
        *((right, "") for right in ("sees_the_other_flag", "by_a_third_thread", "tells_by_shared", "warps")),
        ("warps_without_barrier", "race on"),
        *((wrong, "race on") for wrong in ("relaxed", "by_flag_without_fence", "cas_of_block", "sees_its_own_flag")),
        ("chain_relaxed_load", NO_NOTICE), ("chain_relaxed_store", LATE), ("chain_fence_of_block", "took no notice"),
        ("own_counter", NO_NOTICE), ("chain_of_block", "an atomic of block scope (_block"),
    ],
)  # fmt: skip
def test_orders_and_scopes_are_those_that_a_kernel_names(ordered, entry, why):
    """A chain's counter, which its blocks read before, is no flag: it shows where several blocks live at once."""
    kept = ("acquire_release", "relaxed", "by_flag", "by_flag_without_fence")  # their flags stay as a launch left them
    orders = ("alternating",) if entry in kept else ("alternating", "forward", "reverse", *range(6))
    found = [said(ordered, entry, order) for order in orders]
    assert any(why in one and bool(one) == bool(why) for one in found)
    assert why or not any(found)


def test_what_one_thread_has_waited_for_is_not_there_for_the_others_before_a_barrier(ordered):
    assert "took no notice of the first one's flag" in said(ordered, "one_waits")  # the others read first
    other = "only other threads of the second block have seen the first one's flag"
    assert other in said(ordered, "one_waits", "forward")


def test_a_launch_of_many_accesses_ends_with_its_result(watched, monkeypatch):
    monkeypatch.setattr("cudalab.host.module.ACCESSES", 100)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    run(watched, "fine_own_bins", 4, 64, x, np.zeros(256, np.float32), y, np.int32(256))
    np.testing.assert_array_equal(y, 2 * (x + 1))


def test_uninitialised_locals_have_a_value_that_shows():
    text = "__global__ void k(float* y) { float s; for (int i = 0; i < 3; ++i) s += 1; y[threadIdx.x] = s; }"
    y = np.zeros(32, np.float32)
    run(host.load(text), "k", 1, 32, y)
    if host.gxx.poison():
        assert np.all(np.abs(y) > 1e30)
        assert host.gxx.poison(races=True) == ("-ftrivial-auto-var-init=zero",)
