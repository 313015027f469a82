"""Blocks that live at the same time: cooperative launches, clusters; and cooperative groups of lanes."""

from __future__ import annotations

import re

import numpy as np
import on_cpu
import pytest
from on_cpu import run

from cudalab import host
from cudalab.base.errors import InputError, LaunchError, NotFound, OverrunError

LAUNCH = on_cpu.DATA / "launch"
CONSTANTS, GRID, CLUSTER, POLL = (
    (LAUNCH / name).read_text() for name in ("constants.cu", "grid_sync.cu", "cluster.cu", "poll.cu")
)
CU, ORDERS = "groups.cu", ("alternating", "forward", "reverse", 7)


@pytest.fixture(scope="module")
def grid():
    return host.load(GRID, name="grid_sync.cu")


@pytest.fixture(scope="module")
def cluster():
    return host.load(CLUSTER, name="cluster.cu")


def normalized(module, order, blocks=20, entry="normalize", **how):
    x = np.random.default_rng(0).random(5000, dtype=np.float32)
    partial = np.full(blocks, np.nan, np.float32)
    y = run(module, entry, blocks, 128, np.zeros_like(x), partial, x, np.int32(x.size), order=order, **how)
    return np.allclose(y, x / x.sum(), rtol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_a_grid_that_waits_for_itself(grid, rng, order):
    assert normalized(grid, order, cooperative=True)
    a = rng.random(999, dtype=np.float32)
    expected = a.copy()
    for _ in range(3):
        expected = 0.25 * np.roll(expected, 1) + 0.5 * expected + 0.25 * np.roll(expected, -1)
    run(grid, "smooth", 3, 64, a, np.zeros_like(a), np.int32(999), np.int32(3), cooperative=True, order=order)
    np.testing.assert_allclose(a, expected, rtol=1e-5)


def test_without_a_cooperative_launch_the_barrier_says_what_to_write(grid):
    with pytest.raises(LaunchError, match=r"grid_sync.cu:21: .*write Launch\(..., cooperative=True\)"):
        normalized(grid, "forward")


def test_a_grid_that_no_gpu_holds_at_once_is_refused_with_the_number(grid):
    with pytest.raises(LaunchError, match="of 2113 blocks of 128 threads is too large: a GPU holds 2112 of them"):
        normalized(grid, "forward", blocks=132 * 16 + 1, cooperative=True)


@pytest.fixture(scope="module")
def grid_bugs():
    return on_cpu.mistaken(LAUNCH / "grid_sync.cu")


@pytest.mark.parametrize("bug", on_cpu.mistakes(LAUNCH / "grid_sync.cu"), ids=str)
def test_a_grid_that_cannot_go_on_is_diagnosed_and_a_missing_barrier_noticed(grid_bugs, bug):
    if not bug.says:
        assert not any(normalized(grid_bugs, order, entry=bug.name, cooperative=True) for order in ORDERS)
        return
    with pytest.raises(LaunchError, match=bug.says):
        normalized(grid_bugs, "forward", entry=bug.name, cooperative=True)


def test_a_barrier_made_of_atomics(module):
    state, part, out = np.zeros(1, np.uint32), np.zeros(9, np.int32), np.zeros(9, np.int32)
    run(module, "by_atomics", 9, 64, state, part, out, cooperative=True)
    np.testing.assert_array_equal(out, 36 + np.arange(9))


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.sweep)], ids=["plain", "races"])
def poll(request):
    return on_cpu.watched(POLL) if request.param else host.load(POLL)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("entry", "how"),
    [
        ("by_volatile", {"cooperative": True}), ("by_atomic", {"cooperative": True}), ("both", {"cooperative": True}),
        ("in_cluster", {"cluster": (2,)}), ("by_volatile", {}), ("by_atomic", {}),
    ],
    ids=["volatile", "atomic", "and a barrier of the grid", "and one of the cluster", "no group", "atomic, no group"],
)  # fmt: skip
def test_blocks_look_at_each_other_s_flags(poll, order, entry, how):
    flag, part, out = np.zeros(8, np.int32), np.zeros(8, np.int32), np.zeros((8, 64), np.int32)
    run(poll, entry, 8, 64, flag, part, out, order=order, **how)
    i = np.arange(8)
    other = i ^ 1 if "cluster" in how else (i + 1) % 8
    np.testing.assert_array_equal(out, np.repeat((i + 1 + other + 1)[:, None], 64, 1))


