"""The session that all tools share: tasks with handlers of their own, single groups, and the run that it fills."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from crashing import altered
from handlers import Number

from cudalab.base.errors import CudalabError, Unavailable
from cudalab.engine import plan
from cudalab.engine.deaths import Death
from cudalab.engine.messages import Step, Task
from cudalab.engine.options import setup_of
from cudalab.engine.progress import FINISHED, sampled
from cudalab.engine.selection import Selection
from cudalab.engine.session import Look, Session
from cudalab.results import file
from cudalab.results.record import Case, Machine
from cudalab.timing import clock

pytestmark = pytest.mark.process

STEP = Step("a task", "start")


@pytest.fixture
def group(tmp_path):
    return written(tmp_path)


def opened(group, **more):
    options = {"device": "cpu", "only": "numpy,pycuda", "skip": "", "seed": 0, "budget": 0.01}
    setup = setup_of(options, ("launch",), [group])
    return Session("bench", options, setup, Selection.parse(options["only"], ""), **more)


def task(name, files=None, value=21):
    return Task.of(f"handlers:{name}", Number(value), files or {})


def written(folder, old="", new="", sizes="small"):
    """The only group of a changed spec."""
    (found,) = plan.groups([str(altered(folder, old, new))], sizes, "")
    return found


def test_a_task_names_the_function_that_does_it_and_a_check_alone_has_no_times(group):
    with opened(group) as session:
        assert session.ask(task("doubled", group.files), STEP, Number) == Number(42)
        assert session.ask(task("modes"), STEP, list[str]) == ["launch"]
        with pytest.raises(Unavailable, match="not today"):
            session.ask(task("refuses"), STEP, Number)
        with pytest.raises(CudalabError, match="the worker's answer cannot be read: Expected `int`"):
            session.ask(task("doubled"), STEP, int)
        death = session.ask(task("dies"), STEP, Number)
        assert isinstance(death, Death) and death.crashed
        assert "was killed by SIGSEGV while it was at: start" in death.reason
        assert session.ask(task("doubled", value=1), STEP, Number) == Number(2)  # a new worker has taken its place
        ((timed,), (checked,)) = (session.cases(group), session.cases(group, timed=False))
        assert (timed.status, checked.status) == ("ok", "ok")
        assert timed.times and not checked.times
        group.kernel.cu.write_text(group.kernel.cu.read_text() + "\n")
        with pytest.raises(CudalabError, match=f"{group.kernel.cu} has changed since this run began"):
            session.ask(task("doubled", group.files), STEP, Number)
        assert ["has changed since" in case.reason for case in session.cases(group)] == [True]


def test_the_time_that_is_left_counts_loads(group):
    plain, loaded = opened(group), opened(group)
    loaded.setup.modes = ("launch", "energy", "sustained")
    plain.setup.processes = loaded.setup.processes = 2
    assert sampled(loaded.setup, "cuda") - sampled(plain.setup, "cuda") == pytest.approx(sum(clock.LOADED.values()) / 2)
    assert sampled(loaded.setup, "cpu") == sampled(plain.setup, "cpu")  # which has no loads


def test_a_size_that_is_to_fit_is_chosen_when_the_device_is_open_and_said_in_a_note():
    (group,) = plan.groups([str(Path(__file__).parents[2] / "bench" / "examples" / "softmax.py")], "small", "")
    wanted = replace(group, size="fit", fit=0.8)
    closed = Session("bench", {}, setup_of({"device": "cpu", "only": "", "skip": "", "seed": 0}, (), [group]), None)
    assert closed.fitted([wanted]) == [wanted]
    with opened(group) as session:
        (found,) = session.fitted([replace(wanted, fit=1e-5)])
        assert found.shape != group.shape and found.fitted.startswith(
            f"fit is {'x'.join(map(str, found.shape))}: up to"
        )
        (case, *_) = session.add(replace(found, timed=False))
        assert session.fitted([wanted])[0].shape == found.shape  # that of its rows: it is not looked for again
    assert session.fitted([wanted]) == [wanted]  # such as after the run's time, to name what is missing
    assert (case.size, tuple(case.shape), found.fitted in case.notes) == ("fit", found.shape, True)


def test_a_group_that_is_added_is_in_the_results_the_file_and_the_progress(group, tmp_path):
    out, events, quiet = tmp_path / "r.json", [], []

    @contextmanager
    def times():  # the look may take some too
        quiet.append("quiet")
        yield
        quiet.append("loud")

    def look(cases, looked_at):
        assert looked_at is group
        cases[0].notes.append(f"looked at, {quiet[-1]}")

    with opened(group, progress=events.append, output=out, expected=1, quiet=times) as session:
        cases = session.add(group, Look("looking", look), complete=True)
        run = session.results
    assert [case.label for case in cases] == ["numpy"]
    assert next(case.status for case in run.cases if case.backend == "pycuda") == "skipped"
    assert run.cases[0].notes[-1] == "looked at, quiet"
    assert file.load(out) == run
    assert (run.kind, run.complete) == ("bench", True)
    assert "looking" in [event.step.phase for event in events]
    last = events[-1]
    assert (last.step.phase, last.done, last.groups) == (FINISHED, 1, 1)
    assert [case.label for case in last.finished.cases] == ["numpy"]


def test_a_time_that_physics_forbids_is_refused_where_all_rows_pass(group, monkeypatch):
    """Every tool gets its rows from `cases`; the machine and the empty kernel are those of the session."""
    gpu = Machine("cuda", "a GPU", {"memory_clock_hz": 10**9, "memory_bus_bits": 4000, "l2_bytes": 0})
    rows = [
        Case(group.name, "small", (1,), "float32", "pycuda", nbytes=10**6, written=0, times={"cold": [[seconds]] * 3})
        for seconds in (0.5e-6, 0.9e-6, 1.1e-6)
    ]
    with opened(group) as session:
        monkeypatch.setattr(session.workers, "cases", lambda group, timed: rows)
        monkeypatch.setattr(session.workers, "ready", msgspec.structs.replace(session.ready, machine=gpu))
        session.results.calibration = {"empty kernel": [0.6e-6]}
        found = session.cases(group)
    assert [case.status for case in found] == ["IMPOSSIBLE", "IMPOSSIBLE", "ok"]
    assert "below the 1.00 \u00b5s that physics allows" in found[0].reason
    assert [bool(case.times) for case in found] == [False, False, True]


@pytest.mark.parametrize(
    ("amount", "status", "said"),
    [
        ("8, flops=lambda x: 3 * x.size", "ok", "8 8 3000 "),
        ("-1", "error", "bytes returns -1; return a whole number"),
    ],
)
def test_bytes_and_operations_of_the_spec_are_in_its_rows(tmp_path, amount, status, said):
    group = written(tmp_path, "pointwise=True,", f"pointwise=True, bytes=lambda x: {amount},")
    with opened(group) as session:
        (case,) = session.cases(group)
    assert case.status == status and said in f"{case.nbytes} {case.written} {case.flops} {case.reason}"
