"""What crashes, hangs or is stopped costs its own row: with kernels that really do it, in a real worker process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cudalab
from cudalab import process, results, supervisor
from cudalab.devices import cuda
from cudalab.errors import InputError, Unavailable

CRASH = Path(__file__).parent / "data" / "crash"
QUICK = {"sizes": "small", "budget": 0.01, "timeout": 20.0}
GOOD = ("numpy", "host:fine", "host:also_fine")


@pytest.fixture
def altered(tmp_path):
    """A copy of the spec with some of its text replaced."""

    def write(old="", new=""):
        text = (CRASH / "crash.py").read_text()
        assert old in text
        (tmp_path / "crash.py").write_text(text.replace(old, new, 1) if old else text)
        (tmp_path / "crash.cu").write_text((CRASH / "crash.cu").read_text())
        return tmp_path / "crash.py"

    return write


def rows(*only, spec=CRASH / "crash.py", device="cpu", **options):
    run = cudalab.bench(str(spec), only=",".join(only), device=device, **{**QUICK, **options})
    assert run.complete
    return {(c.size, c.label) if len(run.groups()) > 1 else c.label: c for c in run.cases}


def are_right_and_timed(cases, labels):
    for label in labels:
        assert (cases[label].status, cases[label].reason) == (results.OK, "")
        assert cases[label].parity.n == 1000
        assert bool(cases[label].times) == (not label.startswith("host"))


@pytest.fixture
def workers(monkeypatch):
    """Every worker process that is started from here on."""
    started = []

    class Recorded(process.Process):
        def __init__(self):
            super().__init__()
            started.append(self)

    monkeypatch.setattr(supervisor, "Process", Recorded)
    return started


# ---- one variant -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("wild", "the worker process was killed by SIGSEGV while it ran host:wild (first run)"),
        ("exits", "the worker process ended with exit code 3 while it ran host:exits (compile); its last words: bye"),
    ],
)
def test_a_deadly_variant_costs_its_row_only(entry, text):
    cases = rows(*GOOD, f"host:{entry}")
    assert list(cases) == ["host:fine", f"host:{entry}", "host:also_fine", "numpy"]  # where they always are
    bad = cases[f"host:{entry}"]
    assert (bad.status, bad.times) == (results.ERROR, {})
    assert text in bad.reason
    are_right_and_timed(cases, GOOD)


def test_a_failing_variant_costs_its_row_only(workers):
    texts = {
        "host:trap": "trap: block (3,0,0), thread (116,0,0) called __trap()",
        "host:misaligned": "misaligned address",
        "host:raises": "ZeroDivisionError: in the launch (crash.py, line ",
        "host:greedy": "out of memory: Unable to allocate 256. TiB",
    }
    cases = rows(*GOOD, *texts)
    for label, text in texts.items():
        assert (cases[label].status, cases[label].times) == (results.ERROR, {})
        assert text in cases[label].reason
    are_right_and_timed(cases, GOOD)
    assert len(workers) == 1


def test_what_never_ends_is_stopped():
    start = time.monotonic()
    cases = rows(*GOOD, "host:endless", timeout=1.0)
    assert (
        cases["host:endless"].reason == "no end within 1 s: host:endless (first run) was stopped; --timeout allows more"
    )
    are_right_and_timed(cases, GOOD)
    assert time.monotonic() - start < 10


def test_everything_at_once():
    bad = ("wild", "exits", "trap", "raises", "endless")
    cases = rows(*GOOD, *(f"host:{entry}" for entry in bad), timeout=1.0)
    assert {label for label, c in cases.items() if c.status == results.ERROR} == {f"host:{entry}" for entry in bad}
    assert "SIGSEGV" in cases["host:wild"].reason
    assert "exit code 3" in cases["host:exits"].reason
    are_right_and_timed(cases, GOOD)


def test_the_innocent_are_not_blamed_for_a_late_death():
    """One variant is right and kills whatever runs after it: nobody is wrong, and nothing can be timed together."""
    cases = rows("host:time_bomb", "host:slow", "host:slow_too", "numpy")
    for case in cases.values():
        assert case.status == results.OK, case.reason
        assert case.times == {}
        assert case.notes == [supervisor.NOT_TIMED]


def test_the_timing_of_a_variant_is_watched_too(altered):
    """NumPy's form, which is timed, stops in the middle of that."""
    spec = altered("    return 2 * x\n\n\ndef launch", """    import traceback
    timing = any(frame.name == "_time" for frame in traceback.extract_stack())
    return time.sleep(9) if timing else 2 * x\n\n\ndef launch""")  # fmt: skip
    cases = rows("numpy", "host:fine", spec=spec, timeout=1.0)
    assert cases["numpy"].reason == "no end within 1 s: numpy (timing, wall) was stopped; --timeout allows more"
    assert cases["host:fine"].status == results.OK


