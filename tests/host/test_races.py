"""Races on shared and global memory, fences and scopes: what is one, and what only looks like it."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest
from on_cpu import error_of, run, source
from on_cpu import watched as compiled

from cudalab import host
from cudalab.base.errors import OverrunError

CU = "races.cu"
ORDERS = ("alternating", "forward", "reverse", 3)
BLOCK = r"block \(\d+,0,0\)"
WHO = rf"thread \(\d+,0,0\) of {BLOCK} (?:reads|writes) at races.cu:\d+"
WHERE = {  # what is said of a race, by the place that the line above a kernel names
    "in shared memory": rf"race on 4 bytes of shared memory in {BLOCK}: .*thread .*thread .*, without a barrier betw.*",
    "in a cluster": rf"race on 4 bytes of the shared memory of {BLOCK}: {WHO}, {WHO}, without a barrier of the cluster",
    "in global memory": rf"race on 4 bytes of global memory \(argument \d\): {WHO}(, which .*)?,? .*{WHO}",
    "in a grid": r"race on 4 bytes of global memory \(argument 3\): ",
    "": "race on ",
}
HOW = {"in a grid": {"cooperative": True}, "in a cluster": {"cluster": (2,)}}


class Tried(NamedTuple):
    """A kernel of the file."""

    verdict: str
    where: str
    order: str
    says: str
    entry: str
    lines: set[int]


def tried():
    text = source(CU)
    head = (
        r"^// (right|race)(?: (in [a-z ]+))?(?:, (\w+))?(?:: (.*))?\n__global__ void (\w+)\((?:.|\n)*?(?=^(?://|#|_|$))"
    )
    for found in re.finditer(head, text, re.MULTILINE):
        first = text.count("\n", 0, found.start()) + 1
        lines = {first + i for i, line in enumerate(found[0].splitlines()) if line.endswith("// <-")}
        yield Tried(*(group or "" for group in found.groups()), lines)


TRIED = list(tried())


def said(module, entry, order="alternating", **how):
    """What the race detector says of a launch."""
    x, part, y = np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32), np.zeros(512, np.float32)
    return error_of(module, entry, 4, 64, x, part, y, np.int32(256), order=order, shared=256, **how)


@pytest.mark.parametrize("kernel", TRIED, ids=[one.entry for one in TRIED])
def test_a_race_is_told_with_its_place_and_what_is_in_order_is_none(watched, kernel):
    """A chain's counter, which its blocks read before, is no flag: it shows where several blocks live at once."""
    orders = {"": ORDERS, "sometimes": (*ORDERS, 0, 1, 2, 4, 5, 6)}.get(kernel.order, (kernel.order,))
    found = [said(watched, kernel.entry, order, **HOW.get(kernel.where, {})) for order in orders]
    if kernel.verdict == "right":
        assert not any(found)
        return
    pattern = re.compile(rf"{kernel.entry}: {WHERE[kernel.where]}.*{re.escape(kernel.says)}")
    right = [bool(pattern.match(one)) for one in found]
    assert any(right) if kernel.order == "sometimes" else all(right), found
    for one in found if kernel.lines else ():
        assert {int(line) for line in re.findall(r"races.cu:(\d+)", one)} == kernel.lines


def test_every_kernel_of_the_file_is_tried(watched):
    own = {"late_guard", "late_guard_of_copy", "padding", "one_waits"}
    own |= {entry for entry in watched.entries if entry.startswith("volatile_")}
    assert set(watched.entries) == own | {one.entry for one in TRIED}


@pytest.mark.sweep
@pytest.mark.parametrize(("removed", "wrong"), [(None, ""), (0, "block_sum"), (1, "tree_sum"), (3, "transpose")])
def test_right_kernels_have_none_and_each_missing_barrier_is_one(removed, wrong):
    pieces = source("cooperative.cu").split("__syncthreads();")
    between = [";" if i == removed else "__syncthreads();" for i in range(len(pieces) - 1)]
    module = compiled("".join(piece + barrier for piece, barrier in zip(pieces, [*between, ""], strict=True)))
    x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
    found = {
        "block_sum": error_of(module, "block_sum", 3, 256, out, x, np.int32(5000)),
        "tree_sum": error_of(module, "tree_sum", 2, 256, out, x, np.int32(512), shared=1024),
        "transpose": error_of(module, "transpose", (2, 2), (32, 8), out, x, np.int32(64), np.int32(64)),
    }
    assert not any(found.values()) if removed is None else "race on 4 bytes of shared memory" in found[wrong]


