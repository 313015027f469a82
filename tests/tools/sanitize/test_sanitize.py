"""Sanitizers find planted bugs that leave results right, and report each in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tables import table

import cudalab
from cudalab import host
from cudalab.base.errors import LaunchError, Unavailable
from cudalab.device import cuda
from cudalab.engine import plan
from cudalab.engine.runs import check
from cudalab.results.record import Case
from cudalab.tools import sanitize
from cudalab.tools.sanitize import Sanitizer, asan, compute

DATA = Path(__file__).parents[2] / "data" / "sanitize"
PLANTED = str(DATA / "planted.py")
GROUP = plan.groups([PLANTED], "small", "")[0]


def log(name):
    """What a sanitizer has written; those of compute-sanitizer are as NVIDIA's manual and logs of releases have it."""
    return (DATA / "logs" / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.sweep
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_planted_bugs_are_wrong_and_the_reason_has_the_line_and_the_thread(compiler, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    try:
        host.address_sanitizer()
    except Unavailable as reason:
        pytest.skip(str(reason))
    run = cudalab.check(PLANTED, sizes="65", device="cpu", only="host", sanitize=True)
    assert run.options["sanitize"]
    reasons = {case.variant: case.reason for case in run.cases}
    assert {case.variant: case.status for case in run.cases} == {e: "WRONG" if r else "ok" for e, r in reasons.items()}
    where = "(block ({},0,0), thread (63,0,0))"
    found, _, by_check = reasons["reads_past"].partition("; ")  # the check alone sees it with g++
    assert found == (
        f"address sanitizer: read of 4 bytes 248 bytes past the end of 'x' at planted.cu:11 {where.format(1)}"
    )
    beside = "reads_past: reads 4 bytes outside an array (argument 1) at planted.cu:11: element 127 of 65"
    assert by_check.startswith(beside if compiler == "g++" else "")
    assert reasons["shared_past"] == (
        f"address sanitizer: read of 4 bytes just past the end of 'tile' (256 bytes) at planted.cu:20 {where.format(0)}"
    )
    assert reasons["dynamic_past"] == (
        "address sanitizer: write of 4 bytes just past the end of the 256 bytes of dynamic shared memory "
        f"at planted.cu:26 {where.format(0)}; dynamic_past: wrote up to 4 bytes past its dynamic shared memory of 256 "
        "bytes; give the Launch more: shared=BYTES"
    )
    assert "overflows: planted.cu:31: block (0,0,0), thread (1,0,0): signed integer overflow" in reasons["overflows"]
    if compiler == "g++":
        race = (
            "races: race on 4 bytes of shared memory in block (0,0,0): thread (0,0,0) reads at planted.cu:38, "
            "thread (32,0,0) writes at planted.cu:37, without a barrier between them"
        )
        assert reasons["races"] == race  # the check alone sees it, too
    notes = {case.variant: case.notes for case in run.cases}
    assert {entry for entry in notes if sanitize.NOTHING["cpu"] in notes[entry]} == {
        entry for entry, reason in reasons.items() if not reason
    }
    assert not reasons["right"] + reasons["diverges"]  # the last is for a GPU's tools, and `check` notes it


LOST = "not sanitized: the process was killed by SIGKILL"
GUESS = "1 of 2 values differ: [0] got nan, want 1 (NaN: was every element written?) (in its first launch)"
OVERFLOW = "own.cu:3: overflow"


@pytest.mark.parametrize(
    ("found", "before", "after"),
    [
        (OVERFLOW, ("WRONG", GUESS),
         ("WRONG", f"{OVERFLOW}; 1 of 2 values differ: [0] got nan, want 1 (in its first launch)")),
        (LOST, ("ok", ""), ("error", LOST)),
        (LOST, ("WRONG", ""), ("WRONG", "")),
    ],
    ids=["it takes the place of the guess", "killed, right", "killed, wrong"],
)  # fmt: skip
def test_what_a_finding_makes_of_a_row(monkeypatch, found, before, after):
    monkeypatch.setattr(sanitize, "require", lambda kind: None)
    monkeypatch.setattr(Sanitizer, "_findings", lambda *_: {"overflows": found})
    case = Case("k", "small", (2,), "float32", "host", "overflows", *before)
    with Sanitizer("cpu", "cpu", 0, 1.0) as sanitizer:
        sanitizer.add([case], GROUP)
    assert (case.status, case.reason) == after


@pytest.mark.parametrize(("name", "says"), table("sanitizer", "of the address sanitizer"))
def test_reports_of_the_address_sanitizer(name, says):
    assert asan.read(log(name), {"y": (0x5000, 64), "x": (0x1000, 64)}, "it ended") == says


@pytest.mark.wall
@pytest.mark.sweep
def test_a_kernel_that_does_not_end_is_stopped(tmp_path):
    (tmp_path / "endless.cu").write_text(
        "__global__ void endless(const float* x, float* y) { while (y) y[0] = x[0]; }\n"
    )
    spec = (DATA / "planted.py").read_text().replace("planted", "endless")
    spec = spec[: spec.index("    entries={")] + '    entries={"endless": lambda x, y: Launch((1,), (1,), (x, y))},\n'
    (tmp_path / "endless.py").write_text(spec + '    budgets={"float32": Budget(0.5)},\n)\n')
    watch = asan.Watch(timeout=2)
    group = plan.groups([str(tmp_path / "endless.py")], "small", "")[0]
    try:
        assert watch.findings(group, ["endless"], 0) == {
            "endless": "not sanitized: did not end within 2 s under the address sanitizer"
        }
    finally:
        watch.close()


@pytest.mark.process
def test_a_compiler_without_an_address_sanitizer_says_what_to_install(tmp_path, monkeypatch):
    compiler = tmp_path / "bare++"
    compiler.write_text('#!/bin/sh\ncase "$1" in -print-file-name=*) echo "${1#*=}";; *) echo bare;; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(Unavailable, match=r"bare\+\+ has no address sanitizer \(libasan.so\); install libasan"):
        sanitize.Sanitizer("cpu", "cpu", 0, 60)


# ---- compute-sanitizer: what it writes, as NVIDIA's manual and logs of its releases have it --------------------------

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
BROKEN = "========= COMPUTE-SANITIZER\n========= Error: No attachable process found. compute-sanitizer timed out.\n"
BUFFERS = {"x": (0x7F6510C00000, 4000), "y": (0x7F3C7EC00000, 4000)}


@pytest.mark.parametrize(("tool", "name", "entry", "says"), table("sanitizer", "sentences"))
def test_reports_of_compute_sanitizer_per_entry(tool, name, entry, says):
    read = compute.read(log(name))
    found = compute.sentences(tool, read, list(GROUP.kernel.entries), {entry: BUFFERS})
    assert found == {entry: f"{tool}: {says}"}
    assert read.count and not read.failed


def runs(monkeypatch, *answers):
    """Let `compute._run` give these answers, one after the other; returns the entries that it was asked for."""
    asked, left = [], list(answers)

    def run(tool, group, entries, *_):
        asked.append(list(entries))
        text, errors = left.pop(0)
        return compute.read(text), errors, dict.fromkeys(entries, BUFFERS)

    monkeypatch.setattr(compute, "_run", run)
    return asked


def by(entries):
    return compute._by("memcheck", GROUP, entries, 0, 0, 60, Path())


def test_entries_after_one_that_ends_the_context_are_launched_in_a_new_process(monkeypatch):
    asked = runs(
        monkeypatch,
        (log("memcheck"), {"right": "", "reads_past": "unspecified launch failure"}),
        (CLEAN, {"races": "", "diverges": ""}),
    )
    assert by(["right", "reads_past", "races", "diverges"]).keys() == {"reads_past"}
    assert asked == [["right", "reads_past", "races", "diverges"], ["races", "diverges"]]


KILLED = "the process was killed by SIGKILL"
NO_SUMMARY = CLEAN.splitlines()[0]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([(CLEAN, {"right": "too many resources"}), (CLEAN, {"races": ""})], "too many resources"),
        ([(CLEAN, {"right": KILLED}), (CLEAN, {"races": ""})], KILLED),
        # the tool ended before it wrote what it had found: each entry is launched again, alone
        ([(NO_SUMMARY, {"right": "", "races": KILLED}), (NO_SUMMARY, {"right": KILLED}), (CLEAN, {"races": ""})],
         KILLED),
        ([(NO_SUMMARY, {"right": "", "races": ""}), (NO_SUMMARY, {"right": ""}), (CLEAN, {"races": ""})],
         "memcheck ended without a summary"),
    ],
)  # fmt: skip
def test_a_launch_that_fails_without_a_report_has_no_verdict(monkeypatch, answers, why):
    asked = runs(monkeypatch, *answers)
    assert by(["right", "races"]) == {"right": f"not sanitized: the launch under memcheck failed: {why}"}
    assert asked[-1] == ["races"] and len(asked) == len(answers)


def test_what_one_tool_finds_comes_before_what_another_could_not_check(monkeypatch):
    said = {"memcheck": "not sanitized: it was killed", "racecheck": "racecheck: race"}
    monkeypatch.setattr(compute, "missing", lambda: None)
    monkeypatch.setattr(compute, "_by", lambda tool, *_: {"right": said[tool]} if tool in said else {})
    assert compute.findings(GROUP, ["right"], 0, 0, 1.0) == {"right": "racecheck: race; not sanitized: it was killed"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BROKEN, "does not work: Error: No attachable process"),
        (CLEAN.replace("0 errors", "3 errors"), "memcheck counts 3 errors, but names none"),
    ],
)
def test_a_tool_that_does_not_work_or_is_not_understood_is_an_error(monkeypatch, text, says):
    runs(monkeypatch, (text, {"right": ""}))
    with pytest.raises(LaunchError, match=says):
        by(["right"])


