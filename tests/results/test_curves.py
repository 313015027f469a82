"""Sweeps with known answers: where two variants cross, and what a fit of overhead and bandwidth must find."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.results import record
from cudalab.results import sweep as curves
from cudalab.results.record import Case, Machine, Results

SIZES = [2**n for n in range(10, 25, 2)]


def sweep(times, sizes=SIZES, noise=0.001, kind="cold", **options):
    """A run of kernel k whose variants take `times[label](bytes)` seconds, two float32 an element."""
    rng = np.random.default_rng(1)
    run = Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", {"modes": "launch", **options},
                  Machine("cuda", "a GPU"))  # fmt: skip
    for n in sizes:
        for label, time in times.items():
            backend, _, variant = label.partition(":")
            rounds = [[time(8 * n) * rng.normal(1, noise)] for _ in range(20)]
            status = record.CEILING if label == "copy" else record.OK
            run.cases.append(Case("k", str(n), (n,), "float32", backend, variant, status, nbytes=8 * n,
                                  times={kind: rounds}))  # fmt: skip
    return run


def line(overhead, rate):
    return lambda nbytes: overhead + nbytes / rate


def test_the_crossing_lies_where_the_lines_meet_or_nobody_crosses():
    run = sweep({"pycuda:a": line(2e-6, 1e12), "torch": line(6e-6, 4e12), "copy": line(3e-6, 4e12)})
    (found,) = curves.crossings(run)
    assert found == curves.Crossing("k", "float32", "cold", 2**18, 2**20, slower="pycuda:a", faster="torch")
    assert curves.crossings(sweep({"a": line(2e-6, 2e12), "b": line(3e-6, 1e12)})) == []
    same = line(2e-6, 2e12)
    assert curves.crossings(sweep({"a": same, "b": same}, noise=0.02)) == []
    assert curves.crossings(sweep({})) == []


def test_sizes_that_are_not_sure_widen_the_interval():
    def wobbly(nbytes):
        return line(2e-6, 1e12)(nbytes) if nbytes < 8 * 2**14 or nbytes > 8 * 2**20 else 4.001e-6

    run = sweep({"a": wobbly, "b": lambda nbytes: 4e-6})
    (found,) = curves.crossings(run)
    assert (found.below, found.above, found.slower, found.faster) == (2**12, 2**22, "a", "b")


def test_each_change_of_places_is_found_and_another_kind_is_not_looked_at():
    def stairs(nbytes):
        return 5e-6 if 8 * 2**14 <= nbytes < 8 * 2**20 else 3e-6

    run = sweep({"a": stairs, "b": lambda nbytes: 4e-6}, kind="graph")
    assert [(c.below, c.above, c.faster) for c in curves.crossings(run, "graph")] == [
        (2**12, 2**14, "b"),
        (2**18, 2**20, "a"),
    ]
    assert curves.crossings(run, "cold") == []


def test_the_fit_gives_back_overhead_and_rate_where_there_is_one():
    knees = {k.label: k for k in curves.half_performance(sweep({"a": line(2e-6, 1e12), "copy": line(4e-6, 4e12)}))}
    assert knees["a"].overhead == pytest.approx(2e-6, rel=0.01)
    assert knees["a"].rate == pytest.approx(1e12, rel=0.01)
    assert knees["a"].half == pytest.approx(2e6, rel=0.02)
    assert knees["copy"].half == pytest.approx(16e6, rel=0.02)
    assert curves.half_performance(sweep({"a": line(2e-6, 1e12)}, sizes=[2**10, 2**20])) == []
    assert curves.half_performance(sweep({"a": lambda nbytes: 5e-6 / nbytes})) == []
    (knee,) = curves.half_performance(sweep({"a": lambda nbytes: nbytes / 1e12 * (1 + nbytes / 1e9)}))
    assert knee.overhead == 0 and knee.half == 0
