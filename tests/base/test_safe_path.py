"""What a run starts by `python -c` imports no file of the current folder, also in Python 3.10."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cudalab.base import safe_path

NAMES = ("copy", "json", "select", "struct", "tokenize", "queue", "selectors", "tempfile", "ctypes", "weakref")
AS_3_10 = (
    "import sys; del sys.path[:1]\nfrom cudalab.base import safe_path\nsafe_path.KNOWN = False; safe_path.enforce()\n"
)
STARTS = {
    "subprocess": "import subprocess\nsubprocess.run([sys.executable, '-c', 'import ctypes, struct'], check=True)",
    "its tracker": (
        "from multiprocessing import resource_tracker\nresource_tracker.ensure_running()\n"
        "from multiprocessing.shared_memory import SharedMemory\nm = SharedMemory(create=True, size=8)\n"
        "m.close(); m.unlink()"
    ),
    **{
        how: (
            f"import multiprocessing, os\ncontext = multiprocessing.get_context({how!r})\n"
            "one = context.Process(target=os.getpid)\none.start(); one.join()\nassert one.exitcode == 0"
        )
        for how in ("forkserver", "spawn")
    },
}


@pytest.fixture
def python(tmp_path):
    """Runs a program in a folder with files that are called like modules; says which of them were executed."""
    folder, marker = tmp_path / "mine", tmp_path / "executed"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(marker)!r}, 'a').write({name!r} + ' ')\nraise SystemExit(7)\n"
        (folder / f"{name}.py").write_text(text)
    given = {name: value for name, value in os.environ.items() if name not in safe_path.VARIABLE}

    def run(program):
        marker.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=given, capture_output=True, text=True)
        return done, marker.read_text() if marker.exists() else ""

    return run


@pytest.mark.process
@pytest.mark.parametrize("what", STARTS)
def test_no_process_takes_files_of_the_current_folder(python, what):
    done, executed = python(AS_3_10 + STARTS[what])
    assert (done.returncode, executed) == (0, ""), done.stderr


@pytest.mark.process
def test_without_it_they_are_taken(python):
    """What the tests above would find."""
    _, executed = python(f"import sys; del sys.path[:1]\n{STARTS['subprocess']}")
    assert executed


def test_other_commands_are_left_as_they_are():
    for command in (
        "ls", ["ls"], [sys.executable, "file.py"], [sys.executable, "-m", "pip"], ["python", "-c", "pass"],
        [sys.executable, "-c", "from __future__ import annotations"], (sys.executable, "-c", b"pass"),
    ):  # fmt: skip
        assert safe_path.without_current_folder(command) is command
    assert safe_path.without_current_folder((sys.executable, "-c", "pass", "x")) == [
        sys.executable, "-c", safe_path.WITHOUT + "pass", "x"
    ]  # fmt: skip
