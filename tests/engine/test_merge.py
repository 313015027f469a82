"""One row of what several processes found for a variant."""

from __future__ import annotations

import pytest

from cudalab.engine.merge import merged
from cudalab.results import record
from cudalab.results.record import Case, Parity


def case(label="pycuda:a", times=None, **fields):
    backend, _, variant = label.partition(":")
    times = {"cold": [[1.0]]} if times is None else times
    return Case("k", "s", (4,), "float32", backend, variant, times=times, **fields)


def one(*cases, needed=3):
    (row,) = merged([[c] if c else [] for c in cases], 3, needed)
    return row


def test_rounds_stand_one_process_after_the_other():
    row = one(
        case(times={"cold": [[1.0], [2.0]], "hot": [[5.0]]}),
        case(times={"cold": [[3.0]], "hot": [[6.0]]}),
        case(times={"cold": [[4.0], [4.5]], "hot": [[7.0]]}),
    )
    assert row.times == {"cold": [[1.0], [2.0], [3.0], [4.0], [4.5]], "hot": [[5.0], [6.0], [7.0]]}
    assert (row.processes, row.notes) == ({"cold": [2, 1, 2], "hot": [1, 1, 1]}, [])


def test_a_kind_that_one_process_lacks_is_kept_and_said():
    both = {"cold": [[1.0]], "graph": [[2.0]]}
    row = one(case(times=both), case(notes=["no graph: why"]), case(times=both))
    assert row.times["graph"] == [[2.0], [2.0]]
    assert row.processes == {"cold": [1, 1, 1], "graph": [1, 0, 1]}  # so round i of two rows can be set side by side
    assert row.notes == ["no graph: why", "the graph time is from 2 of 3 processes"]


@pytest.mark.parametrize("status", [record.WRONG, record.IMPOSSIBLE, record.ERROR, record.SKIPPED])
def test_a_row_that_is_bad_in_one_process_has_no_times(status):
    parity = Parity(ok=status != record.WRONG, n=4)
    row = one(case(), case(status=status, reason="because", parity=parity, quantities={"idle_w": 75.0}))
    assert (row.status, row.reason, row.times, row.processes) == (status, "in process 2 of 3: because", {}, {})
    assert (row.parity, row.quantities) == (parity, {})
    row = one(case(status=record.SKIPPED, reason="install it", times={}), None)
    assert (row.status, row.reason, row.processes) == (record.SKIPPED, "install it", {})
    late = case(status=record.WRONG, reason="2 of 4 values differ")
    row = one(case(), case(status=record.ERROR, reason="it failed"), late)  # the worst status is the row's
    assert (row.status, row.reason) == (record.WRONG, "in process 3 of 3: 2 of 4 values differ")


@pytest.mark.parametrize("status", [record.ERROR, record.SKIPPED])
def test_a_process_that_only_helps_and_fails_costs_no_times_of_the_others(status):
    row = one(case(), case(), case(status=status, reason="because", times={}), case(), needed=2)
    assert (row.status, row.times, row.processes) == (record.OK, {"cold": [[1.0]] * 3}, {"cold": [1, 1, 0, 1]})
    assert row.notes == ["no times of process 3, which only helps: because"]
    assert one(case(), case(status=status, times={}), needed=1).notes  # no other process has more times
    assert one(case(), case(status=record.WRONG, times={}), needed=1).status == record.WRONG


def test_the_worst_comparison_is_kept_whole():
    good, bad = Parity(ok=True, n=4, max_ulp=0.5, rel_l2=3e-8), Parity(ok=True, n=4, max_ulp=1.5, rel_l2=2e-8)
    none = Parity(ok=True, n=4, max_ulp=None)
    assert one(case(parity=good), case(parity=bad), case(parity=good)).parity == bad
    assert one(case(parity=good), case(parity=bad), case(parity=none)).parity == none
    near, far = Parity(ok=False, n=4, wrong=1, max_ulp=None, close=True), Parity(ok=False, n=4, wrong=4, max_ulp=99.0)
    assert one(case(parity=near), case(parity=far), case(parity=near)).parity == far
    assert one(case(), case(), case()).parity is None


def test_what_else_a_row_says():
    row = one(
        case(notes=["a"], costs={"bind": 9.0, "timing": 1.0}, quantities={"nodes": 4.0, "bytes": 1.0}),
        case(notes=["a", "b"], costs={"bind": 0.1, "timing": 2.0}, quantities={"nodes": 4.0, "bytes": 3.0}),
        case(notes=["c"], costs={"bind": 0.1, "timing": 3.0}, quantities={"nodes": 4.0, "bytes": 2.0}),
    )
    assert row.notes == ["a", "b", "c"]
    assert row.costs == {"bind": 9.0, "timing": 6.0}  # a later process finds what the first has compiled
    assert row.quantities == {"nodes": 4.0, "bytes": 2.0}


@pytest.mark.parametrize(
    ("reasons", "kept"),
    [(("", "power cap", "thermal slowdown, power cap"), "power cap, thermal slowdown"), (("", "", ""), "")],
)
def test_what_slowed_any_process_down_is_kept(reasons, kept):
    seen = {"sm_hz": 1e9, "power_w": 300.0}
    row = one(*(case("copy", status=record.CEILING, condition=seen | {"throttled": reason}) for reason in reasons))
    assert (row.status, row.condition) == (record.CEILING, seen | {"throttled": kept})
    assert one(case(), case(), case()).condition == {}


def test_rows_keep_the_order_of_the_first_process():
    first = [case("numpy"), case("pycuda:a"), case("pycuda:b", status=record.ERROR, reason="no", times={})]
    rows = merged([first, [case("pycuda:a"), case("numpy")]], 2, 2)
    assert [row.label for row in rows] == ["numpy", "pycuda:a", "pycuda:b"]
    assert rows[0].processes == {"cold": [1, 1]}
