"""Ctrl-C keeps the finished groups; --resume does the rest, and refuses another run's file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import refused
from crashing import QUICK, altered, rows

import cudalab
from cudalab.base.errors import InputError, Unavailable
from cudalab.cli import next_steps
from cudalab.engine import session

pytestmark = pytest.mark.process

ASKED = {**QUICK, "sizes": "small,medium", "only": "numpy", "device": "cpu"}


DROPPED = """
add = Session.add

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def interrupted(self, *args, **options):
    add(self, *args, **options)
    Dropped()

Session.add = interrupted
"""
NOTHING = """
def stop(*_):
    raise Stopped("stopped after 0 of 1 groups")

Session._fill = stop
"""


@pytest.mark.parametrize(
    ("change", "last"),
    [
        (NOTHING, "stopped after 0 of 1 groups; nothing was finished$"),
        # An exception in a callback of Python's own (a finalizer, here) is a line on standard error, and no more.
        (DROPPED, "stopped after 1 of 2 groups; continue with: cudalab bench"),
        # Python remembers an interrupted exec of a text, as dataclasses do it, and `python -m` would end by the signal.
        ("Session._fill = lambda *_: exec('raise KeyboardInterrupt')", "stopped;"),
    ],
    ids=["before anything is finished", "dropped by Python", "while a text is executed"],
)
def test_ctrl_c_stops_the_run_and_exits_with_130(tmp_path, change, last):
    out = tmp_path / "r.json"
    args = ["bench", altered(tmp_path), "--sizes", "small,medium", "--only", "numpy", "--device", "cpu",
            "--budget", "0.01", "-o", out]  # fmt: skip
    (tmp_path / "asked.py").write_text(f"""
import os, signal, sys
from cudalab.cli import main
from cudalab.engine.early import Stopped
from cudalab.engine.session import Session
{change}
sys.argv[1:] = {list(map(str, args))!r}
main()
""")
    env = {**os.environ, "PYTHONPATH": str(Path(cudalab.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-m", "asked"], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 130, done.stderr
    assert re.search(f"^{last}", done.stderr, re.MULTILINE)
    assert change != DROPPED or not cudalab.load(out).complete


@pytest.mark.wall
@pytest.mark.sweep
def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path):
    """After the first of three groups. What a run leaves that is killed: test_children.py, test_kill.py."""
    spec, out = altered(tmp_path), tmp_path / "r.json"
    args = ("bench", spec, "--sizes", "small,medium,large", "--only", "host:fine,host:slow,numpy", "--device", "cpu",
            "--budget", "0.01", "-o", out)  # fmt: skip
    run = subprocess.Popen([sys.executable, "-m", "cudalab.cli", *map(str, args)], stderr=subprocess.PIPE, text=True,
                           stdout=subprocess.DEVNULL)  # fmt: skip
    while not out.exists():
        assert run.poll() is None
        time.sleep(0.01)
    workers = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert workers and run.returncode == 130
    assert "Traceback" not in err
    assert f"stopped after 1 of 3 groups; continue with: cudalab bench {spec} --resume {out}" in err.splitlines()
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    kept = cudalab.load(out)
    assert not kept.complete and {c.size for c in kept.cases} == {"small"}
    assert sorted(tmp_path.iterdir()) == [spec.with_suffix(".cu"), spec, out]


def test_ctrl_c_in_a_program_is_a_keyboard_interrupt():
    def stop(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows("numpy", progress=stop)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """(folder of a spec, text of results of it that are not complete)."""
    folder = tmp_path_factory.mktemp("half")
    rows("numpy", spec=altered(folder), sizes="small,medium", output=folder / "r.json")
    run = cudalab.load(folder / "r.json")
    run.cases, run.complete = [c for c in run.cases if c.size == "small"], False
    run.save(folder / "r.json")
    return folder, (folder / "r.json").read_text()


@pytest.fixture
def begun(half):
    """(path of the spec, path of the results), both as they were."""
    folder, text = half
    (folder / "r.json").write_text(text)
    return altered(folder), folder / "r.json"


def edited(out, **fields):
    """Write results with these fields in place of theirs, and those of dicts in place of the dict's."""

    def joined(old, new):
        return {**old, **{k: joined(old[k], v) if isinstance(v, dict) else v for k, v in new.items()}}

    out.write_text(json.dumps(joined(json.loads(out.read_text()), fields)))


