"""A variant that crashes, hangs or is stopped loses only its own row: real failing kernels in a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import msgspec
import pytest
from crashing import CRASH, altered, rows

import cudalab
from cudalab.base import child
from cudalab.base.errors import InputError, Unavailable
from cudalab.device import cuda, driver
from cudalab.engine import plan, process, supervisor
from cudalab.engine.messages import Step
from cudalab.engine.process import Ended
from cudalab.engine.selection import Selection
from cudalab.results import record

GOOD = ("numpy", "host:fine", "host:also_fine")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile first, so that no short timeout includes compilation."""
    rows("host:fine")


def are_right_and_timed(cases, labels):
    for label in labels:
        assert (cases[label].status, cases[label].reason) == (record.OK, "")
        assert cases[label].parity.n == 1000
        assert bool(cases[label].times) == (not label.startswith("host"))


# ---- one variant -------------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_a_deadly_variant_costs_its_row_only():
    cases = rows(*GOOD, "host:exits")
    assert list(cases) == ["host:fine", "host:exits", "host:also_fine", "numpy"]  # where they always are
    bad = cases["host:exits"]
    assert (bad.status, bad.times) == (record.ERROR, {})
    text = "the worker process ended with exit code 3 while it ran host:exits (compile); its last output: bye"
    assert text in bad.reason
    are_right_and_timed(cases, GOOD)


def test_a_kernel_that_crashes_costs_its_row_and_no_worker(workers):
    cases = rows(*GOOD, "host:wild")
    bad = cases["host:wild"]
    assert (bad.status, bad.times) == (record.WRONG, {})
    assert "wild: writes 4 bytes at a null pointer at crash.cu:14: block (" in bad.reason
    are_right_and_timed(cases, GOOD)
    assert len(workers) == 1


def test_a_failing_variant_costs_its_row_only(workers):
    texts = {
        "host:trap": "trap: block (3,0,0), thread (116,0,0) called __trap()",
        "host:misaligned": "misaligned address",
        "host:raises": "ZeroDivisionError: in the launch (crash.py, line ",
        "host:greedy": "out of memory: Unable to allocate 256. TiB",
    }
    cases = rows(*GOOD, *texts)
    for label, text in texts.items():
        assert (cases[label].status, cases[label].times) == (record.ERROR, {})
        assert text in cases[label].reason
    are_right_and_timed(cases, GOOD)
    assert len(workers) == 1


@pytest.mark.parametrize(("phase", "asks"), [("compile", "does the compiler end in a shell?"), ("first run", "a loop")])
def test_what_hangs_is_told_what_to_look_at(phase, asks):
    ended = Ended("did not end within 8 s", Step("g", phase, "host:k"), hung=True)
    assert asks in supervisor.Supervisor._death(None, ended).reason


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_what_never_ends_is_not_waited_for_at_every_size():
    start = time.monotonic()
    cases = rows("host:fine", "host:endless", sizes="64,65,66,67,68", timeout=1.0)
    reasons = [case.reason for (size, label), case in cases.items() if label == "host:endless"]
    assert all(case.status == record.OK for (_, label), case in cases.items() if label == "host:fine")
    assert reasons[0] == (
        "host:endless (first run) did not end within 1 s and was stopped; does a loop never end? else give a longer "
        "--timeout"
    )
    assert ["was stopped" in reason for reason in reasons] == [True, True, False, False, False]
    assert reasons[2] == "not tried: it did not finish at crash 64 float32 and at crash 65 float32"
    assert time.monotonic() - start < 30


def test_a_reference_that_never_ends_is_not_waited_for_at_every_size(monkeypatch):
    tried = []

    def attempt(self, group, omit, timed=True):
        tried.append(group.size)
        return supervisor.Death("", "reference did not end within 1 s", hung=True)
        yield

    monkeypatch.setattr(supervisor.Supervisor, "_attempt", attempt)
    monkeypatch.setattr(supervisor.Supervisor, "labels", lambda self, group: ["numpy", "host:fine"])
    found = supervisor.Supervisor(None, None, 1.0, print)
    cases = [case for group in plan.groups([str(CRASH / "crash.py")], "64,65,66,67", "") for case in found.cases(group)]
    assert tried == ["64", "65"] and len(cases) == 8
    assert {case.status for case in cases} == {record.ERROR}
    assert cases[-1].reason == (
        "not tried: what comes before the variants, such as the reference, did not finish at crash 64 float32 "
        "and at crash 65 float32"
    )


