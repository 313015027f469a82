"""Threads that wait for other threads and blocks by looking at memory: volatile, atomics, fences."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import ORDERS, run, source

from cudalab import host
from cudalab.base.errors import LaunchError, NotOnCpu

CU = "lookback.cu"


def zeros(n: int = 1) -> np.ndarray:
    return np.zeros(n, np.int32)


def scan(module: host.Module, x: np.ndarray, order: host.Order) -> np.ndarray:
    y, blocks = np.zeros_like(x), -(-x.size // 256)
    state = [zeros(), zeros(blocks), zeros(blocks), zeros(blocks)]
    run(module, "scan", blocks, 256, x, y, np.int32(x.size), *state, order=order)
    return y


@pytest.mark.parametrize("order", ORDERS)
def test_a_decoupled_look_back_scan(module, order):
    x = np.random.default_rng(0).integers(-50, 50, 5000, dtype=np.int32)
    np.testing.assert_array_equal(scan(module, x, order), np.cumsum(x))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("sum += sums[b];", ""),
        pytest.param("before = sum;", "", marks=pytest.mark.sweep),
        pytest.param("flags[block] = SUM;", "flags[block] = PREFIX;", marks=pytest.mark.sweep),
    ],
)
def test_a_wrong_look_back_is_wrong(right, wrong):
    module = host.load(source(CU).replace(right, wrong), name=CU)
    x = np.random.default_rng(0).integers(1, 50, 5000, dtype=np.int32)
    # Which blocks still have their sum alone when others look depends on the system's threads: one round may miss it.
    assert any((scan(module, x, order) != np.cumsum(x)).any() for _ in range(30) for order in ORDERS)


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_that_have_not_started_start_for_one_that_waits(module, order):
    y = zeros(40)
    run(module, "chain", 40, 32, y, zeros(40), order=order)
    np.testing.assert_array_equal(y, np.cumsum(np.arange(40)))
    x, y = np.arange(640, dtype=np.int32), zeros(640)
    run(module, "all_blocks", 20, 32, y, x, np.zeros(1, np.uint32), order=order)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("order", ORDERS)
def test_threads_of_a_block_wait_for_each_other(module, order):
    y = zeros()
    run(module, "neighbour", 1, 96, y, zeros(), order=order)
    assert y[0] == 96
    y = zeros()
    run(module, "locked", 7, 128, y, zeros(), order=order)
    assert y[0] == 28


HANDED = ("by_shuffle", "by_vote", "by_count", "by_shared_memory", "by_many_flags")


@pytest.mark.parametrize("setter", [0, 9], ids=["first", "last"])
@pytest.mark.parametrize("entry", HANDED)
def test_a_block_that_hands_on_what_it_sees_lets_others_run(module, entry, setter):
    for order, how in (("forward", {}), ("reverse", {}), ("forward", {"cooperative": True}), (3, {})):
        y = run(module, entry, 10, 64, zeros(640), zeros(64), np.int32(setter), order=order, **how)
        assert y.all()


@pytest.mark.sweep
def test_waiting_without_end_is_told_and_does_not_hang(module):
    with pytest.raises(
        LaunchError, match=r"is stuck: of 64 threads 64 wait for memory that no thread changes.*(lookback.cu:96|\?)$"
    ):
        run(module, "never", 3, 64, zeros())
    with pytest.raises(LaunchError, match=r"is stuck: of 64 threads 64 wait for memory that no thread changes"):
        run(module, "stores_and_waits", 1, 64, zeros(), zeros())
    says = (
        r"is stuck: of 1024 threads 1 wait .* at (lookback.cu:50|\?); other blocks have not started: .* its number by"
    )
    with pytest.raises(LaunchError, match=says):
        run(module, "chain", 100, 1024, zeros(100), zeros(100), order="reverse")


def test_a_load_past_l1_and_a_fence_let_others_run(module):
    y = zeros()
    run(module, "past_l1", 1, 2, zeros(2), y)
    assert y[0] == 7


def test_lanes_in_lockstep_on_shared_memory_are_refused_where_it_shows(module):
    """In global memory `volatile` is what it says."""
    says = r"lookback.cu:\d+: block .*, thread .*: volatile shared memory cannot run on the CPU; .* lockstep"
    with pytest.raises(NotOnCpu, match=says):
        run(module, "lockstep", 1, 64, np.ones(64, np.float32), np.zeros(1, np.float32))
    y = run(module, "only_volatile", 1, 100, zeros(100))
    assert (y == 1).all()
