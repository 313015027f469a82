"""The report's sentences, charts and files. What a browser makes of the page is in test_report_page.py."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from math import log10, prod
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from commands import invoke, ran, refused
from report_runs import checked, group, hostile, timed

import cudalab

pytest.importorskip("jinja2")

from cudalab.base import numbers
from cudalab.base.errors import CudalabError
from cudalab.report import below_tables, html
from cudalab.report.html import checked as checked_charts
from cudalab.report.html import draw, figures, findings, over_sizes, overview, page, palette, plot, text_width
from cudalab.report.html.charts import Bar, bars, outline
from cudalab.report.html.groups import spread
from cudalab.report.html.lines import Line, grouped
from cudalab.report.html.lines import over_sizes as over_sizes_chart
from cudalab.report.html.subjects import fill, gathered
from cudalab.results import record, rivals

ROOT = Path(__file__).parents[2]
H200 = ROOT / "bench" / "results" / "h200"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "run.json"
    timed().save(path)
    return path


def answer(run):
    return findings.timed(run, group(run), {"pycuda:gelu_vec": "95"})


def rivals_of(*files):
    """The first pictures of a page, and what it says in their place."""
    runs = page.runs_by_name([(f"{i}.json", run) for i, run in enumerate(files)])
    subjects = gathered(runs)
    fill(subjects)
    return overview.figures(runs, subjects)


def texts_of(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def slowed(run, factor):
    """The same run with our times multiplied."""
    for case in run.cases:
        if case.backend == "pycuda":
            case.times = {k: [[factor * s for s in r] for r in rounds] for k, rounds in case.times.items()}
    return run


def test_the_first_picture_has_losses_first_with_the_rival_and_says_what_holds_one():
    lost, close, won = slowed(timed("lost"), 3), slowed(timed("close"), 1.335), timed("won")
    close.cases, won.cases = group(close), group(won, "small")
    for run in (lost, close, won):  # `xlarge` of `won` went wrong
        run.cases = [case for case in run.cases if case.label != "copy"]
    bad = timed("bad")
    bad.cases = [msgspec.structs.replace(c, status=record.WRONG, times={}) for c in group(bad) if c.backend == "pycuda"]
    (figure,), without = rivals_of(won, close, lost, bad)
    assert without == []
    said = [text for text in texts_of(figure.svg) if re.match(r"(lost|close|won|bad)\b", text)]
    assert [text.split(",")[0] for text in said] == ["bad", "lost", "lost", "lost", "close", "won"]
    values = [text for text in texts_of(figure.svg) if re.search("SLOWER|SAME|FASTER|WRONG", text)]
    assert values[0] == "WRONG"
    assert all(re.fullmatch(r"0\.\d+ SLOWER, torch_native", text) for text in values[1:4])
    assert re.fullmatch(r"(0\.99|1\.00)\d* SAME, torch_native", values[4])
    assert figure.svg.count('stroke-dasharray="2,2"') == 1  # its interval holds 1
    assert "6 comparisons: 3 SLOWER, 1 SAME, 1 FASTER, 1 WRONG." in figure.says


def test_of_many_comparisons_each_kernel_shows_its_mean_its_worst_and_its_best():
    runs = [slowed(timed(f"kernel_{i}", dtype), 1 + i / 8) for i in range(4) for dtype in ("float32", "float16")]
    (figure,), _ = rivals_of(*runs)
    shown = texts_of(figure.svg)
    assert [text for text in shown if text.startswith("kernel_")] == ["kernel_3", "kernel_2", "kernel_1", "kernel_0"]
    first = shown[shown.index("kernel_3") :]
    assert [text.split(",")[0] for text in first[2:6:2]] == ["worst: xlarge", "best: small"]
    assert first[3].endswith("SLOWER, torch_native") and first[5].endswith("FASTER, torch_native")
    found = [
        r.ratio.value for run in runs[-2:] for c in run.groups().values() if (r := rivals.compared(run, c, "cold"))
    ]
    assert float(first[1].split()[0]) == pytest.approx(prod(found) ** (1 / 6), rel=0.01)


def test_names_in_the_first_picture_are_whole_and_cards_never_in_one():
    name = "a_kernel_" * 12
    (figure,), _ = rivals_of(timed(name))
    assert "".join(text for text in texts_of(figure.svg) if text.startswith(("a_", "kernel_"))).startswith(name)
    other, cpu = timed(), timed()
    other.machine.name, cpu.machine.name, cpu.machine.device = "NVIDIA A100", "Some CPU", "cpu"
    for case in cpu.cases:
        case.times = {"wall": case.times["cold"]} if case.times and case.backend.startswith("torch") else {}
    figures_, without = rivals_of(timed(), other, cpu)
    assert [figure.title.partition(" \u00b7 ")[2] for figure in figures_] == ["Test GPU", "NVIDIA A100"]
    assert without == ["No ratio of ours to a rival on Some CPU: a .cu is checked on a CPU, and not timed."]
    assert "0.json" not in figures_[0].svg  # no other file of this card has the kernel
    assert rivals_of(checked()) == ([], [])


def test_lines_that_lie_on_each_other_are_one_and_names_at_their_ends_keep_apart():
    points = [(1e6, 10.0), (1e8, 40.0)]
    near = [(x, y + 0.3) for x, y in points]
    lines = [
        Line("one", points, ["a", "b"]),
        Line("ours", near, ["c", "d"], 1, True),
        Line("far", [(1e6, 20), (1e8, 9)]),
    ]
    assert [[line.name for line in group] for group in grouped(lines, log10, lambda v: 4 * v)] == [
        ["ours", "one"],
        ["far"],
    ]
    drawn = over_sizes_chart(lines, [], ("x", "y"))
    assert "<title>c\na</title>" in drawn
    assert drawn.count('stroke-width="2.6"') == drawn.count('stroke-width="1.3"') == 1
    assert spread([10, 11, 12, 90], [5, 9, 5, 5], 100) == [10, 15, 24, 90]
    assert spread([96, 97, 98], [5, 5, 5], 100) == [92, 97, 102]  # the plot ends at 107, half a line below


def test_the_answer_names_ours_the_peer_and_the_ceiling_and_says_slower_and_wrong():
    said = answer(timed())
    assert said.subject == "gelu, float32, Test GPU"
    ratio = r"1\.3\d*\u00d7 torch_native \(1\.\d+ to 1\.\d+, FASTER\)"
    assert re.fullmatch(rf"ours 20\d(\.\d)? µs, {ratio}, 95 % of copy; error: .*", said.sentence)
    assert "torch_eager" in said.detail
    assert "fastest rival: torch_native" in said.detail
    assert said.mood == "bad"  # for what failed
    run = timed()
    run.cases = [c for c in run.cases if c.variant != "gelu_vec"]
    said = answer(run)
    assert re.search(r"0\.7\d+\u00d7 torch_native \(0\.7\d+ to 0\.7\d+, SLOWER\)", said.sentence)
    assert said.mood == "bad"
    for case in run.cases:
        if case.backend == "pycuda":
            case.status, case.times, case.reason = record.WRONG, {}, "all of it"
    assert answer(run).sentence == "none of our entries is right; WRONG: pycuda:gelu_scalar"


def test_the_answer_says_what_went_wrong_at_another_size_and_in_another_file():
    small, other = timed(), checked()
    bad = next(c for c in group(small, "small") if c.label == "pycuda:gelu_vec")
    bad.status, bad.times, bad.reason = record.WRONG, {}, "all of it"
    assert "; WRONG: pycuda:gelu_vec" in page.render([("run.json", small)])
    first, second = ([msgspec.structs.replace(c) for c in other.cases] for _ in range(2))
    second[0].status = record.ERROR
    loaded = [(f"{i}.json", msgspec.structs.replace(other, cases=cases)) for i, cases in enumerate((first, second))]
    shown = page.render(loaded)
    assert f"; error: {second[0].label}" in shown.partition("1.json: <strong>")[2].partition("</p>")[0]
    assert "; error" not in shown.partition("0.json: <strong>")[2].partition("</p>")[0]


def test_several_runs_of_a_kernel_are_told_apart_by_their_files():
    broken, fixed, check = timed(), timed(), checked()
    for run in (broken, check):
        for case in run.cases:
            if case.label == "pycuda:gelu_vec":
                case.status, case.times, case.reason = (
                    record.WRONG,
                    {},
                    f"{len(case.size)} of 9 values differ: x (why?)",
                )
                case.kernel, case.dtype = "gelu", "float32"
    loaded = [("broken.json", broken), ("fixed.json", fixed), ("check.json", check)]
    shown = page.render(loaded)
    answers = re.findall(r'<p class="answer \w+">([^<]*): <strong>([^<]*)', shown)
    by_file = {subject.partition(" \u00b7 ")[2]: said for subject, said in answers}
    assert "; WRONG: " in by_file["broken.json"]
    assert "; WRONG: pycuda" not in by_file["fixed.json"]
    assert "; WRONG in check.json: pycuda:gelu_vec" in by_file["fixed.json"]
    assert re.search(r"<th[^>]*>file</th>", shown) and re.search("<td[^>]*>fixed.json<", shown)
    lines = re.findall(r'<li><b class="bad">WRONG</b> (.*?)</li>', shown)
    mine = [line for line in lines if "pycuda:gelu_vec" in line]
    assert len(mine) == 2, mine  # three sizes in one line, a line for each file
    assert "at small and 2 more, pycuda:gelu_vec (broken.json)" in mine[0]


def test_a_hint_that_ends_several_reasons_stands_once():
    cases = [record.Case("k", "s", (1,), "float32", name, status=record.WRONG, reason=f"{i} differ (was it set?)")
             for i, name in enumerate("abc")]  # fmt: skip
    assert [text for *_, text in below_tables.remarks(cases)] == ["0 differ (was it set?)", "1 differ", "2 differ"]
    assert len(below_tables.remarks(cases[:1] * 3, placed=True)) == 1


def test_the_answer_of_a_cpu_says_what_was_checked_and_that_nothing_of_ours_is_timed():
    run = timed()
    run.machine.device, run.machine.name = "cpu", "Some CPU"
    for case in run.cases:
        case.times = {"wall": case.times["cold"]} if case.times and case.backend.startswith("torch") else {}
        case.backend = "host" if case.backend == "pycuda" else case.backend
    said = answer(run)
    assert said.sentence.startswith("ours checked on the CPU, where a .cu is not timed: host:gelu_vec right, 1.5 ULP")
    assert said.detail.startswith("fastest of the others: torch_native, ")


def test_a_chart_holds_the_numbers_that_it_shows_and_one_row_has_none():
    run = timed()
    drawn = figures.speedup(run, group(run)).svg
    base = next(c for c in group(run) if c.backend == "torch_eager")
    best = run.speedup(next(c for c in group(run) if c.variant == "gelu_vec"), "cold")
    assert f"{numbers.ratio(best)} FASTER</text>" in drawn
    assert "error: no time" in drawn
    assert "WRONG: no time" in drawn
    assert base.label in drawn
    widths = sorted(float(w) for w in re.findall(r'd="M0,\S+?h(\S+?)v', drawn))
    top = max(run.speedup(c, "cold").high for c in group(run) if c.times) * 1.02
    assert widths[-2] == pytest.approx(132 * best.value / top, abs=0.2)  # the longest is the copy
    run = timed()
    alone = [case for case in group(run) if case.label == "torch_eager"]
    assert figures.speedup(run, group(run)) is not None
    assert figures.speedup(run, alone) is None


def test_the_peer_of_the_answer_is_the_fastest_as_in_show():
    """Whatever it is called: README and `show` compare with it too."""
    run = timed()
    for case in group(run):
        if case.label == "triton":
            native = next(c for c in group(run) if c.label == "torch_native")
            case.status, case.reason = record.OK, ""
            case.times = {"cold": [[0.9 * s for s in r] for r in native.times["cold"]]}
            case.processes = dict(native.processes)
    assert "\u00d7 triton (" in answer(run).sentence and "torch_native" not in answer(run).sentence


@pytest.mark.parametrize("top", [0.2, 0.37, 0.5, 0.98, 1.0, 1.5, 5.0, 8.0, 95.0, 99_000.0])
def test_numbers_below_bars_keep_apart(top):
    drawn = bars([Bar("a", "b", top, top, top)], "times as fast")
    found = re.findall(r'<text x="([\d.]+)" y="36.9" text-anchor="middle"[^>]*>([\d.,]+)</text>', drawn)
    places = [(float(x), text_width.width(text, 11, False) / 2) for x, text in found]
    assert len(places) >= 2
    assert all(x + half + 4 <= next_ - other for (x, half), (next_, other) in pairwise(places)), drawn


def test_an_interval_far_beyond_all_bars_does_not_shorten_them():
    drawn = bars([Bar("a", "1", 1.0, 0.9, 1e6), Bar("b", "2", 2.0, 1.9, 2.1)], "s")
    assert max(float(wide) for wide in re.findall(r'd="M0,\S+?h(\S+?)v', drawn)) > 60


def test_where_no_number_came_is_shown_and_alike_variants_are_one_line():
    figure = checked_charts.error(checked(), checked().cases)
    names = re.findall(r'x="227" y="[\d.]+"( font-weight="bold")? fill="(#\w+)"[^>]*>([^<]+)<', figure.svg)
    assert [text for bold, colour, text in names if bold] == ["pycuda:gelu_vec", "cupy_raw:gelu_vec"]
    assert len({colour for _, colour, _ in names}) == 3  # two lie on each other: one line, in one colour
    assert any(note.startswith("torch_native: NaN or infinity where a number was expected") for note in figure.notes)
    assert "torch_eager at most 200 ULP" in figure.says


def test_all_samples_are_counted_and_two_groups_are_said():
    run = timed()
    case = group(run)[0]
    case.times["cold"] = [[1e-4, 1.2e-4] * 2] * 10
    figure = figures.samples(run, group(run))
    assert "two groups of samples, or an interval above 10 %: pycuda:gelu_vec" in figure.says.lower()
    total = sum(len(samples) for c in group(run) if c.times for samples in c.times["cold"])
    assert f"All {total} samples" in figure.says
    corners = outline([-0.5, 0.0, 0.0, 0.99, 3.0], 1.0, 4)  # the last one lies beyond
    assert corners == [(-1.0, 0.0), (-0.5, 0.5), (0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]


def test_labels_can_be_read_in_both_themes():
    """WCAG 2.2, 1.4.3 and 1.4.11: 4.5:1 for text, 3:1 for shapes."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    def contrast(one, two):
        high, low = sorted((light(one), light(two)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for colour in (palette.INK, palette.MUTED, palette.BAD, palette.GOOD, palette.OURS, palette.OTHER, *palette.LINES):
        least = 3 if colour == palette.OTHER else 4.5
        assert contrast(colour, palette.SURFACE) >= least, colour
        assert contrast(palette.DARK[colour], palette.DARK[palette.SURFACE]) >= least, palette.DARK[colour]
    assert len({palette.style_of(i) for i in range(21)}) == 21


def test_a_long_text_is_as_wide_as_in_the_font_that_charts_are_laid_out_for():
    said = re.compile(r'<text [^>]*textLength="([\d.]+)" lengthAdjust="spacingAndGlyphs"[^>]*>([^<]*)</text>')
    found = {text: float(wide) for wide, text in said.findall(figures.speedup(timed(), group(timed())).svg)}
    assert found["cupy_raw:gelu_vec"] == pytest.approx(102.7, abs=0.1)  # in bold
    assert text_width.width("\u4e00", 12, False) is None
    assert text_width.cut("pycuda:gelu", 136, 12, True) == "pycuda:gelu"
    for name in ("pycuda:matmul_registers_of_a_long_name", "w" * 80, "\u4e00" * 80):
        assert 120 < text_width.reach(text_width.cut(name, 136, 12, True), 12, True) <= 136


def test_a_page_of_little_says_how_little_and_is_always_the_same():
    loaded = [("a/run.json", timed()), ("b/run.json", checked())]
    once, again = (page.render(loaded) for _ in range(2))
    assert once == again
    assert "a/run.json" in once  # two files of a name: with their folders
    assert "/a/run.json" not in once
    run = timed()
    run.cases, run.complete = [], False
    text = page.render([("x.json", run)])
    assert "Nothing was run." in text
    assert "x.json: INTERRUPTED" in text
    run.cases = [case for case in timed().cases if case.status == record.SKIPPED]
    text = page.render([("x.json", run)])
    assert "<strong>none of our entries ran</strong>" in text
    assert 'torch_script: <span class="reason">pip install it</span>' in text
    check = checked()
    for case in check.cases:
        case.status, case.parity = record.SKIPPED, None
    assert "<strong>nothing was checked</strong>" in page.render([("x.json", check)])


@pytest.mark.parametrize("ulp", [None, 0.0, 3.0])
def test_errors_that_are_all_alike_are_drawn(ulp):
    check = checked()
    for case in check.cases:
        case.parity.curve.ulp = [ulp] * len(case.parity.curve.x)
    figure = checked_charts.error(check, check.cases)
    assert (figure is None) == (ulp is None)
    assert ulp is None or figure.svg.count('stroke-width="2.6"') == 1  # of four


def test_charts_of_many_sizes_and_the_sentence_about_the_largest():
    run = timed()
    run.cases = [
        msgspec.structs.replace(case, size=f"{k}", shape=(case.shape[0] + k,), nbytes=case.nbytes + 8 * k)
        for k in range(7)
        for case in group(run)
    ]
    text = page.render([("x.json", run)])
    assert text.count('data-chart="speedup"') == 3
    assert re.findall(r'data-size="(\d)"', text) == ["0", "3", "6"]
    assert "Charts show 3 of 7 sizes; the table has all." in text
    run = timed()
    largest = max(case.nbytes for case in run.cases if case.times.get("cold"))
    for case in run.cases:
        if case.nbytes == largest and case.label != "torch_eager":
            case.times = {}
    said = over_sizes.bandwidth(run, run.cases).says
    assert said.startswith("At the largest size: torch_eager at xlarge: ")


def test_a_file_cannot_add_markup():
    text = page.render([("x.json", hostile())])
    assert text.count("<script>") == 1
    assert "<img" not in text
    assert "{{7*7}}" in text
    assert "\u202e" not in text
    assert "A \u2026 and " in text
    assert len(text) < 100_000  # a long reason is there once, not with each row, and only its beginning
    part = cudalab.Results.of(hostile())._repr_html_()
    assert not re.search(r"<(script|img|/style>.*<style|link|iframe)|\u202e", part, re.DOTALL)
    assert "&lt;script&gt;hacked()" in part


MAKEFILE = (ROOT / "Makefile").read_text()
PLOTS = dict(re.findall(r"report \$\(RUNS\) (.*) -o \$\(H200\)/(\w+\.svg)$", MAKEFILE, re.MULTILINE))


def committed_runs():
    """The files that `make report` draws."""
    drawn = re.search(r"^RUNS = .*k,([\w ]+),", MAKEFILE, re.MULTILINE)[1].split()
    return [*(H200 / f"{name}.json" for name in drawn), H200 / "checks" / "gelu.json"]


@pytest.mark.sweep
def test_the_page_of_all_committed_kernels_has_each_and_is_small():
    paths = sorted(H200.glob("*.json"))
    made = page.render([(str(path), cudalab.load(path)) for path in paths])
    assert all(f'<section class="subject" id="{path.stem}-' in made for path in paths)
    assert len(made) < 2_000_000


@pytest.mark.sweep
def test_the_committed_plots_are_of_the_committed_results(tmp_path):
    assert sorted(PLOTS.values()) == sorted(path.name for path in H200.glob("*.svg"))
    for words, name in PLOTS.items():
        words = words.replace("$(GELU)", "--kernel gelu").split()
        ran("report", *committed_runs(), *words, "-o", tmp_path / name)
        assert (tmp_path / name).read_text() == (H200 / name).read_text(), "run: make report"


def test_the_picture_of_all_kernels_alone_shows_what_is_selected(file, tmp_path):
    target = tmp_path / "all.svg"
    done = invoke("report", file, "-o", target, "--chart", "rivals", "--size", "small,large", "-q")
    assert (done.exit_code, done.output) == (0, "")
    shown = texts_of(target.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "").partition("\n")[2])
    assert [text for text in shown if text.startswith("gelu, ") and "GPU" not in text] == [
        "gelu, large, float32", "gelu, small, float32"
    ]  # fmt: skip


def test_plots(file, tmp_path):
    for suffix in ("svg", "png"):
        target = tmp_path / f"plot.{suffix}"
        for _ in range(2):  # the second replaces the first
            done = invoke("report", file, "-o", target, "--chart", "bandwidth")
            assert (done.exit_code, done.stdout) == (0, "")
            assert re.fullmatch(rf"wrote {target} \([\d.]+ kB, \d+ s\)\n", done.stderr)
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    texts = [element.text for element in root.iter() if element.text]
    assert "Bandwidth against size, cold" in texts
    assert "gelu, float32, Test GPU" in texts
    assert "L2 60 MiB" in texts
    data = (tmp_path / "plot.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (3 * float(root.get("width")), 3 * float(root.get("height")))


@pytest.mark.sweep
def test_links(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.html").symlink_to("page")  # the given name decides the format
    ran("report", file, "-o", "page.html")
    assert "<!DOCTYPE html>" in Path("page").read_text()
    assert Path("page.html").is_symlink()
    Path("ring").symlink_to("ring")
    assert "cannot read ring" in refused("report", "ring", "-o", "other.html")


def test_what_is_missing_is_said_and_a_failure_leaves_the_page_that_was_there(file, tmp_path, monkeypatch):
    monkeypatch.setattr(html, "NEEDED", {".png": ("no_such_module", "vl-convert-python")})
    done = invoke("report", file, "-o", tmp_path / "x.png")
    assert done.exit_code == 2
    assert done.output.startswith("Error: a report as .png needs vl-convert-python; ")
    assert done.output.endswith("pip install -e '.[report]' in the checkout\n")
    target = tmp_path / "x.html"
    target.write_text(f"<meta content='{draw.MARK}'>old")

    def failing(loaded):
        raise CudalabError("the power went")

    monkeypatch.setattr(page, "render", failing)
    done = invoke("report", file, "-o", target)
    assert (done.exit_code, done.output) == (2, "Error: the power went\n")
    assert target.read_text().endswith("old")
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


def test_one_of_several_must_be_chosen_and_the_newest_file_is_drawn():
    one, two, other = timed(), timed(seed=1), timed(dtype="float16")
    two.created = "2026-02-02T03:04:05+00:00"
    with pytest.raises(CudalabError, match="a plot shows one dtype; give --dtype: 'float32', 'float16'"):
        plot.chosen([one, other], "cold")
    figure, about = plot.chosen([two, one], "cold", dtype="float32")
    assert about == "gelu, float32, xlarge, Test GPU"
    assert figure.says == figures.times(two, group(two), "cold").says
