"""Predictions beside a run: for each entry and size one, or a reason why there is none."""

from __future__ import annotations

from pathlib import Path

import kept_sass
import pytest

from cudalab.base.errors import CompileError
from cudalab.results.record import Case, Prediction
from cudalab.tools.inspect import ahead, compilers, inspect
from cudalab.tools.inspect.ahead import Ahead, Request

ROOT = Path(__file__).parents[3]
SOFTMAX = str(ROOT / "bench" / "examples" / "softmax.py")
SUM = str(ROOT / "tests" / "data" / "kernels" / "two_pass_sum.py")
KEPT = kept_sass.reader(ROOT / "tests" / "data" / "sass")


def predicted(kernel, sizes, compiler=KEPT):
    return list(ahead.predictions((kernel,), sizes, "float32", compiler))


def cases(kernel, entry, size="64x64"):
    return [Case(kernel, size, (64, 64), "float32", backend, entry) for backend in ("host", "numpy")]


def test_each_entry_has_a_prediction_at_each_size_and_is_compiled_once():
    asked = []

    def compiler(*job):
        asked.append(job)
        return KEPT(*job)

    found = predicted(SOFTMAX, "64x64,16384x1024", compiler)
    assert len(asked) == 1
    assert {one.size for one in found} == {"64x64", "16384x1024"} and all(one.entry for one in found)
    small, large = (next(one.prediction for one in found if one.size == size) for size in ("64x64", "16384x1024"))
    assert small.card == large.card == "H200" and small.bound and 0 < small.least < large.least


def test_an_entry_of_several_launches_has_their_sum():
    (one,) = predicted(SUM, "2^20")
    launches = inspect(SUM, size="2^20", compiled=KEPT)
    assert one.entry == "sum" and len(launches) == 2
    assert one.prediction.least == sum(launch.predicted for launch in launches)


def test_code_that_does_not_compile_and_faults_of_inspection_are_reasons():
    asked = []

    def refuses(kernel, kind, architecture, launched):
        asked.append(architecture)
        raise CompileError("x.cu does not compile:\n" + "long " * 1000)

    found = predicted(SOFTMAX, "64x64,128x64", refuses)
    assert asked == ["sm_90", "sm_90a"]
    assert [(one.size, one.entry) for one in found] == [("64x64", ""), ("128x64", "")]
    assert found[1].prediction.reason.startswith("x.cu does not compile") and len(found[1].prediction.reason) < 700

    def faulty(*job):
        raise ZeroDivisionError("of the reader")

    (one,) = predicted(SOFTMAX, "64x64", faulty)
    assert one.prediction.reason == "inspection failed: ZeroDivisionError: of the reader"


def test_instructions_of_the_card_alone_are_compiled_for_its_own_architecture():
    def compiler(kernel, kind, architecture, launched):
        if architecture == "sm_90":
            raise CompileError("wgmma is not supported on sm_90")
        return KEPT(kernel, kind, "sm_90", launched)

    assert all(one.prediction.least for one in predicted(SOFTMAX, "64x64", compiler))


def test_without_tools_each_entry_says_what_to_install_unless_a_prediction_is_kept(monkeypatch):
    monkeypatch.setattr(compilers, "missing", lambda: "nvdisasm is not installed")
    rows = cases("softmax", "softmax")
    with Ahead(Request((SOFTMAX,), "64x64", "", 10.0)) as process:
        process.start()
        process.add_to(rows)
    assert [row.predicted and row.predicted.reason for row in rows] == ["nvdisasm is not installed", None]
    monkeypatch.setattr(compilers, "missing", lambda: "nvdisasm is not installed")
    rows, kept = cases("softmax", "softmax"), Prediction("H200", "memory", 1e-6)
    rows[0].predicted = kept
    with Ahead(Request((SOFTMAX,), "64x64", "", 10.0)) as process:
        process.add_to(rows)  # of a complete run: it was never started
        assert [row.predicted for row in rows] == [kept, None]
        process.start()
        process.add_to(rows)
    assert rows[0].predicted == kept


@pytest.mark.process
def test_a_process_that_dies_takes_nothing_from_the_run(monkeypatch):
    monkeypatch.setattr(compilers, "missing", lambda: "")
    monkeypatch.setattr(ahead, "MAIN", "os.fsencode")  # raises TypeError for what it is given
    rows = cases("softmax", "softmax")
    with Ahead(Request((SOFTMAX,), "64x64", "", 10.0)) as process:
        process.start()
        process.look()
        process.add_to(rows)
    assert "TypeError" in rows[0].predicted.reason and rows[0].predicted.least is None
