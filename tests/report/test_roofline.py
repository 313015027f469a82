"""The roofline: its points and roofs are the measured times and the machine's numbers, or a reason stands there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from commands import ran, refused
from report_runs import counted, group, timed

import cudalab

pytest.importorskip("jinja2")

from cudalab.report.html import page, roofline, roofline_chart
from cudalab.report.html.groups import APART
from cudalab.report.html.paper import Scale
from cudalab.results.record import CEILING

H200 = Path(__file__).parents[2] / "bench" / "results" / "h200"
SLOPE, PEAKS = 2 * 3e9 * 6144 / 8, (2048 * 100 * 2e9, 256 * 100 * 2e9)  # TF32, float32


def of(run, size="xlarge"):
    return roofline.figure(run, group(run, size))


@pytest.fixture
def handed(monkeypatch):
    """The points, slopes and peaks from which the last chart was drawn."""
    held, drawing = [], roofline_chart.roofline
    monkeypatch.setattr(roofline_chart, "roofline", lambda *given: held.append(given[:3]) or drawing(*given))
    return lambda: held[-1]


@pytest.mark.parametrize("each", [1, 10, 1000, 100_000])
def test_points_are_the_cold_times_and_lines_are_the_roofs(handed, each):
    run = counted(each)
    of(run)
    points, slopes, peaks = handed()
    right = [c for c in run.cases if c.size == "xlarge" and c.status == "ok"]
    assert sorted(p.rate for p in points) == pytest.approx(sorted(c.flops / c.median("cold") for c in right))
    assert {p.at for p in points} == {each / 8}
    assert all(p.low < p.rate < p.high for p in points)
    copy = max(c.bandwidth("cold") for c in run.cases if c.status == CEILING)
    assert [slope.rate for slope in slopes] == pytest.approx([SLOPE, copy])
    assert [rate for rate, _ in peaks] == pytest.approx(PEAKS)


def test_a_scale_maps_its_ends_and_the_sentence_says_how_near_each_roof_is():
    says = of(counted(1)).says
    assert says.startswith("Cold times. Fastest: pycuda:gelu_vec: 0.4")
    assert "at 0.125 operations per byte" in says
    assert "% of the measured copy" in says
    assert "TF32" not in says  # bytes are the limit, not operations
    says = of(counted(100_000)).says
    assert says.index("the peak of float32 units") < says.index("the peak of TF32 tensor cores")
    assert "copy" not in says
    assert [Scale(1, 100, 250, 0, "log")(v) for v in (1, 10, 100)] == pytest.approx([250, 125, 0])
    assert [Scale(-9, 9, 0, 100, "symlog")(v) for v in (-9, 0, 9)] == pytest.approx([0, 50, 100])
    assert Scale(3, 3, 0, 100)(3) == 50


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda case: setattr(case, "flops", 0), "the spec does not count operations; give flops="),
        (lambda case: case.times.pop("cold", None), "it needs cold times, which `cudalab bench` takes on a GPU"),
        (lambda case: setattr(case, "nbytes", 0), "the bytes of a run are not counted"),
    ],
)
def test_what_is_not_known_has_a_reason_and_no_point(change, reason):
    run = counted()
    for case in run.cases:
        change(case)
    assert of(run) == reason


def test_without_a_roof_there_is_no_roofline_and_a_data_sheets_clock_makes_one(handed):
    run = counted(memory_clock_hz="")
    of(run)
    assert [slope.measured for slope in handed()[1]] == [True]  # the copy's
    run.cases = [case for case in run.cases if case.status != CEILING]
    assert of(run) == "no roof is known: the run timed no copy, and the lab does not know the card"
    run = counted(sm_clock_hz="")
    assert "No peak of operations is known for this card and dtype" in of(run).notes
    run.machine.name = "NVIDIA H200"
    assert any("100 multiprocessors at 1,980 MHz (NVIDIA H200" in note for note in of(run).notes)


def test_an_older_file_has_the_operations_of_the_spec_if_the_kernel_is_the_same(handed):
    run = cudalab.load(H200 / "matmul.json")
    cases = group(run, "small")
    for case in run.cases:
        case.flops, case.written = 0, None
    roofline.figure(run, cases)
    assert handed()[0][0].at == 2 * 256**3 / (3 * 256**2 * 4)
    for case in cases:
        case.nbytes += 4
    assert "its runs move 786,436 bytes, and the spec counts 786,432" in roofline.figure(run, cases)
    for case in cases:
        case.shape = (2**40, 2**40, 2**40)
    assert roofline.figure(run, cases).endswith("the spec has no such size")  # it is not allocated
    run.sources["matmul.cu"] = "0" * 64
    assert "matmul.cu has changed since it was measured" in roofline.figure(run, cases)
    for case in cases:
        case.kernel = "gelu"
    assert roofline.figure(run, cases) == "the spec does not count operations; give flops="
    for case in cases:
        case.kernel = "elsewhere"
    assert roofline.figure(run, cases).endswith("the lab has no kernel of this name")


def test_a_file_cannot_have_a_spec_run(tmp_path):
    (tmp_path / "spy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "spy.cu").write_text("")
    run = timed(kernel=str(tmp_path / "spy.py"))
    assert isinstance(of(run), str)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("each", [1, 10, 1000, 100_000])
def test_texts_keep_apart(each):
    run = counted(each)
    more = [case for case in run.cases if case.status == "ok" and case.size == "xlarge"] * 4
    for i, case in enumerate(more := [msgspec.structs.replace(case) for case in more]):
        case.variant += str(i)
    figure = roofline.figure(run, group(run) + more)
    root = ElementTree.fromstring(figure.svg)
    width, height = float(root.get("width")), float(root.get("height"))
    places = {}
    for text in root.findall(".//{*}text"):
        if text.get("transform") is None and text.get("text-anchor") is None:
            across, down = float(text.get("x")), float(text.get("y"))
            places.setdefault(across, []).append(down)
            assert 54 + across + 6 * len(text.text) < width
    names = sorted(max(places.values(), key=len))
    assert len(names) == 4 + 2 + 16
    assert min(b - a for a, b in pairwise(names)) >= APART - 0.11  # coordinates have a digit behind the point
    assert names[-1] < height - 8


@pytest.mark.parametrize(
    ("flops", "nbytes", "seconds"), [(1, 2**62, 1e12), (2**62, 1, 1e-15), (1, 1, 1e12), (2**62, 2**62, 1e-15)]
)
def test_whatever_a_file_says_is_drawn(flops, nbytes, seconds):
    run = counted(sm_clock_hz=-1.0, memory_clock_hz=-5)
    for case in run.cases:
        case.flops, case.nbytes, case.times = flops, nbytes, {"cold": [[seconds]]}
    assert of(run).svg.startswith("<svg")


def test_the_page_and_the_command_draw_it_and_say_where_there_is_none(tmp_path):
    made = page.render([("a.json", counted()), ("b.json", timed("softmax"))])
    assert made.count('data-chart="roofline"') == 1 + 3  # of all kernels, and of each size of the one that counts
    assert "<li>No roofline of softmax: the spec does not count operations; give flops=.</li>" in made
    counted().save(file := tmp_path / "run.json")
    words = ["report", str(file), "--chart", "roofline", "-o", str(tmp_path / "x.svg")]
    ran(*words)
    said = ElementTree.parse(tmp_path / "x.svg").getroot().find("{*}title").text
    assert said.startswith("Roofline, cold, gelu, float32, xlarge, Test GPU. Cold times. Fastest: ")
    timed("softmax").save(file)
    assert "nothing to draw for roofline of softmax float32: the spec does not count operations" in refused(*words)
    assert "--kind is for speedup, samples and bandwidth, not for roofline" in refused(*words, "--kind", "hot")
