"""The screen of a bench without a GPU: verdicts, predictions, what a card measured, and CPU times in a line."""

from __future__ import annotations

import pytest

from cudalab import report
from cudalab.base.load import CORES, OTHERS
from cudalab.report import measured
from cudalab.results import file
from cudalab.results.record import ERROR, OK, SKIPPED, WRONG, Case, Machine, Parity, Prediction, Results

PEERS = {"torch_native": 90, "torch_compile": 200, "torch_eager": 320, "torch_script": 340, "numpy": 2700}
SIZES = {"small": (1, 3, 224, 224), "large": (32, 3, 224, 224)}
LATENCY, MEMORY = Prediction("H200", "latency", 8.05e-7), Prediction("H200", "memory", 8.03e-6)


def bench(*kernels, entries=("gelu_full", "gelu_vec"), load=8.0, path=False, source="00", dtype="float32"):
    """A run of these kernels at two sizes; `path`: they were named by their paths."""
    cases = [
        case
        for kernel in kernels
        for size, shape in SIZES.items()
        for case in (
            *(Case(kernel, size, shape, dtype, name, parity=Parity(True, 4), times={"wall": [[us * 1e-6]] * 9})
              for name, us in PEERS.items()),
            *(Case(kernel, size, shape, dtype, "host", entry, parity=Parity(True, 4, max_ulp=3.1),
                   predicted=MEMORY if size == "large" else LATENCY) for entry in entries),
            Case(kernel, size, shape, dtype, "triton", status=SKIPPED, reason="needs a GPU, and no driver"),
        )
    ]  # fmt: skip
    options = {"kernels": [f"./{name}.py" if path else name for name in kernels], "modes": "launch"}
    return Results(
        "cudalab-results", 8, "2026-01-01", options, Machine("cpu", "CPU"), "no driver", cases=cases, kind="bench",
        sources={f"{name}.cu": source for name in kernels}, wall={"total": 10.0, OTHERS: 10 * load, CORES: 20.0},
    )  # fmt: skip


def lines(run, width=80):
    return report.render(run, "table", width).splitlines()


def cases(run, label):
    return [case for case in run.cases if case.label == label]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder in place of that of the lab's results; gives a function that adds a run of a card to it."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path)

    def add(folder, name, created="2026-11-23T05:10:46+00:00", kernel="gelu", microseconds=20.0, source="00"):
        times = {"pycuda": microseconds, "torch_eager": 2 * microseconds}
        rows = [
            Case(kernel, size, shape, "float32", backend, "gelu_vec" if backend == "pycuda" else "",
                 parity=Parity(True, 4), nbytes=8, times={"cold": [[us * 1e-6]] * 9})
            for size, shape in SIZES.items() for backend, us in times.items()
        ]  # fmt: skip
        run = Results("cudalab-results", 8, created, {"modes": "launch"}, Machine("cuda", name), cases=rows,
                      kind="bench", sources={f"{kernel}.cu": source})  # fmt: skip
        (tmp_path / folder).mkdir(exist_ok=True)
        file.save(run, tmp_path / folder / f"{kernel}.json")

    return add


def row(text, name):
    return next(line.split() for line in text if name in line.split())


def test_one_screen_has_the_verdict_the_bound_the_card_and_a_line_of_cpu_times(results):
    results("h200", "NVIDIA H200")
    text = lines(bench("gelu"))
    assert text[0] == "No GPU: no driver. Checked on the CPU"
    assert "gelu  float32  right: 2 entries, 5 libraries" in text
    assert row(text, "gelu_full") == ["small", "gelu_full", "3.1", "latency", "0.805", "-", "-"]
    assert row(text, "1x3x224x224")[1:6] == ["gelu_vec", "3.1", "latency", "0.805", "20"]
    assert next(line for line in text if line.startswith("CPU")) == (
        "CPU µs, busy: small torch_native 90, 4 more; large torch_native 90, 4 more"
    )
    assert "measured: NVIDIA H200, 2026-11-23: cudalab show " in " ".join(text)
    assert any(line.startswith("bound by latency: ") for line in text)
    assert "triton" not in "".join(text) and "skipped" not in "".join(text)
    assert max(map(len, text)) <= 80


@pytest.mark.parametrize(("kernels", "most"), [(("gelu",), 24), (("gelu", "add2d", "plus_one"), 48)])
def test_the_screen_is_short(results, kernels, most):
    for kernel in kernels:
        results("h200", "NVIDIA H200", kernel=kernel)
        results("h100", "NVIDIA H100 80GB HBM3", kernel=kernel)
    text = lines(bench(*kernels, entries=("plain", "full", "gelu_vec")))
    assert len(text) <= most and max(map(len, text)) <= 80
    assert f"measured: NVIDIA H200, 2026-11-23, {', '.join(kernels)}: cudalab show " in " ".join(text)


