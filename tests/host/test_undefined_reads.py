"""Shuffles that read lanes which take no part: each order gives them another value, and the line is known."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_rows import cpu_rows
from on_cpu import run, source

import cudalab
from cudalab.base.errors import LaunchError
from cudalab.engine.groups import Group
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget, Kernel, Launch

CU, ORDERS = "undefined_reads.cu", ("alternating", "forward", "reverse", 3)


def launched(module, entry, order="alternating", probe=0):
    y = np.zeros(40, np.float32)
    run(module, entry, 1, 40, np.ones(40, np.float32), y, order=order, probe=probe)
    return y


@pytest.mark.parametrize(
    ("entry", "place", "read", "why"),
    [
        ("absent", "3: .*, thread .32", 8, "which does not exist: the block has 40 threads; CUDA leaves"),
        ("returned", "5: .*, thread .0", 1, "which has returned; CUDA leaves"),
        ("unnamed", "7: .*, thread .0", 6, "which is not in the mask 0x0000000f; CUDA leaves"),
    ],
)
def test_a_read_of_a_lane_that_takes_no_part_is_known_by_line_and_thread(module, entry, place, read, why):
    launched(module, entry, "forward")
    (said,) = module.undefined_reads.values()
    assert re.match(rf"{CU}:{place},0,0\): this shuffle reads the value of lane {read}, {why}", said), said


def test_each_order_gives_such_a_read_another_value(module):
    found = [launched(module, "absent", order)[33] for order in ORDERS]
    assert np.isnan(found[0]) and found[1] > 1e30 and found[2] < -1e30 and found[3] == 0
    np.testing.assert_array_equal(launched(module, "absent", "forward")[:24], 1)


def test_a_probe_of_its_line_gives_it_one_more(module):
    assert [launched(module, "absent", order, 3)[33] > 1e30 for order in ORDERS] == [True, False, True, True]
    assert launched(module, "absent", "forward", 4)[33] > 1e30


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entry", ["scan", "votes"])
def test_what_reads_no_such_lane_is_no_such_read(module, entry, order):
    """CUDA asks only the lanes that have not returned to take part."""
    y = launched(module, entry, order)
    assert not module.undefined_reads and "votes" not in module.remarks
    right = np.arange(40) % 32 + 1 if entry == "scan" else np.where(np.arange(40) % 2, 0, [48] * 32 + [12] * 8)
    np.testing.assert_array_equal(y, right)


def test_a_lane_that_does_not_arrive_is_named_with_its_place(module):
    with pytest.raises(LaunchError) as caught:
        launched(module, "elsewhere")
    assert (
        f"1 wait at a warp operation whose mask names lanes that do not arrive, such as thread (35,0,0) at {CU}:16, "
        f"whose mask 0xffffffff names thread (32,0,0), which waits at {CU}:18" in str(caught.value)
    )


# ---- what a row says -------------------------------------------------------------------------------------------------

SUM = source("undefined_sum.cu")


def row(folder, condition, value=1):
    (folder / "k.cu").write_text(SUM.replace("CONDITION", condition))
    kernel = Kernel(
        file=str(folder / "k.py"), summary="k", dtypes=("float32",), sizes={"small": (3, 40)}, edges=((1, 40),),
        reference=lambda x: value * x.sum(axis=1), shapes={"x": "rows cols", "y": "rows"}, budgets=Budget(8, 1e-5),
        entries={"k": lambda x, y: Launch((x.shape[0],), (40,), (x, y))}, outputs={"y": cudalab.Out(fill=0)},
    )  # fmt: skip
    group = Group(kernel, "small", (3, 40), dtype("float32"))
    (found,) = cpu_rows(group, "host")
    return found


@pytest.mark.sweep
def test_a_wrong_row_names_the_read_that_its_result_depends_on_and_no_other(tmp_path):
    right = row(tmp_path, "t % 32 + by < min(32, 40 - t / 32 * 32)")
    assert right.status == "ok" and not right.notes
    undefined = row(tmp_path, "true")
    assert undefined.status == "WRONG" and "; k.cu:6: block (0,0,0), thread (3" in undefined.reason
    other = row(tmp_path, "t % 32 + by < min(32, 40 - t / 32 * 32)", value=2)
    assert other.status == "WRONG" and "k.cu" not in other.reason
