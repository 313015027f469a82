"""Results are not lost, old results are not taken for new ones, and a results file runs nothing."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import invoke, ran
from example import EXAMPLE, example

import cudalab
from cudalab.cli import measure
from cudalab.engine import run_file, session
from cudalab.results import file

QUICK = ("--device", "cpu", "--only", "numpy", "--sizes", "8x33")


def spec_that(folder, does):
    """A copy of the example that does something when it is imported."""
    spec = example(folder / "mine")
    spec.write_text(f"{spec.read_text()}\n{does}\n")
    return spec


@pytest.mark.process
@pytest.mark.filterwarnings("always:cannot write")
def test_results_that_cannot_be_written_are_kept_elsewhere_and_fail_the_command(tmp_path, monkeypatch):
    out, elsewhere = tmp_path / "out" / "r.json", tmp_path / "elsewhere"
    out.parent.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    spec = spec_that(tmp_path, f"import shutil; shutil.rmtree({str(out.parent)!r}, ignore_errors=True)")
    done = invoke("check", spec, *QUICK, "-o", out)
    assert done.exit_code == measure.UNSAVED == 2
    found = re.search(r"Error: cannot write .*r.json: No such file or directory; the results are in (.*)", done.stderr)
    assert found, done.stderr
    run = cudalab.load(found[1])
    assert (len(run.cases), run.complete) == (1, True)
    assert "softmax" in done.stdout
    assert done.stderr.count("Warning: cannot write") == 1
    assert ".py:" not in done.stderr
    assert [path.suffix for path in elsewhere.iterdir()] == [".json"]


@pytest.mark.process
def test_they_are_rescued_to_the_first_place_that_takes_a_file_or_else_printed(tmp_path, monkeypatch):
    run = cudalab.load(_old(tmp_path / "r.json"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setenv("HOME", str(tmp_path))
    kept = file.rescue(run)
    assert Path(kept).parent == tmp_path and cudalab.load(kept) == run
    monkeypatch.setattr(file.files, "write", _fail)
    assert file.rescue(run) == ""
    assert sorted(tmp_path.glob("cudalab-*")) == [Path(kept)]

    @click.command()
    def command():
        measure.keep(run, str(tmp_path / "gone" / "r.json"))
        raise SystemExit(measure.exit_code(run))

    done = CliRunner().invoke(command)
    assert done.exit_code == 2
    assert "cannot write" in done.stderr and "the results follow as JSON" in done.stderr
    assert json.loads(done.stdout)["cases"]


def _fail(*args, **kwargs):
    raise OSError(28, "No space left on device")


def _old(path):
    cudalab.check(str(EXAMPLE), sizes="8x33", only="numpy", device="cpu", output=path)
    return path


@pytest.mark.process
def test_an_early_ctrl_c_does_not_speak_of_the_run_that_was_there_unless_it_is_resumed(tmp_path, monkeypatch):
    out = _old(tmp_path / "r.json")
    before = out.read_bytes()

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(session.Session, "__enter__", stop)
    done = invoke("check", EXAMPLE, *QUICK, "-o", out, "-q")
    assert (done.exit_code, done.stderr) == (130, "stopped; nothing was finished\n")
    assert out.read_bytes() == before
    run = cudalab.load(out)
    run.cases, run.complete = [], False
    run.save(out)
    done = invoke("check", EXAMPLE, "--resume", out, "-q")
    assert (done.exit_code, done.stderr) == (130, f"stopped; continue with: cudalab check {EXAMPLE} --resume {out}\n")


@pytest.mark.process
@pytest.mark.filterwarnings("always:cannot write")
def test_ctrl_c_says_where_the_finished_groups_are_if_not_in_the_file(tmp_path, monkeypatch):
    out, elsewhere = tmp_path / "r.json", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    monkeypatch.setattr(run_file, "save", _fail)
    finished = session.Session.finished

    def stop(self, group, cases=None):
        finished(self, group, cases)
        raise KeyboardInterrupt

    monkeypatch.setattr(session.Session, "finished", stop)
    done = invoke("check", EXAMPLE, "--device", "cpu", "--only", "numpy", "--sizes", "8x33,7x5", "-o", out, "-q")
    said = re.fullmatch(
        r"stopped after 1 of 2 groups; continue with: cudalab check (\S+) --resume (\S+)", done.stderr.splitlines()[-1]
    )
    assert said and done.exit_code == 130, done.stderr
    assert [case.size for case in cudalab.load(said[2]).cases] == ["8x33"]
    assert not out.exists()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("command", "option"),
    [pytest.param("bench", "--baseline", marks=pytest.mark.sweep), ("check", "--resume"),
     pytest.param("bench", "--resume", marks=pytest.mark.sweep)],
)  # fmt: skip
def test_a_spec_that_only_a_results_file_names_is_not_run(tmp_path, command, option):
    mark = tmp_path / "it ran"
    spec = spec_that(tmp_path, f"import pathlib; pathlib.Path({str(mark)!r}).touch()")
    out = tmp_path / "r.json"
    budget = ("--budget", "0.01") if command == "bench" else ()
    ran(command, spec, *QUICK, "-o", out, "-q", *budget)
    for name in [name for name in sys.modules if name.startswith("cudalab_user_softmax")]:
        del sys.modules[name]
    mark.unlink()
    done = invoke(command, option, out)
    assert done.exit_code == 2
    again = f"cudalab {command} {shlex.quote(str(spec))} {option} {out}"
    assert done.output == (
        f"Error: {out} names the spec {str(spec)!r}. A spec that only a results file names is not run. "
        f"If you trust it, name it yourself: {again}\n"
    )
    assert not mark.exists()
    invoke(*shlex.split(again)[1:], "-q")
    assert mark.exists()