@pytest.mark.sweep
def test_an_endless_budget_is_one_that_the_rounds_end():
    are_right_and_timed(rows(*GOOD, budget=float("inf"), timeout=float("inf")), GOOD)


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_the_innocent_are_not_blamed_for_a_late_death():
    """One variant is right and kills the variants after it: no row is WRONG, and no times can be taken together."""
    cases = rows("host:time_bomb", "host:slow", "host:slow_too", "numpy")
    for case in cases.values():
        assert case.status == record.OK, case.reason
        assert case.times == {}
        assert case.notes == [supervisor.NOT_TIMED]


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_the_timing_of_a_variant_is_watched_too(tmp_path):
    """NumPy's form stops in the middle of its timing."""
    spec = altered(tmp_path, "    return 2 * x\n\n\ndef launch", """    import traceback
    timing = any(frame.name == "_time" for frame in traceback.extract_stack())
    return time.sleep(9) if timing else 2 * x\n\n\ndef launch""")  # fmt: skip
    cases = rows("numpy", "host:fine", spec=spec, timeout=1.0)
    assert cases["numpy"].reason.startswith("numpy (timing, wall) did not end within 1 s and was stopped")
    assert cases["host:fine"].status == record.OK


def test_a_death_under_load_costs_the_loads_of_the_variant(monkeypatch):
    ended = [Ended("was killed", Step("g", "timing, energy", "numpy"), "", False),
             Ended("was killed", Step("g", "timing, cold", "numpy"), "", False)]  # fmt: skip
    watched, tasks = supervisor.Supervisor(None, Selection(), 1.0, lambda step: None), []
    monkeypatch.setattr(watched, "labels", lambda group: ["numpy", "host:fine"])
    (group,) = plan.groups(["add2d"], "tiny", "")

    def asked(task, step, kind):
        yield
        tasks.append((dict(task.unloaded), msgspec.json.decode(task.payload)["omit"]))
        return watched._death(ended.pop(0)) if ended else []

    monkeypatch.setattr(watched, "_asked", asked)
    monkeypatch.setattr(watched, "wait", lambda watched: None)
    (row,) = watched.cases(group)
    died = "was killed while it ran numpy (timing, energy)"
    assert tasks == [({}, []), ({"numpy": died}, []), ({"numpy": died}, ["numpy"])]
    assert row.reason == "was killed while it ran numpy (timing, cold)"  # also without loads: the row is lost


def test_hangs_under_load_are_remembered_as_others_are(monkeypatch):
    """By the other process of a run in the same group, and by both in groups after HANGS of them."""
    first, second = (supervisor.Supervisor(None, Selection(), 1.0, lambda step: None) for _ in range(2))
    second.overloaded, hangs, told = first.overloaded, [], []

    def asked(self, task, step, kind):
        self.waiting, self._process = True, SimpleNamespace(go=told.append)
        self.go()  # in its turn: what the other has met since counts
        (order,) = told
        told.clear()
        if "numpy" not in order.unloaded and self is first:
            hangs.append((step.group, order.unloaded, task.unloaded))
            return self._death(Ended("hung", Step(step.group, "timing, energy", "numpy"), "", True))
        return order.unloaded
        yield

    monkeypatch.setattr(supervisor.Supervisor, "_asked", asked)
    monkeypatch.setattr(supervisor.Supervisor, "labels", lambda self, group: ["numpy"])
    monkeypatch.setattr(supervisor.Supervisor, "_merged", lambda self, group, cases, deaths: cases)
    groups = plan.groups(["plus_one"], "8,9,10", "")
    found = [[watched.cases(group)["numpy"] for watched in (first, second)] for group in groups]
    assert len(hangs) == 2 and all(one == other for one, other in found)
    assert "numpy (timing, energy) hung and was stopped" in found[1][1]
    assert found[2][0] == "not tried: it did not finish under load at plus_one 8 float32 and at plus_one 9 float32"


# ---- what all variants need --------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("raise ZeroDivisionError('no')", "inputs and reference: ZeroDivisionError: no (crash.py, line 15)"),
        ("np.empty(1 << 48, np.uint8)", "cannot make inputs and reference: out of memory: Unable to allocate 256. TiB"),
        ("os.abort()", "the worker process was killed by SIGABRT while it was at: reference"),
        ("time.sleep(600)", "reference did not end within 5 s and was stopped"),
        ("return x[:1]", "reference"),
        ("return torch.abs(x)", "name 'torch' is not defined; write 'import torch' in the spec (crash.py, line 15)"),
        ("raise SystemExit", "cannot make inputs and reference: reference of the spec calls sys.exit()"),
    ],
    ids=["raises", "memory", "aborts", "hangs", "shape", "import", "exits"],
)
def test_a_reference_that_fails_costs_its_group_only(tmp_path, line, text):
    spec = altered(
        tmp_path,
        "    return 2 * x\n\n\ndef launch",
        f"    if x.size == 3000:\n        {line}\n    return 2 * x\n\n\ndef launch",
    )
    cases = rows("host:fine", "numpy", spec=spec, sizes="small,medium,large", timeout=5.0 if "sleep" in line else 120.0)
    for (size, _), case in cases.items():
        assert (case.status == record.ERROR) == (size == "medium"), case.reason
        if size == "medium":
            assert text in case.reason
    assert len(cases) == 6


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("raise KeyError('weights')", "KeyError: 'weights' (crash.py, line "),
        ("exit()", "inputs of the spec calls sys.e"),
    ],
)
def test_inputs_that_fail_are_named(tmp_path, line, text):
    spec = altered(tmp_path, '    print("a print"', f'    {line}\n    print("a print"')
    for case in rows("host:fine", "numpy", spec=spec).values():
        assert f"cannot make inputs and reference: {text}" in case.reason