@pytest.mark.parametrize(("entry", "how"), [("never", {"cooperative": True}), ("never_cluster", {"cluster": (2,)})])
def test_looking_for_ever_beside_a_barrier_is_told(poll, entry, how):
    zeros = [np.zeros(4, np.int32)] * 3
    with pytest.raises(LaunchError, match=r"is stuck: of 64 threads \d+ wait for memory that no thread changes.* at "):
        run(poll, entry, 4, 64, *zeros, **how)


# ---- clusters ----------------------------------------------------------------------------------------------------


def counted(module, order, entry="histogram"):
    x = np.random.default_rng(0).integers(0, 64, 3000, dtype=np.int32)
    args, how = (np.zeros(64, np.int32), x, np.int32(3000), np.int32(16)), {"shared": 64, "cluster": (4,)}
    return (run(module, entry, 8, 64, *args, **how, order=order) == np.bincount(x, minlength=64)).all()


def reversed_(module, order, entry="reverse"):
    x = np.arange(256, dtype=np.float32)
    y = run(module, entry, 4, 64, np.zeros_like(x), x, order=order)
    return (y.reshape(2, 128) == x.reshape(2, 128)[:, ::-1]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_of_a_cluster_use_each_other_s_shared_memory(cluster, order):
    assert counted(cluster, order) and reversed_(cluster, order)


@pytest.fixture(scope="module")
def cluster_bugs():
    return on_cpu.mistaken(LAUNCH / "cluster.cu")


@pytest.mark.parametrize("bug", on_cpu.mistakes(LAUNCH / "cluster.cu"), ids=str)
def test_faults_of_clusters_are_caught(cluster_bugs, bug):
    said, right = [], 0
    for order in ORDERS:
        try:
            right += {"reverse": reversed_, "histogram": counted}[bug.entry](cluster_bugs, order, bug.name)
        except LaunchError as error:
            said.append(str(error))
    assert right < 2  # in a shuffled order a block may happen to begin in time
    assert not bug.says or any(re.search(bug.says, one) for one in said)


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ((32,), "a cluster of 32x1x1 has 32 blocks; every GPU with clusters runs up to 8, and none more than 16"),
        ((3,), "the grid of 8x1x1 blocks is not a multiple of the cluster of 3x1x1"),
        ((0,), "give whole numbers of 1 or more"),
        (None, r"the launch has no cluster, and rank \d is asked for; write Launch\(..., cluster=\(2,\)\)"),
        ((2,), "the cluster has 2 blocks, and no rank"),
    ],
)
def test_clusters_that_do_not_fit(cluster, blocks, says):
    x = np.arange(64, dtype=np.int32)
    with pytest.raises(LaunchError, match=says):
        run(cluster, "histogram", 8, 64, np.zeros_like(x), x, np.int32(64), np.int32(16), shared=64, cluster=blocks)


@pytest.mark.parametrize("order", ORDERS)
def test_the_blocks_of_a_cluster_share_arrays_of_a_type_with_an_initial_value(module, order):
    y = run(module, "other_parts", 2, 32, np.zeros((2, 32), np.float32), cluster=(2,), order=order)
    assert (y == np.arange(32) + np.array([[100], [0]])).all()
    assert not (run(module, "first_parts", 1, 32, np.zeros(32, np.float32), order=order) == 7).any()


def test_code_for_sm_90_runs_where_there_are_clusters(module):
    assert run(module, "ranks", 4, 1, np.zeros(4, np.int32), cluster=(2,)).tolist() == [0, 1, 0, 1]


def test_a_launch_cannot_change_the_cluster_of_the_source(cluster):
    x, says = np.zeros(256, np.float32), r"reverse has __cluster_dims__\(2, 1, 1\), but its launch has cluster=\(4,\)"
    with pytest.raises(LaunchError, match=says):
        run(cluster, "reverse", 4, 64, x, x, cluster=(4,))


