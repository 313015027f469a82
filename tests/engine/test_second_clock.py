"""bench/second_clock.py: the table of the lab's times beside CUPTI's, and what it calls a disagreement."""

from __future__ import annotations

import pytest
import second_clock

from cudalab.report.results import Results
from cudalab.results import record
from cudalab.results.record import Case, Machine


def run(*cases):
    machine = Machine("cuda", "NVIDIA H200")
    return Results(record.FORMAT, record.VERSION, "", {}, machine, cases=list(cases), kind="bench")


def case(size, ours, theirs=None, **more):
    cross = {} if theirs is None else {
        "cupti cold": theirs, "cupti events": ours, "cupti before": ours + 1e-6, "cupti wall": 1.0,
    }  # fmt: skip
    cold = [[ours + 2e-6]]
    return Case("gelu", size, (8,), "float32", "pycuda", "gelu_vec", times={"cold": cold}, cross=cross, **more)


def test_the_table_tells_the_clocks_from_the_processes_and_from_recording():
    found = run(
        case("small", 4.2e-6, 1.7e-6), case("tiny", 3.9e-6, 1.4e-6), case("large", 108e-6, 102e-6), case("odd", 1e-6)
    )
    assert second_clock.start(found) == pytest.approx(2.5e-6)
    assert second_clock.HEAD == ["cold, µs", "cudalab", "before", "recording", "CUPTI", "start", "beyond"]
    assert second_clock.rows(found) == [
        ["`gelu` small `pycuda:gelu_vec`", "6.20", "5.20", "4.20", "1.70", "2.50", ""],
        ["`gelu` tiny `pycuda:gelu_vec`", "5.90", "4.90", "3.90", "1.40", "2.50", ""],
        ["`gelu` large `pycuda:gelu_vec`", "110.00", "109.00", "108.00", "102.00", "6.00", "beyond"],
    ]


def test_lacking_and_disagreeing_rows_are_faults():
    found = run(
        case("small", 4.2e-6, 1.7e-6), case("tiny", 4.2e-6, 1.7e-6), case("large", 97e-6, 100e-6),
        case("odd", 1e-6, notes=["records were lost"]), case("wrong", 1e-6, status=record.WRONG),
    )  # fmt: skip
    assert second_clock.faults(found) == [
        "gelu odd pycuda:gelu_vec: records were lost",
        "gelu large pycuda:gelu_vec: 97.00 us by events, 100.00 us by CUPTI",
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "apart"),
    [(12e-6, 10.29e-6, False), (12e-6, 10.31e-6, True), (102e-6, 101.9e-6, False), (104.1e-6, 100e-6, True)],
)
def test_either_tolerance_is_enough(ours, theirs, apart):
    assert second_clock.beyond(ours, theirs, 2e-6) is apart
