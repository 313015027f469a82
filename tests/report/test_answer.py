"""The sentence of a group, and what a busy machine and a wide interval take away from tables, bars and sentences."""

from __future__ import annotations

import pytest
from report_runs import checked, timed

from cudalab import report
from cudalab.base import numbers
from cudalab.base.load import CORES, OTHERS
from cudalab.base.stats import Ratio
from cudalab.report import answer, below_tables, columns, crossover, plots
from cudalab.report.html import environment, figures, findings
from cudalab.report.html.figures import OURS
from cudalab.results import marks
from cudalab.results.record import WRONG, Case, Machine, Parity, Results
from cudalab.tools.crossover.bisect import Crossover, Probe


def on_cpu(load=0.0, **times):
    """A run of one group: libraries with the times of each round in seconds, and a `.cu` that is only checked."""
    right = Parity(ok=True, n=4)
    cases = [Case("gelu", "small", (4,), "float32", name, parity=right, nbytes=8, times={"wall": [[s] for s in rounds]})
             for name, rounds in times.items()]  # fmt: skip
    cases.append(Case("gelu", "small", (4,), "float32", "host", "gelu_vec", parity=right, nbytes=8))
    wall = {"total": 10.0, OTHERS: 10 * load, CORES: 20.0}
    return Results("cudalab-results", 6, "2026-01-01", {"modes": "launch"}, Machine("cpu", "CPU"), cases=cases,
                   wall=wall)  # fmt: skip


def jittered(seconds, by=0.001):
    return [seconds * (1 + by * (i % 7)) for i in range(20)]


def wild(seconds):
    return [seconds * (1, 6, 0.4, 9, 2, 0.7)[i % 6] for i in range(20)]


SURE = {"numpy": jittered(1e-4), "torch_eager": jittered(3e-4)}
ROUGH = {"numpy": wild(1e-4), "torch_eager": wild(3e-4)[::-1]}


def test_the_sentence_of_a_group():
    run = timed()
    said = answer.sentence(run, next(iter(run.groups().values())))
    assert said.startswith("1 WRONG (triton), 1 error (cupy_raw:gelu_vec), 4 right; pycuda:gelu_scalar 1.")
    assert "times as fast as torch_native" in said and said.endswith("FASTER)")
    run = checked()
    assert answer.sentence(run, run.cases) == "all 4 right"
    run = on_cpu(**ROUGH)
    assert "fastest library uncertain: " in answer.sentence(run, run.cases)


def test_what_the_cpu_does_not_time_says_so():
    run = on_cpu(**SURE)
    text = report.render(run, "table", 80, everything=True)
    assert any(line.split()[:5] == ["host:gelu_vec", "*", "0", "not", "timed"] for line in text.splitlines())
    said = answer.sentence(run, run.cases)
    assert said.startswith("all 3 right; fastest library: numpy 100")
    assert "3.0 times as fast as torch_eager" in said


def test_what_was_skipped_is_named_by_its_backend_only_where_all_of_it_was():
    run = on_cpu(**SURE)
    for label in ("torch_eager:tuned", "triton"):
        backend, _, variant = label.partition(":")
        run.cases.append(Case("gelu", "small", (4,), "float32", backend, variant, "skipped", "needs a GPU"))
    assert below_tables.skipped(run) == [("torch_eager:tuned, triton", "needs a GPU")]
    run = on_cpu(**SURE)
    for variant, reason in (("", "needs PyTorch"), ("max_autotune", "needs a GPU")):
        run.cases.append(Case("gelu", "small", (4,), "float32", "torch_compile", variant, "skipped", reason))
    run.cases.append(Case("gelu", "small", (4,), "float32", "cupy_raw", "gelu_vec", "skipped", "needs a GPU"))
    assert below_tables.skipped(run) == [("torch_compile", "needs PyTorch"),
                                    ("torch_compile:max_autotune, cupy_raw", "needs a GPU")]  # fmt: skip


