"""The results file: written whole or not at all, read with clear errors, turned into tables and frames."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest
from tables import table

import cudalab
from cudalab import report
from cudalab.base.errors import InputError, Unavailable
from cudalab.base.stats import Ratio
from cudalab.checks import hard_inputs
from cudalab.checks.parity import error_curve, joined
from cudalab.report.results import Results
from cudalab.results import record
from cudalab.results.file import writable
from cudalab.results.marks import MARKS, NO_RATIO
from cudalab.results.record import TIMES, Case, ErrorCurve, Machine, Parity
from cudalab.spec.dtype import dtype

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run():
    def case(backend, scale, **more):
        more.setdefault("times", {k: [[scale * 1e-6 * (1 + 0.001 * i)] * 3 for i in range(10)] for k in TIMES[:-1]})
        parity = Parity(ok=True, n=12, max_ulp=1.5, rounded=0.9)
        return Case("gelu", "small", (1, 3, 4), "float32", backend, parity=parity, nbytes=4800, **more)

    cases = [
        case("torch_eager", 10),
        case("pycuda", 2, variant="gelu_vec"),
        case("copy", 1.9, status=record.CEILING),
        case("pycuda", 1, variant="bad", status=record.WRONG, reason="3 of 12 values differ", times={}),
        case("cupy_eager", 1, status=record.SKIPPED, reason="CuPy is not installed; pip install x", times={}),
        case("cupy_raw", 1, status=record.ERROR, reason="does not compile:\nline 3 | error", times={}),
    ]
    machine = Machine("cuda", "NVIDIA Test", {"l2_bytes": 2**26, "driver": "1.2"}, {"python": "3.11"})
    return Results(
        record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", {"modes": "launch,graph"}, machine,
        calibration={"empty kernel": [3e-6]}, cases=cases,
    )  # fmt: skip


def test_a_field_that_is_not_known_is_refused_lest_it_be_lost(run, tmp_path):
    path = tmp_path / "r.json"
    for place, where in (("", "git pull"), ("machine", "machine"), ("cases", "cases"), ("parity", "parity")):
        tree = json.loads(run.to_json())
        at = {"": tree, "cases": tree["cases"][0], "parity": tree["cases"][0]["parity"]}.get(place) or tree[place]
        at["newer"] = 1
        path.write_text(json.dumps(tree))
        with pytest.raises(InputError, match=f"unknown field `newer`.*{where}"):
            cudalab.load(path)


def test_version_1_is_read_and_saved_as_8(tmp_path):
    # Cut by a script from bench/results/h200/gelu.json: seven cases, ten rounds of at most two samples each.
    old = ROOT / "tests" / "data" / "results_v1.json"
    run = cudalab.load(old)
    assert [c.label for c in run.cases if c.times] == ["pycuda:gelu_scalar", "pycuda:gelu_vec", "torch_eager", "triton",
                                                       "copy"]  # fmt: skip
    assert run.cases[1].median("call") == pytest.approx(6e-6, rel=0.1)
    run.save(tmp_path / "new.json")
    tree, before = json.loads((tmp_path / "new.json").read_text()), json.loads(old.read_text())
    assert (before.pop("version"), tree["version"], run.version, record.VERSION) == (1, 9, 9, 9)
    assert tree["kind"] == run.kind == "bench" and tree["commit"] == ""
    assert holds(tree, before)


def holds(new, old):
    """Whether `new` has all of `old`, and what it has beside is empty."""
    if isinstance(old, dict):
        more = [new[name] for name in new.keys() - old.keys() - {"version", "kind"}]
        return not any(more) and all(holds(new[name], value) for name, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(holds, new, old))
    return new == old


def test_every_committed_result_is_read():
    paths = [p for p in (ROOT / "bench" / "results").rglob("*.json") if b'"cudalab-results"' in p.read_bytes()[:200]]
    assert paths
    assert all(cudalab.load(path).cases for path in paths)


def test_an_error_curve_is_the_worst_of_each_bin():
    kind = dtype("bfloat16")
    x = hard_inputs.every(kind)
    with np.errstate(invalid="ignore", over="ignore"):  # signalling NaN, and what becomes infinite
        wide = x.astype(np.float64)
        want = wide * 3
        got = want.astype(np.float32).astype(kind.numpy)
    at = int(np.flatnonzero(wide == 1.5)[0])
    got[at] = 5.0  # 0.5 away from 4.5, in units of 2**-5
    got[np.flatnonzero(wide == -2.0)[0]] = np.nan
    curve = error_curve(x.reshape(256, 256), got, want, kind)
    assert len(curve.x) == len(curve.ulp) == 65280 / 128
    assert curve.x == sorted(curve.x)
    assert curve.ulp[curve.x.index(1.5)] == 16
    assert curve.ulp[curve.x.index(-2.0)] is None
    others = [ulp for point, ulp in zip(curve.x, curve.ulp) if point not in (1.5, -2.0)]
    assert max(others) <= 0.5
    assert joined([Parity(True, curve=ErrorCurve([2.0], [1.0])), Parity(True, curve=ErrorCurve([-1.0], [None])),
                   Parity(True)]).curve == ErrorCurve([-1.0, 2.0], [None, 1.0])  # fmt: skip
    assert joined([Parity(True), Parity(True)]).curve is None


@pytest.mark.process
def test_a_check_of_all_values_keeps_the_curve(tmp_path):
    path = tmp_path / "r.json"
    run = cudalab.check("gelu", dtypes="bfloat16", only="numpy", device="cpu", output=path)
    (every,) = (c for c in run.cases if c.size == "all values")
    assert len(every.parity.curve.x) == 510
    assert max(every.parity.curve.ulp) == pytest.approx(every.parity.max_ulp, rel=1e-3)
    assert all(c.parity.curve is None for c in run.cases if c is not every)
    assert cudalab.load(path) == run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *table("results", "texts that are no results"),
        ("[" * 100_000, "is not a results file"),
        ('{"format": ' + "[" * 100_000, "is not a results file"),
    ],
)
def test_what_cannot_be_read_says_why(text, message, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        cudalab.load(path)
    assert str(path) in str(caught.value)


def test_where_results_cannot_come_from_or_go(tmp_path, run):
    (tmp_path / "r").write_bytes(bytes(range(256)))
    for name in ("r", "nothing", "."):
        with pytest.raises(InputError, match=r"cannot read|(is|, ) ?not a results file"):
            cudalab.load(tmp_path / name)
    other = tmp_path / "notes.json"
    other.write_text('{"mine": 1}')
    for path, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "r.json", "mkdir -p"),
        (other, "will not replace"),
        ("/proc/r.json", "cannot write"),
    ):
        with pytest.raises(InputError, match=message):
            writable(path)
    assert json.loads(other.read_text()) == {"mine": 1}
    writable(tmp_path / "new.json")
    assert set(tmp_path.iterdir()) == {other, tmp_path / "r"}


def test_speedups_bandwidth_dicts_and_frames(run, monkeypatch):
    eager, ours = run.cases[:2]
    assert run.speedup(ours, "cold").value == pytest.approx(5)
    assert run.speedup(eager, "cold").verdict() == "SAME"
    assert run.speedup(run.cases[3], "cold") is None
    assert ours.bandwidth("cold") == pytest.approx(4800 / 2e-6, rel=0.01)
    rows = run.to_dicts()
    assert [r["status"] for r in rows] == [c.status for c in run.cases]
    assert rows[1]["cold"] == pytest.approx(2e-6, rel=0.01)
    assert rows[1]["speedup_over_eager"] == pytest.approx(5)
    pytest.importorskip("pandas")
    frame = run.to_frame()
    assert list(frame["backend"]) == [c.backend for c in run.cases]
    assert list(frame["cold"].dropna()) == pytest.approx([r["cold"] for r in rows if r["cold"]])
    assert set(frame["machine"]) == {"NVIDIA Test"}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Unavailable, match="pip install pandas, or use to_dicts"):
        run.to_frame()


def test_markdown_csv_and_json_and_what_nvbench_measured(run, tmp_path):
    markdown = report.render(run, "markdown")
    assert "| pycuda:gelu_vec | 1.5 |" in markdown
    assert re.search(r"\| [45]\.\d+ to [45]\.\d+ \| FASTER \|", markdown)
    assert "error: cupy_raw: does not compile: line 3 | error" in markdown
    rows = list(csv.DictReader(io.StringIO(report.render(run, "csv"))))
    assert len(rows) == len(run.cases)
    assert float(rows[1]["cold"]) == pytest.approx(2e-6, rel=0.01)
    (tmp_path / "r.json").write_text(report.render(run, "json"))
    assert cudalab.load(tmp_path / "r.json") == run
    assert "nvbench" not in report.render(run, "table", 140)
    run.cases[1].cross = {"nvbench cold": 2.125e-6, "nvbench batch": 1.5e-6, "nvbench wall": 3.0}
    lines = report.render(run, "table", 140).splitlines()
    assert "2.125" in next(line for line in lines if line.startswith("pycuda:gelu_vec"))


def test_marks_are_borne_and_explained(run):
    cold = {"cold": [[1.99e-5] * 5] * 10}
    run.calibration["empty event pair"] = [2e-6]
    run.cases[0].times["cold"] = [[2.5e-5] * 5] * 10
    run.cases[1].times["cold"] = [[4e-5, 4e-5, 4e-5, 6e-5, 6e-5]] * 10
    run.cases.append(Case("gelu", "small", (1, 3, 4), "float32", "quick", times=cold))
    run.cases[2].times["cold"] = [[3e-5] * 5] * 10
    run.cases[2].condition = {"sm_hz": 1e9, "memory_hz": 2e9, "power_w": 700.0, "throttled": "power cap"}
    text = report.render(run, "table", 140)
    assert re.search(r"25(\.\d+)?\^!", text)
    assert re.search(r"(20|19\.\d+)~!", text)
    assert "40!?" in text
    assert "1000/2000 MHz, 700 W, slowed by power cap" in text
    for mark in "~^!?":
        assert f"\n{mark} " in text
    assert max(map(len, report.render(run, "table", 80).splitlines())) <= 80


def test_an_interrupted_run_says_so_and_costs_are_shown_on_request(run):
    run.cases[1].costs = {"bind": 0.5, "first run": 0.001, "graph build": 0.0002}
    run.cases[1].times["hot"] = [[4e-6] * 5] * 10
    assert "back after" not in report.render(run, "table", 140)
    text = report.render(run, "table", 140, costs=True)
    assert "pycuda:gelu_vec" in text.split("back after")[1]
    assert re.search(r"\b(99|100|101) calls", text)  # 200 us over 4 - 2 us a call
    del run.cases[1].costs["graph build"]
    text = report.render(run, "table", 140, costs=True)
    assert "bind" in text and "build" not in text and "back after" not in text
    assert "INTERRUPTED" not in report.render(run, "table", 80)
    run.complete = False
    for format in ("table", "markdown"):
        assert "INTERRUPTED: some cases are missing" in report.render(run, format, 140)
    run.kind, run.cases[-1].backend, run.cases[-1].status = "check", "host", record.WRONG
    assert "STOPPED where an entry is wrong" in report.render(run, "table", 140)


def test_digits_follow_the_interval_and_a_time_whose_speed_up_says_nothing_is_marked():
    """Medians that are known well may hide a baseline that was slow in half of the rounds."""
    from cudalab.base.numbers import significant
    from cudalab.report.columns import microseconds

    sharp = Case("k", "s", (1,), "float32", "b", times={"cold": [[1.23456e-3] * 50] * 20})
    rng = np.random.default_rng(0)
    noisy = Case("k", "s", (1,), "float32", "b", times={"cold": [list(1e-3 * rng.uniform(1, 1.4, 10)) for _ in "abc"]})
    assert microseconds(sharp, "cold") in ("1,230", "1,235")  # one process is known to about a per cent
    assert microseconds(noisy, "cold") in ("1,200", "1,300")
    assert significant(12345.6, 2) == "12,000"
    assert significant(0.000123, 2) == "0.00012"
    steady = Case("gelu", "small", (1000,), "float32", "numpy", nbytes=8000, times={"wall": jittered([1e-4] * 40)})
    slow = Case("gelu", "small", (1000,), "float32", "torch_eager", nbytes=8000)
    for times, rough in (([1e-3] * 39 + [3e-3], False), ([1e-3] * 20 + [3e-3] * 20, True)):
        slow.times = {"wall": jittered(times)}
        run = Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", {"modes": "launch"},
                      Machine("cpu", "test"), cases=[steady, slow])  # fmt: skip
        (row,) = (line for line in report.render(run, "table", 140).splitlines() if line.startswith("numpy"))
        assert ("?" in row) == rough
        assert (
            "? after a time: imprecise, since its interval is wider than 10 %" in report.render(run, "table")
        ) == rough


def jittered(seconds):
    """A round of one sample for each time, which is no multiple of a clock's step."""
    return [[s * (1 + 1e-4 * (7 * i % 11))] for i, s in enumerate(seconds)]


