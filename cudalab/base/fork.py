"""Calls a function in a fork of this process, which survives what a user's code does there."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from select import select
from time import monotonic
from typing import Any, NoReturn, TypeVar

from cudalab.base.bounded import bounded
from cudalab.base.child import how

T = TypeVar("T")
HEAD = 8  # bytes with the length of what follows


class Lost(Exception):
    """The fork has ended without a result, or was silent for too long; the text says how."""


def in_fork(call: Callable[[], T], seconds: float) -> T:
    """The result of `call`, which can be pickled. What it prints is lost, and so is what it changes in this process.

    Without `os.fork`, which Windows lacks, it runs in this process. Raises Lost if it does not end within `seconds`, or
    ends the process, or raises an exception.
    """
    if not hasattr(os, "fork"):
        with bounded(seconds):
            return call()
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads: the fork has none, and locks that they hold cost it its time
        pid = os.fork()
    if not pid:
        _answer(call, seconds, writes)
    os.close(writes)
    try:
        return _received(pid, reads, monotonic() + seconds)
    finally:
        os.close(reads)


def _answer(call: Callable[[], object], seconds: float, writes: int) -> NoReturn:
    """In the fork: write the result and end."""
    leave = os._exit
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills it
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        with bounded(seconds):
            result = pickle.dumps(call())
        with open(writes, "wb") as pipe:
            pipe.write(len(result).to_bytes(HEAD, "little") + result)
    except BaseException:  # nothing may return into the parent's code
        leave(1)
    leave(0)
    raise AssertionError


def _received(pid: int, reads: int, deadline: float) -> Any:
    ended = None
    got = b""
    try:
        while len(got) < HEAD or len(got) < HEAD + int.from_bytes(got[:HEAD], "little"):
            if not select([reads], [], [], max(deadline - monotonic(), 0))[0]:
                raise Lost("does not end")
            part = os.read(reads, 1 << 16)
            if not part:
                ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                raise Lost(how(ended))
            got += part
    finally:
        if ended is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return pickle.loads(got[HEAD:])