def test_the_answer_is_last_and_a_verdict_that_it_has_is_explained():
    run = timed()
    text = report.render(run, "table", 80)
    assert text.index("In short") > text.index("max ULP: largest error")
    unclear = "UNCLEAR" in text.partition("In short")[2]
    assert unclear == ("UNCLEAR: the interval is too wide" in text)


def test_findings_of_the_page_quote_no_such_ratio_and_no_error_of_a_wrong_answer():
    run = timed()
    group = [c for c in run.cases if c.size == "large"]
    for case in group:
        if case.label == "torch_native":
            case.times["cold"] = [[s] for s in wild(1e-5)]
    said = findings.timed(run, group, {})
    assert "too imprecise to compare with torch_native" in said.sentence and said.mood != "good"
    run = checked()
    wrong = next(case for case in run.cases if case.backend in OURS)
    wrong.status, wrong.parity = WRONG, Parity(ok=False, n=4, wrong=1, max_ulp=1e6)
    said = findings.checked(run, run.cases)
    assert "; WRONG: " in said.sentence and "WRONG" not in said.detail
    assert said.detail == "" or said.detail.startswith("largest error of our right answers: ")


@pytest.mark.parametrize("load", [0.3, 8.0])
def test_a_busy_machine_is_the_headline_and_no_verdict_stands(load):
    run = on_cpu(load, **SURE)
    texts = [report.render(run, format, 80, everything=True) for format in ("table", "markdown")]
    if load < 1:
        assert run.busy is None and not marks.busy(run)
        assert all("FASTER" in text and "Machine busy" not in text for text in texts)
        return
    assert marks.busy(run).startswith("Machine busy: load 8 of other programs on 2 cores: times are imprecise")
    assert all("FASTER" not in text and " ".join(text.split()).count("Machine busy: load 8") == 1 for text in texts)
    assert "shortest time, on a busy machine: numpy" in answer.sentence(run, run.cases)
    verdicts = [column.cells for column in columns.drawn(run, run.cases) if column.name == "verdict"]
    assert set(verdicts[0]) == {"busy", "-"}
    assert answer.short(run, run.cases).endswith(" µs (busy)") and len(answer.short(run, run.cases)) < 50
    alone = on_cpu(load, numpy=SURE["numpy"])
    assert "time, on a busy machine: numpy 100" in answer.sentence(alone, alone.cases)


@pytest.mark.parametrize(
    ("run", "verdict", "drawn"),
    [
        pytest.param(on_cpu(**ROUGH), "UNCLEAR", ">? (", id="a wide interval"),
        # Threads that wait for each other make large ratios with narrow intervals.
        pytest.param(on_cpu(8.0, numpy=jittered(1e-6), torch_eager=jittered(4e-4)), "busy", ">?<", id="a busy machine"),
    ],
)
def test_what_says_nothing_leaves_no_ratio_verdict_or_bar(run, verdict, drawn):
    assert run.speedup(run.cases[0], "wall").says_nothing
    headers, rows = columns.table(run, run.cases)
    shown = dict(zip(headers, rows[0]))
    assert (shown["x eager"], shown["verdict"]) == ("?", verdict)
    bars = plots.lines(run, run.cases, 100)
    assert "?" in bars[1] and not set(bars[1].split("|")[0]) & set(plots.BLOCKS.full + plots.BLOCKS.parts)
    svg = figures.speedup(run, run.cases).svg
    assert drawn in svg and svg.count("<title>") == 1  # one bar, the baseline's