@pytest.mark.parametrize(("value", "low", "high", "unknown"), table("results", "ratios", literal_eval))
def test_the_footnote_of_a_question_mark_is_true_on_both_sides_of_1(value, low, high, unknown):
    """An interval says nothing if its ends differ by more than a factor of 1.5, and by more than the two times do."""
    of_times = max(value, 1 / value)
    assert (high / low > 1.5 and high / low > of_times) == unknown
    assert Ratio(value, low, high).says_nothing == unknown
    assert NO_RATIO in MARKS["?"]
    low, high = map(float, re.findall(r"\d\.\d", NO_RATIO))  # its example
    assert Ratio((low * high) ** 0.5, low, high).says_nothing


def test_a_run_prints_as_its_tables_fastest_first_then_the_ceiling(run):
    from cudalab.report import render

    assert str(run) == render(run, "table")
    assert repr(run).startswith("Results(")
    lines = report.render(run, "table", 140).splitlines()
    places = [next(i for i, line in enumerate(lines) if line.startswith(name)) for name in
              ("pycuda:gelu_vec", "torch_eager", "copy (ceiling)", "pycuda:bad")]  # fmt: skip
    assert places == sorted(places)


OLDER = {"bench": "results_v1.json", "check": "shown/check_v4.json", "study": "shown/study_v4.json"}
SHOWN = {"bench": "bench_v1", "check": "check_v4", "study": "study_v4"}


@pytest.mark.parametrize("kind", OLDER)
def test_an_older_file_gets_its_kind_when_it_is_loaded_and_is_shown_as_before(kind, tmp_path):
    old = ROOT / "tests" / "data" / OLDER[kind]
    assert '"kind":"' not in old.read_text(encoding="utf-8")
    run = cudalab.load(old)
    assert (run.kind, run.timed, run.of_study) == (kind, kind != "check", kind == "study")
    for suffix in ("json", "jsonl"):
        run.save(tmp_path / f"new.{suffix}")
        assert cudalab.load(tmp_path / f"new.{suffix}") == run
    for format, width, suffix in (
        ("table", 80, "80.txt"), ("table", 140, "140.txt"), ("markdown", None, "md"), ("csv", None, "csv"),
    ):  # fmt: skip
        shown = (ROOT / "tests" / "data" / "shown" / f"{SHOWN[kind]}.{suffix}").read_text(encoding="utf-8")
        assert report.render(run, format, width) + "\n" == shown, suffix