@pytest.mark.parametrize(
    ("entry", "n"), [("fine_atomic", 65), ("late_guard", 64), ("late_guard_of_copy", 64)]
)  # the guard comes after the read
def test_a_read_beside_an_array_is_an_overrun_where_nothing_else_lies_there(watched, monkeypatch, entry, n):
    x, part, y = (np.zeros(4096, np.float32)[1024:1088] for _ in range(3))
    monkeypatch.setattr(watched, "reach", 1024)
    with pytest.raises(OverrunError, match=r"reads 4 bytes outside an array \(argument 1\).*element (64|127) of 64"):
        run(watched, entry, 2, 64, x, part, y, np.int32(n))


def test_an_access_between_two_static_shared_arrays_is_an_overrun(watched):
    run(watched, "padding", 1, 64, np.zeros(64, np.float32), np.int32(0))
    with pytest.raises(OverrunError, match="writes 4 bytes outside an array: between two of its static shared arrays"):
        run(watched, "padding", 1, 64, np.zeros(64, np.float32), np.int32(1))


@pytest.mark.usefixtures("watched")  # compiles the runtime, which is the same
def test_an_access_beyond_the_static_shared_arrays_is_an_overrun():
    module = compiled("""__global__ void next(float* y, int by) { __shared__ float s[64];
        s[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[threadIdx.x + by]; }""")
    run(module, "next", 1, 64, np.zeros(64, np.float32), np.int32(0))
    says = "reads 4 bytes outside an array: 0 bytes beyond its static shared arrays"
    with pytest.raises(OverrunError, match=says):
        run(module, "next", 1, 64, np.zeros(64, np.float32), np.int32(1))


@pytest.mark.parametrize(
    ("entry", "sees"),
    [("volatile_partials", 10), ("volatile_partials_without_fence", 4), ("volatile_partials_of_block", 4),
     ("volatile_partials_past_l1", 4), ("volatile_partials_late_fence", 7),
     ("volatile_flag", 7), ("volatile_again", 7), ("volatile_by_two", 1)],
)  # fmt: skip
def test_a_volatile_value_without_a_fence_behind_it_is_seen_late(watched, entry, sees):
    """The last of four blocks adds 1, 2, 3 and its own 4, as far as it sees them; who waits for a value sees it."""
    x, part, y = np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    run(watched, entry, 4, 64, x, part, y, np.int32(256), order="forward", cooperative=entry == "volatile_again")
    assert y[0] == sees


def test_what_one_thread_has_waited_for_is_not_there_for_the_others_before_a_barrier(watched):
    assert "took no notice of the first one's flag" in said(watched, "one_waits")  # the others read first
    other = "only other threads of the second block have seen the first one's flag"
    assert other in said(watched, "one_waits", "forward")


def test_a_launch_of_many_accesses_ends_with_its_result(watched, monkeypatch):
    monkeypatch.setattr("cudalab.host.module.ACCESSES", 100)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    run(watched, "fine_own_bins", 4, 64, x, np.zeros(256, np.float32), y, np.int32(256))
    np.testing.assert_array_equal(y, 2 * (x + 1))


def test_uninitialised_locals_have_a_value_that_shows():
    text = "__global__ void k(float* y) { float s; for (int i = 0; i < 3; ++i) s += 1; y[threadIdx.x] = s; }"
    y = np.zeros(32, np.float32)
    run(host.load(text), "k", 1, 32, y)
    if host.gxx.poison():
        assert np.all(np.abs(y) > 1e30)
        assert host.gxx.poison(races=True) == ("-ftrivial-auto-var-init=zero",)
