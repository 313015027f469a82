"""What a process beside the run makes ahead, inputs and right results: what, when, and what happens if it fails."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import specs
from crashing import altered, rows

from cudalab import In, Out
from cudalab.base import memory, threads
from cudalab.base.child import Child
from cudalab.base.errors import CudalabError
from cudalab.checks.expected import Expected
from cudalab.engine import ahead, inputs
from cudalab.engine.early import Stopped
from cudalab.engine.groups import Group
from cudalab.engine.messages import Made, Step
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype

SIZES = ("small", "medium", "large")
# Each call notes its elements, its process, and whether times are taken; `maker()`: the process that works ahead asks.
NOTED = """
from pathlib import Path

NOTES, QUIET, ONCE = (Path(__file__ + end) for end in (".notes", ".quiet", ".once"))


def maker():
    return "cudalab.engine.ahead.main" in Path("/proc/self/cmdline").read_text()


def inputs(shape, dtype, rng):
    with NOTES.open("a") as file:
        file.write(f"{shape[0]} {'maker' if maker() else 'worker'} {int(QUIET.exists())}\\n")
"""


def group(folder, kind="float32", **fields):
    return Group(specs.kernel(folder, **fields), "small", (64,), dtype(kind))


@pytest.fixture
def files():
    numbers = [os.memfd_create("made", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) for _ in range(ahead.MOST)]
    yield [f"/proc/self/fd/{number}" for number in numbers]
    for number in numbers:
        os.close(number)


@pytest.mark.parametrize(
    "fields",
    [
        {"dtypes": ("float32", "bfloat16"), "pointwise": True},
        {"inputs": {"x": In("int32", 0, 9)}, "outputs": {"y": Out(dtype="int32")}, "reference": lambda x: x + 1},
        {"dtypes": ("complex64",), "outputs": {"y": Out(), "n": Out()}, "reference": lambda x: {"y": x, "n": 2 * x},
         "entries": {"k": lambda x, y, n: None}},
        {"reference": lambda x: (2 * x).astype(">f8")},
    ],
    ids=["bfloat16", "integers", "two results", "other byte order"],
)  # fmt: skip
def test_what_is_made_is_what_a_worker_makes(tmp_path, files, fields):
    made = group(tmp_path, fields.get("dtypes", ("float32",))[-1], **fields)
    places = list(ahead.made(made, 7, files))
    found = ahead.mapped(Made(files, places))
    assert len(found) == inputs.SETS + 1  # the last is drawn when all others are timed
    for number, both in enumerate(found):
        drawn = inputs.drawn(made, 7, number)
        for one, due in zip(both, (drawn, Expected(made.kernel, drawn).found), strict=True):
            native = {name: a.astype(a.dtype.newbyteorder("=")) for name, a in due.items()}
            assert {name: (a.dtype, a.tobytes()) for name, a in one.items()} == {
                name: (a.dtype, a.tobytes()) for name, a in native.items()
            }
    found[0][0]["x"][...] = 0  # seen by nobody else
    assert np.any(ahead.mapped(Made(files, places))[0][0]["x"] != 0)
    assert ahead.mapped(Made(["/proc/self/fd/nothing"], places)) == []
    with pytest.raises(PermissionError), open(files[-1], "r+b", buffering=0) as file:
        file.write(b"1")


def test_what_another_process_changes_before_the_seal_is_not_taken(tmp_path, files, monkeypatch):
    written = ahead._written

    def changed(file, arrays):
        found = written(file, arrays)
        os.pwrite(file, b"changed", found["y"].offset) if "y" in found else None
        return found

    monkeypatch.setattr(ahead, "_written", changed)
    with pytest.raises(CudalabError, match="another process has changed 'y'"):
        next(ahead.made(group(tmp_path), 7, files))


def test_nothing_is_made_where_memory_is_short(tmp_path, files, monkeypatch):
    due = (inputs.SETS + 1 + ahead.TEMPORARY) * (4 + 8) * 64 / ahead.ROOM
    for free, count in ((0, 0), (due - 1, 0), (due, inputs.SETS + 1)):
        monkeypatch.setattr(memory, "free", lambda free=free: free)
        assert len(list(ahead.made(group(tmp_path), 7, files))) == count


@pytest.fixture
def makers(monkeypatch):
    """The processes that make groups, however small these are."""
    started = []

    class Recorded(Child):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            started.append(self)

    monkeypatch.setattr(ahead, "Child", Recorded)
    monkeypatch.setattr(ahead, "LARGE", 1)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    yield started
    assert all(one.ended and not os.path.exists(f"/proc/{one.pid}") for one in started)
    assert not [name for name in map(_opened, os.listdir("/proc/self/fd")) if "cudalab-ahead" in name]


def _opened(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:  # that of the listing itself
        return ""


def noted(folder, line="", large=""):
    """A spec whose inputs are noted; `line` is theirs at 3,000 elements, `large` at 10,000."""
    spec = altered(folder, "\n\ndef inputs(shape, dtype, rng):\n", NOTED + "".join(
        f"    if shape[0] == {n}:\n        {what or 'pass'}\n" for n, what in ((3000, line), (10_000, large))
    ))  # fmt: skip
    return spec, lambda: [line.split() for line in Path(f"{spec}.notes").read_text().splitlines()]


@pytest.mark.process
@pytest.mark.parametrize("processes", [1, 2])
def test_later_groups_are_made_once_and_never_while_times_are_taken(tmp_path, makers, processes):
    spec, notes = noted(tmp_path)
    quiet = Path(f"{spec}.quiet")

    @contextmanager
    def times():
        quiet.touch()
        yield
        quiet.unlink()

    cases = rows("numpy", spec=spec, sizes=",".join(SIZES), processes=processes, seed=3, while_timed=times)
    assert {case.status for case in cases.values()} == {record.OK}
    assert all(len(case.processes.get("wall", [0])) == processes for case in cases.values())
    assert {who for n, who, _ in notes() if n == "1000"} == {"worker"}  # the first has nothing before it
    later = [note for note in notes() if note[0] != "1000"]
    assert [(n, timed) for n, who, timed in later if who == "maker"] == [
        (n, "0") for n in ("3000", "10000") for _ in range(inputs.SETS + 1)
    ]
    early = [n for n, who, timed in later if (who, timed) == ("worker", "0")]  # others may need what a function leaves
    assert sorted(early) == sorted(["3000", "10000"] * processes)
    assert len(makers) == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "status", "later"),
    [
        ("raise KeyError('w')", record.ERROR, "maker"),
        ("if maker(): os._exit(3)", record.OK, "worker"),
        ("if maker(): os.kill(os.getpid(), 9)", record.OK, "worker"),
        ("if maker(): np.sum = max", record.OK, "worker"),  # what it makes from then on is not taken
        ("if maker() and NOTES.read_text().count('3000 maker') > 1: raise KeyError('w')", record.OK, "maker"),
    ],
)
def test_what_fails_ahead_is_made_again_in_its_turn(tmp_path, makers, line, status, later):
    spec, notes = noted(tmp_path, line)
    cases = rows("numpy", spec=spec, sizes=",".join(SIZES))
    assert [cases[size, "numpy"].status for size in SIZES] == [record.OK, status, record.OK]
    if status != record.OK:
        reason = cases["medium", "numpy"].reason
        assert reason.startswith("cannot make inputs and reference: KeyError: 'w' (crash.py, line ")
    assert {who for n, who, _ in notes() if n == "3000"} == {"maker", "worker"}
    assert later in {who for n, who, _ in notes() if n == "10000"}


@pytest.mark.process
def test_a_worker_has_what_inputs_leaves_in_the_module(tmp_path, makers):
    spec = altered(tmp_path, "    return 2 * x", "    return FACTOR * x")
    text = spec.read_text().replace('    print("a ', '    global FACTOR\n    FACTOR = shape[0]\n    print("a ')
    spec.write_text(text)
    cases = rows("numpy", spec=spec, sizes=",".join(SIZES))
    assert {(case.status, case.reason) for case in cases.values()} == {(record.OK, "")}


@pytest.mark.process
def test_one_that_gives_no_answer_is_not_waited_for_twice(tmp_path, makers):
    spec, _ = noted(tmp_path, "import time; time.sleep(600)")
    kernel = find.kernel(str(spec))
    medium, large = (Group(kernel, size, kernel.sizes[size], dtype("float32")) for size in ("medium", "large"))
    with ahead.Ahead(0, timeout=0.01) as process:
        process.begin([object(), medium, large])
        assert process.take(large, lambda: False) is None and not makers[0].ended  # another's turn
        assert process.take(medium, lambda: False) is None and makers[0].ended
        process.begin([large])
        assert process.take(large, lambda: False) is None and len(makers) == 1


@pytest.mark.process
def test_one_whose_answers_are_not_awaited_makes_no_other_group(tmp_path, makers):
    def full():
        raise BlockingIOError("standard error is full")

    with ahead.Ahead(0, timeout=60) as process:
        process.begin([one := group(tmp_path)])
        with pytest.raises(BlockingIOError):
            process.take(one, full)
        process.begin([one])
        assert process.take(one, lambda: False) is None and makers[0].ended and len(makers) == 1


@pytest.mark.process
def test_ctrl_c_leaves_no_process_and_no_memory(tmp_path, makers):
    """While it is stopped, since times are taken, and while the run waits for it."""

    @contextmanager
    def interrupts():
        raise KeyboardInterrupt
        yield

    def interrupted(now):
        if now.step == Step("crash medium float32", ahead.WAITING):
            raise KeyboardInterrupt

    spec, _ = noted(tmp_path, "import time; time.sleep(600)")
    for how in ({"while_timed": interrupts}, {"progress": interrupted}):
        with pytest.raises(Stopped):
            rows("numpy", spec=spec, sizes="small,medium", **how)
        assert makers.pop().ended


def test_a_machine_with_one_core_and_small_groups_make_nothing_ahead(tmp_path, makers, monkeypatch):
    one = group(tmp_path)
    for cores, least in ((1, 1), (2, 65)):
        monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(ahead, "LARGE", least)
        with ahead.Ahead(0, timeout=1) as process:
            process.begin([one])
    assert not makers
