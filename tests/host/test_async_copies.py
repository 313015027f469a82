"""Asynchronous copies, barriers with phases and pipelines: kernels that are right, and their bugs."""

from __future__ import annotations

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


BARE = "pipe.consumer_release();\n        __syncthreads();"
BUGS = [  # entry, what is written, what a mistake makes of it
    ("double_buffer", "__pipeline_wait_prior(1);", ""),
    ("double_buffer", "__pipeline_wait_prior(1);", "__pipeline_wait_prior(2);"),
    ("double_buffer", "__syncthreads();  // ARRIVED", ""),
    ("double_buffer", "__syncthreads();  // READ", ""),
    ("double_buffer", "    __pipeline_commit();\n    float", "    float"),
    ("double_buffer", "sum += tile[i % 2]", "sum += tile[(i + 1) % 2]"),
    ("thread_pipeline", "pipe.consumer_wait();", ""),
    ("thread_pipeline", "        __syncthreads();\n        sum", "        sum"),
    ("thread_pipeline", BARE, "pipe.consumer_release();"),
    ("thread_pipeline", "pipe.producer_commit();", ""),
    ("thread_pipeline", "    fetch(0);\n", "    fetch(0);\n    fetch(1);\n"),
    ("block_pipeline", "pipe.consumer_wait();", ""),
    ("block_pipeline", "pipe.producer_acquire();", ""),
    ("block_pipeline", "pipe.producer_commit();", ""),
    ("block_pipeline", "pipe.consumer_release();", ""),
    ("roles", "pipe.producer_acquire();", ""),
    ("roles", "pipe.consumer_wait();", ""),
    ("roles", "pipe.consumer_release();", ""),
    ("handshake", "bar[i % 2].arrive_and_wait();", ""),
    ("handshake", "bar[i % 2].arrive_and_wait();", "barrier::arrival_token u = bar[i % 2].arrive();"),
    ("handshake", "bar[i % 2 + 2].arrive_and_wait();", ""),
    ("handshake", "block.sync();", ""),
    ("handshake", "block.size());", "TILE);"),
    ("handshake", "if (i + 2 < tiles) barrier", "if (i + 3 < tiles) barrier"),
    ("copy_and_arrive", "bar.arrive_and_wait();", ""),
    ("copy_and_arrive", "bar.arrive_and_wait();", "block.sync();"),
    ("copy_and_arrive", "block.sync();\n    }", "}"),
    ("copy_and_arrive", "init(&bar, blockDim.x);", ""),
    ("copy_and_arrive", "init(&bar, blockDim.x);", "init(&bar, blockDim.x / 2);"),
    ("by_group", "cg::wait_prior<1>(block);", ""),
    ("by_group", "cg::wait_prior<1>(block);", "cg::wait_prior<2>(block);"),
    ("by_group", "cg::wait(block);", ""),
    ("by_group", "        block.sync();\n", ""),
]


@pytest.fixture(scope="module")
def mistaken() -> host.Module:
    head = SOURCE[: SOURCE.index("// Double buffering")] + "using barrier = cuda::barrier<cuda::thread_scope_block>;\n"
    return on_cpu.mistaken(SOURCE, BUGS, head)


def wrong(mistaken, bug, order):
    try:
        return not is_right(mistaken, BUGS[bug][0], TILES, order, f"bug_{bug}")
    except LaunchError:
        return True


@pytest.mark.parametrize("bug", range(len(BUGS)), ids=[f"{entry}: {right} {wrong}" for entry, right, wrong in BUGS])
def test_a_bug_gives_a_wrong_result_or_an_error(mistaken, bug):
    """In one of the orders that a check tries; a shuffled one lets some copies land at once."""
    assert any(wrong(mistaken, bug, order) for order in ORDERS)


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        (("double_buffer", "    __pipeline_commit();\n    float", "    float"), "destination of this asynchronous"),
        (("copy_and_arrive", "init(&bar, blockDim.x);", ""), "a barrier that is not initialized: let one thread"),
        (("roles", "pipe.consumer_release();", ""), r"128 have returned, 32 wait for a phase of .* bugs.cu:\d+"),
    ],
)
def test_what_is_said_of_a_bug(mistaken, bug, says):
    with pytest.raises(LaunchError, match=says):
        is_right(mistaken, bug[0], TILES, "alternating", f"bug_{BUGS.index(bug)}")


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ENTRIES)
def test_right_copies_are_no_races(entry):
    """A barrier, a pipeline and a wait order what is before them."""
    module = compiled(SOURCE)
    assert all(is_right(module, entry, TILES, order) for order in ORDERS)
