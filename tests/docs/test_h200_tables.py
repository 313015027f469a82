"""The pages of a card: which row is which, their order, what is left out, what is marked, which pages there are."""

from __future__ import annotations

import math
import re

import pytest
import readme_tables
from msgspec.structs import replace
from pages import card, committed, errors, kernel, peers
from tables import table

from cudalab.base.stats import FASTER, SAME, SLOWER
from cudalab.report.results import Results
from cudalab.results.record import VERSION, Case, Machine, Parity
from cudalab.spec import cuda_source, find
from cudalab.spec.dtype import DTYPES


def rounds(seconds):
    return [[seconds * (1 + 0.001 * ((7 * i + round(seconds * 1e9)) % 5)) for _ in range(4)] for i in range(20)]


def case(label, size="large", allocates=None, ulp=1.0, rounded=0.95, shape=(1, 3), **times):
    backend, _, variant = label.partition(":")
    status = "ceiling" if backend == "copy" else "ok"
    parity = None if backend == "copy" else Parity(ok=True, n=1000, max_ulp=ulp, rounded=rounded)
    held = {kind: rounds(1e-6 * us) for kind, us in times.items()}
    return Case("gelu", size, shape, "float32", backend, variant, status, parity=parity, allocates=allocates,
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
    """The folder of a card's results, with those of one kernel; pages are written beside it, into docs."""
    monkeypatch.setattr(committed, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(committed, "FOLDER", tmp_path / "h200")
    monkeypatch.setattr(readme_tables, "ROOT", tmp_path)
    monkeypatch.setattr(readme_tables, "TABLES", {})
    committed.FOLDER.mkdir()
    ROWS.save(committed.FOLDER / "gelu.json")
    return committed.FOLDER


def page(name="h200/gelu"):
    readme_tables.main()
    return (committed.DOCS / f"{name}.md").read_text()


def overview():
    return card.page(committed.Card(committed.FOLDER))


def test_every_row_is_on_the_page_with_interval_verdict_all_rivals_and_errors(folder):
    text = page()
    assert "| cold | 2 | 1 | 0 | 1 | 0 |" in text
    head = text.index("| size | dtype | verdict | times as fast | ours | torch native | triton |")
    small = text.index("| small | float32 | SLOWER | 0.63 (0.60 to 0.65) | `scalar` 8.0? | **5.0?** | - |")
    large = text.index("| large | float32 | FASTER | 1.30 (1.286 to 1.314) | `vec` 100 | 150 | **130** |")
    assert head < small < large
    assert "| float32 | `triton` | 1 | 95 % | 4 or 2e-06 absolute (peers) |" in text
    assert "| float32 | `pycuda:gelu_vec` | 1 | 95 % | 4 (budgets) |" in text
    assert "numpy" not in text


def test_what_each_entry_gained_is_told_with_its_idea(folder):
    text = page()
    assert "- `gelu_scalar`: One element a thread.\n" in text
    assert "- `gelu_vec`: As gelu_full, with registers for both packs at once; one" in text  # above a constexpr
    assert "| float32 | large | `gelu_scalar` | 90 | - | - |" in text
    assert "| float32 | large | `gelu_vec` | **100** | 0.90 (0.887 to 0.913) | SLOWER |" in text
    assert "| size | dtype | `scalar` | `vec` |" in text and "| small | float32 | **8.0?** | 10.0 |" in text


def test_an_entry_is_told_beside_the_fastest_above_it_at_the_size_with_most_elements(folder):
    bytes_only = replace(case("pycuda:gelu_vec", "long", shape=(2, 2), cold=5), nbytes=99)
    run(case("pycuda:gelu_scalar", shape=(2, 2), cold=300), case("pycuda:gelu_full", shape=(2, 2), cold=100),
        case("pycuda:gelu_vec", shape=(2, 2), cold=200), bytes_only).save(folder / "gelu.json")  # fmt: skip
    text = page()
    assert "At `large` in float32 it is bound by memory" in text and "| float32 | long |" not in text
    assert "| `gelu_full` | **100** | 3.00 (2.97 to 3.03) | FASTER |" in text
    assert "| `gelu_vec` | 200 | 0.50 (0.495 to 0.505) | SLOWER |" in text
    skipped = replace(case("pycuda:gelu_scalar"), status="skipped", times={}, parity=None)
    run(skipped, case("cupy_raw:gelu_scalar", cold=90)).save(folder / "gelu.json")
    assert "| float32 | large | `gelu_scalar` | **90** |" in page()


def test_only_sizes_whose_time_is_mostly_launch_are_said_to_be_so(folder):
    assert "launch and timer." not in page()
    run(*ROWS.cases, calibration={"empty event pair": [2e-6]}).save(folder / "gelu.json")
    assert "At `small` much of the time is launch and timer." in page()


def test_budgets_are_told_for_each_output_where_they_differ():
    for name in ("quantize_int8", "quantize_fp8"):
        for one in committed.kernels()[name].cases:
            if one.parity and one.parity.allowed is not None:
                assert f"{one.parity.allowed:g}" in re.findall(r"` ([\d.]+)", errors.budget(one)), one.label
    gelu = replace(case("triton"), composed=True)
    assert errors.budget(gelu).startswith(errors.tolerance(find.kernel("gelu").budget(DTYPES["float32"], "composed")))


def test_every_entry_of_the_lab_has_an_idea():
    entries = [(one, name) for one in map(find.kernel, find.kernels()) for name in one.entries]
    assert [name for one, name in entries if not kernel.idea(kernel.texts(one), name)] == []


@pytest.mark.parametrize(("above", "said"), table("pages", "ideas"))
def test_the_idea_is_the_first_sentence_of_the_comment_above_an_entry(above, said):
    text = f'// Head.\nint n = 0;\n{above}extern "C" __global__ void __launch_bounds__(256)\n    k(float* x) {{}}\n'
    assert kernel.idea([text], "k") == said and kernel.idea([text], "other") == ""


def test_an_entry_that_is_one_call_has_the_idea_of_what_it_calls():
    header = (
        "// Of turn.\n__device__ int turn();\n// In packs. More.\ntemplate <int n>\n__device__ void packs(int* x) {}\n"
    )
    calls = (
        "__global__ void one(int* x) {\n    packs<4>(x);  // all\n}\n__global__ void two(int* x) {\n    packs<4>(x);\n"
    )
    texts = [
        f"#include <a.h>\n{calls}    packs<4>(x);\n}}\n// Its own.\n__global__ void own(int* x) {{ packs<1>(x); }}\n",
        header,
    ]
    assert [kernel.idea(texts, name) for name in ("one", "two", "own")] == ["In packs.", "", "Its own."]


def test_a_second_card_and_a_new_kernel_have_pages_and_what_lost_its_results_has_none(folder):
    other = run(*ROWS.cases)
    other.cases = [replace(c, kernel="swiglu", variant=c.variant.replace("gelu", "swiglu")) for c in ROWS.cases]
    (folder.parent / "h100").mkdir()
    other.save(folder.parent / "h100" / "swiglu.json")
    assert "[all kernels](../h100.md)" in page("h100/swiglu")
    readme_tables.main(check=True)
    mine = {"h200.md", "h200/gelu.md", "h200/rivals.svg", "h200/roofline.svg", "by_hand.md"}
    (committed.DOCS / "by_hand.md").write_text("Stays.")
    (folder.parent / "h100" / "swiglu.json").unlink()
    with pytest.raises(SystemExit, match=r"docs/h100.* is not up to date; run: make tables"):
        readme_tables.main(check=True)
    readme_tables.main()
    assert {str(path.relative_to(committed.DOCS)) for path in committed.DOCS.rglob("*.*")} == mine
    run(*ROWS.cases[:4], case("torch_native", cold=70)).save(folder / "gelu.json")
    with pytest.raises(SystemExit, match=r"docs/h200.* is not up to date"):
        readme_tables.main(check=True)


def test_rivals_that_are_wrong_or_not_timed_are_told(folder):
    run(*ROWS.cases[:2]).save(folder / "gelu.json")
    assert "No rival was timed." in page() and "| `gelu_vec` | **100** |" in page()
    assert "rivals.svg" not in page("h200")
    wrong, alone = case("triton", cold=1), case("pycuda:gelu_vec", "xlarge", cold=100)
    wrong.status, wrong.times = "WRONG", {}
    run(ROWS.cases[0], ROWS.cases[2], wrong, alone).save(folder / "gelu.json")
    assert "| **150** | WRONG |" in page()
    assert "| xlarge | float32 | no rival has a time | - | `vec` 100 | - | - |" in page()


def test_rivals_of_ours_that_is_wrong_keep_their_times(folder):
    wrong = replace(case("pycuda:gelu_vec"), status="WRONG", times={})
    run(wrong, case("torch_native", cold=150, api=9), case("triton", cold=130)).save(folder / "gelu.json")
    text = page()
    assert "| cold | 0 | - | - | - | - | - |" in text and "No rival" not in text
    for line in ("WRONG | 150 | 130 |", "WRONG | 9.0 |\n"):
        assert f"| large | float32 | ours has no time | {line}" in text


def test_files_are_named_with_commit_date_machine_and_processes(folder):
    assert "| 2026-11-23 10:00 | NVIDIA H200 | 1.2 | `aaaaaaaaaaaa` | 1 |" in overview()
    ROWS.cases[0].processes = {"cold": [10, 5, 5]}
    ROWS.save(folder / "gelu.json")
    ROWS.cases[0].processes = {}
    assert "`aaaaaaaaaaaa` | 3 |" in overview()


def test_files_of_another_commit_or_of_an_older_kernel_are_marked(folder, monkeypatch):
    assert committed.ELSEWHERE not in overview() and committed.OLDER not in overview()
    later = run(*ROWS.cases, commit="b" * 40, created="2026-11-24T10:00:00+00:00")
    later.save(folder / "other.json")
    text = overview()
    assert f"| [gelu](h200/gelu.md){committed.ELSEWHERE} |" in text and "| [other](h200/other.md) |" in text
    assert committed.MARKS[committed.ELSEWHERE] in text
    assert "The files come from 2 commits." in text
    monkeypatch.setattr(cuda_source, "digest", lambda path: "0")
    text = overview()
    assert f"| [other](h200/other.md){committed.OLDER} |" in text and committed.MARKS[committed.OLDER] in text


def test_a_kernel_without_results_is_in_the_summary_and_says_so(folder):
    text = overview()
    assert f"| add2d | {committed.NOT_YET} | - | - | - | - | - |" in text
    assert not [line for line in text.splitlines() if "gelu]" in line and committed.NOT_YET in line]


def test_throttling_reaches_the_pages(folder):
    ROWS.cases[7].condition = {"throttled": "power cap"}
    ROWS.save(folder / "gelu.json")
    ROWS.cases[7].condition = {}
    assert "`vec` 100! | 150! | **130!** |" in page() and "`!` the GPU ran below its highest clock." in page()


def test_the_committed_pages_explain_every_mark_on_their_times():
    for path in committed.DOCS.glob("*/*.md"):
        text = path.read_text()
        borne = set("".join(re.findall(r"\d\**([~^!#?]+)", text)))
        assert {mark for mark in borne if f"`{mark}` " not in text} == set(), path