@pytest.mark.process
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("SystemExit", "ends of the spec calls sys.exit()"),
        ("KeyboardInterrupt", "it raised KeyboardInterrupt, which ends Python"),
    ],
)
def test_a_launch_that_would_end_python_costs_its_row_only(tmp_path, error, said):
    """The worker goes on: a new one for each group would cost seconds."""
    spec = altered(tmp_path, "def launch(", f"def ends(x, y):\n    raise {error}\n\n\ndef launch(")
    spec.write_text(spec.read_text().replace('"fine": launch', '"fine": ends', 1))
    cases = rows("host:fine", "numpy", spec=spec)
    assert cases["host:fine"].reason == said
    assert cases["numpy"].status == record.OK


# ---- the processes -----------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.wall
def test_a_worker_that_is_killed_from_outside(workers):
    def kill_once(event):
        if "host:slow (compile)" in str(event) and len(workers) == 1:
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


@pytest.mark.process
@pytest.mark.parametrize(
    ("boot", "text"),
    [
        ("import os; os._exit(7)", "the device cannot be used: the worker process ended with exit code 7"),
        ("raise SystemError('broken')", "its last output: SystemError: broken"),
    ],
)
def test_a_worker_that_cannot_even_start(monkeypatch, boot, text):
    monkeypatch.setattr(child, "command", lambda *given: [sys.executable, "-c", boot])
    with pytest.raises(Unavailable, match=text):
        rows("numpy")


@pytest.mark.process
def test_a_worker_that_ends_while_it_loads_ahead_is_started_once_more(monkeypatch):
    """Libraries that the spec may need end it: rows say what is wrong with them, and others are checked."""
    with monkeypatch.context() as broken:
        broken.setattr(child, "command", lambda *given: [sys.executable, "-c", "import os; os._exit(7)"])
        begun = process.ahead((str(CRASH),))
        begun.__enter__()
    assert rows("numpy")["numpy"].status == record.OK
    begun.__exit__(None, None, None)


@pytest.mark.process
def test_a_device_that_does_not_come_back(tmp_path, monkeypatch):
    """After a crash the worker cannot be started again: what was finished is in the file."""
    out = tmp_path / "r.json"
    monkeypatch.setattr(supervisor, "TRIES", 1)

    def break_it(event):
        if event.finished is not None:  # of small; the worker lives, and crashes at medium
            monkeypatch.setattr(child, "command", lambda *given: [sys.executable, "-c", "import os; os._exit(7)"])

    with pytest.raises(Unavailable, match=r"cannot be opened again: .* r.json has what was finished|exit code 7"):
        rows("host:fine", "host:exits", sizes="small,medium", output=out, progress=break_it)
    kept = cudalab.load(out)
    assert not kept.complete
    assert {c.size for c in kept.cases} == {"small"}


@pytest.mark.process
def test_errors_of_the_lab_are_the_same_in_the_parent():
    with pytest.raises(InputError, match="no device 'tpu'"):
        rows("numpy", device="tpu")
    if cuda.missing():
        with pytest.raises(Unavailable, match="no GPU to use"):
            rows("numpy", device="cuda:0")


@pytest.mark.process
def test_a_script_needs_no_main_guard_and_loads_no_library(tmp_path):
    """The names of the files in its folder do not matter either."""
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
    assert set(done.stderr.splitlines()) == {"a print"}  # what the spec prints on standard output, for each content


# ---- the same on a GPU -------------------------------------------------------------------------------------------

ON_GPU = ("pycuda:fine", "pycuda:also_fine")


