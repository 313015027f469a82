"""Ends this process where C code does not return to Python, so that no exception and no handler of a signal reaches it.

A thread of the C library does it, which needs no lock of Python's. It can call a function with one value: `fflush` of a
stream that holds the message, and then `_exit`.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

CODE = 2  # what could not be done
PAUSE = 0.2  # seconds between Python's stack, the message and the end
CLOCK_MONOTONIC, SIGEV_THREAD, FULLY_BUFFERED = 1, 2, 0  # <time.h>, <signal.h>, <stdio.h>


class _Event(ctypes.Structure):
    """`struct sigevent` of Linux where a pointer has 64 bits."""

    _fields_ = (
        ("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("rest", ctypes.c_char * 32),
    )  # fmt: skip


class _Times(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (("interval", ctypes.c_long * 2), ("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_held: set[int] = set()  # streams with messages that nobody may see yet


@contextlib.contextmanager
def ending(seconds: float, text: str) -> Iterator[None]:
    """End this process with CODE if what runs inside takes more than `seconds`.

    Standard error then gets Python's stack, and the line `text`. Where the system lacks such timers: the stack, and
    exit code 1.
    """
    functions = _functions()
    faulthandler.dump_traceback_later(seconds, exit=functions is None, file=2)
    with contextlib.ExitStack() as stack:
        stack.callback(faulthandler.cancel_dump_traceback_later)
        if functions:
            last = [(functions._exit, CODE, 2 * PAUSE)]
            with contextlib.suppress(OSError):  # standard error is closed
                stream = _holding(functions, f"{text}\n")
                stack.callback(_closed, functions, stream)
                last.append((functions.fflush, stream, PAUSE))
            for function, value, after in last:
                if (timer := _timer(functions, function, value, seconds + after)) is not None:
                    stack.callback(functions.timer_delete, timer)
        yield


@cache
def _functions() -> Any:
    """The C library, or None if it is not glibc, or pointers are shorter."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    found = ctypes.CDLL(None)
    needed = ("timer_create", "timer_settime", "timer_delete", "fdopen", "setvbuf", "fputs", "fflush", "__fpurge")
    if not all(hasattr(found, name) for name in needed):
        return None
    found.fdopen.restype = ctypes.c_void_p
    return found


def _holding(functions: Any, text: str) -> int:
    """A C stream on standard error that holds the text until it is flushed."""
    stream: int = functions.fdopen(os.dup(2), b"w")
    _held.add(stream)
    said = text.encode(errors="replace")
    functions.setvbuf(ctypes.c_void_p(stream), None, FULLY_BUFFERED, ctypes.c_size_t(len(said) + 1))
    functions.fputs(said, ctypes.c_void_p(stream))
    return stream


def _closed(functions: Any, stream: int) -> None:
    functions.__getattr__("__fpurge")(ctypes.c_void_p(stream))
    functions.fclose(ctypes.c_void_p(stream))
    _held.discard(stream)


def _timer(functions: Any, function: Any, value: int, seconds: float) -> ctypes.c_void_p | None:
    """A timer that calls a C function after so many seconds; None where the system gives no more timers."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    event, timer = _Event(value, 0, SIGEV_THREAD, address), ctypes.c_void_p()
    times = _Times((0, 0), int(seconds), int(seconds % 1 * 1e9))
    if functions.timer_create(CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
        return None
    functions.timer_settime(timer, 0, ctypes.byref(times), None)
    return timer


def _forked() -> None:
    """In a fork: the messages are its parent's, whose timers it has not got."""
    for stream in _held:
        ctypes.CDLL(None).__getattr__("__fpurge")(ctypes.c_void_p(stream))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
