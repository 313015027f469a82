"""Launches of kernels that keep a row of a matrix in the registers of the threads that share it: `common/team.cuh`."""

from __future__ import annotations

from typing import Any

from cudalab import Launch, blocks, compute_capability, deep_grid

BLOCK = 128  # threads of a block that several rows share, each with a warp or less
BUSY = 2**16  # threads that keep the memory of a large GPU busy, half of what an H200 holds at 64 registers
WARP, MOST = 32, 1024  # threads of a warp, and of a block at most
HALF = 512  # threads of a block of a cluster, so that two blocks fit on a multiprocessor
SHARERS = 8  # blocks of a cluster, at most: every GPU that has clusters runs as many
HELD = 32  # elements of float32 that a thread keeps in registers; twice as many of 16 bits, two in a register
LONG = 1024  # columns above which a thread keeps so many of 16 bits


def held(cols: int, itemsize: int) -> int:
    """The most elements of a row that a thread keeps in registers, where they stay as they lie in memory."""
    return 2 * HELD if itemsize == 2 and cols > LONG else HELD


def threads_of(rows: int, cols: int, itemsize: int, held: int) -> int:
    """A power of two: `held` elements a thread, fewer for few rows, at least one pack of 16 bytes."""
    while held * itemsize > 16 and rows * blocks(cols, held) < BUSY:
        held //= 2
    return min(power_of_two(blocks(cols, held)), MOST)


def shared(rows: int, threads: int) -> tuple[tuple[int], tuple[int, int]]:
    """Grid and block for `threads` threads a row; rows with a warp or less share a block."""
    together = BLOCK // threads if threads <= WARP else 1
    return (blocks(rows, together),), (threads, together)


def clustered(rows: int, cols: int, held: int, args: tuple[Any, ...], block: int = HALF) -> Launch:
    """A launch in which 2 to 8 blocks share a row, with `held` elements a thread if that is enough.

    Blocks have `block` threads, fewer for short rows and more where 8 blocks hold too little.
    """
    threads = power_of_two(blocks(cols, held))
    sharers = min(max(threads // block, 2), SHARERS)
    block = min(max(threads // sharers, WARP), MOST)
    return Launch(deep_grid(sharers, rows), (block,), args, cluster=(sharers,))


def clusters() -> bool:
    """Whether the GPU has clusters, as those from sm_90 on do. True without a GPU: the CPU imitates them."""
    found = compute_capability()
    return found is None or found >= (9, 0)


def power_of_two(n: int) -> int:
    """The least that is not below `n`."""
    return 1 << (n - 1).bit_length()
