"""Processes of the lab's own: none is left behind, whoever ends how."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cudalab.base import child

ENDS = "import sys, time; from cudalab.base.child import end_with; end_with(int(sys.argv[1])); print(1, flush=True); "


def attached(pid):
    """A process that would sleep for a minute, once it is attached to another."""
    code = ENDS + "time.sleep(60)"
    return subprocess.Popen([sys.executable, "-c", code, str(pid)], stdout=subprocess.PIPE)


def test_no_process_outlives_one_that_it_is_attached_to():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    one = attached(other.pid)
    assert one.stdout.readline() == b"1\n"
    assert one.poll() is None
    other.kill()
    other.wait()
    assert one.communicate(timeout=20) == (b"", None)
    assert one.returncode == 1
    late = attached(other.pid)
    assert late.communicate(timeout=20) == (b"", None)


def test_no_process_outlives_its_parent():
    start = (
        "import os, subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1], str(os.getpid())]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", start, ENDS + "time.sleep(60)"], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"1\n"
    parent.kill()
    assert parent.communicate(timeout=20) == (b"", None)  # the pipe ends when the last that has it does


STARTS = """
import subprocess, sys
from cudalab.base import child as children
sys.exit(subprocess.call([*sys.argv[1:], *children.command("mine.wait")]))
"""


@pytest.mark.parametrize("prefix", [[], ["sh", "-c", '"$@"; true', "-"]], ids=["child", "grandchild"])
def test_what_is_started_does_not_outlive_who_started_it(tmp_path, prefix):
    """A profiler or a sanitizer stands between the two."""
    (tmp_path / "mine.py").write_text("import time\ndef wait(): print('begun', flush=True); time.sleep(60)")
    starts = f"sys.path.insert(0, {str(tmp_path)!r})\n{STARTS}"
    parent = subprocess.Popen([sys.executable, "-c", f"import sys\n{starts}", *prefix], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"begun\n"
    parent.kill()
    assert parent.communicate(timeout=20) == (b"", None)  # the pipe ends when the last that has it does


def test_a_command_has_its_texts_and_the_callers_path(tmp_path):
    (tmp_path / "mine.py").write_text("def say(*given): print(given)")
    sys.path.insert(0, str(tmp_path))
    try:
        command = child.command("mine.say", "a b", "", "3")
    finally:
        sys.path.remove(str(tmp_path))
    assert subprocess.check_output(command, text=True, cwd=tmp_path.parent) == "('a b', '', '3')\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, "ended with exit code 0"), (3, "ended with exit code 3"), (-11, "was killed by SIGSEGV"),
     (-250, "was killed by signal 250")],
)  # fmt: skip
def test_how_one_ended_in_words(code, said):
    assert child.how(code) == said
