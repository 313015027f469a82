"""Runs a user's file that may not end, or that may end the whole process."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

LIMIT = 120.0  # seconds, if nobody says otherwise
LEAST = 10.0  # of what a user allows: to import a library such as PyTorch takes some seconds
AGAIN = 1.0  # seconds after which code that caught the exception gets it again
GRACE = 10.0  # seconds after the limit at which code that does not return to Python ends the process

_limit = LIMIT


class Stopped(BaseException):
    """No Exception: the code that is stopped does not catch it by accident."""


def allow(seconds: float) -> None:
    """Let files that are loaded from now on take so long, and LEAST at least."""
    global _limit
    _limit = max(seconds, LEAST)


@contextmanager
def bounded() -> Iterator[None]:
    """Raise Stopped in what runs inside if it takes too long, or where it would end the process by `os._exit`.

    The time is limited in the main thread only, where signals arrive. Code that holds Python up in C beyond GRACE ends
    the process with a traceback.
    """
    with _no_exit():
        if threading.current_thread() is not threading.main_thread() or not math.isfinite(_limit):
            yield
            return
        with _alarm(max(_limit, 1e-3)):
            yield


@contextmanager
def _no_exit() -> Iterator[None]:
    leave, me, inside = os._exit, os.getpid(), True

    def stopped(status: int) -> None:
        if inside and os.getpid() == me:  # not in a process that the code has forked
            raise Stopped(f"it ends the process by os._exit({status})")
        leave(status)

    os._exit = stopped  # type: ignore[assignment]
    try:
        yield
    finally:
        inside = False
        if os._exit is stopped:
            os._exit = leave


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Stopped(f"it did not end within {seconds:g} s; a longer --timeout allows more")

    start = monotonic()
    handler: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, ring)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)  # another's, such as pytest-timeout's
    if not sys.gettrace():  # a debugger may stop for longer
        faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if remaining:
            signal.setitimer(signal.ITIMER_REAL, max(remaining - (monotonic() - start), 1e-3), interval)
