"""Entries beside those of an earlier `.cu`: verdicts from the intervals of paired ratios alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import invoke

from cudalab.base.errors import InputError
from cudalab.base.stats import FASTER, SAME, SLOWER
from cudalab.engine import resume, runs
from cudalab.report import comparison
from cudalab.results import against, compare, record
from cudalab.results.compare import NOTHING_SLOWER, REGRESSION, WRONG_ANSWER
from cudalab.results.file import save
from cudalab.results.record import Case, Machine, Parity, Results

RIGHT = Parity(ok=True)


def times(seconds, seed, processes=3, rounds=12):
    """Rounds of several processes: all rows of a round drift together by 5 %, and each has a noise of 0.1 %."""
    drift, noise = np.random.default_rng(0), np.random.default_rng(seed)
    count = processes * rounds
    level = seconds * (1 + 0.05 * drift.standard_normal(count))
    return [[float(t * (1 + 0.001 * noise.standard_normal())) for _ in range(5)] for t in level]


def row(variant, seconds, seed, status=record.OK, backend="pycuda", kinds=("cold",)):
    found = Case("k", "large", (1000,), "float32", backend, variant, status, parity=RIGHT)
    if seconds:
        found.times = {kind: times(seconds, seed) for kind in kinds}
        found.processes = {kind: [12] * 3 for kind in kinds}
    return found


def run(*cases, **sources):
    return Results(
        record.FORMAT, record.VERSION, "2026-01-01", {"against": "git:main"}, Machine("cuda", "H100"), kind="bench",
        cases=list(cases), sources=sources or {"k.cu": "a", "k.old.cu": "b"},
    )  # fmt: skip


@pytest.mark.parametrize(("factor", "wanted"), [(1.01, SLOWER), (1.0, SAME), (0.99, FASTER)])
def test_one_percent_at_300_us_is_found_and_no_difference_is_none(factor, wanted):
    found = against.compared(run(row("e @ old", 300e-6, 1), row("e", 300e-6 * factor, 2)))
    (pair,) = found.pairs
    assert (pair.verdict, pair.old.label, pair.new.label) == (wanted, "pycuda:e", "pycuda:e")
    assert pair.ratio.low < 1 / factor < pair.ratio.high
    assert found.exit_code == (REGRESSION if wanted == SLOWER else NOTHING_SLOWER)
    assert against.compared(run(row("e @ old", 300e-6, 1), row("e", 303e-6, 2)), min_effect=0.02).exit_code == 0


def test_kinds_of_gpu_time_are_judged_and_those_of_the_host_are_not():
    kinds = ("cold", "hot", "call")
    found = against.compared(run(row("e @ old", 300e-6, 1, kinds=kinds), row("e", 330e-6, 2, kinds=kinds)))
    assert [(pair.kind, pair.verdict) for pair in found.pairs] == [("cold", SLOWER), ("hot", SLOWER)]
    assert "is further from 1 than 0.1 \u00b5s of the time (at most 2 %)" in comparison.footer(found)[0]


@pytest.mark.parametrize(("factor", "wanted"), [(1.03, SLOWER), (1.01, SAME), (1.0, SAME)])
def test_energies_count_from_two_percent_and_are_printed_in_mj(factor, wanted):
    kinds = ("cold", "energy")
    pair = row("e @ old", 300e-3, 1, kinds=kinds), row("e", 300e-3 * factor, 2, kinds=kinds)
    found = against.compared(run(*pair))
    assert {p.kind: p.verdict for p in found.pairs}["energy"] == wanted
    text, markdown = (comparison.render(found, ("old", "new"), format) for format in ("table", "markdown"))
    assert "less and more energy a call" in text and text.count("mJ") == 2
    assert "| new mJ |" in markdown and "| new \u00b5s |" in markdown
    document = json.loads(comparison.render(found, ("old", "new"), "json"))
    assert {"old_joules" in p: p["kind"] for p in document["pairs"]} == {False: "cold", True: "energy"}
    old, new = (run(row("e", 300e-3 * f, s, kinds=kinds)) for f, s in ((1.0, 1), (1.3, 2)))
    judged = compare.compare(old, new, "energy", force=True)  # two runs differ by more
    assert [p.verdict for p in judged.pairs] == [SLOWER] and judged.pairs[0].effect > 0.04


def test_wrong_entries_a_cpu_and_equal_texts_are_in_the_sentence():
    library = row("", 200e-6, 3, backend="torch_eager")
    old, new = row("e @ old", 300e-6, 1), row("e", 300e-6, 2)
    lost = row("f @ old", 0, 0, record.SKIPPED)
    lost.reason, lost.parity = "the old k.cu does not fit this spec", None
    mended = against.compared(run(row("e @ old", 0, 1, record.WRONG), new, library, lost, row("f", 1e-4, 5)))
    assert (mended.exit_code, len(mended.mended)) == (NOTHING_SLOWER, 1)
    assert comparison.notes(mended)[-1][2] == "skipped in the old .cu: the old k.cu does not fit this spec"
    assert "1 was wrong in the old .cu, right in the new" in comparison.sentence(mended)
    broken = against.compared(run(old, row("e", 0, 2, record.WRONG), library))
    assert broken.exit_code == WRONG_ANSWER
    checked = against.compared(run(row("e @ old", 0, 1, backend="host"), row("e", 0, 1, backend="host")))
    assert comparison.sentence(checked) == (
        "1 entry is right in the old .cu and in the new one; nothing was timed, which needs a GPU"
    )
    assert checked.exit_code == NOTHING_SLOWER
    same = run(row("e @ old", 300e-6, 1), row("e", 300e-6, 2), **{"k.cu": "a", "k.old.cu": "a"})
    assert comparison.sentence(against.compared(same)).endswith("the same text: every difference is chance")
    assert against.compared(run(row("e", 300e-6, 2))) is None


def test_an_earlier_cu_that_only_a_results_file_names_is_not_run(tmp_path):
    save(run(row("e @ old", 300e-6, 1), row("e", 300e-6, 2)), tmp_path / "r.json")
    with pytest.raises(InputError, match="If you trust it, name it yourself: --against git:main"):
        resume.adopted(str(tmp_path / "r.json"), (), {"against": ""}, ())
    _, options = resume.adopted(str(tmp_path / "r.json"), ("gelu",), {"against": "git:main"}, {"against"})
    assert options == {"against": "git:main"}


@pytest.mark.parametrize(("words", "code"), [((), REGRESSION), (("--min-effect", "2%"), NOTHING_SLOWER)])
def test_the_command_ends_with_the_comparisons_code_and_show_prints_it_again(tmp_path, monkeypatch, words, code):
    slower = run(row("e @ old", 300e-6, 1), row("e", 303e-6, 2))
    monkeypatch.setattr(runs, "bench", lambda *kernels, **options: slower)
    kept = str(tmp_path / "r.json")
    done = invoke("bench", "plus_one", "--against", "old.cu", "-o", kept, *words)
    assert done.exit_code == code
    assert ("SLOWER" in done.stdout) == (code == REGRESSION)
    assert "1 of 1 cases is SLOWER (cold)" in invoke("show", kept).stdout


def test_the_script_that_plants_slow_downs_counts_them():
    import power

    runs = [run(row("even @ old", 300e-6, 1), row("even", 300e-6, 2),
                row("one_percent @ old", 300e-6, 3), row("one_percent", 303e-6, 4)) for _ in range(2)]  # fmt: skip
    found = power.summary([against.compared(one) for one in runs])
    assert [(one["entry"], one["runs"], one["verdicts"]) for one in found["rows"]] == [
        ("even", 2, {SAME: 2}), ("one_percent", 2, {SLOWER: 2}),
    ]  # fmt: skip
    assert found["rows"][1]["slower by"] == pytest.approx(0.01, abs=0.001)
    assert (found["even pairs"], found["false alarms"], found["runs with a false SLOWER"]) == (2, 0, 0)
    assert "   100%" in power.table(found)
