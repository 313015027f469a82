"""Kernels with twins: they compile and are right, and what is said of a run of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cudalab
from cudalab.base.errors import LaunchError
from cudalab.base.stats import Ratio
from cudalab.device import cuda
from cudalab.results import record
from cudalab.results.record import Case, Machine, Results
from cudalab.spec import find
from cudalab.tools.selftest import gpu as on_gpu
from cudalab.tools.selftest import twins

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture
def aa(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import aa

    yield aa
    sys.modules.pop("aa")


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gelu", "sum", "transpose"])
def test_a_twin_is_compiled_and_right(name, tmp_path):
    kernel = find.kernels()[name]
    spec = twins.written(kernel, tmp_path)
    size = "64x48" if kernel.rank == 2 else "3000"
    run = cudalab.check(spec, sizes=size, dtypes=kernel.dtypes[0], only="host", device="cpu")
    assert {c.variant: c.status for c in run.cases if c.status != record.SKIPPED} == {
        entry: record.OK for name in kernel.entries for entry in (name, f"{name}{twins.AGAIN}")
    }


@pytest.mark.process
def test_a_twin_is_a_function_of_its_own(tmp_path):
    """The text of an entry stands in the file a second time; a fault in one is none in the other."""
    twins.written(find.kernels()["add2d"], tmp_path)
    source = tmp_path / "add2d.cu"
    text = source.read_text()
    assert text.count('extern "C" __global__ void add2d_plain(') == 1
    assert text.count('extern "C" __global__ void add2d_plain_again(') == 1
    first, again = text.rsplit("y[i] = a[i] + b[i];", 1)
    source.write_text(f"{first}y[i] = a[i] - b[i];{again}")  # in the last function, add2d_vec_again
    run = cudalab.check(tmp_path / "add2d.py", sizes="3x5", only="host", device="cpu")
    wrong = {c.variant for c in run.cases if c.status == record.WRONG}
    assert wrong == {"add2d_vec_again"}


def run_of(**seconds):
    """A run of three processes, with cold times by entry."""
    cases = [
        Case("k", "s", (4,), "float32", "pycuda", entry, times={"cold": [[t]] * 9}, processes={"cold": [3] * 3})
        for entry, t in seconds.items()
    ]
    machine = Machine("cuda", "a card", {"driver": "1"}, {"python": "3"})
    options = {"modes": "launch", "seed": 0, "order": "shuffled", "processes": 3}
    return Results(record.FORMAT, record.VERSION, "2026-11-23T00:00:00+00:00", options, machine, cases=cases,
                   kind="bench")  # fmt: skip


def test_each_entry_is_compared_with_its_twin():
    run = run_of(a=2e-5, a_again=1e-5, b=1e-5, b_again=1e-5, c=1e-5)
    assert [(one.label, other.label) for one, other in twins.pairs(run.cases)] == [
        ("pycuda:a", "pycuda:a_again"),
        ("pycuda:b", "pycuda:b_again"),
    ]
    assert [ratio.value for ratio in twins.ratios(run, "cold")] == pytest.approx([2.0, 1.0])
    assert twins.ratios(run, "hot") == []


def test_a_claim_between_equal_work_fails_the_selftest():
    run = run_of(a=1e-5)
    same, slower, unclear = Ratio(1.0, 0.999, 1.001), Ratio(0.9, 0.89, 0.91), Ratio(1.0, 0.9, 1.1)
    good = on_gpu.no_claim([same, same, unclear], run)
    assert good.ok
    assert good.measured == "2 SAME (67 %), 1 UNCLEAR (33 %) in 3 processes"
    assert not on_gpu.no_claim([same, slower], run).ok
    with pytest.raises(LaunchError, match="nothing could be compared: no times"):
        on_gpu.no_claim([], run)


def test_the_runs_of_the_script(aa):
    """One run in which the twin of `a` is faster, and one in which both are equal."""
    found = aa.summary([run_of(a=2e-5, a_again=1e-5), run_of(a=2e-5, a_again=2e-5)])
    assert found["beside"]["comparisons"] == found["apart"]["comparisons"] == 2
    assert found["beside"]["verdicts"]["FASTER"] == 1
    # an entry with the twin of the other run: 2e-5 with 2e-5, and 2e-5 with 1e-5
    assert found["apart"]["verdicts"]["FASTER"] == 1
    assert found["apart"]["false"] == 0.5
    assert found["beside"]["by size"] == {"s": found["beside"]["verdicts"]}
    assert [one["row"] for one in found["apart"]["ratios"]] == ["k s float32 pycuda:a"] * 2
    assert found["apart"]["largest deviation"] == pytest.approx(1.0)


@pytest.mark.process
@pytest.mark.skipif(not cuda.missing(), reason="a GPU is here")
def test_the_script_needs_a_gpu(aa, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["aa.py", str(tmp_path / "aa.json"), "--kernels", "add2d"])
    with pytest.raises(cudalab.CudalabError, match="nothing that was chosen can run here"):
        aa.main()