def test_every_time_is_in_the_tables_of_all():
    run = bench("gelu", load=0.0)
    wide = next(line for line in lines(run, 200) if line.startswith("CPU"))
    assert wide.count("numpy 2,700") == 2 and "busy" not in wide
    tables = report.render(run, "table", 80, everything=True)
    assert tables.count("not timed") == 4 and tables.count("2,700") == 2
    assert report.render(run, "table", 80, costs=True).count("not timed") == 4
    run.cases = [case for case in run.cases if case.backend != "host"]  # libraries alone: their times are the subject
    assert "95 %" in report.render(run, "table", 80)


def test_an_entry_that_is_wrong_or_could_not_run_is_in_the_headline():
    run = bench("gelu")
    bad = cases(run, "host:gelu_vec")[1]
    bad.status, bad.reason, bad.parity = WRONG, "1 of 4 values differ: [3] got 1, want 2", None
    text = lines(run)
    assert "gelu  float32  WRONG: host:gelu_vec; right: 1 entry, 5 libraries" in text
    assert "  WRONG gelu float32 at large, host:gelu_vec: 1 of 4 values differ: [3] got 1," in text
    assert "\x1b[1;31mgelu" in report.render(run, "table", 80, color=True)
    run = bench("gelu")
    for case in cases(run, "host:gelu_full"):
        case.status, case.reason, case.parity = SKIPPED, "inline asm cannot run on the CPU", None
    text = lines(run)
    assert "gelu  float32  not run: 1 entry; right: 1 entry, 5 libraries" in text
    assert "  skipped host:gelu_full: inline asm cannot run on the CPU" in text
    run.cases = [case for case in run.cases if case.status != OK]
    assert "gelu  float32  not run: 1 entry" in lines(run)


def test_what_is_not_predicted_says_why_and_code_that_nvcc_refuses_is_not_called_right_alone():
    run = bench("gelu", "mine")
    for case in cases(run, "host:gelu_vec"):
        case.predicted = (
            Prediction(reason="mine.cu does not compile:\nmine.cu(4): error") if case.kernel == "mine" else None
        )
    text = lines(run)
    assert "bound by: not predicted for gelu: only the command `cudalab bench` predicts, and" in "\n".join(text)
    assert "bound by: not predicted for mine: mine.cu does not compile:" in text
    assert "mine  float32  nvcc does not compile it; right: 2 entries, 5 libraries" in text
    for case in cases(run, "host:gelu_vec"):
        case.status, case.reason = ERROR, "g++: no"
    assert "nvcc does not" not in "\n".join(lines(run))


def test_cards_are_known_by_what_their_files_say_and_the_newest_counts(results):
    results("a", "NVIDIA H200", "2026-11-23", microseconds=20.0)
    results("b", "NVIDIA H200", "2026-11-25", microseconds=10.0)
    results("c", "NVIDIA H100 80GB HBM3", microseconds=30.0)
    found = measured.newest_runs(bench("gelu"), "gelu")
    assert [(one.card, one.run.created[:10]) for one in found] == [
        ("H100", "2026-11-23"), ("H200", "2026-11-25"),
    ]  # fmt: skip
    assert {"30", "10.0"} <= set(row(lines(bench("gelu"), 140), "1x3x224x224"))


def test_times_of_another_kernel_with_this_name_are_not_shown(results):
    results("h200", "NVIDIA H200", source="11")
    assert measured.newest_runs(bench("gelu", path=True), "gelu") == []
    assert "measured: nothing of gelu here; `cudalab bench ./gelu.py` on a GPU measures it" in lines(
        bench("gelu", path=True)
    )
    earlier = " ".join(lines(bench("gelu")))
    assert "2026-11-23, an earlier .cu of gelu: cudalab show" in earlier
    assert measured.newest_runs(bench("gelu", path=True, source="11"), "gelu")  # a copy of the same code
    assert measured.newest_runs(bench("gelu", dtype="float16"), "gelu") == []  # not measured
    with_set = bench("gelu")
    with_set.options["parameters"] = "VEC_THREADS=256"
    assert measured.newest_runs(with_set, "gelu") == []
    assert "measured: times of other launch parameters than those of --set are not shown" in lines(with_set)
    shown = bench("gelu", "softmax")
    shown.cases = [case for case in shown.cases if case.kernel == "softmax"]
    assert "cudalab inspect softmax" in " ".join(lines(shown))
    (measured.FOLDER / "h200" / "gelu.json").write_text("{")
    assert measured.newest_runs(bench("gelu"), "gelu") == [] == measured.newest_runs(bench("gelu"), "../gelu")
