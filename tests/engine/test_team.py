"""A run of several processes: real workers on the CPU, which share a group's rounds, and what happens if one fails."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from crashing import altered, rows

import cudalab
from cudalab import backends
from cudalab.base import child
from cudalab.base.errors import InputError, Unavailable
from cudalab.device.cpu import Cpu
from cudalab.engine import enough, worker
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.messages import Ready, Setup
from cudalab.engine.selection import Selection
from cudalab.engine.supervisor import Supervisor
from cudalab.engine.team import Team
from cudalab.results import record
from cudalab.results.record import Case, Machine
from cudalab.spec.dtype import DTYPES

pytestmark = pytest.mark.process

# `number()` is the number of the process that asks, from 1, among those that have asked. `judges(x)` says whether the
# lab computes what is right, and writes down which process does, for which contents.
NUMBERED = """
import zlib
from pathlib import Path

PIDS, JUDGED = __file__ + ".pids", __file__ + ".judged"


def number():
    with open(PIDS, "a") as file:
        file.write(f"{os.getpid()}\\n")
    return list(dict.fromkeys(Path(PIDS).read_text().split())).index(str(os.getpid())) + 1


def judges(x):
    if x.dtype == np.float64:
        with open(JUDGED, "a") as file:
            file.write(f"{zlib.crc32(x.tobytes())} {os.getpid()}\\n")
    return x.dtype == np.float64


