"""A results file is written completely, or the old one stays, after a failure at any moment."""

from __future__ import annotations

import io
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fuzzing import whole

import cudalab
from cudalab.base import files

STEPS = ["write", "flush", "os.fsync", "os.replace", "os.open"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()],
                         ids=lambda error: type(error).__name__)  # fmt: skip
@pytest.mark.parametrize("step", STEPS)
def test_a_save_that_fails_at_any_step_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "r.json"
    whole().save(path)
    before = path.read_bytes()
    reached = []

    def fail(*args, **kwargs):
        reached.append(step)
        raise error

    if "." in step:
        module, _, name = step.partition(".")
        monkeypatch.setattr(sys.modules[module], name, fail)
    else:
        failing = type("Failing", (io.BufferedWriter,), {step: fail, "close": io.BufferedWriter.close})
        monkeypatch.setattr(files, "open", lambda *a, **k: failing(io.FileIO(*a, **k)), raising=False)
    run = whole()
    run.cases = run.cases[:1]
    with pytest.raises(type(error)):
        run.save(path)
    assert reached
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    run.save(path)
    assert len(cudalab.load(path).cases) == 1


def limited(path: Path, code: str, **more):
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, **more)  # fmt: skip


SAVES = """
import sys
import cudalab
run = cudalab.load(sys.argv[1])
print("ready", flush=True)
while True:
    run.cases += run.cases[:40]
    try:
        run.save(sys.argv[1])
    except OSError as error:
        print(error.strerror)
        break
"""


def test_a_full_disk_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "r.json"
    whole().save(path)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails, as it does on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    child = limited(path, SAVES, preexec_fn=limit)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, out
    assert "File too large" in out
    assert 20_000 < path.stat().st_size <= 60_000
    assert len(cudalab.load(path).cases) > 7
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_killed_while_it_saves_leaves_a_file_that_can_be_read(tmp_path):
    path = tmp_path / "r.json"
    for delay in (0.002, 0.01, 0.02, 0.05):
        whole().save(path)
        child = limited(path, SAVES)
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.kill()
        child.communicate()
        assert len(cudalab.load(path).cases) >= 7