def are_right_and_timed_on_the_gpu(cases):
    for label in ON_GPU:
        assert (cases[label].status, cases[label].reason) == (record.OK, "")
        assert cases[label].times["cold"]
    assert cases["copy"].times["cold"]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("entry", "text"),
    [("wild", "illegal memory access"), ("misaligned", "misaligned address"), ("trap", "LaunchError")],
)
def test_a_lost_context_costs_the_row_of_who_lost_it(entry, text):
    cases = rows(*ON_GPU, f"pycuda:{entry}", device="cuda", modes="launch")
    assert list(cases) == ["pycuda:fine", f"pycuda:{entry}", "pycuda:also_fine", "copy"]
    assert cases[f"pycuda:{entry}"].status == record.ERROR
    assert text in cases[f"pycuda:{entry}"].reason
    assert "(first run); the process cannot use the GPU after this" in cases[f"pycuda:{entry}"].reason
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.wall
@pytest.mark.gpu
def test_a_kernel_that_never_ends_is_stopped():
    cases = rows(*ON_GPU, "pycuda:endless", device="cuda", modes="launch", timeout=6.0)
    assert cases["pycuda:endless"].reason.startswith(
        "pycuda:endless (first run) did not end within 6 s and was stopped"
    )
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.gpu
def test_a_variant_that_wants_too_much_memory_costs_its_row_only(tmp_path):
    pytest.importorskip("torch")
    form = "    torch=lambda x: x.repeat(1 << 40),\n    budgets"  # 4 PiB
    cases = rows(*ON_GPU, "torch_eager", spec=altered(tmp_path, "    budgets", form), device="cuda", modes="launch")
    assert cases["torch_eager"].reason.startswith("out of memory: ")
    are_right_and_timed_on_the_gpu(cases)


@pytest.mark.gpu
def test_arrays_that_do_not_fit_cost_their_group_only(tmp_path):
    big = """    return np.broadcast_to(np.float64(0), (1 << 42,)) if x.size == 3000 else 2 * x


def output_shape(x):
    return (1 << 42,) if x == (3000,) else x


def launch"""
    spec = altered(tmp_path, "    return 2 * x\n\n\ndef launch", big)
    spec.write_text(spec.read_text().replace("    pointwise=True,\n", "    shapes={'x': 'n', 'y': output_shape},\n"))
    cases = rows("pycuda:fine", spec=spec, sizes="small,medium,large", device="cuda", modes="launch")
    assert cases["medium", "pycuda:fine"].reason.startswith("cannot make inputs and reference: out of memory: ")
    for size in ("small", "large"):
        assert cases[size, "pycuda:fine"].status == record.OK, cases[size, "pycuda:fine"].reason
        assert cases[size, "pycuda:fine"].times["cold"]


# ---- the parent's end of a worker --------------------------------------------------------------------------------


@pytest.mark.process  # beside the others, which share the fixture `compiled`
def test_a_worker_that_cannot_be_started_leaves_no_file_open(monkeypatch):
    def fails(*_, **options):
        raise OSError("no process")

    monkeypatch.setattr(process, "Child", fails)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="no process"):
            process.Process()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.process
@pytest.mark.parametrize("how", ["was killed by SIGKILL", "sent an answer that cannot be read: JSON is malformed"])
def test_memory_is_suspected_only_where_the_system_killed_the_worker(monkeypatch, how):
    worker = process.Process()

    def ends(limit, watch):
        worker._child.kill()
        raise child.Ended(how, code=-signal.SIGKILL)  # a worker whose answer cannot be read is killed as well

    monkeypatch.setattr(worker._child, "receive", ends)
    with pytest.raises(process.Ended) as caught:
        worker.receive(1, lambda step: None)
    memory = " (has the machine run out of memory?)" if "SIGKILL" in how else ""
    assert caught.value.how == f"the worker process {how}{memory}"


@pytest.mark.process
def test_a_worker_that_was_started_ahead_is_taken_unless_its_surroundings_have_changed(monkeypatch):
    with process.ahead():
        ((_, waiting),) = process._waiting
        assert process.started() is waiting
        waiting.kill()
    with process.ahead():
        ((_, waiting),) = process._waiting
        monkeypatch.setenv("OF_A_SPEC", "1")
        fresh = process.started()
        assert fresh is not waiting and waiting.ended and not fresh.ended
        fresh.kill()
    with process.ahead():
        ((_, waiting),) = process._waiting
    assert waiting.ended  # nobody asked for it


@pytest.mark.process
@pytest.mark.skipif(not driver.absent(), reason="a GPU is here: a worker opens it before it loads specs")
def test_a_worker_that_was_started_ahead_loads_specs_and_leaves_bad_ones_to_the_parent(tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)  # which a reader waits for
    specs = {"bad": "1 / 0", "good": f"import os\nopen({str(told)!r}, 'w').write(str(os.getpid()))"}
    for name, text in specs.items():
        (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / f"{name}.cu").touch()
    with process.ahead([f"{tmp_path}/"]):
        assert told.read_text() == str(process._waiting[0][1].pid)
