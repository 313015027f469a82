"""In a shuffled order threads are interrupted before atomic operations: updates get lost where a GPU may lose them."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import error_of, run

from cudalab import host

CU = "contention.cu"
BLOCKS, THREADS = 13, 64  # no multiple of the blocks that live at the same time
SEEDS = (3, 4, 5)
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
    y = run(module, "counts_blocks", (7, 5, 3), 4, np.zeros(106, np.int32), order=9)
    assert y[105] == 105 and y[:105].min() >= 1


# ---- under the race detector -----------------------------------------------------------------------------------------


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
