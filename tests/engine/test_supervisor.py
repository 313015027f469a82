"""A variant that crashes, hangs or is stopped loses only its own row: real failing kernels in a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest
from crashing import CRASH, altered, rows

import cudalab
from cudalab.base import child
from cudalab.base.errors import InputError, Unavailable
from cudalab.device import cuda, driver
from cudalab.engine import plan, process, supervisor
from cudalab.engine.job import RELEASE
from cudalab.engine.messages import Setup, Step
from cudalab.engine.process import Ended
from cudalab.engine.rows import row
from cudalab.engine.selection import Selection
from cudalab.engine.supervisor import Supervisor
from cudalab.results import record
from cudalab.spec import imported

pytestmark = pytest.mark.process

GOOD = ("numpy", "host:fine", "host:also_fine")
BROKEN = [sys.executable, "-c", "import os; os._exit(7)"]  # a worker that cannot even start
SETUP = Setup("cpu", "", "", ("launch",), 0, None, "shuffled", {})


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
def test_a_deadly_variant_costs_its_row_only_and_an_endless_budget_is_one_that_the_rounds_end(workers):
    cases = rows(*GOOD, "host:exits", budget=float("inf"), timeout=float("inf"))
    assert list(cases) == ["host:fine", "host:exits", "host:also_fine", "numpy"]  # where they always are
    bad = cases["host:exits"]
    assert (bad.status, bad.times) == (record.ERROR, {})
    text = "the worker process ended with exit code 3 while it ran host:exits (compile); its last output: bye"
    assert text in bad.reason
    are_right_and_timed(cases, GOOD)
    assert len(workers) == 2


def test_a_variant_that_fails_costs_its_row_and_no_worker(workers):
    texts = {
        "host:wild": "wild: writes 4 bytes at a null pointer at crash.cu:14: block (",
        "host:trap": "trap: block (3,0,0), thread (116,0,0) called __trap()",
        "host:misaligned": "misaligned address",
        "host:raises": "ZeroDivisionError: in the launch (crash.py, line ",
        "host:greedy": "out of memory: Unable to allocate 256. TiB",
    }
    found = rows(*GOOD, *texts, sizes="small,medium")
    cases = {label: case for (size, label), case in found.items() if size == "small"}
    for label, text in texts.items():
        assert (cases[label].status, cases[label].times) == (record.WRONG if "wild" in label else record.ERROR, {})
        assert text in cases[label].reason
    are_right_and_timed(cases, GOOD)
    assert {found["medium", label].status for label in GOOD} == {record.OK}
    assert len(workers) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(workers[0].pid, 0)


@pytest.mark.parametrize(
    ("phase", "asks"), [("compile", "does the compiler hang, typed in a shell?"), ("first run", "a loop")]
)
def test_what_hangs_is_told_what_to_look_at(phase, asks):
    ended = Ended("did not end within 8 s", Step("g", phase, "host:k"), hung=True)
    assert asks in supervisor.Supervisor._death(None, ended).reason


@pytest.mark.wall
@pytest.mark.sweep
def test_what_never_ends_is_stopped_in_its_first_run_and_in_its_timing(tmp_path):
    spec = altered(tmp_path, "    return 2 * x\n\n\ndef launch", """    import traceback
    timing = any(frame.name == "_time" for frame in traceback.extract_stack())
    return time.sleep(9) if timing else 2 * x\n\n\ndef launch""")  # fmt: skip
    cases = rows("numpy", "host:fine", "host:endless", spec=spec, timeout=1.0)
    assert cases["host:fine"].status == record.OK
    assert cases["numpy"].reason.startswith("numpy (timing, wall) did not end within 1 s and was stopped")
    assert cases["host:endless"].reason == (
        "host:endless (first run) did not end within 1 s and was stopped; does a loop never end? else give a longer "
        "--timeout"
    )


def ended(how, label="", phase="reference"):
    return Supervisor._death(None, Ended(how, Step("g", phase, label), "", how == "hung"))


EARLY = "not tried: what comes before the variants, such as the reference, did not finish at crash 64 float32 and at "
TURNS = ["", "numpy", "host:fine", "numpy", "numpy host:fine"]


@pytest.mark.parametrize(
    ("death", "first", "third", "statuses", "said"),  # what attempts leave out in two of three groups; the last rows
    [
        (lambda omit: ended("hung"), [""], [], "error error", EARLY + "crash 65 float32"),
        (lambda omit: None if omit else ended("hung", "numpy"), ["", "numpy"], ["numpy"], "error ok",
         "did not finish at crash 64 float32 and at crash 65 fl"),
        (lambda omit: ended("crashed"), ["", ""], [], "error error", EARLY),
        (lambda omit: ended("was killed by SIGKILL"), ["", ""], ["", ""], "error error", "was killed by SIGKILL"),
        (lambda omit: None if len(omit) == 2 else ended("crashed", "host:fine" if "numpy" in omit else "numpy"),
         TURNS, TURNS, "error error", "crashed while it ran numpy"),
        # Each is right alone, and the process dies after all: no row is WRONG, and no times can be taken together.
        (lambda omit: None if omit else ended("crashed", "", RELEASE),
         ["", "host:fine", "numpy", ""], ["", "host:fine", "numpy", ""], "ok ok", supervisor.NOT_TIMED),
    ],
    ids=["all hang", "one hangs", "all crash", "all are killed", "each crashes", "they crash together"],
)  # fmt: skip
def test_who_is_at_fault_is_left_out_and_what_hung_twice_is_not_tried(monkeypatch, death, first, third, statuses, said):
    left_out = {"64": [], "65": [], "66": []}

    def attempt(self, group, omit, timed=True):
        left_out[group.size].append(" ".join(omit))
        return death(omit) or [row(group, label) for label in ("numpy", "host:fine") if label not in omit]
        yield

    monkeypatch.setattr(Supervisor, "_attempt", attempt)
    monkeypatch.setattr(Supervisor, "labels", lambda self, group: ["numpy", "host:fine"])
    found = Supervisor(SETUP, None, 1.0, print)
    *_, cases = (found.cases(group) for group in plan.groups([str(CRASH / "crash.py")], ",".join(left_out), ""))
    assert (left_out["64"], left_out["66"]) == (first, third)
    assert [case.status for case in cases] == statuses.split()
    assert said in "; ".join((cases[0].reason, *cases[0].notes))


def test_a_death_under_load_costs_the_loads_of_the_variant(monkeypatch):
    deaths = [ended("was killed", "numpy", f"timing, {kind}") for kind in ("energy", "cold")]
    watched, tasks = Supervisor(None, Selection(), 1.0, print), []
    (group,) = plan.groups(["add2d"], "tiny", "")

    def asked(task, step, kind):
        yield
        tasks.append((dict(task.unloaded), msgspec.json.decode(task.payload)["omit"]))
        return deaths.pop(0) if deaths else []

    monkeypatch.setattr(watched, "labels", lambda group: ["numpy", "host:fine"])
    monkeypatch.setattr(watched, "_asked", asked)
    monkeypatch.setattr(watched, "wait", lambda watched: None)
    (lost,) = watched.cases(group)
    died = "was killed while it ran numpy (timing, energy)"
    assert tasks == [({}, []), ({"numpy": died}, []), ({"numpy": died}, ["numpy"])]
    assert lost.reason == "was killed while it ran numpy (timing, cold)"  # also without loads: the row is lost


def test_hangs_under_load_are_remembered_as_others_are(monkeypatch):
    """By the other process of a run in the same group, and by both in groups after HANGS of them."""
    first, second = (Supervisor(None, Selection(), 1.0, print) for _ in range(2))
    second.deaths, hangs, told = first.deaths, [], []

    def asked(self, task, step, kind):
        self.waiting, self._process = True, SimpleNamespace(go=told.append)
        self.go()  # in its turn: what the other has met since counts
        order = told.pop()
        if "numpy" not in order.unloaded and self is first:
            hangs.append(step.group)
            return ended("hung", "numpy", "timing, energy")
        return order.unloaded
        yield

    monkeypatch.setattr(Supervisor, "_asked", asked)
    monkeypatch.setattr(Supervisor, "labels", lambda self, group: ["numpy"])
    monkeypatch.setattr(Supervisor, "_merged", lambda self, group, cases, deaths: cases)
    groups = plan.groups(["plus_one"], "8,9,10", "")
    found = [[watched.cases(group)["numpy"] for watched in (first, second)] for group in groups]
    assert len(hangs) == 2 and all(one == other for one, other in found)
    assert "numpy (timing, energy) hung and was stopped" in found[1][1]
    assert found[2][0] == "not tried: it did not finish under load at plus_one 8 float32 and at plus_one 9 float32"


# ---- what all variants need --------------------------------------------------------------------------------------

MADE = "cannot make inputs and reference: "
FAILS = {  # elements: where, what stands there, and what the row of `fine` says
    1001: ("reference", "raise ZeroDivisionError('no')", MADE + "ZeroDivisionError: no (crash.py, line "),
    1002: ("reference", "np.empty(1 << 48, np.uint8)", MADE + "out of memory: Unable to allocate 256. TiB"),
    1003: ("reference", "return x[:1]", "reference"),
    1004: ("reference", "return torch.abs(x)", "name 'torch' is not defined; write 'import torch' in the spec"),
    1005: ("reference", "raise SystemExit", MADE + "reference of the spec calls sys.exit()"),
    1006: ("inputs", "raise KeyError('weights')", MADE + "KeyError: 'weights' (crash.py, line "),
    1007: ("inputs", "exit()", MADE + "inputs of the spec calls sys.e"),
    1008: ("launch", "raise SystemExit", "launch of the spec calls sys.exit()"),
    1009: ("launch", "raise KeyboardInterrupt", "it raised KeyboardInterrupt, which ends Python"),
    1010: ("reference", "os.abort()", "the worker process was killed by SIGABRT while it was at: reference"),
    1011: ("reference", "time.sleep(600)", "reference did not end within 5 s and was stopped"),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    spec = altered(tmp_path_factory.mktemp("failed"))
    text = spec.read_text()
    for n, (where, line, _) in FAILS.items():
        head = next(line for line in text.splitlines() if line.startswith(f"def {where}("))
        size = "shape[0]" if where == "inputs" else "x.size"
        text = text.replace(f"{head}\n", f"{head}\n    if {size} == {n}:\n        {line}\n")
    spec.write_text(text)
    *most, last = map(str, FAILS)
    found = rows("host:fine", "numpy", spec=spec, sizes=",".join(("small", *most, "large")), timeout=120.0)
    return found | rows("host:fine", "numpy", spec=spec, sizes=f"{last},medium", timeout=5.0)


@pytest.mark.xdist_group("supervisor")
@pytest.mark.parametrize(("n", "where", "said"), [(n, where, said) for n, (where, _, said) in FAILS.items()])
def test_what_all_variants_need_and_fails_costs_its_group_only(failed, n, where, said):
    fine, numpy = (failed[str(n), label] for label in ("host:fine", "numpy"))
    assert fine.status == record.ERROR and said in fine.reason
    assert numpy.status == (record.OK if where == "launch" else record.ERROR)
    assert {failed[size, "host:fine"].status for size in ("small", "medium", "large")} == {record.OK}


# ---- the processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boot", "text"),
    [
        (BROKEN, "the device cannot be used: the worker process ended with exit code 7"),
        ([*BROKEN[:2], "raise SystemError('broken')"], "its last output: SystemError: broken"),
    ],
)
def test_a_worker_that_cannot_even_start(monkeypatch, boot, text):
    monkeypatch.setattr(child, "command", lambda *given: boot)
    with pytest.raises(Unavailable, match=text):
        rows("numpy")


def test_a_worker_that_ends_while_it_loads_ahead_is_started_once_more(monkeypatch):
    """Libraries that the spec may need end it: rows say what is wrong with them, and others are checked."""
    with monkeypatch.context() as broken:
        broken.setattr(child, "command", lambda *given: BROKEN)
        begun = process.ahead((str(CRASH),))
        begun.__enter__()
    assert rows("numpy")["numpy"].status == record.OK
    begun.__exit__(None, None, None)


def test_a_device_that_does_not_come_back(tmp_path, monkeypatch):
    """After a crash the worker cannot be started again: what was finished is in the file."""
    out = tmp_path / "r.json"
    monkeypatch.setattr(supervisor, "TRIES", 1)

    def break_it(event):
        if event.finished is not None:  # of small; the worker lives, and crashes at medium
            monkeypatch.setattr(child, "command", lambda *given: BROKEN)

    with pytest.raises(Unavailable, match=r"cannot be opened again: .* r.json has what was finished|exit code 7"):
        rows("host:fine", "host:exits", sizes="small,medium", output=out, progress=break_it)
    kept = cudalab.load(out)
    assert not kept.complete
    assert {c.size for c in kept.cases} == {"small"}


@pytest.mark.parametrize(
    ("device", "kind", "said"),
    [("tpu", InputError, "no device 'tpu'"), *[("cuda:0", Unavailable, "no GPU to use")] * bool(cuda.missing())],
)
def test_errors_of_the_lab_are_the_same_in_the_parent(device, kind, said):
    with pytest.raises(kind, match=said):
        rows("numpy", device=device)


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


def test_a_worker_that_cannot_be_started_leaves_no_file_open(monkeypatch):
    monkeypatch.setattr(process, "Child", lambda *_, **options: 1 // 0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            process.Process()
    assert len(os.listdir("/proc/self/fd")) == before


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


def test_a_worker_that_was_started_ahead_is_taken_unless_its_surroundings_have_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "spec.py").touch()
    with process.ahead():
        ((_, waiting),) = process._waiting
        imported.add_folder(tmp_path / "spec.py")  # as the worker does, which loads the same spec
        assert sys.path[-1] == str(tmp_path)
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
