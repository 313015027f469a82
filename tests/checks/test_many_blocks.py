"""Sizes whose grid has many blocks: which dimension is made longer, how far, and what is not tried."""

from __future__ import annotations

import os
import signal
import time
from operator import itemgetter

import numpy as np
import pytest
from cpu_rows import cpu_rows
from small_groups import planned
from specs import spec

from cudalab import Budget, Launch, blocks, host
from cudalab.base.errors import Unavailable
from cudalab.checks import many_blocks
from cudalab.engine.groups import MANY, Group, Work
from cudalab.spec import find
from cudalab.spec.dtype import dtype

F32 = dtype("float32")
CU = """__global__ void k(const float* x, float* y, int n) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n && threadIdx.x < 64; i += gridDim.x * 64) y[i] = x[i];
}
"""


def launched(grid, threads=64, **how):
    def launch(x, y):
        return Launch(tuple(grid(*x.shape)), (threads,), (x, y, np.int32(x.size)), **how)

    return launch


def in_64s(n):
    return (blocks(n, 64),)


def kernel(tmp_path, grid=in_64s, threads=64, cu=CU, **more):
    fields = {"sizes": {"small": (1000,)}, "edges": ((1,), (63,)), "entries": {"k": launched(grid, threads)}}
    return spec(tmp_path, **{"cu": cu, **fields, "budgets": Budget(0), **more})


def found(k, tried=None):
    shapes, lacking = many_blocks.shapes(k, F32, [*k.edges, next(iter(k.sizes.values()))] if tried is None else tried)
    return list(shapes), lacking


def blocks_at(k, shape, entry="k"):
    x = np.empty(shape, np.float32)
    return k.launches(entry, {"x": x, "y": x})[0].dims[0]


def test_launch_functions_that_fail_leave_the_others_and_this_process_alone(tmp_path):
    def exits(x, y):
        os._exit(3)

    def raises(x, y):
        raise ZeroDivisionError

    def slow(x, y):
        time.sleep(0.6)
        return right(x, y)

    right = launched(in_64s)
    entries = {"exits": exits, "raises": raises, "slow": slow, "k": right}
    cu = CU + "".join(CU.replace("k(", f"{name}(") for name in entries if name != "k")
    ((n,), *_), lacking = found(kernel(tmp_path, cu=cu, entries=entries))
    assert blocks(n, 64) > 256
    assert lacking == {"slow": f"{many_blocks.NOT_SOUGHT}: its launch function took more than 1 s"}


@pytest.mark.parametrize("how", ["kill", "sleep"])
def test_launch_functions_that_take_their_process_down(tmp_path, monkeypatch, how):
    monkeypatch.setattr(many_blocks, "SEARCH", 1.0)

    def launch(x, y):
        os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else time.sleep(30)

    shapes, lacking = found(kernel(tmp_path, entries={"k": launch}))
    assert not shapes
    assert lacking["k"].startswith(f"{many_blocks.NOT_SOUGHT}: ")


def cut_off(n):
    if n > 64 * 256:
        raise ValueError("too long")
    return (blocks(n, 64),)


def square(n, m):
    return (blocks(n * m, 64),)


def of_two(first, second):
    """Fields of two sizes, which have something in common."""
    return {"grid": square, "sizes": {"small": first}, "edges": (second,)}


def allowed(rule, size=48):
    return {"shapes": {"x": "n"}, "dims": {"n": rule}, "sizes": {"small": (size,)}, "edges": ()}


