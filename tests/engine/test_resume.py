"""Ctrl-C keeps the finished groups; --resume does the rest, and refuses another run's file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from crashing import QUICK, altered, rows

import cudalab
from cudalab.base.errors import InputError, Unavailable
from cudalab.cli import main, next_steps
from cudalab.engine import session


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


@pytest.fixture
def stopped(tmp_path):
    """A function: what the command line says of a bench of two sizes whose Session some code changes, and its file."""

    def run(change):
        out = tmp_path / "r.json"
        args = ["bench", altered(tmp_path), "--sizes", "small,medium", "--only", "numpy", "--device", "cpu",
                "--budget", "0.01", "-o", out]  # fmt: skip
        (tmp_path / "asked.py").write_text(f"""
import os, signal, sys
from cudalab.cli import main
from cudalab.engine.session import Session, Stopped
{change}
sys.argv[1:] = {list(map(str, args))!r}
main()
""")
        env = {**os.environ, "PYTHONPATH": str(Path(cudalab.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-m", "asked"], capture_output=True, text=True, check=False,
                              cwd=tmp_path, env=env)  # fmt: skip
        assert done.returncode == 130, done.stderr
        return done.stderr, out

    return run


@pytest.mark.process
def test_ctrl_c_before_anything_is_finished_promises_nothing(stopped):
    said, _ = stopped("""
def stop(*_):
    raise Stopped("stopped after 0 of 1 groups")

Session._fill = stop
""")
    assert said.splitlines()[-1] == "stopped after 0 of 1 groups; nothing was finished"


@pytest.mark.process
def test_ctrl_c_that_python_drops_stops_the_run_with_the_next_report(stopped):
    """An exception in a callback of Python's own (a finalizer, here) goes no further than a line on standard error."""
    said, out = stopped("""
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
""")
    assert "stopped after 1 of 2 groups; continue with: cudalab bench" in said
    assert not cudalab.load(out).complete


@pytest.mark.process
def test_ctrl_c_while_a_text_is_executed_exits_with_130(stopped):
    """Python remembers an interrupted exec of a text, as dataclasses do it, and `python -m` would end by the signal."""
    said, _ = stopped("Session._fill = lambda *_: exec('raise KeyboardInterrupt')")
    assert said.splitlines()[-1].startswith("stopped;")


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_ctrl_c_keeps_what_is_finished_and_resume_does_the_rest(tmp_path):
    spec, out = altered(tmp_path), tmp_path / "r.json"
    run, err, workers = interrupted(spec, out, signal.SIGINT)
    assert run.returncode == 130
    assert "Traceback" not in err
    assert f"stopped after 1 of 3 groups; continue with: cudalab bench {spec} --resume {out}" in err.splitlines()
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    begun = cudalab.load(out)
    assert not begun.complete
    assert {c.size for c in begun.cases} == {"small"}

    again = subprocess.Popen(
        command(spec, "--resume", out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while again.poll() is None:  # the file is readable at any moment
        cudalab.load(out)
        time.sleep(0.02)
    assert again.returncode == 0, again.stderr.read()
    again.stderr.close()
    whole = cudalab.load(out)
    assert whole.complete
    assert [c.size for c in whole.cases if c.backend == "numpy"] == ["small", "medium", "large"]
    assert whole.cases[: len(begun.cases)] == begun.cases
    assert {**whole.options, "timeout": 0} == {**begun.options, "timeout": 0}
    assert subprocess.run(command(spec, "--resume", out, "--format", "json"), capture_output=True, check=True).stdout
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".py"].count("r.json") == 1
    assert not list(tmp_path.glob(".r.json*"))


@pytest.mark.process
@pytest.mark.wall
def test_a_worker_does_not_outlive_a_parent_that_is_killed(tmp_path):
    out = tmp_path / "r.json"
    _, _, workers = interrupted(altered(tmp_path), out, signal.SIGKILL)
    assert workers
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not cudalab.load(out).complete


@pytest.mark.process
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


@pytest.mark.process
def test_a_run_that_is_out_of_time_keeps_what_is_finished_and_resume_does_the_rest(tmp_path, monkeypatch):
    """On a clock of the test, which the end of the first group moves beyond the run's seconds."""
    now = [0.0]
    monkeypatch.setattr(session, "perf_counter", lambda: now[0])
    spec, out = altered(tmp_path), tmp_path / "r.json"
    asked = {"only": "numpy", "device": "cpu", **QUICK, "sizes": "small,medium"}

    def late(event):
        now[0] = 60.0 if event.finished else now[0]

    with pytest.warns(UserWarning, match="out of time after 50 s: finished 1 of 2 groups; missing: crash medium"):
        first = cudalab.bench(str(spec), **asked, seconds=50, progress=late, output=out)
    assert [c.size for c in first.cases] == ["small"] and not first.complete and cudalab.load(out) == first
    steps = next_steps.lines(first, str(out), 300)
    assert steps[0].startswith(f"next: cudalab bench {spec} --resume {out} ") and "measures what is missing" in steps[0]
    run = cudalab.bench(str(spec), **asked, resume=out)
    assert run.complete and run.cases[:1] == first.cases and [c.size for c in run.cases] == ["small", "medium"]
    assert cudalab.load(out) == run
    with pytest.raises(Unavailable, match="nothing was finished within 50 s; give more seconds"):
        cudalab.bench(str(spec), **asked, seconds=50, progress=lambda event: now.__setitem__(0, now[0] + 60))


@pytest.mark.parametrize("command", [["bench", "plus_one"], ["check", "plus_one"], ["study", "graphs"]])
@pytest.mark.parametrize(("seconds", "more"), [("0", "positive"), ("-1", "positive"), ("nan", "positive"),
                                               ("inf", "; leave it out for a run without a limit")])  # fmt: skip
def test_the_seconds_of_a_run_are_positive_and_finite(command, seconds, more):
    done = CliRunner().invoke(main, [*command, "--seconds", seconds])
    assert done.exit_code == 2 and f"seconds is {float(seconds)} s; " in done.output and more in done.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": "small,large"}, "it has --sizes 'small,medium', this run --sizes 'small,large'"),
        ({"seed": 1}, r"it has --seed \d+, this run --seed 1"),
        ({"modes": "launch"}, "it has --modes 'launch,graph', this run --modes 'launch'"),
        ({"budget": 0.02}, "it has --budget 0.01, this run --budget 0.02"),
        ({"only": "numpy,host"}, "it has --only 'numpy', this run --only 'numpy,host'"),
    ],
)
def test_resume_refuses_another_question(begun, change, message):
    spec, out = begun
    asked = {**QUICK, "sizes": "small,medium", "only": "numpy", "device": "cpu", **change}
    with pytest.raises(InputError, match=f"cannot resume .*r.json: {message}"):
        cudalab.bench(str(spec), **asked, resume=out)


