"""Child processes: none is left behind, however a process ends; orders, answers and last words arrive."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from time import monotonic, sleep

import pytest

from cudalab.base import child, program
from cudalab.base.child import Child, Ended
from cudalab.base.errors import Unavailable
from cudalab.cli import diagnosis
from cudalab.device import machine

pytestmark = pytest.mark.process

ATTACHED = "import sys; from cudalab.base.child import end_with; end_with(int(sys.argv[1])); print(1, flush=True); "


def sleeps(*more):
    """A process that sleeps for a minute; `more`: the pid of another, to which it attaches itself."""
    code = f"{ATTACHED if more else ''}import time; time.sleep(60)"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, more)], stdout=subprocess.PIPE)


@pytest.mark.wall
def test_no_process_outlives_one_that_it_is_attached_to():
    other = sleeps()
    one = sleeps(other.pid)
    assert one.stdout.readline() == b"1\n"
    assert one.poll() is None
    other.kill()
    other.communicate()
    assert one.communicate(timeout=20) == (b"", None)
    assert one.returncode == 1
    assert sleeps(other.pid).communicate(timeout=20) == (b"", None)


@pytest.mark.wall
@pytest.mark.parametrize("prefix", [[], ["sh", "-c", '"$@"; true', "-"]], ids=["child", "grandchild"])
def test_what_is_started_does_not_outlive_who_started_it(tmp_path, prefix):
    """A profiler or a sanitizer may run between the two processes."""
    code = (
        f"import subprocess, sys; sys.path.insert(0, {str(tmp_path)!r}); from cudalab.base import child; "
        "sys.exit(subprocess.call([*sys.argv[1:], *child.command('mine.wait')]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, *prefix], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"begun\n"
    parent.kill()
    assert parent.communicate(timeout=20) == (b"", None)  # the pipe ends when the last that has it does


def test_a_command_has_its_texts_and_the_callers_path(tmp_path):
    command = child.command("mine.say", "a b", "", "3")
    assert subprocess.check_output(command, text=True, cwd=tmp_path.parent) == "('a b', '', '3')\n"


def test_a_signal_without_a_name_is_told_by_its_number():
    assert child.how(-250) == "was killed by signal 250"


# ---- orders and answers ------------------------------------------------------------------------------------------

MINE = """
import os, subprocess, sys, time
def echo(parent, *given):
    "Does what each order says."
    for order in parent.orders(dict):
        print(order.get("print", ""), end="", flush=True)
        print(order.get("say", ""), end="", file=sys.stderr, flush=True)
        time.sleep(order.get("sleep", 0))
        if "exit" in order:
            os._exit(order["exit"])
        if "raise" in order:
            raise ValueError(order["raise"])
        if "garbage" in order:
            os.write(parent._answers, order["garbage"].encode())
            time.sleep(60)
        if "fill" in order:
            parent.answer({"fill": "x" * order["fill"]})
            continue
        parent.answer({"order": order, "given": given, "path": sys.path, "session": os.getsid(0)})

def start(parent):
    "Starts a process that would sleep for a minute."
    for order in parent.orders(str):
        parent.answer(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
        time.sleep(60)

def found(parent):
    program = [sys.executable, "-c", "import colorsys"]
    parent.answer(subprocess.run(program, capture_output=True, text=True).stdout)

def say(*given):
    print(given)

def wait():
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)


def echo(*given, **options):
    return Child("mine.echo", *given, answers=dict, **options)


def answered(process, **order):
    process.send(order)
    return process.receive(60)


def test_a_paused_child_does_nothing_until_the_end():
    """The system tells when a child has stopped, and when it goes on."""
    with echo() as one:  # it waits for orders
        with one.paused():
            assert one._seal  # it has begun: it ends with this process
            assert os.waitid(os.P_PID, one.pid, os.WSTOPPED | os.WEXITED).si_status == signal.SIGSTOP
        assert os.waitid(os.P_PID, one.pid, os.WCONTINUED | os.WNOWAIT).si_status == signal.SIGCONT
    with one.paused():
        assert one.ended


def test_orders_are_answered_one_after_the_other():
    with echo("a b", "") as process:
        for number in range(3):
            order = {"number": number, "long": "x" * 300_000}
            answer = answered(process, **order)
            assert answer["order"] == order
        assert answer["given"] == ["a b", ""]
        assert answer["path"] == sys.path
        assert answer["session"] == process.pid != os.getsid(0)
        process.end()
        assert process.ended
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.wall
def test_a_long_answer_takes_time_in_proportion_to_its_length():
    """32 MB took six seconds when each part of it was searched with all parts before it."""
    with echo() as process:
        answered(process)
        start = monotonic()
        assert len(answered(process, fill=1 << 25)["fill"]) == 1 << 25
        assert monotonic() - start < 4
        assert answered(process, next=1)["order"] == {"next": 1}


