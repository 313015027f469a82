"""The roofline: its points and roofs are the measured times and the machine's numbers, or a reason stands there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from report_runs import counted, timed, undrawn

import cudalab

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from cudalab.cli import main
from cudalab.report.html import draw, page, roofline
from cudalab.report.html.lines import APART
from cudalab.results.record import CEILING

H200 = Path(__file__).parents[2] / "bench" / "results" / "h200"
SLOPE, PEAKS = 2 * 3e9 * 6144 / 8, (2048 * 100 * 2e9, 256 * 100 * 2e9)  # TF32, float32


def of(run, size="xlarge"):
    return roofline.figure(run, [case for case in run.cases if case.size == size])


def rows(figure, mark):
    """The data of all layers of a mark."""
    layers = (layer for layer in figure.spec["layer"] if layer["mark"]["type"] == mark)
    return [row for layer in layers for row in layer["data"]["values"]]


@pytest.mark.parametrize("each", [1, 10, 1000, 100_000])
def test_points_are_the_cold_times_and_lines_are_the_roofs(each):
    run = counted(each)
    figure = of(run)
    right = [c for c in run.cases if c.size == "xlarge" and c.status == "ok"]
    points = rows(figure, "point")
    assert sorted(p["y"] for p in points) == pytest.approx(sorted(c.flops / c.median("cold") for c in right))
    assert {p["x"] for p in points} == {each / 8}
    assert all(p["a"] < p["y"] < p["b"] for p in points)
    copy = max(c.bandwidth("cold") for c in run.cases if c.status == CEILING)
    lines = {}
    for row in rows(figure, "line"):
        lines.setdefault(row["k"], []).append((row["x"], row["y"]))
    slanted = [ends for ends in lines.values() if ends[0][1] != ends[1][1]]
    level = [ends for ends in lines.values() if ends[0][1] == ends[1][1]]
    assert [y / x for ends in slanted for x, y in ends] == pytest.approx([SLOPE, SLOPE, copy, copy])
    assert sorted({y for ends in level for _, y in ends}) == sorted(PEAKS)
    assert [min(x for x, _ in ends) * SLOPE for ends in level] == pytest.approx(PEAKS)  # where bytes stop to limit


def test_the_sentence_says_how_near_the_fastest_is_to_each_roof():
    says = of(counted(1)).says
    assert says.startswith("Cold times. Fastest: pycuda:gelu_vec: 0.4")
    assert "at 0.125 operations per byte" in says
    assert "% of the measured copy" in says
    assert "TF32" not in says  # bytes are the limit, not operations
    says = of(counted(100_000)).says
    assert says.index("the peak of float32 units") < says.index("the peak of TF32 tensor cores")
    assert "copy" not in says


def test_a_card_that_tells_no_clock_has_that_of_its_data_sheet():
    run = counted(sm_clock_hz="")
    assert "No peak of operations is known for this card and dtype" in of(run).notes
    run.machine.name = "NVIDIA H200"
    assert any("100 multiprocessors at 1,980 MHz (NVIDIA H200" in note for note in of(run).notes)


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


def test_without_a_roof_there_is_no_roofline():
    run = counted(memory_clock_hz="")
    assert rows(of(run), "line")  # the copy's
    run.cases = [case for case in run.cases if case.status != CEILING]
    assert of(run) == "no roof is known: the run timed no copy, and the lab does not know the card"


def test_an_older_file_has_the_operations_of_the_spec_if_the_kernel_is_the_same():
    run = cudalab.load(H200 / "matmul.json")
    cases = [case for case in run.cases if case.size == "small"]
    for case in run.cases:
        case.flops, case.written = 0, None
    assert rows(roofline.figure(run, cases), "point")[0]["x"] == 2 * 256**3 / (3 * 256**2 * 4)
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
    figure = roofline.figure(run, [case for case in run.cases if case.size == "xlarge"] + more)
    root = ElementTree.fromstring(draw.svg(figure.spec))
    width, height = float(root.get("width")), float(root.get("height"))
    places = {}
    for text in root.findall(".//{*}text"):
        across, down = map(float, text.get("transform").removeprefix("translate(").split(")")[0].split(","))
        if text.get("text-anchor") == "start" and "rotate" not in text.get("transform"):
            places.setdefault(across, []).append(down)
            assert across + 6 * len(text.text) < width
    names = sorted(max(places.values(), key=len))
    assert len(names) == 4 + 2 + 16
    assert min(b - a for a, b in pairwise(names)) >= APART - 0.11  # coordinates have a digit behind the point
    assert names[-1] < height


@pytest.mark.parametrize(
    ("flops", "nbytes", "seconds"),
    [(1, 2**62, 1e12), (2**62, 1, 1e-15), (1, 1, 1e12), (2**62, 2**62, 1e-15)],
)
def test_whatever_a_file_says_is_drawn(flops, nbytes, seconds):
    run = counted(sm_clock_hz=-1.0, memory_clock_hz=-5)
    for case in run.cases:
        case.flops, case.nbytes, case.times = flops, nbytes, {"cold": [[seconds]]}
    assert draw.svg(of(run).spec).startswith("<svg")


def test_the_page_draws_it_and_says_where_there_is_none():
    made = page.laid_out([("a.json", counted()), ("b.json", timed("softmax"))], undrawn)
    assert made.count('data-chart="roofline"') == 3
    assert "<li>No roofline of softmax: the spec does not count operations; give flops=.</li>" in made


def test_the_command_draws_one(tmp_path):
    counted().save(file := tmp_path / "run.json")
    words = ["report", str(file), "--chart", "roofline", "-o", str(tmp_path / "x.svg")]
    assert CliRunner().invoke(main, words).exit_code == 0
    said = ElementTree.parse(tmp_path / "x.svg").getroot().find("{*}title").text
    assert said.startswith("Roofline, cold, gelu, float32, xlarge, Test GPU. Cold times. Fastest: ")
    timed("softmax").save(file)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "nothing to draw for roofline of softmax float32: the spec does not count operations" in done.output
    done = CliRunner().invoke(main, [*words, "--kind", "hot"])
    assert done.exit_code == 2
    assert "--kind is for speedup, samples and bandwidth, not for roofline" in done.output