def test_without_compute_sanitizer_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Unavailable, match="compute-sanitizer is not on PATH; it comes with the CUDA toolkit"):
        sanitize.Sanitizer("cuda", "cuda", 0, 60)


@pytest.mark.gpu
def test_each_planted_bug_is_found_by_its_tool():
    run = check(PLANTED, sizes="small", device="cuda", only="pycuda", sanitizer=Sanitizer)
    reasons = {case.variant: case.reason for case in run.cases}
    assert cuda.missing() is None
    assert "memcheck: invalid __global__ read of size 4 bytes at planted.cu:11" in reasons["reads_past"]
    assert "'x'" in reasons["reads_past"]
    assert "racecheck: race between a write at planted.cu:37 and a read at planted.cu:38" in reasons["races"]
    assert "initcheck: uninitialized __global__ memory read" in reasons["reads_unwritten"]
    assert "synccheck: barrier error detected" in reasons["diverges"]
    assert not reasons["right"] + reasons["overflows"]


@pytest.mark.sweep
def test_a_check_runs_host_variants_in_several_orders_of_their_threads(tmp_path):
    shutil.copy(DATA / "chained.cu", tmp_path)
    spec = (DATA / "planted.py").read_text().replace("planted", "chained")
    spec = (
        spec[: spec.index("    entries={")] + '    entries={"chained": go},\n    budgets={"float32": Budget(0.5)},\n)\n'
    )
    (tmp_path / "chained.py").write_text(spec)
    (case,) = check(tmp_path / "chained.py", sizes="65", device="cpu", only="host").cases
    assert case.status == "WRONG"
    assert case.reason.endswith("(with blocks and threads in reverse order)")
