"""Two runs side by side: verdicts on real and made times, runs that cannot be compared, exit codes, printed text."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import invoke, ran, refused
from msgspec.structs import replace
from tables import table

import cudalab
from cudalab.base.errors import CudalabError, InputError, NotFound
from cudalab.base.load import CORES, OTHERS
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR
from cudalab.engine import enough
from cudalab.report import comparison
from cudalab.report.results import Results
from cudalab.results import marks, record
from cudalab.results.compare import MOVED, RUN, RUN_FAR, STATES, compare, share
from cudalab.results.record import Case, Machine, Parity

H200 = Path(__file__).parents[2] / "bench/results/h200"
GPU = {"driver": "580", "l2_bytes": 62914560, "cpu": "16 x Xeon", "system": "Linux-6"}
AT_WORK = {"sm_hz": 1.98e9, "memory_hz": 3.2e9, "throttled": ""}


def rounds(seconds, noise=0.001, n=20, seed=0):
    return [[float(s)] for s in seconds * np.random.default_rng(seed).normal(1, noise, n)]


def row(label="pycuda:a", seconds=300e-6, kind="cold", size="large", processes=0, noise=0.001, **fields):
    """A timed row; of one process that says nothing of it, or of several."""
    backend, _, variant = label.partition(":")
    times = {kind: rounds(seconds, noise, 20 * max(processes, 1))} if seconds else {}
    if processes and kind not in fields.get("processes", {}):
        fields = {"processes": {kind: [20] * processes}, **fields}
    return Case("gelu", size, (1024,), "float32", backend, variant, **{"times": times, "nbytes": 8192, **fields})


def copy(seconds=280e-6, **fields):
    return row("copy", seconds, **{"status": record.CEILING, "condition": dict(AT_WORK), **fields})


def run(*cases, **fields):
    options = {"modes": "launch", "seed": 0, "order": "shuffled", "kernels": ["gelu"]}
    machine = Machine("cuda", "H200", dict(GPU), {"python": "3.12", "torch": "2.11"})
    return Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", **{
        "options": options, "machine": machine, "cases": list(cases), "calibration": {"empty event pair": [1.2e-6]},
        **fields})  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder, names = tmp_path_factory.mktemp("real"), ("gelu_earlier.json", "gelu_later.json")
    for name in names:
        (folder / name).write_bytes(gzip.decompress((H200 / "engine" / f"{name}.gz").read_bytes()))
    return tuple(cudalab.load(folder / name) for name in names)


def verdicts(found):
    return {pair.old.label: pair.verdict for pair in found.pairs}


@pytest.mark.sweep
def test_two_real_runs_of_the_same_code_have_nothing_faster_or_slower(real):
    for old, new, kinds in ((*real, "cold,graph,call"), (*real[::-1], "cold,hot")):
        found = compare(old, new, kinds)
        assert found.counts[SLOWER] == found.counts[FASTER] == 0 and found.exit_code == 0
        known = [pair for pair in found.pairs if not pair.ratio.says_nothing]  # these runs are one process each
        assert len(known) > 0.85 * len(found.pairs)
        assert sum(pair.verdict == SAME for pair in known) > 0.98 * len(known)


def test_a_copy_that_moved_is_named_and_a_kernel_slowed_by_3_percent_is_slower(real):
    found = compare(real[0], slowed(real[1], "copy", 1.1), only="triton")
    assert {pair.old.size for pair in found.drift} >= {"large", "xlarge"}
    assert found.exit_code == 0  # though every kernel keeps its time: nothing became slower
    found = compare(real[0], slowed(real[1], "pycuda:gelu_vec", 1.03), only="pycuda:gelu_*")
    assert found.exit_code == 1
    slower = {(pair.old.variant, pair.old.size) for pair in found.pairs if pair.verdict == SLOWER}
    assert ("gelu_vec", "xlarge") in slower and {variant for variant, _ in slower} == {"gelu_vec"}
    assert compare(slowed(real[0], "pycuda:gelu_vec", 1.08), real[1], only="pycuda").counts[FASTER] >= 5


def slowed(old, label, factor):
    def times(case):
        return {kind: [[factor * s for s in r] for r in taken] for kind, taken in case.times.items()}

    return replace(old, cases=[replace(c, times=times(c)) if c.label == label else c for c in old.cases])


@pytest.mark.parametrize(("processes", "least", "most"), [(0, 0.025, 0.035), (3, 0.020, 0.026)])
def test_the_threshold_says_which_difference_is_found(processes, least, most):
    """At 300 us, beside the copy. With more processes a smaller one is."""
    old = run(row(processes=processes), copy(processes=processes))
    (pair, _) = compare(old, old).pairs
    assert least < pair.effect < most
    for by, verdict in ((1 + 1.2 * most, SLOWER), (1.005, SAME), (1 / (1 + 1.2 * most), FASTER)):
        new = run(row(seconds=by * 300e-6, processes=processes), copy(processes=processes))
        assert compare(old, new).pairs[0].verdict == verdict
    assert compare(old, old, min_effect=0.1).pairs[0].effect > 0.1


def test_short_times_and_those_far_from_the_copy_differ_more():
    short = compare(*[run(row(seconds=4e-6, size="small"), copy(3.9e-6, size="small"))] * 2).pairs[0]
    far = compare(*[run(row(seconds=3000e-6), copy())] * 2).pairs[0]
    near = compare(*[run(row(), copy())] * 2).pairs[0]
    assert near.effect < far.effect < short.effect
    assert 1 + short.effect > 4.42 / 4.03  # the medians of one kernel in five processes: bench/METHOD.md, "NVBench"
    assert 1 + far.effect > 1.033  # torch_script at xlarge on two cards
    assert RUN < RUN_FAR < STATES["torch_compile"]


def test_states_of_torch_compile_and_processes_that_disagree_raise_no_alarm():
    fast, slow = (run(row("torch_compile", s, processes=p)) for s, p in ((10.98e-6, 3), (13.05e-6, 3)))
    assert compare(fast, slow).exit_code == 0
    assert compare(run(row("torch_compile", 10.98e-6)), run(row("torch_compile", 13.05e-6))).exit_code == 0
    assert compare(fast, run(row("torch_compile", 20e-6, processes=3))).exit_code == 1

    def torn(factor):
        levels = (300e-6, 330e-6, 300e-6)
        taken = [r for i, level in enumerate(levels) for r in rounds(factor * level, seed=i)]
        return run(row(times={"cold": taken}, processes=3))

    found = compare(torn(1), torn(1.1)).pairs[0]
    assert found.verdict == UNCLEAR and found.disagree
    assert compare(torn(1), torn(1.7)).pairs[0].verdict == SLOWER


@pytest.mark.parametrize(("seconds", "label", "kind", "wider"), [
    (200e-6, "triton", "cold", True), (6e-6, "triton", "cold", False), (200e-6, "torch_native", "cold", False),
    (200e-6, "triton", "api", False),  # the host changes its speed for all variants
])  # fmt: skip
def test_what_the_processes_of_one_row_show_widens_other_rows_of_its_variant_and_class(seconds, label, kind, wider):
    """And the run knows it while it decides, by cold times, whether another process is needed."""
    ours, rival = row(kind=kind, processes=3), row("triton", 293.8e-6, kind, processes=3)  # clear with eight
    times = {kind: [[s] for s in (seconds, seconds, 1.15 * seconds) for _ in range(20)]}
    torn = row(label, kind=kind, size="small", processes=3, times=times)
    together, alone = run(ours, rival, torn), run(ours, rival).ratio(rival, ours, kind)
    assert together.timing(torn, kind).disagree and together.timing(torn, kind).states == 0
    found = together.ratio(rival, ours, kind)
    assert found.low < 0.95 * alone.low if wider else found == alone
    if kind == "cold":
        assert enough.settled([ours, rival], 3, 8) == set()
        assert enough.settled([ours, rival], 3, 8, [torn]) == ({"pycuda:a", "triton"} if wider else set())


@pytest.mark.parametrize(
    ("copy_by", "kernel_by", "verdict"), table("results", "verdicts beside a copy", float, float, str)
)
def test_a_kernel_is_not_blamed_for_what_the_copy_does_too(copy_by, kernel_by, verdict):
    found = compare(run(row(), copy()), run(row(seconds=kernel_by * 300e-6), copy(copy_by * 280e-6)))
    assert verdicts(found) == {"pycuda:a": verdict, "copy": SAME if abs(copy_by - 1) < 0.03 else MOVED}
    assert found.exit_code == (verdict == SLOWER)
    assert ("the machine changed" in comparison.render(found, ("a", "b"), "table")) == bool(found.drift)


def test_noise_is_unclear_and_medians_alone_are_too():
    noisy = row(times={"cold": rounds(320e-6, noise=0.3)})
    assert verdicts(compare(run(row()), run(noisy))) == {"pycuda:a": UNCLEAR}
    lone = row(times={"cold": [[900e-6]]})
    found = compare(run(row()), run(lone))
    assert verdicts(found) == {"pycuda:a": UNCLEAR} and found.exit_code == 0
    assert json.loads(comparison.render(found, ("a", "b"), "json"))["pairs"][0]["high"] is None


@pytest.mark.parametrize(("fastest", "verdict"), [(299e-6, UNCLEAR), (800e-6, SLOWER)])
def test_a_host_that_is_busy_is_not_a_kernel_that_is_slower(fastest, verdict):
    busy = [*rounds(900e-6), *rounds(fastest, n=2)]
    found = compare(run(row(kind="wall")), run(row(times={"wall": busy})))
    assert found.pairs[0].ratio.high < 0.5 and verdicts(found) == {"pycuda:a": verdict}


def changed(**machine):
    base = Machine("cuda", "H200", dict(GPU), {"python": "3.12", "torch": "2.11"})
    return {"machine": replace(base, **machine)}


OPTIONS = {"modes": "launch", "seed": 0, "order": "shuffled"}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (changed(device="cpu"), "device: cuda (H200) -> cpu (H200)"),
        (changed(name="A100"), "name: H200 -> A100"),
        (changed(details={**GPU, "driver": "590"}), "driver: 580 -> 590"),
        (changed(details={k: v for k, v in GPU.items() if k != "l2_bytes"}), "l2 bytes: 62914560 -> not known"),
        (changed(versions={"python": "3.12", "torch": "2.12"}), "torch: 2.11 -> 2.12"),
        (changed(versions={"python": "3.12"}), "torch: 2.11 -> not installed"),
        ({"options": {**OPTIONS, "order": "blocked"}}, "--order: shuffled -> blocked"),
        ({"options": {"modes": "launch", "seed": 0}}, "--order: shuffled -> not known"),
        ({"cases": [row(), copy(condition={**AT_WORK, "sm_hz": 1.7e9})]},
         "SM clock at gelu large float32: 1980 MHz -> 1700 MHz"),
        ({"cases": [row(), copy(condition={**AT_WORK, "throttled": "power"})]},
         "slowed by at gelu large float32: nothing -> power"),
        ({"cases": [row(), copy(condition={})]}, "memory clock at gelu large float32: 3200 MHz -> not known"),
    ],
)  # fmt: skip
def test_what_differs_is_named_and_refused_unless_forced(fields, named):
    old, new = run(row(), copy()), run(**{"cases": [row(seconds=600e-6), copy()], **fields})
    for a, b, text in ((old, new, named), (new, old, named.partition(":")[0])):
        found = compare(a, b)
        assert found.exit_code == 4 and not found.pairs
        assert text in "\n".join(map(str, found.differences))
    forced = compare(old, new, force=True)
    assert forced.exit_code in (0, 1) and forced.pairs
    assert f"differs: {named}" in comparison.render(forced, ("a", "b"), "table").splitlines()[1:5]


def test_what_the_machine_is_decides_whether_runs_are_comparable():
    bare = {"machine": Machine("cuda", "H200")}
    found = compare(run(row(), **bare), run(row(), **bare))
    assert {d.what for d in found.differences} == {"versions", "driver"} and found.exit_code == 4
    boosted = copy(condition={**AT_WORK, "sm_hz": 1.95e9})
    assert compare(run(row(), copy()), run(row(), boosted)).exit_code == 0
    one, other = ({**GPU, "card": card, "sm_clock_hz": 1980000000} for card in ("0123", "4567"))
    found = compare(run(row(), **changed(details=one)), run(row(), **changed(details=other)))
    assert found.exit_code == 0 and found.remarks == ["card: 0123 -> 4567"]
    older = compare(run(row()), run(row(), **changed(details=other)))
    assert older.exit_code == 0 and "card: not known -> 4567" in older.remarks


def test_the_host_where_it_is_not_timed_changed_sources_and_an_interrupted_run_are_remarks():
    other = changed(details={**GPU, "cpu": "8 x EPYC"})
    found = compare(run(row()), run(row(), **other))
    assert found.exit_code == 0 and found.remarks == ["cpu: 16 x Xeon -> 8 x EPYC"]
    calls = compare(run(row(kind="call")), run(row(kind="call"), **other), "call")
    assert calls.exit_code == 4 and calls.differences[0].what == "cpu"
    old = run(row(), sources={"gelu.cu": "1", "gelu.py": "1"})
    new = run(row(), sources={"gelu.cu": "2", "gelu.py": "1"}, complete=False)
    found = compare(old, new)
    assert found.exit_code == 0
    assert found.remarks == ["sources that changed: gelu.cu", "the new run was interrupted"]


def test_exit_codes_of_wrong_and_missing_answers():
    """A copy needs as much memory again as the kernel: one that could not be made is no wrong answer."""
    bad = row("pycuda:b", None, status=record.WRONG, reason="differs at 3")
    old, new = run(row(), row("pycuda:b")), run(row(seconds=900e-6), bad)
    assert compare(old, new).exit_code == 3
    assert compare(old, new).counts[SLOWER] == 1
    assert compare(old, new, skip="pycuda:b").exit_code == 1
    library = row("torch_eager", None, status=record.WRONG, parity=Parity(False, n=9, wrong=3, close=True))
    found = compare(run(row(), row("torch_eager")), run(row(), library))
    assert (found.exit_code, found.wrong, list(found.libraries.values())) == (0, {}, [[library]])
    assert "not compared: torch_eager" in comparison.render(found, ("old", "new"), "markdown")
    assert compare(run(row(), library), run(row(), library), only="torch_*").exit_code == 3  # where no entry ran
    assert compare(old, replace(new, machine=changed(name="A100")["machine"])).exit_code == 4
    broken = run(row("pycuda:a", None, status=record.ERROR, reason="no compiler"))
    assert compare(run(row()), broken).exit_code == 3  # though nothing is left to compare
    lost = copy(status=record.ERROR, reason="out of memory", times={})
    found = compare(run(row(), lost), run(row(), lost))
    assert (found.wrong, found.exit_code) == ({}, 0)
    assert compare(run(row(), copy()), run(row(status=record.ERROR, times={}), copy())).exit_code == 3
    of_study = {"options": {"study": "x", "baseline": "a"}}  # in which a variant may be called so
    assert run(lost, **of_study).broken == [lost] and run(lost).broken == []
    assert compare(run(row()), run(row(size="small"))).exit_code == 4
    assert compare(run(row(), copy()), run(row("pycuda:b"), copy())).exit_code == 4  # but for the copy
    checked = run(row(seconds=None, parity=Parity(True)), options={"seed": 0})
    found = compare(run(row(parity=Parity(True))), checked)
    assert found.exit_code == 4 and "no case was timed in both" in comparison.sentence(found)


def test_what_was_wrong_in_the_old_run_alone_is_a_note():
    """A branch that mends a wrong answer of main passes."""

    def wrong(label, **fields):
        return row(label, None, status=record.WRONG, reason="differs at 3", **fields)

    old = run(row(), wrong("pycuda:b"), wrong("numpy"), wrong("pycuda:a", size="small"), wrong("triton"))
    new = run(row(), row("pycuda:b"), row("triton", None, status=record.SKIPPED, reason="no triton"))
    found = compare(old, new)
    assert (found.exit_code, found.wrong) == (0, {})
    reasons = {case.label + case.size: why for why, cases in found.was_wrong.items() for case in cases}
    assert {label: why.partition(": ")[0].partition(", ")[2] for label, why in reasons.items()} == {
        "pycuda:blarge": "right in the new run",
        "numpylarge": "absent from the new run",
        "pycuda:asmall": "absent from the new run",
        "tritonlarge": "skipped in the new run",
    }
    text = comparison.render(found, ("old", "new"), "markdown")
    assert "not compared: pycuda:b (gelu large float32): WRONG in the old run, right in the new run" in text
    assert text.startswith(
        "**The one case is not slower: 1 SAME (cold); 1 was wrong in the old run, right in the new**"
    )
    assert compare(old, run(row(), wrong("pycuda:b"))).exit_code == 3  # still wrong
    nothing_else = compare(run(wrong("pycuda:b"), copy()), run(row("pycuda:b"), copy()))
    assert nothing_else.exit_code == 0 and nothing_else.refusal == ""
    assert compare(run(wrong("pycuda:a", size="small")), run(row("pycuda:b"))).exit_code == 4


def test_cases_of_one_run_alone_are_listed_and_counted():
    skipped = row("triton", None, status=record.SKIPPED, reason="no triton")
    old = run(row(), row("cupy_eager"), row("triton"), row("numpy", kind="hot"))
    new = run(row(), skipped, row("numpy"), row("torch_eager"))
    found = compare(old, new, "cold")
    assert {why: [case.label for case in cases] for why, cases in found.left_out.items()} == {
        "only in the old run": ["cupy_eager"],
        "skipped in the new run: no triton": ["triton"],
        "no cold time in the old run": ["numpy"],
        "only in the new run": ["torch_eager"],
    }
    assert comparison.sentence(found).endswith("; 4 not compared")


def test_check_runs_are_compared_by_their_errors():
    def checked(**parities):
        cases = [row(label, None, parity=p, status=record.OK if p.ok else record.WRONG)
                 for label, p in parities.items()]  # fmt: skip
        return run(*cases, options={"seed": 0})

    old = checked(numpy=Parity(True, max_ulp=0.5), triton=Parity(True, max_ulp=1.0))
    worse = compare(old, checked(numpy=Parity(True, max_ulp=0.5), triton=Parity(True, max_ulp=7.0)))
    assert worse.exit_code == 0
    assert comparison.errors_in_ulp(worse) == [["gelu", "float32", "triton", "1", "7"]]
    wrong = compare(old, checked(numpy=Parity(False, max_ulp=None), triton=Parity(True, max_ulp=1.0)))
    assert wrong.exit_code == 3
    assert comparison.errors_in_ulp(wrong) == [["gelu", "float32", "numpy", "0.5", "inf"]]
    assert "2 cases were checked in both runs" in comparison.sentence(compare(old, old))


def test_kinds_and_chosen_variants():
    both = {"cold": rounds(3e-4), "graph": rounds(2e-4)}
    old = run(row(times=both))
    assert [p.kind for p in compare(old, old).pairs] == ["cold"]
    assert [p.kind for p in compare(old, old, "all").pairs] == ["cold", "graph"]
    assert [p.kind for p in compare(old, old, "graph,cold").pairs] == ["graph", "cold"]
    with pytest.raises(NotFound, match="did you mean 'cold'"):
        compare(old, old, "colt")
    with pytest.raises(InputError, match="no wall times in these runs; there are: cold, graph"):
        compare(old, old, "wall")
    old = run(row(), row("pycuda:b"), row("triton"), copy())
    assert list(verdicts(compare(old, old, only="pycuda", skip="*:b"))) == ["pycuda:a", "copy"]
    assert list(verdicts(compare(old, old, kernels=["gelu"]))) == ["pycuda:a", "pycuda:b", "triton", "copy"]


@pytest.mark.parametrize("asked", [{"only": "cupy*"}, {"skip": "pycuda:b"}, {"kernels": ("add2d",)}])
def test_a_choice_that_fits_nothing_is_an_error(asked):
    with pytest.raises(CudalabError, match=r"no (variant|kernel) named"):
        compare(run(row()), run(row()), **asked)


def test_shares():
    assert (share("2%", "x"), share(" 2.5 %", "x"), share("0.02", "x"), share("0", "x")) == (0.02, 0.025, 0.02, 0)
    for bad in ("", "2", "-1%", "nan", "1e999", "100%", "2%%", "two"):
        with pytest.raises(InputError, match=r"give a share such as 2% or 0\.02"):
            share(bad, "--min-effect")


@pytest.fixture
def files(tmp_path):
    """An old run and a new one: one variant slower, one wrong, one unclear; with text that must not be obeyed."""
    evil = "bad | <b>\x1b[31m [red] `x`"
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run(row(), row("triton", 200e-6), row("pycuda:b"), row("cupy_raw:a_name_that_is_long"), copy()).save(old)
    run(row(seconds=330e-6), row("triton", times={"cold": rounds(210e-6, noise=0.2)}),
        row("pycuda:b", None, status=record.WRONG, reason=evil), row("cupy_raw:a_name_that_is_long"),
        copy()).save(new)  # fmt: skip
    return old, new


def test_the_table_fits_80_columns_and_obeys_nothing(files):
    done = invoke("compare", *files, COLUMNS="80")
    assert done.exit_code == 3
    assert max(map(len, done.output.splitlines()[1:])) <= 80 and "\x1b" not in done.output
    time, ratio = r"[23]\d\d(?:\.\d)?", r"0\.(?:8|9)\d+"
    assert re.search(rf"pycuda:a \* +{time} +{time} +{ratio} {ratio} to {ratio} +-SLOWER", done.output)
    assert "columns left out: threshold; widen the terminal" in done.output
    text = " ".join(done.output.split())
    assert "bad | <b>\\x1b[31m [red] `x`" in text
    assert "1 answer is wrong or missing; 1 of 3 cases is SLOWER: 1 UNCLEAR, 1 SAME (cold)" in text


def test_a_busy_machine_is_said_of_each_run_and_its_times_are_marked(tmp_path):
    load = {"total": 10.0, OTHERS: 80.0, CORES: 20.0}
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run(row(kind="call")).save(old)
    run(row(kind="call"), wall=load).save(new)
    warning = "new run: Machine busy: load 8 of other programs on 2 cores: times are imprecise and give no ratio"
    for format in ("table", "markdown", "json"):
        text = " ".join(invoke("compare", old, new, "--format", format).output.split())
        assert text.count("Machine busy") == 1 and warning in text, text
        if format != "json":
            assert re.search(r"pycuda:a \|? ?300 (\| )?300\? ", text) and "A busy machine is a reason" in text
    pair = json.loads(invoke("compare", old, new, "--format", "json").output)["pairs"][0]
    assert (pair["old_marks"], pair["new_marks"]) == ("", "?")


def test_a_narrow_terminal_keeps_the_verdicts_and_the_footer_explains_the_columns():
    found = compare(run(row("torch_compile")), run(row("torch_compile", 900e-6)))
    for width, gone in ((140, ""), (58, "threshold"), (46, "threshold, interval")):
        text = comparison.render(found, ("a", "b"), "table", width)
        assert max(map(len, text.splitlines())) <= width
        assert any(line.startswith("torch_compile") and line.endswith("SLOWER") for line in text.splitlines()), text
        said = f"columns left out: {gone}; widen the terminal, or give --format json" if gone else ""
        assert said in " ".join(text.split()) and ("left out" in text) == bool(gone)
    text = comparison.render(found, ("a", "b"), "table", 24)
    assert re.search(r"The table has \d+ columns, the terminal 24: widen it, or give --format json\.$", text)
    cold, wall = (compare(run(row(kind=kind)), run(row(kind=kind)), kind) for kind in ("cold", "wall"))
    assert comparison.cells(wall.pairs[0])[-2] == "100 %"
    assert comparison.footer(wall)[1] == comparison.FOOTER_OF_HOST
    assert comparison.FOOTER_OF_HOST not in comparison.footer(cold)
    assert "threshold:" in comparison.footer(cold)[0] and UNCLEAR not in comparison.footer(cold)[0], "none is"
    assert "threshold:" not in comparison.footer(cold, ["threshold"])[0]


def test_a_busy_machine_leaves_no_speed_up_and_nothing_the_same():
    """As in the tables of one run: what waits under load makes narrow intervals. A gate still finds a factor of 2."""
    load = {"total": 10.0, OTHERS: 80.0, CORES: 20.0}
    for busy in (
        (run(row(kind="wall"), wall=load), run(row(kind="wall"))),
        (run(row(kind="wall")), run(row(kind="wall"), wall=load)),
    ):
        (pair,) = compare(*busy).pairs
        assert (pair.verdict, comparison.cells(pair)[3:5]) == (UNCLEAR, ["?", "?"])
    (pair,) = compare(run(row(kind="wall")), run(row(kind="wall"))).pairs
    assert (pair.verdict, comparison.cells(pair)[3:5]) == (SAME, ["1.00", "0.97 to 1.03"])
    (pair,) = compare(run(row(kind="wall")), run(row(seconds=900e-6, kind="wall"), wall=load)).pairs
    assert (pair.verdict, comparison.cells(pair)[3:5]) == (SLOWER, ["?", "?"])
    (pair,) = compare(run(row()), run(row(), wall=load)).pairs  # the GPU's own time
    assert pair.verdict == SAME and "?" not in comparison.cells(pair)


def test_markdown_for_a_pull_request_and_json_have_everything(files):
    text = invoke("compare", *files, "--format", "markdown").output
    head, rest = text.split("<details>")
    assert head.startswith("**1 answer is wrong or missing; 1 of 3 cases") and "| pycuda:a |" in head
    assert "bad | &lt;b>\\x1b\\[31m \\[red\\] \\`x\\`" in head and "<b>" not in text
    assert "triton" in rest and "copy (control)" in rest and rest.rstrip().endswith("</details>")
    widths = {line.count(" | ") for line in rest.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    done = invoke("compare", *files, "--format", "json", "--skip", "pycuda:b")
    document = json.loads(done.output)
    assert document["exit_code"] == done.exit_code == 1
    pair = next(p for p in document["pairs"] if p["label"] == "pycuda:a")
    assert pair["verdict"] == "SLOWER" and pair["low"] < pair["speedup"] < pair["high"] < 1
    assert pair["old_seconds"] == pytest.approx(300e-6, rel=0.01)


def test_a_refusal_names_what_differs_and_what_to_type(files, tmp_path):
    other = tmp_path / "other.json"
    run(row(), **changed(name="A100")).save(other)
    said = refused("compare", files[0], other, code=4)
    assert "differs: name: H200 -> A100" in said and "--force" in said
    ran("compare", files[0], other, "--force")


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    path = tmp_path_factory.mktemp("baseline") / "main.json"
    done = invoke("bench", "plus_one", "--device", "cpu", "--only", "numpy", "--sizes", "100K", "--budget", 0.01,
                  "-o", path, "-q")  # fmt: skip
    assert done.exit_code == 0
    return path


@pytest.mark.process
def test_bench_measures_what_the_baseline_has_and_judges_it(baseline, tmp_path):
    """The baseline is 50 times as slow, so that no load of the machine makes the new run SLOWER."""
    old, now = tmp_path / "old.json", tmp_path / "now.json"
    slowed(cudalab.load(baseline), "numpy", 50).save(old)
    before = old.read_bytes()
    done = ran("bench", "--baseline", old, "--budget", 0.01, "-q", "-o", now, "--format", "json")
    assert [(c.kernel, c.size, c.label) for c in cudalab.load(now).cases] == [("plus_one", "100k", "numpy")]
    assert json.loads(done.stdout)["format"] == record.FORMAT
    said = r"No kernel was timed in both runs: the CPU checks a \.cu and does not time it\. Of the libraries, the one "
    said += r"case is not slower: 1 (UNCLEAR|FASTER) \(wall\)"  # on a busy machine
    assert re.search(said, done.stderr)
    assert old.read_bytes() == before


@pytest.mark.process
def test_where_nothing_was_timed_the_answers_are_compared(tmp_path):
    """On a CPU a `.cu` is checked and not timed."""
    old, spec = tmp_path / "old.json", tmp_path / "plus_one.py"
    ran("new", spec.with_suffix(".cu"), "--like", "plus_one")
    asked = ("bench", spec, "--only", "host", "--device", "cpu", "--size", "1K", "-q")
    ran(*asked, "-o", old)
    same = invoke(*asked, "--baseline", old)
    assert same.exit_code == 0 and re.search(
        r"\d cases? (was|were) checked in both runs, nothing was timed", same.output
    )
    source = spec.with_suffix(".cu").read_text()
    spec.with_suffix(".cu").write_text(source.replace("y[i] = x[i] + 1", "y[i] = x[i] + 2"))
    wrong = invoke(*asked, "--baseline", old)
    assert wrong.exit_code == 3 and "wrong or missing" in wrong.output and "WRONG in the new run" in wrong.output


def test_a_slow_down_is_found_and_nothing_is_the_same_where_the_amount_is_not_known():
    """The threshold of wall times is a factor of 2, so an interval that says nothing lies within it."""
    old, new = (run(row("numpy", seconds, "wall")) for seconds in (0.4e-6, 4e-6))
    (pair,) = compare(old, new, "wall").pairs
    assert pair.ratio.says_nothing and pair.verdict == "SLOWER"
    rng = np.random.default_rng(0)
    times = [[[s * f] for f in rng.lognormal(0, 0.75, 20)] for s in (1e-4, 1.2e-4)]
    old, new = (run(row("numpy", None, times={"wall": taken})) for taken in times)
    found = compare(old, new, "wall")
    (pair,) = found.pairs
    assert pair.ratio.says_nothing and pair.ratio.low > 0.5 and pair.ratio.high < 2
    assert pair.verdict == UNCLEAR and found.exit_code == 0
    for format in ("table", "markdown"):
        assert comparison.render(found, ("a", "b"), format).count(marks.NO_RATIO) == 1  # the times are imprecise, too
        assert marks.NO_RATIO not in comparison.render(compare(run(row()), run(row())), ("a", "b"), format)
    few = [run(row("numpy", None, times={"wall": rounds(1e-4, n=3)})) for _ in range(2)]
    assert comparison.FOOTER_OF_NONE in comparison.render(compare(*few, "wall"), ("a", "b"), "table")


def test_failures_that_say_the_same_of_other_sizes_stand_once():
    wrong = [
        row(size=size, seconds=0, status=record.WRONG, reason=f"{n} of 99 wrong: [{n}] got 1, want 2 (NaN: why?)")
        for n, size in enumerate(("small", "large", "xlarge"))
    ]
    late = row("triton", size="small", seconds=0, status=record.ERROR, reason="it did not end (NaN: why?)")
    found = compare(run(row()), run(row(), *wrong, late))
    assert [(labels, said) for kind, labels, said in comparison.notes(found) if kind == "wrong"] == [
        ("pycuda:a (gelu small float32 and 2 more)",
         "WRONG in the new run: 0 of 99 wrong: [0] got 1, want 2 (NaN: why?)"),
        ("triton (gelu small float32)", "error in the new run: it did not end"),
    ]  # fmt: skip
    assert comparison.sentence(found).startswith("4 answers are wrong or missing")


@pytest.mark.process
def test_bench_fails_if_it_is_slower_than_its_baseline(baseline, tmp_path):
    quick = tmp_path / "quick.json"
    slowed(cudalab.load(baseline), "numpy", 0.02).save(quick)
    done = invoke("bench", "--baseline", quick, "--budget", 0.01, "-q")
    assert done.exit_code == 1 and "1 of 1 cases is SLOWER" in done.output


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "args", "code", "message"),
    [
        ({"machine": Machine("cpu", "an abacus")}, [], 4, "name: an abacus -> "),
        ({}, ["--order", "blocked"], 4, "--order: shuffled -> blocked"),
        ({"cases": []}, [], 2, "is without times and answers; write a baseline with"),
        ({"kind": "check"}, [], 2, "is a run of `cudalab check`; write a baseline with"),
        ({"options": {**OPTIONS, "kernels": "gelu"}}, [], 2, "its kernels are 'gelu'; name the kernels"),
        ({"options": {**OPTIONS, "kernels": [], "sizes": 3}}, [], 2, "its sizes is 3; give --sizes"),
    ],
)
def test_a_baseline_that_cannot_serve_is_refused_before_measuring(baseline, tmp_path, change, args, code, message):
    other = tmp_path / "other.json"
    replace(cudalab.load(baseline), **change).save(other)
    assert message in refused("bench", "--baseline", other, "-q", "-o", tmp_path / "kept.json", *args, code=code)
    assert not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize("option", ["-o", "--resume"])
def test_the_baseline_is_never_replaced(baseline, tmp_path, option):
    link, before = tmp_path / "link.json", baseline.read_bytes()
    link.symlink_to(baseline)
    assert "is the baseline and would be replaced" in refused("bench", "--baseline", baseline, option, link)
    assert baseline.read_bytes() == before