# ---- groups of lanes ---------------------------------------------------------------------------------------------


def test_tiles_scans_coalesced_threads_and_partitions():
    x = np.random.default_rng(0).integers(0, 50, 64).astype(np.int32)
    out = run(host.load(on_cpu.source("lanes.cu")), "lanes", 1, 64, np.full((10, 64), -99, np.int32), x)
    i = np.arange(64)
    np.testing.assert_array_equal(out[0], i // 8 % 4 * 100 + 4 * 10 + i % 8)
    np.testing.assert_array_equal(out[1], x.reshape(8, 8).cumsum(1).reshape(-1))
    np.testing.assert_array_equal(out[2], (x.reshape(2, 32).cumsum(1) - x.reshape(2, 32)).reshape(-1))
    for warp in range(2):
        here = slice(32 * warp, 32 * warp + 32)
        w = x[here]
        thirds = w % 3 == 0
        np.testing.assert_array_equal(out[3, here][thirds], thirds.sum() * 100 + np.arange(thirds.sum()))
        np.testing.assert_array_equal(out[3, here][~thirds], -(~thirds).sum())
        assert set(out[4, here][thirds]) == {w[thirds].max()} and set(out[4, here][~thirds]) == {w[~thirds].min()}
        assert set(out[5, here][thirds]) == {w[thirds][1]}
        labels = w % 4
        np.testing.assert_array_equal(out[6, here], np.bincount(labels, minlength=4)[labels] * 10 + len(set(labels)))
    odd = (x % 2).reshape(8, 8)
    total = odd.sum(1, keepdims=True)
    np.testing.assert_array_equal(out[7].reshape(8, 8), np.where(odd, total, 8 - total))
    np.testing.assert_array_equal(out[8].reshape(8, 8), np.repeat(2 * x.reshape(8, 8)[:, 3:4], 8, 1))
    np.testing.assert_array_equal(out[9], 40 + i % 4)


# ---- constants ---------------------------------------------------------------------------------------------------


def test_constants_are_set_and_keep_what_the_source_gives_them():
    module = host.load(CONSTANTS)
    x = np.arange(8, dtype=np.float32)
    module.set_constant("weights", np.array([1, 2, 3], np.float32))
    y = run(module, "filter", 1, 8, np.zeros_like(x), x, np.int32(8))
    np.testing.assert_array_equal(y, np.convolve(x, [3, 2, 1], "same"))
    module.set_constant("bias", np.float64(10))
    module.set_constant("params::options", np.array([0, 20], np.float32))
    y = run(module, "filter", 1, 8, np.zeros_like(x), x, np.int32(8))
    np.testing.assert_array_equal(y, np.minimum(np.convolve(x, [3, 2, 1], "same") + 10, 20))


def test_a_kernel_that_writes_to_a_constant_is_refused_and_the_value_stays():
    module = host.load(
        "__constant__ int seen[2] = {1, 2};\n"
        "__global__ void k(int* y, int how) { y[0] = seen[1]; if (how) const_cast<volatile int*>(seen)[1] = 7; }"
    )
    for value in (2, 5):
        with pytest.raises(
            OverrunError, match="k: writes to its __constant__ variable 'seen', which a kernel may only"
        ):
            run(module, "k", 1, 1, np.zeros(1, np.int32), np.int32(1))
        assert run(module, "k", 1, 1, np.zeros(1, np.int32), np.int32(0)) == value
        module.set_constant("seen", np.array([1, 5], np.int32))


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("wights", np.ones(3), NotFound, "no __constant__ variable named 'wights'; did you mean 'weights'"),
        ("weights", np.ones(4, np.float32), InputError, r"got 16 bytes \(shape \(4,\)\), and it has 12 bytes \(3 elem"),
        ("weights", np.ones(3), InputError, "got float64, and its elements are 32-bit floating point numbers"),
        ("shift", np.float32(1), InputError, "got float32, and its elements are 32-bit integers"),
    ],
)
def test_a_constant_that_does_not_fit(name, value, error, says):
    with pytest.raises(error, match=says):
        host.load(CONSTANTS).set_constant(name, value)