def test_a_busy_machine_leaves_no_interval_and_marks_times_without_a_ratio_too():
    run = on_cpu(8.0, numpy=jittered(1e-6), torch_eager=jittered(4e-4))
    ratio = run.speedup(run.cases[0], "wall")
    assert (numbers.ratio(ratio), numbers.with_ends(ratio)) == ("?", "?")
    headers, rows = columns.table(run, run.cases)
    shown = dict(zip(headers, rows[0]))
    assert shown["95 % interval"] == "?" and shown["wall \u00b5s"].endswith("?")
    assert f"{marks.NO_RATIO}. A busy machine is a reason for both." in report.render(run, "table", everything=True)
    run = on_cpu(8.0, numpy=jittered(1e-4))
    assert marks.signs(run, run.cases[0], run.cases) == "?"
    page = findings.timed(run, run.cases, {})
    assert page.detail.startswith("fastest of the others: numpy, 10") and page.detail.endswith("? \u00b5s")


def test_the_pages_environment_has_the_mean_load_and_no_integral_among_the_seconds():
    run = on_cpu(3.0, **SURE)
    parts = dict(environment.environment_of("run", run).parts)
    assert ("mean load", "3 of other programs on 2 cores") in parts["Machine"]
    assert parts["Time spent"] == [("total", "10.0 s")]
    run.wall = {"total": 10.0}  # an older file
    assert not any(name == "mean load" for name, _ in dict(environment.environment_of("run", run).parts)["Machine"])


def test_a_busy_host_leaves_the_gpus_own_times_alone():
    run = timed()
    run.wall = {"total": 10.0, OTHERS: 80.0, CORES: 20.0}
    case = next(c for c in run.cases if c.label == "pycuda:gelu_vec" and c.size == "large")
    assert run.speedup(case, "cold").verdict() == "FASTER"
    assert run.speedup(case, "call").verdict() == "UNCLEAR"
    assert "call times are imprecise" in marks.busy(run)


def test_a_wide_interval_still_shows_the_direction_and_holds_the_ratio_of_the_medians():
    assert not Ratio(5.5, 4.3, 7.1).says_nothing
    assert Ratio(0.18, 0.14, 0.23).verdict() == "SLOWER"
    assert Ratio(1.2, 0.9, 1.6).says_nothing
    assert Ratio(7.0, 1.6, 30.0).verdict() == "UNCLEAR"
    run = on_cpu(numpy=[1.4e-4] * 11 + [1e-5] * 9, torch_eager=[1.9e-4] * 9 + [4e-6] * 11)
    base, one = run.cases[1], run.cases[0]
    ratio = run.speedup(one, "wall")
    assert ratio.low <= base.median("wall") / one.median("wall") <= ratio.high


def test_a_crossover_says_what_is_equal_and_what_is_not_decided_and_names_no_winner_on_a_busy_machine():
    run = on_cpu(**SURE)
    equal, unsure = Ratio(1, 0.995, 1.005), Ratio(1, 0.9, 1.1)
    for ratio, said in (
        (equal, "no crossover: at small both are equally fast (0.995 to 1.005x)"),
        (unsure, "no crossover found: at small which is faster is not decided (0.90 to 1.10x)"),
    ):
        ends = [Probe("small", n, ratio, ratio.verdict()) for n in (1, 4)]
        assert crossover.sentences(Crossover("numpy", "torch_eager", "wall", run, ends))[0].startswith(said)
    found = {}
    for load in (0.0, 8.0):
        run = on_cpu(load, **SURE)
        ratio = run.ratio(run.cases[0], run.cases[1], "wall")
        ends = [Probe("small", n, ratio, ratio.verdict()) for n in (1, 4)]
        found[load] = crossover.render(Crossover("numpy", "torch_eager", "wall", run, ends), 200)
    assert "numpy is faster at both ends" in found[0.0]
    assert "is faster" not in found[8.0]
    assert "Machine busy: load 8" in found[8.0] and "no crossover" not in found[8.0] and "x)" not in found[8.0]
    assert "not decided: the machine was busy; run it again when the machine is idle (gelu, float32" in found[8.0]
    row = next(line.split() for line in found[8.0].splitlines() if line.startswith("small"))
    assert row[3:] == ["?", "?", "not", "decided"]