def unread(pipe):
    """How many bytes wait to be read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_what_is_printed_before_an_answer_is_of_that_order(monkeypatch):
    """Also where the answer is read with an earlier line, and the select was before both."""
    with echo() as process:
        real = process._open.select
        ((answers, _),) = seal = real(60)  # ready: the line that begins each answer
        begun = unread(answers.fd)
        process.send({"say": "of another order"})
        while unread(answers.fd) == begun:  # the answer, before which the text was printed
            sleep(0.01)
        late = iter([seal])
        monkeypatch.setattr(process._open, "select", lambda timeout=None: next(late, None) or real(timeout))
        process.receive(60)
        monkeypatch.undo()
        with pytest.raises(Ended) as caught:
            answered(process, exit=3, say="last words")
    assert caught.value.said == "last words"


@pytest.mark.parametrize(
    ("order", "how", "said", "code"),
    [
        ({"exit": 3, "say": "one\nlast words\n"}, "ended with exit code 3", "one\nlast words\n", 3),
        ({"exit": 0}, "ended with exit code 0", "", 0),
        ({"raise": "no"}, "ended with exit code 1", "ValueError: no", 1),
        ({"garbage": "no JSON\n"}, r"wrote something that is not an answer to its answer pipe: b'no JSON\n'", "", -9),
        ({"garbage": "{"}, "wrote something that is not an answer to its answer pipe: b'{'", "", -9),
        ({"garbage": "{}\n"}, "wrote something that is not an answer to its answer pipe: b'{}", "", -9),
    ],
    ids=["exits", "ends", "raises", "garbage", "part of a line", "a forged answer"],
)
def test_the_end_of_a_child_is_known_with_its_last_words(order, how, said, code):
    with echo() as process:
        answered(process, say="of another order")
        with pytest.raises(Ended) as caught:
            answered(process, **order)
    ended = caught.value
    assert ended.how.startswith(how)
    assert said in ended.said and "of another order" not in ended.said
    assert (ended.code, ended.hung) == (code, False)
    assert process.ended


def test_a_silent_child_is_killed_unless_there_is_another_sign_of_life():
    with echo() as process:
        answered(process)
        process.send({"sleep": 1.0})
        assert process.receive(0.5, lambda: True)
        process.send({"sleep": 60})
        with pytest.raises(Ended, match=r"did not end within 0.3 s") as caught:
            process.receive(0.3, lambda: False)
        assert caught.value.hung and caught.value.code == -9


def test_what_a_child_prints_is_kept_and_passed_on_where_that_is_asked_for(capsys):
    for streams, shown in (((), ""), ((child.OUT,), "out"), ((child.OUT, child.ERR), "outerr")):
        with echo(echo=streams) as process:
            answered(process, print="out", say="err")
            process.end()
        assert (process.printed, process.said) == ("out", "err")
        assert sorted(capsys.readouterr().err) == sorted(shown)


def test_several_children_are_waited_for_at_once():
    with echo() as slow, echo() as quick, echo() as dies:
        for process in (slow, quick, dies):
            answered(process)
        slow.send({"sleep": 60})
        quick.send({"sleep": 0.2})
        found = []
        while not found:
            child.wait([slow, quick], 60)
            found = quick.poll()
        assert slow.poll() == []
        dies.send({"exit": 5})
        child.wait([slow, dies], 60)
        with pytest.raises(Ended, match="ended with exit code 5"):
            dies.poll(60) or dies.receive(60)


@pytest.mark.wall
def test_a_child_is_killed_with_what_it_started():
    with Child("mine.start", answers=int) as process:
        process.send("go")
        other = process.receive(60)
        os.kill(other, 0)
    deadline = monotonic() + 10
    while Path(f"/proc/{other}/stat").exists() and "Z" not in Path(f"/proc/{other}/stat").read_text().split():
        assert monotonic() < deadline
        sleep(0.02)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
def test_what_a_child_starts_does_not_import_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "colorsys.py").write_text("print('mine')")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.chdir(tmp_path / "here")
    with Child("mine.found", answers=str) as started:
        assert started.receive() == ""


def test_a_tool_may_stand_before_the_child():
    with echo(prefix=("env", "OTHER=1")) as process, pytest.raises(Ended, match="ended with exit code 7") as caught:
        answered(process, exit=7, say="words")
    assert caught.value.said == "words"
    with pytest.raises(FileNotFoundError):
        echo(prefix=("no-such-tool",))


@pytest.mark.parametrize(
    ("text", "lines", "found"), [("", 1, ""), ("a\n \n b \n\n", 1, "b"), ("a\n \n b \n\n", 3, "a | b")]
)
def test_the_last_lines(text, lines, found):
    assert child.last(text, lines) == found


# ---- programs of others ----------------------------------------------------------------------------------------------


def test_a_program_that_does_not_end_or_is_none_is_said_to_be(tmp_path):
    slow, none = tmp_path / "slow", tmp_path / "none"
    slow.write_text("#!/bin/sh\nsetsid sleep 60 &\necho $! >$0.pid\nsleep 60\n")
    slow.chmod(0o700)
    none.write_text("")
    with pytest.raises(Unavailable, match=f"slow did not end within 0.5 s; try it in a shell: {slow}"):
        program.run([str(slow)], 0.5)
    assert not Path(f"/proc/{(tmp_path / 'slow.pid').read_text().strip()}/cwd").exists()  # what it started is gone too
    with pytest.raises(Unavailable, match=f"cannot run {none}: Permission denied"):
        program.run([str(none)])
    with pytest.raises(Unavailable, match="cannot run git-gone: No such file"):
        program.run(["git-gone"])


def test_doctor_ends_beside_programs_that_do_not(monkeypatch, tmp_path):
    """Each in its line; the commit of a checkout is left out."""
    for name in ("git", "nvcc", "CXX"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setattr(program.run, "__defaults__", (0.1,))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CXX", str(tmp_path / "CXX"))
    found = {name: text for name, _, text in diagnosis.findings()}
    assert found["nvcc"].startswith("nvcc did not end within 0.1 s")
    assert found["host compiler"].startswith("CXX did not end within 0.1 s")
    assert machine.commit() == ""


def test_children_are_heeded_where_the_program_that_starts_them_ignored_them():
    code = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); from cudalab.base import program; "
        "print(program.run(['false']).returncode, signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)"
    )
    assert program.run([sys.executable, "-c", code], text=True).stdout == "1 True\n"
