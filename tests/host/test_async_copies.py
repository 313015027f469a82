"""Asynchronous copies, barriers with phases and pipelines: kernels that are right, and their bugs."""

from __future__ import annotations

import re

import numpy as np
import on_cpu
import pytest
from on_cpu import ORDERS, aligned, run, source
from on_cpu import watched as compiled

from cudalab import host
from cudalab.base.errors import LaunchError

CU = "copies.cu"
SOURCE = source(CU)
TILE, TILES = 128, 7
THREADS = {"roles": 160, "handshake": 256}
ENTRIES = (
    *("double_buffer", "thread_pipeline", "block_pipeline", "roles", "handshake"),
    *("copy_and_arrive", "by_group"),
)


def is_right(module, entry, tiles, order, name=""):
    """Whether an entry of the file is; `name`: that of its copy with a bug."""
    x, y = aligned(np.zeros(tiles * TILE, np.float32)), np.zeros(TILE, np.float32)
    x[:] = np.random.default_rng(tiles).integers(-9, 9, x.size)
    shared = 3 * 4 * TILE if entry == "block_pipeline" else 0
    run(module, name or entry, 1, THREADS.get(entry, TILE), x, y, np.int32(tiles), shared=shared, order=order)
    weights = np.arange(1, tiles + 1)[:, None]
    return bool((y == (x.reshape(tiles, TILE)[:, ::-1] * weights).sum(0)).all())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_tiles_that_are_fetched_while_others_are_summed(module, entry, order):
    assert all(is_right(module, entry, tiles, order) for tiles in (1, 2, TILES))


@pytest.mark.parametrize("order", ORDERS)
def test_a_tail_of_zeros_a_bulk_copy_and_threads_that_drop_out(module, order):
    x, y = aligned(np.arange(1, TILE + 1, dtype=np.float32)), np.zeros(TILE, np.float32)
    run(module, "tail", 1, 1, x, y, np.int32(3), order=order)
    assert list(y[:4]) == [1, 2, 3, 0]
    for entry in ("bulk", "c_barrier"):
        y[:] = 0
        run(module, entry, 1, TILE, x, y, order=order)
        np.testing.assert_array_equal(y, x[::-1])
    counts = np.zeros(64, np.int32)
    run(module, "drop_out", 1, 64, counts, np.int32(4), order=order)
    np.testing.assert_array_equal(counts.reshape(16, 4), np.tile([0, 16, 32, 48], (16, 1)))


MISTAKES = on_cpu.mistakes(on_cpu.DATA / "host" / CU)


@pytest.fixture(scope="module")
def mistaken() -> host.Module:
    return on_cpu.mistaken(on_cpu.DATA / "host" / CU)


def outcome(mistaken, bug, order):
    """The error of a launch, or whether its result is wrong."""
    try:
        return "" if is_right(mistaken, bug.entry, TILES, order, bug.name) else "wrong"
    except LaunchError as error:
        return str(error)


@pytest.mark.parametrize("bug", MISTAKES, ids=str)
def test_a_bug_gives_a_wrong_result_or_an_error(mistaken, bug):
    """In one of the orders that a check tries; a shuffled one lets some copies land at once."""
    found = [outcome(mistaken, bug, order) for order in ORDERS]
    assert any(found) and re.search(bug.says, found[0])


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ENTRIES)
def test_right_copies_are_no_races(entry):
    """A barrier, a pipeline and a wait order what is before them."""
    module = compiled(SOURCE)
    assert all(is_right(module, entry, TILES, order) for order in ORDERS)
