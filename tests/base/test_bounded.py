"""Files that do not end, or that end the process."""

from __future__ import annotations

import os
import posix
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.base import bounded
from cudalab.base.errors import SpecError
from cudalab.cli import main
from cudalab.spec import find
from cudalab.spec.validate import called
from cudalab.tools.profile import kernel as profiled

EXAMPLES = Path(__file__).parents[2] / "bench" / "examples"


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(bounded, "_limit", 0.2)


def load(folder: Path, text: str) -> None:
    (folder / "spec.py").write_text(text)
    find.loaded(folder / "spec.py")


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(60)",
        "while True: pass",
        "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except Exception: pass",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        "import threading\nthreading.Event().wait()",
    ],
)
def test_a_spec_that_does_not_end_is_stopped(soon, tmp_path, text):
    left, handler = signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM)
    with pytest.raises(
        SpecError, match=r"spec.py: it did not end within 0.2 s; does a loop never end\?; a spec must only"
    ):
        load(tmp_path, text)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert (left - 10 if left else 0) <= signal.getitimer(signal.ITIMER_REAL)[0] <= left  # a test's own limit


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("import os\nos._exit(0)", r"_exit\(0\)"),
        ("from os import _exit as leave\nleave(status=0)", r"_exit\(0\)"),
        ("import posix\nposix._exit(0)", r"_exit\(0\)"),
        ("import os\nos.execv('/bin/true', ['true'])", r"execv\('/bin/true'\)"),
        ("import os\nos.execlp('true', 'true')", r"execv\(b'.*/true'\)"),
    ],
)
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
    load(
        tmp_path,
        "import os\nif not (child := os.fork()): os._exit(7)\ncode = os.waitpid(child, 0)[1]\nassert code == 7 << 8",
    )


OWN_TEXT = "raise type('Own', (Exception,), {'__str__': lambda self: %s})()"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("os._exit(0)", r"spec.py:2: inputs: it ends the process with os._exit\(0\)"),
        ("os.execv('/bin/true', ['true'])", "inputs: it ends the process with os.execv"),
        ("while True: pass", r"inputs: it did not end within 0.2 s; does a loop never end\?"),
        ("exit(0)", r"inputs of the spec calls sys.exit\(\)"),
        ("raise ValueError('no')", "inputs raised ValueError: no"),
        ("raise GeneratorExit", "inputs raised GeneratorExit"),
        ("return inputs(*given)", "inputs raised RecursionError: maximum"),
        (OWN_TEXT % "exit(0)", "inputs raised Own$"),
        (OWN_TEXT % "os._exit(0)", "inputs raised Own$"),
        (OWN_TEXT % "1 / 0", "inputs raised Own$"),
    ],
)
def test_a_function_of_a_spec_that_fails_is_an_error_that_names_it(soon, tmp_path, text, says):
    (tmp_path / "spec.py").write_text(f"import os\ndef inputs(*given):\n    {text}\n")
    inputs = find.loaded(tmp_path / "spec.py").inputs

    def tried():
        try:
            called(inputs, (8,))
        except ValueError:  # one who tries whether something works does not catch the end of time
            pytest.fail("not named")

    with pytest.raises(SpecError, match=says), bounded.guarded():
        tried()


def test_a_check_that_is_no_longer_wanted_is_no_fault_of_a_spec(tmp_path):
    (tmp_path / "spec.py").write_text("from cudalab.base.bounded import Interrupted\nraise Interrupted\n")

    def stops():
        raise bounded.Interrupted

    with bounded.guarded(), pytest.raises(bounded.Interrupted):
        called(stops)
    with pytest.raises(bounded.Interrupted):
        find.loaded(tmp_path / "spec.py")


def test_a_function_of_a_spec_runs_as_it_is_where_nobody_guards_it():
    with pytest.raises(ZeroDivisionError):
        called(lambda: 1 / 0)
    with bounded.guarded(), bounded.bounded(), pytest.raises(ZeroDivisionError):  # another limit holds
        called(lambda: 1 / 0)


@pytest.mark.process
@pytest.mark.parametrize("command", ["list", "inspect"])
def test_no_command_ends_well_where_a_function_of_a_spec_ends_the_process(tmp_path, command):
    text = (EXAMPLES / "softmax.py").read_text()
    (tmp_path / "softmax.cu").write_text((EXAMPLES / "softmax.cu").read_text())
    other = """entries={"other": lambda x, y: __import__("os")._exit(0), "softmax":"""
    (tmp_path / "softmax.py").write_text(text.replace('entries={"softmax":', other))
    run = CliRunner().invoke(main, [command, str(tmp_path / "softmax.py")])
    assert run.exit_code == 2 and "it ends the process with os._exit(0)" in run.stderr


@pytest.mark.process
def test_a_profile_that_a_spec_ends_is_no_empty_profile(monkeypatch):
    monkeypatch.setattr(profiled, "MAIN", "builtins.id")  # it answers nothing, and the process ends well
    assert profiled._watched((), "a request", 60.0, {}) == ([], "the process ended with exit code 0")


@pytest.mark.process
def test_a_process_that_a_spec_forks_does_no_work_of_the_lab(tmp_path):
    (tmp_path / "spec.py").write_text("import os\ndef inputs(): return os.fork() and os.wait()\ninputs()")
    code = (
        "from pathlib import Path; from cudalab.spec import find, validate; "
        f"validate.called(find.loaded(Path({str(tmp_path / 'spec.py')!r})).inputs)"
    )
    done = subprocess.run([sys.executable, "-c", f"{code}; print('loaded')"], text=True, capture_output=True)
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
        ("while True: pass", "it did not end within 0.3 s; give a longer --timeout"),
    ],
)
def test_the_command_line_says_so(tmp_path, monkeypatch, text, says):
    monkeypatch.setattr(bounded, "LEAST", 0.3)
    (tmp_path / "spec.py").write_text(text)
    run = CliRunner().invoke(main, ["check", str(tmp_path / "spec.py"), "--timeout", "0.1"])
    assert run.exit_code == 2 and says in run.stderr
    assert bounded._limit == bounded.LIMIT and "--timeout" not in bounded._advice


@pytest.mark.process
def test_a_spec_that_does_not_return_to_python_ends_the_process(tmp_path):
    (tmp_path / "spec.py").write_text("import itertools\nmax(itertools.repeat(1))")
    code = (
        "from cudalab.base import bounded; from cudalab.spec import find; bounded.GRACE = 0.2; bounded._limit = 0.3; "
        f"find.kernel({str(tmp_path / 'spec.py')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert 'spec.py", line 2 in <module>' in done.stderr
    assert done.stderr.endswith(
        "\nError: code of a spec did not return to Python within 0.5 s, see above; does a loop never end?\n"
    )
