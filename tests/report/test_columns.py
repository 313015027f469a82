"""What a table keeps at any width, its marks, rows without a time, and host times that are not comparable."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from report_runs import timed, undrawn

from cudalab import report
from cudalab.report import columns
from cudalab.report.html import figures, findings, page
from cudalab.results import nvbench_file, pytest_benchmark_file, record


def group(run, size="xlarge"):
    return [case for case in run.cases if case.size == size]


def cells(run, label, size="xlarge"):
    """The cells of a row by header."""
    headers, rows = columns.table(run, group(run, size))
    return next(dict(zip(headers, row)) for row in rows if row[0] == label)


def impossible():
    run = timed()
    for case in run.cases:
        if case.variant == "gelu_vec" and case.backend == "pycuda":
            case.status, case.times = record.IMPOSSIBLE, {}
            case.reason = "cold 4.7 \u00b5s is below 5.1 \u00b5s, which the data sheet's bandwidth needs"
    return run


@pytest.mark.parametrize("width", [80, 140])
def test_a_terminals_table_keeps_time_interval_and_verdict_in_one_row(width):
    run = timed()
    for case in run.cases:
        case.variant = case.variant and f"{case.variant}_with_a_long_name"
    text = report.render(run, "table", width)
    assert max(map(len, text.splitlines())) <= width
    rows = [line for line in text.splitlines() if line.startswith("pycuda:gelu_v")]
    assert (
        len(
            [
                line
                for line in rows
                if re.search(r" 1\.5 +\S+ +[\d.]+ +(-|[\d.]+) +[\d.]+ +[\d.]+ to [\d.]+ +FASTER", line)
            ]
        )
        == 3
    )
    heads = [line for line in text.splitlines() if line.startswith("variant")]
    assert len(heads) == (6 if width == 80 else 3)  # at 80 columns hot, graph and call are in a second table


def test_the_baseline_is_1_and_has_no_verdict():
    shown = cells(timed(), "torch_eager")
    assert [shown[name] for name in ("x eager", "95 % interval", "verdict")] == ["1", "-", "-"]


def test_digits_of_a_ratio_follow_its_interval():
    run = timed()
    for case in group(run):
        case.processes = {"cold": [2] * 5}  # of ten rounds; processes that agree make the interval narrow
    sharp = cells(run, "torch_native")["x eager"]
    for i, samples in enumerate(next(c for c in group(run) if c.label == "torch_native").times["cold"]):
        samples[:] = [s * (1 + 0.1 * (i // 2 % 2)) for s in samples]
    blunt = cells(run, "torch_native")["x eager"]
    assert len(sharp) > len(blunt)


def test_call_is_of_rows_that_do_not_allocate():
    run = timed()
    assert cells(run, "pycuda:gelu_vec")["call (out) \u00b5s"] != "-"
    assert cells(run, "torch_native")["call (out) \u00b5s"] == "-"  # an older file: known by the backend's name
    native = next(c for c in group(run) if c.label == "torch_native")
    native.allocates = False
    assert cells(run, "torch_native")["call (out) \u00b5s"] != "-"
    assert "call (out): host time of a launch into an existing array" in "\n".join(columns.footer(run))
    drawn = json.dumps(figures.times(run, group(run), "call").spec)
    assert drawn.count("allocates: see api") == 1  # torch_eager


def test_impossible_is_shown_like_wrong_in_every_format():
    run = impossible()
    reason = "which the data sheet's bandwidth needs"
    assert cells(run, "pycuda:gelu_vec")["max ULP"] == "IMPOSSIBLE"
    for format in ("table", "markdown"):
        text = " ".join(report.render(run, format, 140).split())
        assert "IMPOSSIBLE" in text and reason in text
    rows = list(csv.DictReader(io.StringIO(report.render(run, "csv"))))
    assert {r["status"] for r in rows if r["variant"] == "gelu_vec" and r["backend"] == "pycuda"} == {"IMPOSSIBLE"}
    kept = json.loads(report.render(run, "json"))["cases"]
    assert all(reason in c["reason"] for c in kept if c.get("status") == "IMPOSSIBLE")


def test_impossible_is_shown_like_wrong_in_pages_and_plots():
    run = impossible()
    bad = next(c for c in group(run) if c.status == record.IMPOSSIBLE)
    assert figures.role(bad) == "bad"
    assert "IMPOSSIBLE: no time" in json.dumps(figures.speedup(run, group(run)).spec)
    assert "; IMPOSSIBLE: pycuda:gelu_vec; error" in findings.timed(run, group(run), {}).sentence
    text = page.laid_out([("x.json", run)], undrawn)
    assert "What went wrong, and notes" in text and "IMPOSSIBLE</b>" in text


def test_impossible_is_in_exports():
    run = impossible()
    tests = json.loads(pytest_benchmark_file.encoded(run))
    assert not [b for b in tests["benchmarks"] if b["name"] == "pycuda:gelu_vec"]
    failed = {f["status"] for f in tests["cudalab"]["failed"] if f["name"].endswith("::pycuda:gelu_vec")}
    assert failed == {"IMPOSSIBLE"}
    states = [s for b in json.loads(nvbench_file.encoded(run))["benchmarks"] for s in b["states"]]
    skipped = [s for s in states if "Variant=pycuda:gelu_vec" in s["name"]]
    assert all(s["is_skipped"] and s["skip_reason"].startswith("IMPOSSIBLE: cold 4.7") for s in skipped)


def test_every_time_has_its_own_marks():
    run = timed()
    native = next(c for c in group(run) if c.label == "torch_native")
    native.times["graph"] = [[1e-4, 1.4e-4] * 2] * 10  # two groups of samples
    shown = cells(run, "torch_native")
    assert shown["graph \u00b5s"].endswith("?") and not shown["hot \u00b5s"].endswith("?")
    native.condition = {"throttled": "power cap"}
    shown = cells(run, "torch_native")
    assert "!" in shown["cold \u00b5s"] and "!" in shown["hot \u00b5s"]
    assert "!" not in cells(run, "torch_eager")["cold \u00b5s"]  # only this variant's samples were slowed
    assert "! the GPU ran below its highest clock." in columns.footer(run)


def test_processes_that_disagree_are_marked():
    run = timed()
    native = next(c for c in group(run) if c.label == "torch_native")
    native.processes = {"cold": [5, 5]}
    assert "#" not in cells(run, "torch_native")["cold \u00b5s"]
    native.times["cold"][5:] = [[1.2 * s for s in samples] for samples in native.times["cold"][5:]]
    assert "#" in cells(run, "torch_native")["cold \u00b5s"]
    assert any(line.startswith("# the worker processes") for line in columns.footer(run))
