"""The tables of ours beside the fastest peer: which row is which, their order, what is left out, what is marked."""

from __future__ import annotations

import math
import re

import pytest
from pages import committed, h200, peers

from cudalab.base.stats import FASTER, SAME, SLOWER
from cudalab.report.results import Results
from cudalab.results.record import VERSION, Case, Machine, Parity
from cudalab.spec import cuda_source, find


def rounds(seconds):
    return [[seconds * (1 + 0.001 * ((7 * i + round(seconds * 1e9)) % 5)) for _ in range(4)] for i in range(20)]


def case(label, size="large", allocates=None, ulp=1.0, rounded=0.95, **times):
    backend, _, variant = label.partition(":")
    status = "ceiling" if backend == "copy" else "ok"
    parity = None if backend == "copy" else Parity(ok=True, n=1000, max_ulp=ulp, rounded=rounded)
    held = {kind: rounds(1e-6 * us) for kind, us in times.items()}
    return Case("gelu", size, (1, 3), "float32", backend, variant, status, parity=parity, allocates=allocates,
                nbytes=8, times=held)  # fmt: skip


def run(*cases, commit="a" * 40, created="2026-11-23T10:00:00+00:00", **kw):
    kernel = find.kernel("gelu")
    sources = {kernel.cu.name: cuda_source.digest(kernel.cu)}
    details = {"driver": "1.2"}
    return Results("cudalab-results", VERSION, created, {"modes": "launch"}, Machine("cuda", "NVIDIA H200", details),
                   cases=list(cases), sources=sources, commit=commit, **kw)  # fmt: skip


ROWS = run(
    case("pycuda:gelu_vec", cold=100, api=9), case("pycuda:gelu_scalar", cold=90), case("torch_native", cold=150),
    case("triton", cold=130, api=5), case("cupy_raw:gelu_vec", cold=50), case("pycuda_elementwise", cold=60),
    case("numpy", cold=10), case("copy", cold=80),
    case("pycuda:gelu_vec", "small", cold=10), case("pycuda:gelu_scalar", "small", cold=8),
    case("torch_native", "small", cold=5), case("copy", "small", cold=4),
)  # fmt: skip


def test_ours_is_the_entry_of_a_call_and_the_peer_is_the_fastest_other():
    first, second = peers.rows(ROWS, "cold")
    assert (first.ours.label, first.peer.label, first.verdict) == ("pycuda:gelu_scalar", "torch_native", SLOWER)
    assert (second.ours.label, second.peer.label, second.verdict) == ("pycuda:gelu_vec", "triton", FASTER)
    assert second.ratio.value == pytest.approx(1.3)


def test_rows_where_a_peer_leads_come_first():
    assert [row.ratio.value < 1 for row in peers.rows(ROWS, "cold")] == [True, False]


def test_kinds_are_not_mixed_and_call_is_none_of_them():
    (row,) = peers.rows(ROWS, "api")
    assert (row.ours.label, row.peer.label) == ("pycuda:gelu_vec", "triton")
    assert row.ratio.value == pytest.approx(5 / 9)
    assert "call" not in peers.KINDS


def test_a_wrong_peer_is_none():
    wrong = case("triton", cold=1)
    wrong.status, wrong.times = "WRONG", {}
    impossible = case("torch_compile", cold=1)
    impossible.status = "IMPOSSIBLE"
    (row,) = peers.rows(run(case("pycuda:gelu_vec", cold=100), case("torch_native", cold=150), wrong, impossible),
                        "cold")  # fmt: skip
    assert row.peer.label == "torch_native"


