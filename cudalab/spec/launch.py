"""How an entry is launched: the record `Launch`, and helpers for grids and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.base.errors import InputError
from cudalab.spec.validate import strict

Shape = tuple[int, ...]

MAX_GRID_Y = 65535  # blocks in y, and in z: CUDA's limit, the same on every architecture
BEYOND = 2**18  # rows or columns that the last blocks of a deep grid may count beyond a matrix of 2^32


@strict
@dataclass(frozen=True)
class Launch:
    """Geometry and arguments of one launch.

    `args` follow the order of the `__global__` function's parameters. An array that the launch function received stands
    for its device pointer; every other argument is a NumPy scalar of the parameter's size, such as `np.int64(n)`.
    `shared` is the dynamic shared memory in bytes. `cooperative`: all blocks are resident at once, so that the grid can
    wait for itself (`cg::this_grid().sync()`). `cluster`: the blocks of one cluster, such as (2,). `entry` names the
    `__global__` function of a launch that is one of several; "": the one that the entry is called after.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared: int = 0
    cooperative: bool = False
    cluster: tuple[int, ...] | None = None
    entry: str = ""

    @property
    def dims(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """(grid, block), each padded to three dimensions."""
        grid, block = ((*d, 1, 1)[:3] for d in (self.grid, self.block))
        return grid, block  # type: ignore[return-value]

    @property
    def cluster_dims(self) -> tuple[int, int, int] | None:
        """The cluster, padded to three dimensions; None if the launch asks for none."""
        return None if self.cluster is None else (*self.cluster, 1, 1)[:3]  # type: ignore[return-value]

    @property
    def empty(self) -> bool:
        """Whether the grid has no blocks. CUDA refuses such a launch, so nothing is launched."""
        return 0 in self.grid


def blocks(n: int, per_block: int) -> int:
    """Blocks of `per_block` threads that cover `n` elements (ceiling division)."""
    return -(-n // per_block)


def deep_grid(across: int, down: int) -> tuple[int, int, int]:
    """A grid with `across` blocks in x, and `down` blocks in y and z together, since y alone has 65,535 at most.

    The kernel numbers them blockIdx.z * gridDim.y + blockIdx.y. If y alone cannot hold them, the grid has up to
    gridDim.z - 1 blocks more than `down`, which have nothing to do.
    """
    deep = max(blocks(down, MAX_GRID_Y), 1)
    return across, blocks(down, deep), deep


def counted(n: int, kind: type[np.integer], beyond: int = 0) -> np.integer:
    """`n` as an argument of an integer type, for a kernel that counts up to `beyond` further in it.

    Raises InputError if the type cannot hold that number: NumPy 1 would wrap around silently.
    """
    if n + beyond > np.iinfo(kind).max:
        raise InputError(f"a length of {n:,} does not fit the kernel's {kind.__name__}; give the array in parts")
    return kind(n)


def counted_sides(shape: Shape) -> tuple[np.integer, ...]:
    """The sides of a matrix as `unsigned` arguments, for a kernel on a `deep_grid`, whose last blocks count beyond."""
    return tuple(counted(n, np.uint32, BEYOND) for n in shape)
