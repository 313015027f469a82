"""Sum of all elements in Triton, in one launch.

Each program strides through the array and writes its sum to a table; the program that finishes last adds up the table,
so the order of additions is the same in every run. Table and counter belong to this module: two launches must not run
at the same time.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from cudalab.backends._triton import multiprocessors, tuned

MOST = 2048  # programs


@tuned(
    [
        triton.Config({"BLOCK": block, "HINT": hint, "STAGES": stages, "each": each}, num_warps=warps)
        for block, warps in ((2048, 4), (1024, 4), (4096, 4), (4096, 8), (8192, 8), (8192, 16))
        for hint, stages in (("", 1), ("evict_first", 1), ("", 3))
        for each in (2, 4, 8)  # programs a multiprocessor
    ],
    key=["n"],
)
@triton.jit
def strided(
    x_ptr, y_ptr, sums_ptr, done_ptr, n, each,
    BLOCK: tl.constexpr, HINT: tl.constexpr, STAGES: tl.constexpr, MOST: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    first, step = program * BLOCK, programs * BLOCK
    if LONG:
        first, step = program.to(tl.int64) * BLOCK, programs.to(tl.int64) * BLOCK
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(first, n, step, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, at < n, other=0.0, eviction_policy=HINT).to(tl.float32)
    tl.store(sums_ptr + program, tl.sum(total, axis=0))
    tl.debug_barrier()
    if tl.atomic_add(done_ptr, 1) == programs - 1:  # acquires and releases: the others' sums are visible
        lane = tl.arange(0, MOST)
        sums = tl.load(sums_ptr + lane, lane < programs, other=0.0, cache_modifier=".cg")
        tl.store(y_ptr, tl.sum(sums, axis=0))
        tl.store(done_ptr, 0)


@cache
def table(device):
    """The programs' sums, and the counter of those that are done, which is 0 between launches."""
    return torch.empty(MOST, device=device), torch.zeros(1, dtype=torch.int32, device=device)


def launch(x, y):
    n, most = x.numel(), multiprocessors(x.device)
    strided[lambda values: (max(min(triton.cdiv(n, values["BLOCK"]), values["each"] * most, MOST), 1),)](
        x, y, *table(x.device), n, MOST=MOST, LONG=n > 2**31 - 2**26
    )
