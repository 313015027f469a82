"""Runs a user's file, and the functions in it, which may not end, or may end the whole process."""

from __future__ import annotations

import math
import os
import posix
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from types import FrameType
from typing import Any, TypeVar

from cudalab.base.deadline import ending
from cudalab.base.errors import CudalabError, SpecError, message_of, short

LIMIT = 120.0  # seconds, if nobody says otherwise
LEAST = 10.0  # of what a user allows: to import a library such as PyTorch takes some seconds
AGAIN = 1.0  # seconds after which code that caught the exception gets it again
GRACE = 10.0  # seconds after the limit at which code that does not return to Python ends the process
ENDS = ("_exit", "execv", "execve")  # functions of `os`: what else it has to end the process calls these

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)

T = TypeVar("T")
_limit = LIMIT
_advice = ADVICE = "does a loop never end?"  # for code that takes longer; ADVICE: where no option changes the limit
_ring: Callable[..., Any] | None = None  # what the alarm calls that is set
_others = False  # whether another alarm waits meanwhile


class _Here(threading.local):
    """What this thread is in."""

    guarding = 0  # how many `guarded`
    inside = False  # whether in a `bounded`


_here = _Here()


class Stopped(BaseException):
    """No Exception: the code that is stopped does not catch it by accident."""


class Interrupted(BaseException):
    """What the process does is no longer wanted: no fault of the code that it runs."""


def allow(seconds: float | None, option: str = "--timeout") -> None:
    """Let files that are loaded from now on take so long, and LEAST at least, as `option` says; None: LIMIT."""
    global _advice, _limit
    _limit = LIMIT if seconds is None else max(seconds, LEAST)
    longer = "a longer" if seconds is None or seconds >= LEAST else f"more than {LEAST:g} s as"
    _advice = ADVICE if seconds is None else f"give {longer} {option}"


@contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Raise Stopped in what runs inside if it takes too long, or where it would end the process by a call of `os`.

    `seconds`: how long is too long; None: what was allowed.

    A process that it forks ends with it. Standard output and error and what SIGNALS do
    are afterwards what they were. The time is limited in the main thread only, where signals arrive. Code that
    holds Python up in C beyond GRACE ends the process: see `cudalab.base.deadline`.
    """
    me, leave, before = os.getpid(), os._exit, _here.inside
    streams, handlers = (sys.stdout, sys.stderr), {number: signal.getsignal(number) for number in SIGNALS}
    limit = _limit if seconds is None else seconds
    limited = threading.current_thread() is threading.main_thread() and math.isfinite(limit)
    with no_exit(), _alarm(max(limit, 1e-3)) if limited else nullcontext():
        _here.inside = True
        try:
            yield
        finally:
            _here.inside = before
            sys.stdout, sys.stderr = streams
            for number in (number for number in SIGNALS if signal.getsignal(number) != handlers[number]):
                with suppress(ValueError, TypeError):  # in another thread than the main one, or set by C
                    signal.signal(number, handlers[number])
            if os.getpid() != me:  # in a fork: two processes would do the rest of the work
                leave(1)


@contextmanager
def guarded() -> Iterator[None]:
    """Bound each call of a spec's function inside (see `call`). One that is stopped ends the work: raises SpecError.

    For what a command does with a spec in its own process. A worker needs none: the process that started it watches it.
    """
    _here.guarding += 1
    try:
        yield
    except Stopped as stop:
        raise SpecError(str(stop)) from None
    finally:
        _here.guarding -= 1


def call(function: Callable[..., T], *given: Any, **by_name: Any) -> T:
    """What a function of a spec gives.

    A process that it forks ends with it. In `guarded` it is bounded, and what it raises becomes a SpecError that names
    it, but for MemoryError. One who tries whether something works does not catch Stopped: the next call would take as
    long.
    """
    if not _here.guarding or _here.inside:
        me, leave = os.getpid(), os._exit
        try:
            return function(*given, **by_name)
        finally:
            if os.getpid() != me:  # as in `bounded`
                leave(1)
    try:
        with bounded():
            try:
                return function(*given, **by_name)
            except (CudalabError, MemoryError, KeyboardInterrupt, SystemExit, Stopped, Interrupted):
                raise
            except BaseException as error:  # its text is made here, since its author may have written its __str__
                raise SpecError(f"{_named(function)} raised {message_of(error)}") from error
    except Stopped as stop:
        raise Stopped(f"{_named(function)}: {stop}") from None


def _named(function: Callable[..., Any]) -> str:
    """A function and the line of its file, as a message names it."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", "a function")
    return f"{code.co_filename}:{code.co_firstlineno}: {name}" if code else f"{name} of the spec"


@contextmanager
def no_exit() -> Iterator[None]:
    """Raise Stopped in what calls a function of ENDS in this process, also in another thread."""
    me, inside = os.getpid(), True

    def guarded(name: str, leave: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*given: Any, **named: Any) -> None:
            if (inside or _here.inside) and os.getpid() == me:  # not in a process that the code has forked
                first = next(iter((*given, *named.values())), "")
                raise Stopped(f"it ends the process with os.{name}({short(first)})")
            leave(*given, **named)

        return stopped

    places = [(module, name) for module in (os, posix) for name in ENDS]
    before = [getattr(module, name) for module, name in places]
    ours = [guarded(name, function) for (_, name), function in zip(places, before, strict=True)]
    for (module, name), function in zip(places, ours, strict=True):
        setattr(module, name, function)
    try:
        yield
    finally:
        inside = False
        for (module, name), function, own in zip(places, before, ours, strict=True):
            if getattr(module, name) is own:
                setattr(module, name, function)


def alarm_of_others() -> bool:
    """Whether an alarm is set that is not this module's, such as pytest-timeout's; it may wait for this module's."""
    return _others if _rings() else any(signal.getitimer(signal.ITIMER_REAL))


def _rings() -> bool:
    return _ring is not None and signal.getsignal(signal.SIGALRM) is _ring


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Stopped(f"it did not end within {seconds:g} s; {_advice}")

    global _others, _ring
    start, before = monotonic(), (_ring, _others)
    _others = alarm_of_others()
    handler: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, ring)
    _ring = ring
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)  # another's, such as pytest-timeout's
    limit = seconds + GRACE
    text = f"Error: code of a spec did not return to Python within {limit:g} s, see above; {_advice}"
    try:
        with nullcontext() if sys.gettrace() else ending(limit, text):  # a debugger may stop for longer
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        _ring, _others = before
        if remaining:
            signal.setitimer(signal.ITIMER_REAL, max(remaining - (monotonic() - start), 1e-3), interval)