def test_a_run_that_is_out_of_time_keeps_what_is_finished_and_resume_does_the_rest(tmp_path, monkeypatch):
    """On a clock of the test, which the end of the first group moves beyond the run's seconds."""
    now = [0.0]
    monkeypatch.setattr(session, "perf_counter", lambda: now[0])
    spec, out = altered(tmp_path), tmp_path / "r.json"

    def late(event):
        now[0] = 60.0 if event.finished else now[0]

    with pytest.warns(UserWarning, match="out of time after 50 s: finished 1 of 2 groups; missing: crash medium"):
        first = cudalab.bench(str(spec), **ASKED, seconds=50, progress=late, output=out)
    assert [c.size for c in first.cases] == ["small"] and not first.complete and cudalab.load(out) == first
    steps = next_steps.lines(first, str(out), 300)
    assert steps[0].startswith(f"next: cudalab bench {spec} --resume {out} ") and "measures what is missing" in steps[0]
    run = cudalab.bench(str(spec), **ASKED, resume=out)
    assert run.complete and run.cases[:1] == first.cases and [c.size for c in run.cases] == ["small", "medium"]
    assert cudalab.load(out) == run
    with pytest.raises(Unavailable, match="nothing was finished within 50 s; give more seconds"):
        cudalab.bench(str(spec), **ASKED, seconds=50, progress=lambda event: now.__setitem__(0, now[0] + 60))


@pytest.mark.parametrize("command", ["bench plus_one", "check plus_one", "study graphs"])
@pytest.mark.parametrize(("seconds", "more"), [("0", "positive"), ("-1", "positive"), ("nan", "positive"),
                                               ("inf", "; leave it out for a run without a limit")])  # fmt: skip
def test_the_seconds_of_a_run_are_positive_and_finite(command, seconds, more):
    said = refused(*command.split(), "--seconds", seconds)
    assert f"seconds is {float(seconds)} s; " in said and more in said


@pytest.mark.parametrize(
    ("kept", "change", "message"),
    [
        ({}, {"sizes": "small,large"}, "it has --sizes 'small,medium', this run --sizes 'small,large'"),
        ({}, {"seed": 1}, r"it has --seed \d+, this run --seed 1"),
        ({}, {"modes": "launch"}, "it has --modes 'launch,graph', this run --modes 'launch'"),
        ({}, {"budget": 0.02}, "it has --budget 0.01, this run --budget 0.02"),
        ({}, {"only": "numpy,host"}, "it has --only 'numpy', this run --only 'numpy,host'"),
        ({"options": {"processes": 2}}, {"processes": 3}, "it has --processes 2, this run --processes 3"),
        *[({"options": {"processes": wrong}}, {}, "the run's processes are ") for wrong in (0, -1, 10**6, "two", True)],
        ({"machine": {"name": "NVIDIA Other", "device": "cuda"}}, {}, "it was begun on NVIDIA Other"),
        ({"machine": {"versions": {"numpy": "0.1"}}}, {}, "numpy was 0.1 and is"),
        ({"machine": {"details": {"driver": "550.1"}}}, {}, "driver was 550.1 and is not known"),
    ],
)
def test_resume_refuses_another_question_and_another_machine(begun, kept, change, message):
    spec, out = begun
    edited(out, **kept)
    with pytest.raises(InputError, match=f"cannot resume.*: {message}"):
        cudalab.bench(str(spec), **(ASKED | change), resume=out)


@pytest.mark.parametrize(
    ("kind", "options", "wrote"),
    [("check", {}, "check"), ("bench", {"crossover": ["a", "b"], "modes": ""}, "crossover")],
)
def test_what_another_command_wrote_is_not_resumed(begun, kind, options, wrote):
    _, out = begun
    edited(out, options=options, kind=kind)
    said = f"Error: cannot resume {out} with `cudalab bench`: it holds a run of `cudalab {wrote}`\n"
    assert refused("bench", "--resume", out) == said


def test_an_older_run_was_of_one_process(begun):
    spec, out = begun
    kept = json.loads(out.read_text())
    del kept["options"]["processes"]
    out.write_text(json.dumps(kept))
    assert [case.processes for case in cudalab.bench(str(spec), **ASKED, resume=out).cases] == [{}, {}]


def test_resume_refuses_other_sources(begun):
    spec, out = begun
    spec.with_suffix(".cu").write_text(spec.with_suffix(".cu").read_text() + "\n// edited\n")
    for file, said in ((out, r"crash\.cu has changed"), ("nothing.json", r"cannot read nothing\.json")):
        with pytest.raises(InputError, match=said):
            cudalab.bench(str(spec), **ASKED, resume=file)