@pytest.mark.parametrize(("allocates", "verdict"), [(None, peers.UNEQUAL), (True, SAME), (False, SAME)])
def test_warm_times_of_older_files_have_no_verdict_against_a_peer_that_allocates(allocates, verdict):
    cases = case("pycuda:gelu_vec", hot=10, cold=10), case("torch_native", hot=10, cold=10, allocates=allocates)
    hot, cold = (peers.rows(run(*cases), kind) for kind in ("hot", "cold"))
    assert (hot[0].verdict, cold[0].verdict) == (verdict, SAME)
    assert (peers.mean(hot) is None) == (verdict == peers.UNEQUAL)
    assert peers.counts(hot) == ("-" if verdict == peers.UNEQUAL else "0 / 1 / 0 / 0")


def test_counts_and_the_geometric_mean():
    found = peers.rows(ROWS, "cold")
    assert peers.counts(found) == "1 / 0 / 1 / 0"
    mean = peers.mean(found)
    assert mean.value == pytest.approx((1.3 * 5 / 8) ** 0.5, rel=1e-3)
    lows = [math.log(row.ratio.low / row.ratio.value) for row in found]
    assert math.log(mean.low / mean.value) == pytest.approx(-math.hypot(*lows) / 2, abs=1e-9)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's folder, with the results of one kernel in it."""
    monkeypatch.setattr(committed, "FOLDER", tmp_path)
    ROWS.save(tmp_path / "gelu.json")
    return tmp_path


def test_every_row_is_in_the_page_with_interval_verdict_and_both_errors(folder):
    text = h200.by_kind("cold")()
    assert text.startswith("2 rows: 1 FASTER, 0 SAME, 1 SLOWER, 0 UNCLEAR.")
    small, large = (line for line in text.splitlines() if line.startswith("| gelu"))
    assert "`gelu_scalar` | `torch_native`" in small and " to " in small and "SLOWER" in small
    assert "`gelu_vec` | `triton`" in large and "FASTER" in large
    errors = h200.errors()
    assert "| `triton` | 1 | 95 % | 4 or 2e-06 absolute (peers) |" in errors
    assert "`pycuda:gelu_vec` | 1 | 95 % | 4 (budgets) |" in errors
    assert "`cupy_raw:gelu_vec`" not in errors


def test_files_are_named_with_commit_date_machine_and_processes(folder):
    assert "| 2026-11-23 10:00 | NVIDIA H200 | 1.2 | `aaaaaaaaaaaa` | 1 |" in h200.files()
    ROWS.cases[0].processes = {"cold": [10, 5, 5]}
    ROWS.save(folder / "gelu.json")
    ROWS.cases[0].processes = {}
    assert "`aaaaaaaaaaaa` | 3 |" in h200.files()


def test_files_of_different_commits_are_marked(folder):
    assert committed.ELSEWHERE not in h200.summary()
    later = run(*ROWS.cases, commit="b" * 40, created="2026-11-24T10:00:00+00:00")
    later.save(folder / "other.json")
    text = h200.summary()
    assert f"| gelu{committed.ELSEWHERE} |" in text and "| other |" in text
    assert committed.MARKS[committed.ELSEWHERE] in text
    assert "The files come from 2 commits." in h200.files()


def test_a_kernel_without_results_is_in_the_summary_and_says_so(folder):
    text = h200.summary()
    assert f"| add2d | - | - | - | - | - | {committed.NOT_YET} |" in text
    assert not [line for line in text.splitlines() if "| gelu |" in line and committed.NOT_YET in line]


def test_throttling_reaches_the_pages(folder):
    ROWS.cases[7].condition = {"throttled": "power cap"}
    ROWS.save(folder / "gelu.json")
    ROWS.cases[7].condition = {}
    for text in (h200.gelu(), h200.by_kind("cold")()):
        assert re.search(r"`triton` \| 100! \| 130! \|", text) and "`!` the GPU ran below its highest clock." in text


@pytest.mark.sweep
def test_the_committed_pages_explain_every_mark_on_their_times():
    for kind in peers.KINDS:
        text = h200.by_kind(kind)()
        times = [cell for line in text.splitlines() if line.startswith("| ") for cell in line.split(" | ")[5:7]]
        for mark in set("".join(times)) & set("~^!#?"):
            assert f"`{mark}` " in text