def reference(x):
"""


def numbered(folder, line, old="", new=""):
    """A spec whose reference begins with `line`; the variant numpy runs the reference in float32."""
    spec = altered(folder, "\n\ndef reference(x):\n", f"{NUMBERED}    {line}\n")
    assert old in spec.read_text()
    spec.write_text(spec.read_text().replace(old, new))
    return spec


def all_gone(workers):
    return all(worker.ended and not os.path.exists(f"/proc/{worker.pid}") for worker in workers)


# ---- a run that goes well ----------------------------------------------------------------------------------------


def test_each_group_is_done_by_three_processes_in_turn(workers, tmp_path, monkeypatch):
    events, before, out = [], [], tmp_path / "r.json"
    monkeypatch.setattr(enough, "settled", lambda *given: before.append([c.size for c in given[-1]]) or set())
    cases = rows("numpy", "host:fine", sizes="small,medium", processes=3, progress=events.append, output=out)
    for size in ("small", "medium"):
        case = cases[size, "numpy"]
        assert len(case.processes["wall"]) == 3
        assert sum(case.processes["wall"]) == len(case.times["wall"])
        assert min(case.processes["wall"]) >= 4
        assert cases[size, "host:fine"].status == record.OK
        assert not cases[size, "host:fine"].processes  # it is only checked, by the first process
    assert before == [[], ["small"] * 2]  # what earlier groups have shown is known of the later ones
    assert len(workers) == 3
    assert all_gone(workers)
    turns = [(e.step.group, e.process) for e in events if "timing" in e.step.phase or e.step.phase == "check"]
    assert turns == sorted(turns, key=lambda turn: (turn[0] != "crash small float32", turn[1]))
    assert {e.processes for e in events} == {3, 1}  # 1 until the device is known
    assert [e.done for e in events if e.finished] == [1, 2]
    assert cudalab.load(out).options["processes"] == 3


def test_on_the_cpu_one_process_is_the_default_and_for_what_times_nothing(workers, tmp_path):
    out = tmp_path / "r.json"
    assert rows("numpy", output=out)["numpy"].processes == {}
    assert cudalab.load(out).options["processes"] == 1
    run = cudalab.check(str(altered(tmp_path)), sizes="small", only="numpy", device="cpu")
    assert [case.status for case in run.cases] == ["ok"]
    assert rows("numpy", quick=True, budget=1.0, output=out)["numpy"].status == record.OK
    options = cudalab.load(out).options
    assert (options["processes"], options["budget"]) == (1, 0.2)
    assert len(workers) == 3


@pytest.mark.parametrize("processes", [1, 2])
def test_what_works_beside_a_run_stops_whenever_times_are_taken(tmp_path, processes):
    """The reference is a variant too, which notes at each call whether the rest is quiet."""
    quiet, log = tmp_path / "quiet", tmp_path / "log"

    @contextmanager
    def stopped():
        quiet.touch()
        yield
        quiet.unlink()

    line = f"with open({str(log)!r}, 'a') as f: f.write(str(int(__import__('os').path.exists({str(quiet)!r}))))"
    spec = altered(tmp_path, "\n\ndef reference(x):\n", f"\n\ndef reference(x):\n    {line}\n")
    case = rows("numpy", spec=spec, processes=processes, while_timed=stopped)["numpy"]
    checked, *timed = re.findall("0+|1+", log.read_text())
    assert set(checked) == {"0"} and set("".join(timed)) == {"1"}
    assert len("".join(timed)) >= len(case.times["wall"]) and not quiet.exists()


def test_no_process_is_asked_for_what_none_can_time(workers):
    assert rows("host:fine", "host:exits", processes=2)["host:fine"].status == record.OK
    assert len(workers) == 3  # the first of the two died once


@pytest.mark.parametrize(
    ("line", "processes"),
    [
        ("judges(x)", 1),
        # The second process negates a zero: right as well, but other bits.
        ("if not judges(x) and number() == 2: return np.where(x == 0, -0.0, 2 * x)", 2),
    ],
)
def test_the_reference_is_computed_again_only_where_a_result_differs(tmp_path, line, processes):
    spec = numbered(tmp_path, line, "normal(shape)", "normal(shape).round(1)")
    case = rows("numpy", spec=spec, processes=2)["numpy"]
    assert (case.status, case.reason, len(case.processes["wall"])) == (record.OK, "", 2)
    lines = [line.split() for line in (tmp_path / "crash.py.judged").read_text().splitlines()]
    # Both processes meet the first contents first; which of the later ones one process alone meets is drawn.
    assert len({pid for contents, pid in lines if contents == lines[0][0]}) == processes


def test_a_verdict_holds_for_the_same_inputs_only(tmp_path):
    """Inputs that differ between the processes, and a result of the first that the others read from a file."""
    replay = """if not judges(x):
        kept = __file__ + ".npy"
        if number() == 1:
            np.save(kept, 2 * x)
        return np.load(kept)"""
    spec = numbered(tmp_path, replay, "rng.standard_normal(shape)", "(rng.random(shape) + 10 * number())")
    case = rows("numpy", spec=spec, processes=2)["numpy"]
    assert case.status == record.WRONG, case.reason
    assert case.reason.startswith("in process 2 of 2: 1,000 of 1,000 values differ")
    assert re.search(r"\[\d+\] got 2\d\.\d+, want 4\d\.\d+", case.reason)


def test_the_share_of_a_process():
    def job(processes, number=0):
        return Job(Cpu(), Selection(), ("launch",), 7, 1.0, lambda step: None, processes=processes, process=number)

    assert [job(1).share(n) for n in (1, 4, 10)] == [1, 4, 10]
    assert [job(3).share(n) for n in (1, 3, 10, 100)] == [1, 3, 4, 34]
    assert [job(3, number).order_seed for number in range(3)] == [7, 8, 9]
    assert {job(3, number).seed for number in range(3)} == {7}


@pytest.fixture
def going(monkeypatch):
    """For each `go` of a run: which process may take times, and how many have prepared the group and wait."""
    team, seen = [], []
    begin, go = Supervisor.begin, Supervisor.go

    def begins(self):
        team.append(self)
        begin(self)

    def goes(self, *given):
        seen.append((self.setup.process, sum(other.waiting for other in team)))
        go(self, *given)

    monkeypatch.setattr(Supervisor, "begin", begins)
    monkeypatch.setattr(Supervisor, "go", goes)
    return seen


@pytest.mark.parametrize(("room", "seen"), [(2, [(0, 2), (1, 1)]), (1, [(0, 1), (1, 1)])])
def test_as_many_as_memory_has_room_for_prepare_before_anything_is_timed(going, monkeypatch, room, seen):
    monkeypatch.setattr(Team, "_at_once", lambda self, group: room)
    assert len(rows("numpy", processes=2, budget=0.1)["numpy"].processes["wall"]) == 2
    assert going == seen


@pytest.fixture
def up_to_four(monkeypatch):
    """Two processes of which more may help, of which two prepare at once: a row is settled with `needed` of them."""

    def run(needed, output=None):
        def settled(cases, least, most, before):
            assert not before  # this run has one group
            return {"numpy"} if len(cases[0].processes["wall"]) >= needed else set()

        monkeypatch.setattr(enough, "settled", settled)
        monkeypatch.setattr(Setup, "most", lambda self, kind: 4)
        monkeypatch.setattr(Team, "_at_once", lambda self, group: 2)
        return rows("numpy", processes=2, budget=0.1, output=output)["numpy"]

    return run


@pytest.mark.parametrize(("needed", "gone"), [(2, [0, 1]), (3, [0, 1, 2, 3])])
def test_further_processes_time_what_is_not_known_well_enough(up_to_four, needed, gone, going, tmp_path):
    """At most four; the fourth has prepared the group beside the third, and is let go where it is not needed."""
    case = up_to_four(needed, tmp_path / "r.json")
    assert len(case.processes["wall"]) == needed and min(case.processes["wall"]) > 0
    assert [number for number, _ in going] == gone
    assert cudalab.load(tmp_path / "r.json").options["up_to"] == 4


@pytest.mark.parametrize(
    ("step", "fail", "left", "notes"),
    [
        ("opened", (2, 3), 2, []),
        ("doing", (2,), 3, ["no times of process 3, which only helps: no memory is left"]),  # the fourth goes on
    ],
)
def test_a_process_that_may_help_and_cannot_is_done_without(up_to_four, monkeypatch, step, fail, left, notes):
    does = getattr(Supervisor, step)

    def done(self, *given, **named):
        if self.setup.process in fail:
            raise Unavailable("no memory is left")
        return does(self, *given, **named)

    monkeypatch.setattr(Supervisor, step, done)
    case = up_to_four(9)
    assert case.status == record.OK and [n > 0 for n in case.processes["wall"]][:2] == [True, True]
    assert sum(n > 0 for n in case.processes["wall"]) == left and case.notes[-1:] == notes


def test_a_row_is_settled_that_is_precise_and_that_more_processes_would_not_make_clear():
    rng = np.random.default_rng(8)

    def row(label, seconds, between):
        backend, _, variant = label.partition(":")
        levels = seconds * np.exp(between * rng.standard_normal(3))
        times = [[float(one * (1 + 1e-3 * rng.standard_normal())) for _ in range(8)] for one in levels for _ in "four"]
        case = Case("k", "s", (1,), "float32", backend, variant)
        case.times, case.processes = {"cold": times}, {"cold": [4] * 3}
        return case

    ours, known, far = (row("pycuda:f", 300e-6, 2e-4), row("triton", 306e-6, 2e-4), row("torch_eager", 1e-3, 2e-4))
    rough, distant = row("torch_native", 300e-6, 0.02), row("torch_script", 600e-6, 0.02)
    failed = Case("k", "s", (1,), "float32", "numpy", status=record.ERROR)
    assert enough.settled([ours, known, far, failed], 3, 8) == {"pycuda:f", "triton", "torch_eager", "numpy"}
    # Ours is what the rough one is compared with; a distant one needs no narrow interval.
    assert enough.settled([ours, known, far, rough, distant], 3, 8) == {"triton", "torch_eager", "torch_script"}
    assert enough.settled([failed], 3, 8) == {"numpy"}
    # 2.15 % apart, precise and UNCLEAR after three processes, and SLOWER after eight; 2 % are UNCLEAR as `known` above.
    for seconds, going in (306.45e-6, True), (309e-6, False), (303e-6, False):
        assert (enough.settled([ours, row("triton", seconds, 2e-4)], 3, 8) == set()) is going
    # Times of 4 \u00b5s differ so much that eight processes would not do.
    short = row("pycuda:f", 4e-6, 0.02), row("triton", 4e-6, 0.02)
    assert enough.settled(short, 3, 8) == {"pycuda:f", "triton"} and not enough.settled(short, 3, 20)
    # Nor would they where a library chose its code by times.
    by_times = "torch_compile:max_autotune"
    others = (row(label, 12e-6, 0.004) for label in ("triton", by_times))
    assert enough.settled([row("pycuda:f", 12e-6, 0), *others], 3, 8) == {by_times}


@pytest.mark.parametrize(
    ("elements", "modes", "memory", "cores", "most", "kept"),
    [
        (1 << 26, ("launch",), 140, 16, 16, 35),
        (1 << 28, ("launch",), 140, 16, 4, 35),
        (1 << 28, ("launch", "graph"), 140, 16, 2, 35),  # each graph of each variant keeps its results
        (1 << 26, ("launch",), 140, 2, 2, 35),
        (1 << 28, ("launch",), 16, 16, 1, 4),
    ],
)
def test_what_memory_has_room_for(monkeypatch, elements, modes, memory, cores, most, kept):
    team, group = Team.__new__(Team), Group.__new__(Group)
    object.__setattr__(group, "shape", (elements,)), object.__setattr__(group, "dtype", DTYPES["float32"])
    team.ready = Ready(Machine("cuda", "gpu", {"memory_bytes": memory << 30}), "", {}, {})
    team.setup = Setup("cuda", "", "", modes, 0, None, "shuffled", {})
    team.most = 8
    monkeypatch.setattr(Team, "labels", lambda self, group: ["pycuda:a", "torch_eager", "torch_native", "triton"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert team._at_once(group) == most and team._room(1 << 30, 0.25) == kept


# ---- a process that fails ----------------------------------------------------------------------------------------

TIMED = 'any(frame.name == "_time" for frame in __import__("traceback").extract_stack())'
FAILS = {  # elements: where, what stands there, what the row says of it
    1001: ("reference", "if not judges(x) and number() == 2: return 3 * x", "1,001 of 1,001 values differ"),
    1002: ("reference", "if number() == 2: raise ZeroDivisionError('no')", "ZeroDivisionError: no (crash.py, line "),
    1003: ("inputs", "if number() == 2: raise KeyError('w')", "cannot make inputs and reference: KeyError: 'w' ("),
    1004: ("reference", f"if number() == 2 and {TIMED}: os.kill(os.getpid(), 9)", "the worker process was killed by"),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    spec = numbered(tmp_path_factory.mktemp("failed"), "number()")
    text = spec.read_text()
    for n, (where, line, _) in FAILS.items():
        head, size = ("shape, dtype, rng", "shape[0]") if where == "inputs" else ("x", "x.size")
        text = text.replace(f"def {where}({head}):\n", f"def {where}({head}):\n    if {size} == {n}:\n        {line}\n")
    spec.write_text(text)
    return rows("numpy", "host:fine", spec=spec, sizes=",".join((*map(str, FAILS), "medium")), processes=2)


@pytest.mark.xdist_group("team")
@pytest.mark.parametrize("n", FAILS)
def test_what_fails_in_the_second_process_has_no_times(failed, n):
    case = failed[str(n), "numpy"]
    assert (case.status, case.times, case.processes) == (record.WRONG if n == 1001 else record.ERROR, {}, {})
    assert case.reason.startswith(f"in process 2 of 2: {FAILS[n][-1]}")
    assert n != 1001 or not case.parity.ok
    assert failed[str(n), "host:fine"].status == record.OK  # it is only checked, by the first process
    assert len(failed["medium", "numpy"].processes["wall"]) == 2  # one that was killed has a successor


def test_a_process_that_does_not_start_ends_the_run(monkeypatch, workers):
    command, started = child.command, []

    def second_fails(*given):
        started.append(given)
        return command(*given) if len(started) == 1 else [*command(*given)[:1], "-c", "import os; os._exit(7)"]

    monkeypatch.setattr(child, "command", second_fails)
    with pytest.raises(Unavailable, match=r"process 2 of 2 did not start: .* ended with exit code 7") as caught:
        rows("numpy", processes=2, budget=1.0)
    assert str(caught.value).endswith("; --processes 1 needs only one")
    assert all_gone(workers)


@pytest.mark.sweep
def test_ctrl_c_in_the_second_process_keeps_the_groups_before(workers, tmp_path):
    out = tmp_path / "r.json"

    def stop(event):
        if event.step.group == "crash medium float32" and event.process == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="stopped after 1 of 2 groups"):
        rows("numpy", sizes="small,medium", processes=2, output=out, progress=stop, budget=3.0)
    assert all_gone(workers)
    kept = cudalab.load(out)
    assert not kept.complete
    assert [(c.size, len(c.processes["wall"])) for c in kept.cases] == [("small", 2)]


# ---- resume, and what may be asked for -------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [17, -1, "3", True])
def test_wrong_numbers_are_refused(processes):
    with pytest.raises(InputError, match=f"processes is {processes!r}; give a whole number from 1 to 16, or 0 for the"):
        rows("numpy", processes=processes)


def test_a_later_process_loads_what_the_run_needs_and_compiles_on_a_gpu_alone(monkeypatch):
    done = []

    def backend(name, fails=False):
        return SimpleNamespace(
            load=lambda: 1 // (not fails) and done.append(f"{name} loaded"),
            warm_up=lambda number: done.append((name, number)),
        )

    known = {"a": backend("a"), "broken": backend("broken", fails=True), "bare": SimpleNamespace(), "no": backend("no")}
    monkeypatch.setattr(backends, "by_name", lambda: known)
    monkeypatch.setattr(backends, "missing", lambda backend, kind: "not installed" if backend is known["no"] else None)
    for device, want in (
        (SimpleNamespace(kind="cuda", index=3), ["a loaded", ("a", 3)]),
        (SimpleNamespace(kind="cpu"), ["a loaded"]),
    ):
        done.clear()
        worker._load(list(known), device)
        assert done == want


@pytest.mark.parametrize(("kind", "modes", "keeps"), [("cuda", ("cold",), 1), ("cpu", (), 1), ("cpu", ("launch",), 0)])
def test_a_worker_keeps_freed_memory_unless_numpy_is_timed(monkeypatch, kind, modes, keeps):
    kept = []
    monkeypatch.setattr(worker.memory, "keep", lambda: kept.append(kind))
    monkeypatch.setattr(worker, "open_device", lambda *given: (SimpleNamespace(kind=kind, free_bytes=0), ""))
    monkeypatch.setattr(worker.machine, "describe", lambda device: Machine(kind, "it", {}))
    monkeypatch.setattr(worker.timing, "prepare", lambda *given: None)
    setup = Setup(kind, "", "", modes, 0, None, "shuffled", {}, calibrate=False)
    worker._Worker(setup, lambda step: None, lambda found: None, None).open()
    assert len(kept) == keeps
