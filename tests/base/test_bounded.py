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
        SpecError, match=r"spec.py: it did not end within 0.2 s; give a longer --timeout; a spec must only"
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


def test_a_process_that_a_spec_forks_may_end(tmp_path):
    load(
        tmp_path,
        "import os\nif not (child := os.fork()): os._exit(7)\ncode = os.waitpid(child, 0)[1]\nassert code == 7 << 8",
    )


@pytest.mark.process
def test_a_process_that_a_spec_forks_does_no_work_of_the_lab(tmp_path):
    (tmp_path / "spec.py").write_text("import os\nif os.fork(): os.wait()")
    code = f"from pathlib import Path; from cudalab.spec import find; find.loaded(Path({str(tmp_path / 'spec.py')!r}))"
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
    [("import os; os._exit(0)", "with os._exit(0)"), ("while True: pass", "it did not end within 0.3 s")],
)
def test_the_command_line_says_so(tmp_path, monkeypatch, text, says):
    monkeypatch.setattr(bounded, "LEAST", 0.3)
    (tmp_path / "spec.py").write_text(text)
    run = CliRunner().invoke(main, ["check", str(tmp_path / "spec.py"), "--timeout", "0.1"])
    assert run.exit_code == 2 and says in run.stderr
    assert bounded._limit == bounded.LIMIT


@pytest.mark.process
def test_a_spec_that_does_not_return_to_python_ends_the_process(tmp_path):
    (tmp_path / "spec.py").write_text("sum(range(10 ** 12))")
    code = (
        "from cudalab.base import bounded; from cudalab.spec import find; bounded.GRACE = 0.2; bounded._limit = 0.3; "
        f"find.kernel({str(tmp_path / 'spec.py')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and "spec.py" in done.stderr
