"""Files that do not end, or that end the process."""

from __future__ import annotations

import os
import posix
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused
from tables import table
from twice import SPEC, written

from cudalab.base import bounded
from cudalab.base.errors import SpecError
from cudalab.spec import find
from cudalab.spec.validate import called
from cudalab.tools.profile import kernel as profiled


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(bounded, "_limit", 0.2)
    monkeypatch.setattr(bounded, "_advice", bounded.ADVICE)  # a test with a --timeout sets another


def load(folder: Path, text: str) -> object:
    (folder / "spec.py").write_text(text)
    return find.loaded(folder / "spec.py")


IMPORTS = "from pathlib import Path; from cudalab.base import bounded; from cudalab.spec import find, validate; "


def in_a_process(folder: Path, text: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code`, which has `path`, the spec with this text."""
    (folder / "spec.py").write_text(text)
    head = f"{IMPORTS}path = {str(folder / 'spec.py')!r}; "
    return subprocess.run([sys.executable, "-c", head + code], text=True, capture_output=True, timeout=60, check=False)


@pytest.mark.process
@pytest.mark.parametrize("text", table("bounded", "specs that do not end"))
def test_a_spec_that_does_not_end_is_stopped(soon, tmp_path, text):
    left, handler = signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM)
    with pytest.raises(
        SpecError, match=r"spec.py: it did not end within 0.2 s; does a loop never end\?; a spec must only"
    ):
        load(tmp_path, text)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert (left - 10 if left else 0) <= signal.getitimer(signal.ITIMER_REAL)[0] <= left  # a test's own limit


@pytest.mark.parametrize(("text", "call"), table("bounded", "specs that end the process"))
def test_a_spec_that_ends_the_process_is_refused(tmp_path, text, call):
    before = os._exit, os.execv, os.execve, posix._exit
    with pytest.raises(
        SpecError, match=rf"spec.py: it ends the process with os.{call}; a spec must only define its kernel"
    ):
        load(tmp_path, text)
    assert (os._exit, os.execv, os.execve, posix._exit) == before


def test_what_a_spec_does_to_streams_and_signals_ends_with_it(tmp_path):
    before = sys.stdout, sys.stderr, signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT)
    ignored = "for one in signal.SIGINT, signal.SIGCHLD: signal.signal(one, signal.SIG_IGN)"
    load(tmp_path, f"import signal, sys\n{ignored}\nsys.stdout = sys.stderr = None")
    assert (sys.stdout, sys.stderr, signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT)) == before


def test_a_process_that_a_spec_forks_may_end(tmp_path):
    waits = "code = os.waitpid(child, 0)[1]\nassert code == 7 << 8"
    load(tmp_path, f"import os\nif not (child := os.fork()): os._exit(7)\n{waits}")


@pytest.mark.parametrize(("text", "says"), table("bounded", "functions of a spec that fail"))
def test_a_function_of_a_spec_that_fails_is_an_error_that_names_it(soon, tmp_path, text, says):
    inputs = load(tmp_path, f"import os\ndef inputs(*given):\n    {text}\n").inputs

    def tried():
        try:
            called(inputs, (8,))
        except ValueError:  # one who tries whether something works does not catch the end of time
            pytest.fail("not named")

    with pytest.raises(SpecError, match=says), bounded.guarded():
        tried()


def test_a_check_that_is_no_longer_wanted_is_no_fault_of_a_spec(tmp_path):
    def stops():
        raise bounded.Interrupted

    with bounded.guarded(), pytest.raises(bounded.Interrupted):
        called(stops)
    with pytest.raises(bounded.Interrupted):
        load(tmp_path, "from cudalab.base.bounded import Interrupted\nraise Interrupted\n")


def test_a_function_of_a_spec_runs_as_it_is_where_nobody_guards_it():
    with pytest.raises(ZeroDivisionError):
        called(lambda: 1 / 0)
    with bounded.guarded(), bounded.bounded(), pytest.raises(ZeroDivisionError):  # another limit holds
        called(lambda: 1 / 0)


@pytest.mark.process
@pytest.mark.parametrize("command", ["list", "inspect"])
def test_no_command_ends_well_where_a_function_of_a_spec_ends_the_process(tmp_path, command):
    text = SPEC.replace("entries={", 'entries={"other": lambda x, y: __import__("os")._exit(0), ')
    assert "it ends the process with os._exit(0)" in refused(command, written(tmp_path, text))


@pytest.mark.process
def test_a_profile_that_a_spec_ends_is_no_empty_profile(monkeypatch):
    monkeypatch.setattr(profiled, "MAIN", "builtins.id")  # it answers nothing, and the process ends well
    assert profiled._watched((), "a request", 60.0, {}) == ([], "the process ended with exit code 0")


@pytest.mark.process
def test_a_process_that_a_spec_forks_does_no_work_of_the_lab(tmp_path):
    text = "import os\ndef inputs(): return os.fork() and os.wait()\ninputs()"
    done = in_a_process(tmp_path, text, "validate.called(find.loaded(Path(path)).inputs); print('loaded')")
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr


@pytest.mark.wall
def test_a_clock_that_runs_already_goes_on(tmp_path):
    rung = []
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        load(tmp_path, "import time\ntime.sleep(0.1)")
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.25
        signal.pause()
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os; os._exit(0)", "with os._exit(0)"),
        ("while True: pass", "it did not end within 0.3 s; give more than 0.3 s as --timeout"),
    ],
)
def test_the_command_line_says_so(tmp_path, monkeypatch, text, says):
    monkeypatch.setattr(bounded, "LEAST", 0.3)
    (tmp_path / "spec.py").write_text(text)
    assert says in refused("check", tmp_path / "spec.py", "--timeout", "0.1")
    assert bounded._limit == bounded.LIMIT and "--timeout" not in bounded._advice
    monkeypatch.setattr(bounded, "_limit", bounded.LIMIT)
    monkeypatch.setattr(bounded, "_advice", "")
    bounded.allow(6, "--cudalab-timeout")
    assert bounded._advice == "give a longer --cudalab-timeout"


@pytest.mark.process
def test_a_spec_that_does_not_return_to_python_ends_the_process(tmp_path):
    code = "bounded.GRACE = 0.2; bounded._limit = 0.3; find.kernel(path)"
    done = in_a_process(tmp_path, "import itertools\nmax(itertools.repeat(1))", code)
    assert done.returncode == 2, done.stderr
    assert 'spec.py", line 2 in <module>' in done.stderr
    assert done.stderr.endswith(
        "\nError: code of a spec did not return to Python within 0.5 s, see above; does a loop never end?\n"
    )