ROWS = {"grid": lambda rows, cols: (rows,)}
SIZES = {  # a kernel, and what holds of the one size that is added
    "just above 256 blocks": ({}, lambda n: 288 <= blocks(n, 64) <= 320),
    "above 1024 where the spec has as many": (
        {"sizes": {"small": (1000,), "large": (1 << 24,)}}, lambda n: 1152 <= blocks(n, 64) <= 1300),
    "above 2^16": (
        {**ROWS, "threads": 32, "sizes": {"small": (9, 20), "large": (1 << 20, 20)}, "edges": ()},
        lambda rows, cols: rows > 1 << 16 and cols == 20),
    "rows": (
        {**ROWS, "sizes": {"small": (8, 300)}, "edges": ((1, 1), (3, 31), (5, 1023))},
        lambda rows, cols: 257 <= rows < 320 and cols in (31, 300, 1023)),
    "powers of 2": (of_two((64, 3), (1024, 5)), lambda n, m: n * m > 1 << 14 and n & (n - 1) == 0),
    "multiples of 4": (of_two((12, 3), (20, 5)), lambda n, m: n * m > 1 << 14 and n % 4 == 0),
    "always 3": (of_two((12, 3), (20, 3)), lambda n, m: n * m > 1 << 14 and m == 3),
    "twice as many": (of_two((12, 6), (20, 10)), lambda n, m: n * m > 1 << 14 and n == 2 * m),
    "beyond the end of the grid": ({"grid": lambda n: (min(blocks(n, 64), 100),)}, lambda n: 6400 < n < 8000),
    "a multiple of 24": (allowed("multiple of 24"), lambda n: n % 24 == 0 and 288 <= n // 64 < 320),
    "a power of 2": (allowed("power of 2", 32), lambda n: n == 1 << 15),
    "one of few": (allowed("one of 24, 48, 40000, 60000"), lambda n: n in (40_000, 60_000)),
    "at most": (allowed("at most 16448"), lambda n: 256 * 64 < n <= 16_448),
}  # fmt: skip
NO_SIZE = {
    "one that is tried has as many": {"sizes": {"small": (64 * 300,)}},
    "the grid is the same for all": {"grid": lambda n: (8,)},
    "dims allows none with so many": allowed("at most 16384", 1000),  # 16,384 elements are 256 blocks
    "the launch function refuses it": {"grid": cut_off},
}


@pytest.mark.parametrize(("fields", "holds"), SIZES.values(), ids=SIZES)
def test_a_size_is_added(tmp_path, fields, holds):
    (shape,), lacking = found(kernel(tmp_path, **fields))
    assert holds(*shape) and not lacking


@pytest.mark.parametrize("fields", NO_SIZE.values(), ids=NO_SIZE)
def test_no_size_is_added(tmp_path, fields):
    assert found(kernel(tmp_path, **fields)) == ([], {})


def test_a_size_is_added_where_none_is_tried(tmp_path):
    assert found(kernel(tmp_path, sizes={"small": (64 * 300,)}), [])[0]


def test_each_direction_of_a_grid_is_made_longer(tmp_path):
    tiles = kernel(tmp_path, lambda m, n: (blocks(n, 8), blocks(m, 8)), sizes={"small": (40, 60)}, edges=((3, 7),))
    wide, high = sorted(found(tiles)[0])
    assert blocks_at(tiles, wide)[0] > 256 >= blocks_at(tiles, wide)[1]
    assert blocks_at(tiles, high)[1] > 256 >= blocks_at(tiles, high)[0]


def test_what_is_too_large_for_the_cpu_is_said(tmp_path):
    k = kernel(tmp_path, lambda n: (blocks(n, 1 << 18),))
    shapes, lacking = found(k)
    assert not shapes
    assert lacking["k"].startswith("no size with more than 256 blocks is small enough for a check on the CPU: ")
    (case,) = cpu_rows(with_many(k)[0], "host")
    assert (case.status, case.reason) == ("skipped", lacking["k"])


def test_each_entry_gets_many_blocks(tmp_path):
    entries = {"k": launched(in_64s), "half": launched(lambda n: (blocks(n, 128),))}
    k = kernel(tmp_path, entries=entries, cu=CU + CU.replace("void k", "void half"))
    (shape,), _ = found(k)  # one for both
    assert blocks_at(k, shape, "k")[0] > blocks_at(k, shape, "half")[0] > 256


def all_pairs(x):
    return np.abs(x[:, None] - x).sum(axis=1)


def by_loops(x):
    found = np.empty_like(x)
    for i in range(len(x)):
        found[i] = sum(abs(one - x[i]) for one in x)
    return found


@pytest.mark.parametrize(("reference", "takes"), [(all_pairs, " GB of memory"), (by_loops, " s")])
def test_a_reference_that_grows_too_fast_is_not_computed(tmp_path, reference, takes):
    said = many_blocks.too_slow(kernel(tmp_path, reference=reference), F32, (64 * 300,))
    assert said.startswith("the reference takes ") and said.endswith(f"{takes} at this size")
    assert many_blocks.too_slow(kernel(tmp_path), F32, (64 * 300,)) == ""


# ---- in a check ------------------------------------------------------------------------------------------------------


def with_many(k):
    return [group for group in planned(k) if group.values == MANY]


with_compiler = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")


@with_compiler
def test_a_block_index_of_8_bits_is_wrong_there_and_says_who_chose_the_size(tmp_path):
    (group,) = with_many(kernel(tmp_path))
    (case,) = cpu_rows(group, "host")
    assert case.status == "ok" and case.size.endswith(" blocks") and case.size.startswith(f"{group.shape[0]}, ")
    (tmp_path / "narrow").mkdir()
    narrow = kernel(tmp_path / "narrow", cu=CU.replace("int i = blockIdx.x * 64", "int i = (blockIdx.x & 255) * 64"))
    (case,) = cpu_rows(with_many(narrow)[0], "host")
    assert case.status == "WRONG" and "never written" in case.reason
    assert case.reason.endswith("If the kernel takes no such size, let its launch function raise an error)")


@with_compiler
def test_a_launch_that_takes_too_long_gets_no_verdict(tmp_path, monkeypatch):
    (group,) = with_many(kernel(tmp_path))
    monkeypatch.setattr(many_blocks, "LIMIT", 0.0)
    (case,) = cpu_rows(group, "host")
    assert case.status == "skipped" and case.reason.endswith("blocks takes more than 0 s on the CPU")
    module = host.load(CU)
    x = np.ones(64, np.float32)
    with pytest.raises(Unavailable, match=r"^k: a launch of 9 blocks takes more than 0 s on the CPU$"):
        module.launch("k", (9, 1, 1), (64, 1, 1), [x, np.zeros_like(x), np.int32(64)], limit=0)
    module.launch("k", (9, 1, 1), (64, 1, 1), [x, np.zeros_like(x), np.int32(64)])


def test_the_reason_goes_with_the_group_to_a_worker(tmp_path, monkeypatch):
    group = Group(kernel(tmp_path), MANY, (), F32, values=MANY, why=(("k", "too large"),))
    monkeypatch.setattr(find, "kernel", lambda path: group.kernel)
    assert Work.on(group).group().why == group.why != ()


# ---- a grid that stops growing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "tried", "how"),
    [
        *(
            (cap, cap > 15, {}) for cap in (2, 17, 200, 1024, 3000)
        ),  # 1,000 elements, which are tried anyway, are beyond
        *((cap, True, {"cooperative": True}) for cap in (32, 132)),
        (1 << 30, False, {"cooperative": True}),
    ],
)
def test_a_grid_with_an_end_is_tried_beyond_what_it_covers(tmp_path, cap, tried, how):
    k = kernel(tmp_path, entries={"k": launched(lambda n: (min(blocks(n, 64), cap),), **how)})
    shapes, lacking = found(k)
    past = [n for (n,) in shapes if n > 64 * cap]
    assert bool(past) == tried and not lacking
    assert all(blocks_at(k, (n,)) == (cap, 1, 1) for n in past) and max(past, default=0) < 2 * 64 * cap


