"""A function in a fork of this process: its result, and the ways in which it gives none."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from cudalab.base.fork import Lost, in_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork")


def test_the_result_comes_back_and_nothing_else(capfd):
    changed = []

    def call():
        changed.append(1)
        print("a print", flush=True)
        return {"of": os.getpid(), "long": "x" * 1_000_000}

    found = in_fork(call, 10)
    assert found["of"] != os.getpid() and len(found["long"]) == 1_000_000
    assert not changed and capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("call", "seconds", "says"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), 60, "was killed by SIGSEGV"),
        (lambda: os._exit(0), 60, "ended with exit code 1"),
        (lambda: 1 // 0, 60, "ended with exit code 1"),
        (lambda: lambda: 0, 60, "ended with exit code 1"),  # cannot be pickled
        (lambda: time.sleep(60), 0.5, "(does not end|exit code 1)"),
    ],
    ids=["crash", "exit", "exception", "no data", "endless"],
)
def test_a_call_without_a_result(call, seconds, says, monkeypatch):
    begun, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: begun.append(fork()) or begun[0])
    with pytest.raises(Lost, match=says):
        in_fork(call, seconds)
    with pytest.raises(ChildProcessError):
        os.waitpid(begun[0], os.WNOHANG)  # it is gone


def test_beside_other_threads():
    held = threading.Lock()
    with held:
        thread = threading.Thread(target=held.acquire)
        thread.start()
        assert in_fork(lambda: 7, 10) == 7
    thread.join()
