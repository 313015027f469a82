"""What the gradients of the norms share: how the rows are divided among teams of threads, and inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cudalab import Launch, blocks, counted, draw
from cudalab.kernels._h200 import MULTIPROCESSORS
from cudalab.kernels._rows import BLOCK, BUSY, WARP, power_of_two

PACK = 16  # bytes
IN_REGISTERS = {2: 2, 4: 1}  # packs of each of the two matrices that a thread has of a row, by the bytes of an element
IN_SHARED_MEMORY, STAGES = 4, {2: 2, 4: 1}  # the same of longer rows, and how many rows are there at a time
THREADS = {2: 512, 4: 1024}  # of a block, at most, and of a multiprocessor: 128 registers each, or 64
SQUARE = (32, 32)  # threads of a block that adds columns


class Split(NamedTuple):
    """How the rows of a matrix are divided among teams of threads, which take one row after another."""

    grid: int
    together: int  # rows of a block
    threads: int  # of a row
    shared: int  # bytes of a block
    two: bool  # whether a thread has two packs of float32 and twice the registers
    partial: int  # rows of the matrix of partial sums of columns: one for each team, or for each warp of teams


def split(rows, cols, itemsize):
    """All threads run at once on an H200."""
    most, shared = THREADS[itemsize], 0
    packs = 1 if rows * blocks(cols, PACK // itemsize) < BUSY else IN_REGISTERS[itemsize]  # few rows: more threads
    threads = power_of_two(blocks(cols, packs * PACK // itemsize))
    if cols * itemsize > IN_REGISTERS[itemsize] * PACK * most:
        threads = min(power_of_two(blocks(cols, IN_SHARED_MEMORY * PACK // itemsize)), most)
        shared = STAGES[itemsize] * 2 * IN_SHARED_MEMORY * PACK * threads
    threads = min(threads, most)
    two = itemsize == 4 and threads == most and not shared and cols % (PACK // itemsize) == 0
    if two:
        threads = most = most // 2
    together = BLOCK // threads if threads <= WARP else 1
    grid = min(blocks(rows, together), MULTIPROCESSORS * (most // (threads * together)))
    return Split(grid, together, threads, shared, two, grid * together // max(WARP // threads, 1))


def by_rows(arrays, x, eps, name):
    """The launch of kernel `name` that goes through the rows of x; `arrays` end with the partial sums."""
    rows, cols = x.shape
    how = split(rows, cols, x.dtype.itemsize)
    arguments = *arrays, np.int64(rows), counted(cols, np.int32), eps
    entry = f"{name}_two" if how.two else f"{name}_vec"
    return Launch((how.grid,), (how.threads, how.together), arguments, shared=how.shared, entry=entry)


def add_partial(arrays, x, entry, sums=1):
    """The launch that adds the partial sums of `by_rows`."""
    rows, cols = x.shape
    return by_columns(arrays, np.int32(split(rows, cols, x.dtype.itemsize).partial), cols, entry, sums)


def by_columns(arrays, rows, cols, entry, sums=1):
    """The launch that adds `rows` rows of each column; `sums`: how many vectors result."""
    return Launch((blocks(cols, 32), sums), SQUARE, (*arrays, rows, counted(cols, np.int32)), entry=entry)


def partial_rows(shape):
    """Rows of the matrix of partial sums of columns that are enough for every dtype."""
    return max(split(*shape, size).partial for size in THREADS)


def gradient_matrix_row(shape, dtype, rng, small):
    """A gradient, a matrix and a row, standard normal, except one row of the matrix, which is `small` times that."""
    dy, x = draw(shape, dtype, rng), draw(shape, dtype, rng)
    x[1:2] *= small
    return dy, x, draw(shape[1:], dtype, rng)