@pytest.mark.parametrize("caps", [(64, 64), (4, 4), (100, 1), (1, 9), (64, 1 << 20)])
def test_each_direction_of_a_grid_with_an_end_is_tried_beyond_it(tmp_path, caps):
    k = kernel(
        tmp_path, lambda h, w: (min(blocks(w, 32), caps[0]), min(blocks(h, 8), caps[1])),
        sizes={"small": (30, 40), "large": (4096, 4096)}, edges=((1, 1), (2, 33), (17, 3)),
    )  # fmt: skip
    shapes, _ = found(k)
    for axis, (cap, block) in enumerate(zip(caps, (32, 8), strict=True)):
        if cap < 1 << 20:
            assert cap == 1 or any(shape[1 - axis] > cap * block for shape in shapes), (axis, shapes)


def test_no_size_is_added_where_one_of_the_spec_is_beyond_or_the_grid_has_no_end(tmp_path):
    def past(cap, **more):
        grids = many_blocks._Grids(kernel(tmp_path, lambda n: (min(blocks(n, 64), cap),), **more), F32)
        ways = list(many_blocks.every_way(grids._kernel))
        goal = many_blocks.Goal(("k",), many_blocks.CAP, itemgetter(0))
        return many_blocks._past_cap(grids, goal, ways, [(100_000,)])

    assert past(2000) is not None
    assert past(1000) is None  # 100,000 elements are more than 64,000
    assert past(1 << 30) is None and past(1) is None


def test_a_loop_that_is_missing_beyond_the_grid_is_wrong(tmp_path):
    lost = CU.replace("for (int", "{ int").replace("; i < n && threadIdx.x < 64; i += gridDim.x * 64)", "; if (i < n)")
    right, wrong = (
        kernel(tmp_path / name, lambda n: (min(blocks(n, 64), 300),), cu=cu)
        for name, cu in (("right", CU), ("wrong", lost.replace("y[i] = x[i];", "y[i] = x[i]; }")))
        if not (tmp_path / name).mkdir()
    )
    shape = max(found(right)[0])
    for k, status in ((right, "ok"), (wrong, "WRONG")):
        group = Group(k, "x", shape, F32, values=MANY, awkward=True)
        (row,) = cpu_rows(group, "host")
        assert row.status == status, row.reason
    assert "is a loop missing where the grid no longer grows?" in row.reason