# ---- what all variants need --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("raise ZeroDivisionError('no')", "no inputs and reference: ZeroDivisionError: no (crash.py, line 15)"),
        ("np.empty(1 << 48, np.uint8)", "no inputs and reference: out of memory: Unable to allocate 256. TiB"),
        ("os.abort()", "the worker process was killed by SIGABRT while it was at: reference"),
        ("time.sleep(60)", "no end within 1 s: reference was stopped"),
        ("return x[:1]", "reference"),
    ],
    ids=["raises", "memory", "aborts", "hangs", "shape"],
)
def test_a_reference_that_fails_costs_its_group_only(altered, line, text):
    spec = altered(
        "    return 2 * x\n\n\ndef launch", f"    if x.size == 3000:\n        {line}\n    return 2 * x\n\n\ndef launch"
    )
    cases = rows("host:fine", "numpy", spec=spec, sizes="small,medium,large", timeout=1.0)
    for (size, _), case in cases.items():
        assert (case.status == results.ERROR) == (size == "medium")
        if size == "medium":
            assert text in case.reason
    assert len(cases) == 6


def test_inputs_that_fail_are_named(altered):
    spec = altered('    print("a print"', '    raise KeyError("weights")\n    print("a print"')
    for case in rows("host:fine", "numpy", spec=spec).values():
        assert "no inputs and reference: KeyError: 'weights' (crash.py, line " in case.reason


# ---- the processes -----------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_from_outside(workers):
    def kill_once(text):
        if "host:slow (compile)" in text and len(workers) == 1:
            os.kill(workers[0].pid, signal.SIGKILL)

    cases = rows(*GOOD, "host:slow", progress=kill_once)
    assert cases["host:slow"].reason.startswith(
        "the worker process was killed by SIGKILL (has the machine run out of memory?) while it ran host:slow"
    )
    are_right_and_timed(cases, GOOD)
    assert len(workers) == 2


def test_no_process_is_left_and_no_start_is_wasted(workers):
    rows(*GOOD, sizes="small,medium,large")
    assert len(workers) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(workers[0].pid, 0)


@pytest.mark.parametrize(
    ("boot", "text"),
    [
        ("import os; os._exit(7)", "the device cannot be used: the worker process ended with exit code 7"),
        ("raise SystemError('broken')", "its last words: SystemError: broken"),
    ],
)
def test_a_worker_that_cannot_even_start(monkeypatch, boot, text):
    monkeypatch.setattr(process, "BOOT", boot)
    with pytest.raises(Unavailable, match=text):
        rows("numpy")


def test_a_device_that_does_not_come_back(altered, tmp_path, monkeypatch):
    """After a crash the worker cannot be started again: what was finished is in the file."""
    out = tmp_path / "r.json"
    monkeypatch.setattr(supervisor, "TRIES", 1)

    def break_it(text):
        if text.startswith("crash medium"):
            monkeypatch.setattr(process, "BOOT", "import os; os._exit(7)")

    with pytest.raises(Unavailable, match=r"cannot be opened again: .* r.json has what was finished|exit code 7"):
        rows("host:fine", "host:exits", sizes="small,medium", output=out, progress=break_it)
    kept = cudalab.load(out)
    assert not kept.complete
    assert {c.size for c in kept.cases} == {"small"}


def test_errors_of_the_lab_are_the_same_in_the_parent():
    with pytest.raises(InputError, match="no device 'tpu'"):
        rows("numpy", device="tpu")
    if cuda.missing():
        with pytest.raises(Unavailable, match="no GPU to use"):
            rows("numpy", device="cuda:0")


