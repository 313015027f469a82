"""What a table keeps at any width, its marks, rows without a time, and host times that are not comparable."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from msgspec.structs import replace
from report_runs import group, timed

from cudalab import report
from cudalab.report import below_tables, check_table, columns
from cudalab.report.html import figures, findings, page
from cudalab.results import nvbench_file, pytest_benchmark_file, record
from cudalab.results.record import Parity


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


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_terminals_table_keeps_time_interval_and_verdict_in_one_row(width):
    run = timed()
    for case in run.cases:
        case.variant = case.variant and f"{case.variant}_with_a_long_name"
    text = report.render(run, "table", width)
    assert max(map(len, text.splitlines())) <= width
    shares = r"[\d.]+ +" if width == 140 else r"([\d.]+ +)?"  # the share of the copy may be in the second table
    line = rf"^pycuda:gelu_vec_\S*( \*)? +1\.5 +\S+ +{shares}[\d.]+ +[\d.]+ to [\d.]+ \+FASTER"
    assert len(re.findall(line, text, re.MULTILINE)) == 3
    assert "\u2026" not in text
    heads = [line for line in text.splitlines() if line.startswith("variant")]
    assert len(heads) == {60: 9, 80: 6, 140: 3}[width]  # where it is narrow, hot, graph and call are in more tables


def test_a_task_of_arithmetic_is_measured_by_its_operations_and_not_by_a_copy():
    run = timed()
    assert "GB/s" in cells(run, "torch_eager")
    for case in group(run):
        case.flops = 200 * case.nbytes
        case.nbytes = case.nbytes or 1
    found = cells(run, "torch_eager")
    assert not {"GB/s", "% copy"} & found.keys()
    (eager,) = (case for case in group(run) if case.label == "torch_eager")
    assert float(found["TFLOP/s"].replace(",", "")) == pytest.approx(
        eager.flops / eager.median("cold") / 1e12, rel=0.05
    )
    copy = cells(run, "copy (ceiling)")
    assert (copy["x eager"], copy["verdict"]) == ("-", "-")
    assert any(line.startswith("TFLOP/s: ") for line in below_tables.footer(run))
    assert "GB/s" in cells(run, "torch_eager", "small"), "a group of its own"


def test_verdicts_have_signs_and_colours_and_ours_a_mark():
    run = timed()
    text, coloured = (report.render(run, "table", 140, color) for color in (False, True))
    assert "+FASTER" in text and "\x1b" not in text and re.search(r"^pycuda:gelu_vec \* ", text, re.MULTILINE)
    assert "\x1b[32m+FASTER" in coloured and "\x1b[1mpycuda:gelu_vec *" in coloured
    legend = "* ours: the .cu of the kernel"
    first = [report.render(run, "table", 140, height=height) for height in (text.count("\n") + 2, 24)]
    assert first[0] == text and text.index(legend) > text.rindex("variant ")
    assert sorted(first[1].split("\n")) == sorted(text.split("\n")) and first[1].index(legend) < text.index("variant ")
    alone = replace(run, cases=[case for case in run.cases if case.backend == "pycuda"])
    assert legend not in report.render(alone, "table", 140), "where all rows are ours"


def test_footnotes_are_about_what_is_there_and_name_a_wide_budget_without_an_excuse():
    run = timed()
    assert not any(line.startswith(("host rows", "max ULP above", "TFLOP/s")) for line in below_tables.footer(run))
    case = next(case for case in run.cases if case.parity)
    case.parity.max_ulp = 9.7e6
    assert any(line.startswith("max ULP above 1,000: the element is near 0") for line in below_tables.footer(run))
    case.backend = "host"
    assert any(line.startswith("host rows") for line in below_tables.footer(run))
    assert not any(line.startswith("ULP + a number") for line in below_tables.footer(run))
    alike = (other for other in run.cases if (other.dtype, other.variant) == (case.dtype, case.variant))
    mate = next(other for other in alike if other.size != case.size)
    mate.backend = case.backend
    mate.status, mate.reason = record.WRONG, "17 of 64 values differ by more than 4 ULP + 921.141: [0] got 1, want 2"
    lines = below_tables.footer(run)
    assert not any(line.startswith("max ULP above 1,000") for line in lines), "at another size the row is WRONG"
    assert any(line.startswith("ULP + a number: ") for line in lines)
    run = timed()
    case = next(case for case in run.cases if case.backend in record.ENTRIES and case.dtype == "float32")
    case.parity = Parity(ok=True, n=1000, max_ulp=1e9, rounded=0.026, rel_l2=0.21)
    (line,) = (line for line in below_tables.footer(run) if "wide budget" in line)
    assert line.startswith(f"gelu float32 {case.label}: relative error 0.21, 2.6 % correctly rounded; ")
    assert not any("near 0" in line for line in below_tables.footer(run))
    case.parity = Parity(ok=True, n=1000, max_ulp=1e9, rounded=0.6, rel_l2=1e-4)
    assert not any("wide budget" in line for line in below_tables.footer(run))
    assert any("near 0" in line for line in below_tables.footer(run))


def test_a_reason_of_several_variants_or_sizes_stands_once_by_its_worst():
    run = timed()
    some = [case for case in group(run) if case.parity and case.dtype == "float32"][:3]
    for case in some:
        case.status, case.times, case.reason = record.WRONG, {}, "1 of 4 values differ: [0] got inf, want 1"
    said = [text for status, text, _ in below_tables.remarks(group(run), placed=True) if status == record.WRONG]
    assert f"gelu {some[0].dtype} at xlarge, {', '.join(case.label for case in some)}" in said
    run = timed()
    cases = [replace(c, status=record.WRONG, times={}) for c in group(run) if c.parity][:1] * 3
    reasons = "1 of 4 values differ by more than 4 ULP: [0] got {}, want 1"
    cases = [
        replace(c, size=f"{i}x{i}", reason=reasons.format(i), parity=Parity(ok=False, wrong=1, max_ulp=ulp))
        for i, (c, ulp) in enumerate(zip(cases, (10.0, 1.7e10, 90.0), strict=True))
    ]
    (found,) = below_tables.remarks(cases, placed=True)
    assert "at 1x1 and 2 more, " in found[1] and "got 1, want 1" in found[2]
    (found,) = below_tables.remarks([cases[0], cases[2]], placed=True)
    assert "at 0x0 and 1 more, " in found[1] and "got 0, want 1" in found[2], "nine times as much says no more"
    cases[1].size += ", nan"
    assert "at 0x0 and 2 more, " in below_tables.remarks(cases, placed=True)[0][1]
    noted = [replace(case, status=record.OK, notes=["a note"]) for case in cases]
    assert [line[1] for line in below_tables.remarks(noted, placed=True)] == [
        f"{cases[0].kernel} {cases[0].dtype}, {cases[0].label}"
    ], "a note at all sizes names none"


def test_where_nothing_ran_or_was_timed_no_table_and_no_times_are_spoken_of():
    first = next(case for case in timed().cases if case.parity)
    skipped = [replace(first, status=record.SKIPPED, reason="no C++ compiler", times={}, parity=None)]
    text = report.render(replace(timed(), cases=skipped, kind="check"), "table", 100)
    assert "verdict" not in text and "skipped pycuda" in text and "no C++ compiler" in text
    run = timed()
    run.machine.device, run.no_gpu = "cpu", "no driver"
    for case in run.cases:
        case.times = {}
    assert columns.heading(run).endswith(": nothing was timed")


def test_the_error_of_a_wrong_row_is_told_from_its_budget():
    """In the table of a check, which has no column for the budget."""
    first = next(case for case in timed().cases if case.parity)
    reason = "1 of 4 values differ by more than {} ULP: [0] got 2, want 1"

    def shown(budget, *errors):
        bad = replace(first, status=record.WRONG, times={}, reason=reason.format(budget))
        some = [replace(bad, parity=Parity(ok=False, n=4, wrong=1, max_ulp=error)) for error in errors]
        ((row, _),) = check_table.check_rows(replace(timed(), cases=some))
        return row[check_table.CHECK_HEADERS.index("max ULP")]

    assert [shown("4", 3.0, 4.003), shown("0.5", 0.5003), shown("0", 0.5), shown("1e+03 ULP + 1e-06 and", 1000.4)] == [
        "4.003", "0.5003", "0.5", "1000.4",
    ]  # fmt: skip
    assert [shown("inf", 8.2), shown("x", 8.2), shown("4", None)] == ["8.2", "8.2", "inf"]


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
    assert "call (out): host time of a launch into an existing array" in "\n".join(below_tables.footer(run))
    drawn = figures.times(run, group(run), "call").svg
    assert drawn.count("allocates: see api") == 1  # torch_eager


def test_impossible_is_shown_like_wrong_in_every_format_page_and_export():
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
    run = impossible()
    bad = next(c for c in group(run) if c.status == record.IMPOSSIBLE)
    assert figures.role(bad) == "bad"
    assert "IMPOSSIBLE: no time" in figures.speedup(run, group(run)).svg
    assert "; IMPOSSIBLE: pycuda:gelu_vec; error" in findings.timed(run, group(run), {}).sentence
    text = page.render([("x.json", run)])
    assert "What went wrong, and notes" in text and "IMPOSSIBLE</b>" in text
    run = impossible()
    tests = json.loads(pytest_benchmark_file.encoded(run))
    assert not [b for b in tests["benchmarks"] if b["name"] == "pycuda:gelu_vec"]
    failed = {f["status"] for f in tests["cudalab"]["failed"] if f["name"].endswith("::pycuda:gelu_vec")}
    assert failed == {"IMPOSSIBLE"}
    states = [s for b in json.loads(nvbench_file.encoded(run))["benchmarks"] for s in b["states"]]
    skipped = [s for s in states if "Variant=pycuda:gelu_vec" in s["name"]]
    assert all(s["is_skipped"] and s["skip_reason"].startswith("IMPOSSIBLE: cold 4.7") for s in skipped)


def test_every_time_has_its_own_marks_and_processes_that_disagree_have_one():
    run = timed()
    native = next(c for c in group(run) if c.label == "torch_native")
    native.times["graph"] = [[1e-4, 1.4e-4] * 2] * 10  # two groups of samples
    shown = cells(run, "torch_native")
    assert shown["graph \u00b5s"].endswith("?") and not shown["hot \u00b5s"].endswith("?")
    native.condition = {"throttled": "power cap"}
    shown = cells(run, "torch_native")
    assert "!" in shown["cold \u00b5s"] and "!" in shown["hot \u00b5s"]
    assert "!" not in cells(run, "torch_eager")["cold \u00b5s"]  # only this variant's samples were slowed
    assert "! the GPU ran below its highest clock." in below_tables.footer(run)
    run = timed()
    native = next(c for c in group(run) if c.label == "torch_native")
    native.processes = {"cold": [5, 5]}
    assert "#" not in cells(run, "torch_native")["cold \u00b5s"]
    native.times["cold"][5:] = [[1.2 * s for s in samples] for samples in native.times["cold"][5:]]
    assert "#" in cells(run, "torch_native")["cold \u00b5s"]
    assert any(line.startswith("# the worker processes") for line in below_tables.footer(run))


def with_loads(sustained=1.05):
    """A run with energies, and a sustained time that is longer than the burst at one entry."""
    run = timed()
    for case in (c for c in group(run) if c.times):
        hot = case.times["cold"]
        slower = sustained if case.variant == "gelu_vec" else 1.001
        case.times |= {"burst": hot, "sustained": [[slower * t for t in samples] for samples in hot]}
        case.times["energy"] = [[300 * t for t in samples] for samples in hot]
        case.processes |= {kind: case.processes["cold"] for kind in record.LOADED if "cold" in case.processes}
        case.quantities = {
            "energy_w": 412.0,
            "idle_w": 76.0,
            "burst_sm_hz": 1.98e9,
            "sustained_sm_hz": 1.755e9,
            "sustained_w": 640.0,
        }
        case.condition[record.UNDER_LOAD] = "power cap"
    return run


def test_energy_has_a_unit_an_interval_and_a_power_and_sustained_says_where_it_differs():
    run = with_loads()
    row = cells(run, "pycuda:gelu_vec")
    case = next(c for c in group(run) if c.label == "pycuda:gelu_vec")
    assert float(row["energy mJ"].rstrip("?")) == pytest.approx(3e5 * case.median("cold"), rel=0.02)
    assert " to " in row["energy interval"]
    assert (row["energy W"], row["burst MHz"], row["sustained MHz"]) == ("412", "1,980", "1,755")
    text = report.render(run, "table", None)
    (line,) = [line for line in text.splitlines() if "sustained runs" in line]
    assert line.startswith("  note pycuda:gelu_vec: sustained runs take 1.05")
    assert line.endswith("times as long as a burst; SM clock 1,755 MHz, in the burst 1,980; power cap")
    assert "nothing is subtracted; without work the card drew 76 W." in text
    assert " MHz, " in columns.title(group(run)) and "power cap" not in columns.title(group(run))
    assert "sustained runs" not in report.render(with_loads(1.001), "table", None)
    assert "sustained runs take" in page.render([("run", run)])
    assert "once clock and power are steady" in text
    del case.quantities["sustained_w"]  # a card that does not tell its power
    text = report.render(run, "table", None)
    assert "once clock and power are steady" not in text and "clock and power were not both seen" in text
    for other in (nvbench_file, pytest_benchmark_file):  # whose files hold times
        assert "energy" not in other.encoded(run).decode()