@pytest.mark.parametrize(
    ("kind", "options", "wrote"),
    [("check", {}, "check"), ("bench", {"crossover": ["a", "b"], "modes": ""}, "crossover")],
)
def test_what_another_command_wrote_is_not_resumed(begun, kind, options, wrote):
    _, out = begun
    out.write_text(json.dumps({**json.loads(out.read_text()), "options": options, "kind": kind}))
    run = CliRunner().invoke(main, ["bench", "--resume", str(out)])
    assert run.exit_code == 2
    assert run.output == f"Error: cannot resume {out} with `cudalab bench`: it holds a run of `cudalab {wrote}`\n"


@pytest.mark.sweep
def test_resume_refuses_other_sources_and_machines(begun):
    spec, out = begun
    asked = {**QUICK, "sizes": "small,medium", "only": "numpy", "device": "cpu", "resume": out}
    stored = json.loads(out.read_text())
    for change, message in (
        ({"name": "NVIDIA Other", "device": "cuda"}, "it was begun on NVIDIA Other"),
        ({"versions": {**stored["machine"]["versions"], "numpy": "0.1"}}, "numpy was 0.1 and is"),
        ({"details": {**stored["machine"]["details"], "driver": "550.1"}}, "driver was 550.1 and is not known"),
    ):
        out.write_text(json.dumps({**stored, "machine": {**stored["machine"], **change}}))
        with pytest.raises(InputError, match=message):
            cudalab.bench(str(spec), **asked)
    out.write_text(json.dumps(stored))
    spec.with_suffix(".cu").write_text(spec.with_suffix(".cu").read_text() + "\n// edited\n")
    with pytest.raises(InputError, match=r"crash\.cu has changed"):
        cudalab.bench(str(spec), **asked)
    with pytest.raises(InputError, match=r"cannot read nothing\.json"):
        cudalab.bench(str(spec), **{**asked, "resume": "nothing.json"})
    with pytest.raises(InputError, match="timeout is 0 s"):
        rows("numpy", timeout=0)
