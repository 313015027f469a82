"""What `show` draws and chooses, and what a check says about its largest errors."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from commands import invoke

from cudalab import report
from cudalab.base import stats
from cudalab.base.errors import NotFound
from cudalab.report import below_tables, check_table, plots
from cudalab.report.results import Results
from cudalab.results import record
from cudalab.results.record import Case, Machine, Parity

H200 = "bench/results/h200/plus_one.json"


def case(label, samples, kernel="gelu", size="small", dtype="float32"):
    backend, _, variant = label.partition(":")
    rounds = np.random.default_rng(1).permutation(samples).reshape(-1, 10).tolist()
    return Case(kernel, size, (4,), dtype, backend, variant, parity=Parity(ok=True, n=4), times={"wall": rounds})


def run(*cases, **options):
    return Results("cudalab-results", 2, "2026-01-01", {"modes": "launch", **options}, Machine("cpu", "CPU"),
                   cases=list(cases))  # fmt: skip


def around(middle, spread, n=200):
    return middle * (1 + spread * np.random.default_rng(0).standard_normal(n))


EAGER, TWICE = case("torch_eager", around(2e-3, 0.004)), case("host:gelu_vec", around(1e-3, 0.004))
NOISY = case("numpy", around(4e-3, 0.2))
TWO = case("torch_script", np.concatenate([around(1e-3, 5e-4, 120), around(1.025e-3, 5e-4, 80)]))


def drawn(cases, width=80, ink=plots.BLOCKS):
    return plots.lines(run(*cases), list(cases), width, ink)


def test_a_bar_is_as_long_as_a_variant_is_fast_by_eager_or_by_the_fastest():
    head, fast, slow = drawn((EAGER, TWICE))
    assert head.startswith("x eager ")
    assert fast.startswith("host:gelu_vec █")
    assert re.search(r"█ +2\.0+  \|", fast)
    assert re.search(r" 1  \|", slow)
    assert [line.partition("|")[0].count("█") for line in (fast, slow)] == [31, 15]
    head, fast, slow = drawn((TWICE, NOISY))
    assert head.startswith("speed, fastest = 1")
    assert " 1  |" in fast
    assert re.search(r" 0\.2\d  \|", slow)
    assert plots.bars(1, 4) == "████"
    assert plots.bars(0.53, 4) == "██▏"
    assert plots.bars(0, 4) == ""
    assert plots.bars(0.53, 4, plots.ASCII) == "##"


def test_a_histogram_counts_what_lies_beyond_at_its_ends():
    text = plots.histogram(np.array([-0.5, -0.02, 0, 0, 0, 0, 0.02, 0.5, 0.6]), 0.02)
    assert text == "▄" + " " * 11 + "█" + " " * 11 + "▆"
    assert plots.histogram(np.zeros(3), 0.02, plots.ASCII) == " " * 12 + "@" + " " * 12


@pytest.mark.parametrize("others", [(), (NOISY,), (NOISY, EAGER, TWICE)])
def test_two_groups_of_samples_show_as_two(others):
    """The row beside them is so noisy that its own samples need a wide scale."""
    assert stats.bimodal(TWO.times["wall"])
    line = next(line for line in drawn((TWO, *others)) if line.startswith("torch_script"))
    assert re.search(r"[▁-█] +[▁-█]", line.partition("|")[2])
    assert not stats.bimodal(TWICE.times["wall"])


def test_noise_has_a_scale_that_shows_it():
    assert "wall, -50 % .. +50 %" in drawn((NOISY, EAGER))[0]
    assert "wall, -1 % .. +1 %" in drawn((TWICE, EAGER))[0]
    assert "wall, -10 % .. +10 %" in drawn((NOISY, TWO))[0]


@pytest.mark.parametrize("width", [20, 30, 50, 80, 140])
def test_drawings_fit(width):
    names = ("pycuda:plus_one_vec", "torch_eager", "cupy_elementwise", "a_backend_with_a:very_long_name_indeed")
    found = run(*(case(name, around(1e-3, 0.01)) for name in names))
    for cases in found.groups().values():
        for ink in (plots.BLOCKS, plots.ASCII):
            lines = plots.lines(found, cases, width, ink)
            assert len(lines) == 1 + len(names)
            assert max(map(len, lines)) <= max(width, plots.LABEL + plots.VALUE + 3)
            assert ink is plots.BLOCKS or all(map(str.isascii, lines))
            assert ("|" in lines[1]) == (width >= 80)


def test_what_was_not_timed_has_nothing_to_draw_and_no_kind_of_time():
    assert drawn((Case("gelu", "small", (4,), "float32", "numpy"),)) == []
    assert "|" not in show("--plots", "bench/results/h200/checks/gelu.json").stdout
    wrong = run(Case("gelu", "small", (4,), "float32", "pycuda", status=record.WRONG))
    wrong.machine.device = "cuda"
    assert not any("GB/s" in line for line in below_tables.footer(wrong))
    with pytest.raises(NotFound, match="did you mean 'blocks'"):
        report.render(run(EAGER), "table", plots="block")


show = partial(invoke, "show")


def test_show_draws_if_asked_and_says_how_to_read_it():
    assert "|...|" not in show(H200).stdout  # not a terminal
    text = show(H200, "--plots", "--sizes", "small", "--dtypes", "int32", COLUMNS="80").stdout
    assert re.search(r"^pycuda:plus_one_vec +[█▉▊▋▌▍▎▏]+ +[\d.]+  \|[ ▁-█]{25}\|$", text, re.MULTILINE)
    assert "|...|: samples of the cold time around each row's own median" in text
    assert max(map(len, text.splitlines())) <= 80
    narrow = show(H200, "--plots", "--sizes", "small", "--dtypes", "int32", COLUMNS="52").stdout
    assert re.search(r"^pycuda:plus_one_vec +[█▉▊▋▌▍▎▏]+ +[\d.]+$", narrow, re.MULTILINE)
    assert "|...|" not in narrow  # no room for histograms, and nothing to explain


def test_a_part_that_is_there_only_in_pieces(tmp_path):
    run(case("numpy", around(1, 0.1), size="a"), case("numpy", around(1, 0.1), size="b", dtype="int32")).save(
        tmp_path / "r.json"
    )
    found = show(tmp_path / "r.json", "--sizes", "a", "--dtypes", "int32")
    assert found.exit_code == 2
    assert "no row of these results matches a int32; the rows are gelu a float32, gelu b int32" in found.output


def checked(label, ulp, worst, dtype="float32", **more):
    backend, _, variant = label.partition(":")
    parity = Parity(ok=True, n=4, max_ulp=ulp, worst=worst)
    return Case("gelu", "all values", (4,), dtype, backend, variant, parity=parity, **more)


def test_largest_errors_in_short():
    tail = "[12] got -0, want -5.68e-14 for x = -7.689380645751953"
    found = Results(
        "cudalab-results", 2, "2026-01-01", {}, Machine("cpu", "CPU"),
        cases=[
            checked("host:a", 1e7, tail), checked("host:b", 1e7, tail), checked("torch_eager", 1e7, tail),
            checked("cupy_raw:a", 9.0, "[3] got 1, want 2 for x = 0.5"), checked("cupy_raw:b", 1.7, tail),
            checked("numpy", 3.9, tail), checked("wrong", None, tail, status="WRONG", reason="why"),
            *(checked(label, 80.0, "(0, 3) got 1, want 2", "int32") for label in ("numpy", "host:a")),
        ],
    )  # fmt: skip
    assert check_table.largest_errors(found) == [
        ("gelu float32 host, torch_eager", "x = -7.68938065: got -0, want -5.68e-14"),
        ("gelu float32 cupy_raw:a", "x = 0.5: got 1, want 2"),
        ("gelu int32 all", "all values (0, 3) got 1, want 2"),
    ]


def test_lines_below_a_check_stand_kernel_by_kernel():
    """What is WRONG in one kernel does not stand below the largest errors of another."""
    cases = []
    for kernel in ("gelu", "gelu 2", "sum"):  # the second from another folder
        cases += [
            checked("numpy", 80.0, "[0] got 1, want 2"),
            checked("host:a", 1.0, "", status="WRONG", reason=kernel),
        ]
        cases[-1].kernel = cases[-2].kernel = kernel
    found = Results("cudalab-results", 2, "2026-01-01", {}, Machine("cpu", "CPU"), cases=cases)
    assert [(status, labels.partition(" float32")[0]) for status, labels, _ in check_table.of_checks(found)] == [
        (status, kernel) for kernel in ("gelu", "gelu 2", "sum") for status in ("largest error", "WRONG")
    ]