def test_a_script_needs_no_main_guard_and_loads_no_library(tmp_path):
    """Nor does it matter what the files in its folder are called."""
    for name in ("copy", "select", "signal", "queue"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "mine.py").write_text(f"""
import cudalab, sys
run = cudalab.bench({str(CRASH / "crash.py")!r}, sizes="small", only="numpy", device="cpu", budget=0.01)
print([c.status for c in run.cases], sorted({{"torch", "cupy", "pycuda", "scipy"}} & set(sys.modules)))
""")
    done = subprocess.run(
        [sys.executable, folder / "mine.py"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout == "['ok'] []\n"
    assert done.stderr == "a print\n"  # what the spec prints on standard output


# ---- Ctrl-C and --resume -----------------------------------------------------------------------------------------


def command(*args):
    return [sys.executable, "-m", "cudalab.cli", "bench", *map(str, args)]


def children(pid):
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if _parent(p) == pid]


def _parent(folder):
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def interrupted(spec, out, by):
    """A run of three groups, ended by a signal after the first: (process, its standard error, its children)."""
    args = command(spec, "--sizes", "small,medium,large", "--only", "host:fine,host:slow,numpy", "--device", "cpu",
                   "--budget", "0.01", "-o", out)  # fmt: skip
    run = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not out.exists():
        assert run.poll() is None
        time.sleep(0.01)
    workers = children(run.pid)
    run.send_signal(by)
    _, err = run.communicate(timeout=20)
    return run, err, workers


def test_ctrl_c_keeps_what_is_finished_and_resume_does_the_rest(altered, tmp_path):
    spec, out = altered(), tmp_path / "r.json"
    run, err, workers = interrupted(spec, out, signal.SIGINT)
    assert run.returncode == 130
    assert "Traceback" not in err
    assert f"stopped after 1 of 3 groups; go on with: cudalab bench --resume {out}" in err.splitlines()
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    begun = cudalab.load(out)
    assert not begun.complete
    assert {c.size for c in begun.cases} == {"small"}

    again = subprocess.Popen(command("--resume", out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while again.poll() is None:  # the file can be read at every moment
        cudalab.load(out)
        time.sleep(0.02)
    assert again.returncode == 0, again.stderr.read()
    again.stderr.close()
    whole = cudalab.load(out)
    assert whole.complete
    assert [c.size for c in whole.cases if c.backend == "numpy"] == ["small", "medium", "large"]
    assert whole.cases[: len(begun.cases)] == begun.cases
    assert {**whole.options, "timeout": 0} == {**begun.options, "timeout": 0}
    assert subprocess.run(command("--resume", out, "--format", "json"), capture_output=True, check=True).stdout
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".py"].count("r.json") == 1
    assert not list(tmp_path.glob(".r.json*"))


def test_a_worker_does_not_outlive_a_parent_that_is_killed(altered, tmp_path):
    out = tmp_path / "r.json"
    _, _, workers = interrupted(altered(), out, signal.SIGKILL)
    assert workers
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not cudalab.load(out).complete


def test_ctrl_c_in_a_program_is_a_keyboard_interrupt():
    def stop(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows("numpy", progress=stop)


@pytest.fixture
def begun(altered, tmp_path):
    """(path of a spec, path of results of it that are not complete)."""
    spec, out = altered(), tmp_path / "r.json"
    rows("numpy", spec=spec, sizes="small,medium", output=out)
    run = cudalab.load(out)
    run.cases, run.complete = [c for c in run.cases if c.size == "small"], False
    run.save(out)
    return spec, out


def test_resume_from_python(begun):
    spec, out = begun
    before = cudalab.load(out).cases
    run = cudalab.bench(str(spec), only="numpy", device="cpu", **{**QUICK, "sizes": "small,medium"}, resume=out)
    assert run.cases[:1] == before
    assert [c.size for c in run.cases] == ["small", "medium"]
    assert cudalab.load(out) == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": "small,large"}, "--sizes 'small,medium' there, --sizes 'small,large' here"),
        ({"seed": 1}, "--seed 0 there, --seed 1 here"),
        ({"modes": "launch"}, "--modes 'launch,graph' there, --modes 'launch' here"),
        ({"budget": 0.02}, "--budget 0.01 there, --budget 0.02 here"),
        ({"only": "numpy,host"}, "--only 'numpy' there"),
    ],
)
def test_resume_refuses_another_question(begun, change, message):
    spec, out = begun
    asked = {**QUICK, "sizes": "small,medium", "only": "numpy", "device": "cpu", **change}
    with pytest.raises(InputError, match=f"cannot resume .*r.json: {message}"):
        cudalab.bench(str(spec), **asked, resume=out)


def test_resume_refuses_other_sources_and_machines(begun):
    spec, out = begun
    asked = {**QUICK, "sizes": "small,medium", "only": "numpy", "device": "cpu", "resume": out}
    stored = json.loads(out.read_text())
    for change, message in (
        ({"name": "NVIDIA Other", "device": "cuda"}, "it was begun on NVIDIA Other"),
        ({"versions": {**stored["machine"]["versions"], "numpy": "0.1"}}, "numpy was 0.1 and is"),
    ):
        out.write_text(json.dumps({**stored, "machine": {**stored["machine"], **change}}))
        with pytest.raises(InputError, match=message):
            cudalab.bench(str(spec), **asked)
    out.write_text(json.dumps(stored))
    spec.with_suffix(".cu").write_text(spec.with_suffix(".cu").read_text() + "\n// edited\n")
    with pytest.raises(InputError, match=r"crash\.cu is not what it was"):
        cudalab.bench(str(spec), **asked)
    with pytest.raises(InputError, match=r"cannot read nothing\.json"):
        cudalab.bench(str(spec), **{**asked, "resume": "nothing.json"})
    with pytest.raises(InputError, match="timeout is 0 s"):
        rows("numpy", timeout=0)


# ---- the same on a GPU -------------------------------------------------------------------------------------------

ON_GPU = ("pycuda:fine", "pycuda:also_fine")


def are_right_and_timed_on_the_gpu(cases):
    for label in ON_GPU:
        assert (cases[label].status, cases[label].reason) == (results.OK, "")
        assert cases[label].times["cold"]
    assert cases["copy"].times["cold"]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("entry", "text"),
    [("wild", "illegal memory access"), ("misaligned", "misaligned address"), ("trap", "launch fail")],
)
def test_a_lost_context_costs_the_row_of_who_lost_it(entry, text):
    cases = rows(*ON_GPU, f"pycuda:{entry}", device="cuda", modes="launch")
    assert list(cases) == ["pycuda:fine", f"pycuda:{entry}", "pycuda:also_fine", "copy"]
    assert cases[f"pycuda:{entry}"].status == results.ERROR
    assert text in cases[f"pycuda:{entry}"].reason
    assert "(first run); no process can use the GPU after this" in cases[f"pycuda:{entry}"].reason
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.gpu
def test_a_kernel_that_never_ends_is_stopped():
    cases = rows(*ON_GPU, "pycuda:endless", device="cuda", modes="launch", timeout=6.0)
    assert cases["pycuda:endless"].reason.startswith("no end within 6 s: pycuda:endless (first run) was stopped")
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.gpu
def test_a_variant_that_wants_too_much_memory_costs_its_row_only(altered):
    pytest.importorskip("torch")
    form = "    torch=lambda x: x.repeat(1 << 40),\n    budgets"  # 4 PiB
    cases = rows(*ON_GPU, "torch_eager", spec=altered("    budgets", form), device="cuda", modes="launch")
    assert cases["torch_eager"].reason.startswith("out of memory: ")
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.gpu
def test_arrays_that_do_not_fit_cost_their_group_only(altered):
    big = """    return np.broadcast_to(np.float64(0), (1 << 42,)) if x.size == 3000 else 2 * x


def output_shape(x):
    return (1 << 42,) if x == (3000,) else x


def launch"""
    spec = altered("    return 2 * x\n\n\ndef launch", big)
    spec.write_text(spec.read_text().replace("    pointwise=True,\n", "    output_shape=output_shape,\n"))
    cases = rows("pycuda:fine", spec=spec, sizes="small,medium,large", device="cuda", modes="launch")
    assert cases["medium", "pycuda:fine"].reason.startswith("no inputs and reference: out of memory: ")
    for size in ("small", "large"):
        assert cases[size, "pycuda:fine"].status == results.OK, cases[size, "pycuda:fine"].reason
        assert cases[size, "pycuda:fine"].times["cold"]
