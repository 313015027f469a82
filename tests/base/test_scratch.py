"""What a killed process leaves: nothing, at once where its cleaner lives, else when the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from cudalab.base import files, leftovers, scratch

HOLDS = """
import os, subprocess, sys, time
from pathlib import Path
from cudalab.base import files, scratch
with scratch.held() as place, scratch.written(Path(sys.argv[1])):
    half = files._beside(Path(sys.argv[1]))
    sleeper = subprocess.Popen(["sleep", "60"], env=scratch.environment(), start_new_session=True)
    (place / "temporary").write_text("")
    print(place, sleeper.pid, scratch.cleaner(), flush=True)
    time.sleep(60)
"""


def soon(is_so, seconds=5.0):
    end = monotonic() + seconds
    while not is_so():
        assert monotonic() < end
        sleep(0.01)


@pytest.fixture(autouse=True)
def _no_folder_yet(monkeypatch):
    """The folder that the session of tests holds does not count."""
    monkeypatch.setattr(scratch, "_here", scratch._Here())


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """A process that holds a scratch folder: (process, its folder, a process of its run, its cleaner, its file)."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = tmp_path / "r.json"
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(out)], stdout=subprocess.PIPE, text=True)
    place, sleeper, cleaner = process.stdout.readline().split()
    yield process, Path(place), int(sleeper), int(cleaner), out
    process.kill()
    process.communicate()


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.process
@pytest.mark.wall
def test_nothing_is_left_of_a_killed_process(holder):
    process, place, sleeper, _, out = holder
    assert place.parent == out.parent and place.stat().st_mode & 0o777 == 0o700
    assert alive(sleeper) and list(out.parent.glob(".r.json.*.half"))
    process.kill()
    process.wait()
    soon(lambda: not alive(sleeper) and not place.exists() and not list(out.parent.iterdir()))


WRITES = """
import os, sys, time
from pathlib import Path
place = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
half, lock = open(place / "half.so", "wb"), open(place / "x.lock", "wb")
read = open(place / "whole.so", "rb")
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.process
def test_what_a_compiler_was_writing_into_a_library_s_cache_goes_with_it(tmp_path):
    """torch would take the half for the whole."""
    (tmp_path / "whole.so").write_text("")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    compiler = subprocess.Popen([sys.executable, "-c", WRITES], env=environment, stdout=subprocess.PIPE,
                                start_new_session=True)  # fmt: skip
    assert compiler.stdout.readline()
    leftovers.end_group(compiler.pid)
    compiler.communicate()
    assert compiler.returncode == -9
    assert {path.name for path in tmp_path.iterdir()} == {"whole.so", "x.lock"}


@pytest.mark.process
def test_a_group_is_stopped_before_it_is_looked_at_and_killed(monkeypatch):
    """Otherwise processes that start others would do so faster than each is looked at."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    sent, kill = [], os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: (sent.append(number), kill(group, number)))
    leftovers.end_group(process.pid)
    assert process.wait() == -9
    assert sent == [signal.SIGSTOP, signal.SIGKILL]
    leftovers.end_group(process.pid)  # it is gone: nothing happens


@pytest.mark.process
@pytest.mark.wall
def test_what_a_killed_cleaner_leaves_is_removed_by_the_next(holder, monkeypatch):
    process, place, sleeper, cleaner, out = holder
    os.kill(cleaner, 9)
    process.kill()
    process.wait()
    sleep(0.1)
    assert place.exists() and list(out.parent.glob(".r.json.*.half"))
    os.kill(sleeper, 9)
    monkeypatch.setattr("tempfile.tempdir", str(out.parent))
    with scratch.held() as mine:
        soon(lambda: not place.exists())
        files.place(out)
        assert list(out.parent.iterdir()) == [mine]


def test_a_lock_that_the_kernel_gives_back_a_moment_later_is_waited_for(tmp_path, monkeypatch):
    """Of a killed process the cleaner's pipe may be closed before the file that it was writing."""
    folder, out, pauses = tmp_path / "cudalab-run-x", tmp_path / "r.json", []
    folder.mkdir()
    (folder / leftovers.WRITTEN).write_bytes(os.fsencode(out) + b"\0")
    half = files._beside(out)

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            half.close()

    monkeypatch.setattr(leftovers, "end_processes", lambda name, value: None)
    monkeypatch.setattr(leftovers.time, "sleep", pause)
    leftovers.clean(folder)
    assert len(pauses) == 3 and not list(tmp_path.iterdir())


@pytest.mark.process
def test_what_a_living_process_has_stays(holder):
    _, place, sleeper, _, out = holder
    leftovers.sweep_folders(out.parent)
    leftovers.sweep_halves(out)
    assert alive(sleeper) and place.exists() and list(out.parent.glob(".r.json.*.half"))


def test_the_folder_goes_with_its_last_holder():
    with scratch.held() as outer:
        with scratch.folder() as inner:
            assert inner.parent == outer
            (inner / "file").write_text("")
        assert outer.exists() and not inner.exists()
        assert scratch.environment({"A": "1"}) == {"A": "1", "TMPDIR": str(outer), leftovers.VARIABLE: str(outer)}
    assert not outer.exists()


def test_a_process_of_a_run_uses_the_folder_of_the_run(tmp_path, monkeypatch):
    made = tmp_path / f"{leftovers.PREFIX}of-a-run"
    made.mkdir()
    monkeypatch.setenv(leftovers.VARIABLE, str(made))
    held_by_run = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    leftovers.locked(held_by_run)
    with scratch.held() as place:
        assert place == made
    assert made.exists()
    os.close(held_by_run)
    for other in made, tmp_path / f"{leftovers.PREFIX}gone", tmp_path:  # no run holds the first or has made the last
        monkeypatch.setenv(leftovers.VARIABLE, str(other))
        with scratch.held() as place:
            assert place != other


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_leaves_the_folder_to_its_parent():
    with scratch.held() as place:
        if not (pid := os.fork()):
            with scratch.held() as other:
                os._exit(0 if other != place else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert place.exists()


def test_without_a_place_for_temporary_files_it_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(scratch.Unavailable, match=r"no folder for temporary files: .*; set TMPDIR"), scratch.held():
        pass
