"""Standard output and standard error of the command, which may be full or closed, and the end of its process.

What the exit code says must not depend on who reads: 1 is a wrong answer or something slower, and nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import io
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn, TextIO

from cudalab.base import leftovers, program, scratch
from cudalab.base.bounded import Stopped, bounded, no_exit
from cudalab.base.errors import text

FAILED = 2  # the exit code of what could not be done
STOPPED = 130  # that after Ctrl-C
END = 10.0  # seconds


class _Stream(io.FileIO):
    """A stream that drops what it cannot write, and keeps the reason; a reader that has gone is none."""

    lost = ""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)
        except OSError as error:
            self.lost = error.strerror or str(error)
            return len(data)


def as_program(work: Callable[[], Any]) -> NoReturn:
    """Do the work of the command and end the process with its exit code; FAILED after an error of the lab's own.

    Only this function ends it: not a thread of a spec that calls `os._exit`, nor what a spec has left to be done at
    the end, which gets END seconds. Processes that a spec has started end, and threads do not hold this process up.
    """
    leave = os._exit
    program.heed_children()
    faulthandler.enable(2)  # a library that a spec loads may crash this process
    (sys.stdout, out), (sys.stderr, _) = _opened(sys.stdout), _opened(sys.stderr)
    with no_exit():
        code: Any = FAILED
        try:
            code = _done(work, out)
        finally:
            leave(code if isinstance(code, int) else FAILED)
    raise AssertionError


def _done(work: Callable[[], Any], out: _Stream | None) -> Any:
    """Do the work and what is to be done at the end. Returns the exit code."""
    code: Any = 0
    try:
        work()
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        code = STOPPED
    except Stopped as stop:
        print(f"Error: {stop}", file=sys.stderr)
        code = FAILED
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {text(error)}".removesuffix(": ")
        print(f"Error: {what}; a mistake of cudalab: please report it with these lines", file=sys.stderr)
        code = FAILED
    _flush()
    if out and out.lost:
        print(f"Error: standard output: {out.lost}", file=sys.stderr)
        code = FAILED
    _flush()
    with contextlib.suppress(Stopped, Exception), bounded(END):  # the answer is printed: nothing changes the code now
        atexit._run_exitfuncs()
    _flush()
    with contextlib.suppress(Exception):
        leftovers.end_children(scratch.cleaner())
    return code


def _flush() -> None:
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):  # what a thread of a spec has put in its place
            stream.flush()


class _Buffer(io.BufferedWriter):
    """What a standard stream writes to. Only the end of the process closes it, and no other stream on it."""

    def close(self) -> None:
        self.flush()


class _Text(io.TextIOWrapper):
    """A standard stream, which only the end of the process closes."""

    def close(self) -> None:
        self.flush()

    def detach(self) -> BinaryIO:
        raise io.UnsupportedOperation("detach")


def open_closed() -> None:
    """Open what is closed of standard input, output and error (`>&-`): else the next file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the least number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if not number else "w", closefd=False))  # noqa: SIM115


def _opened(stream: TextIO) -> tuple[TextIO, _Stream | None]:
    """The stream on its file as a `_Stream`; one that is not that of the process stays."""
    if not isinstance(stream, io.TextIOWrapper) or stream not in (sys.__stdout__, sys.__stderr__):
        return stream, None
    try:
        raw = _Stream(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return stream, None
    stream.flush()
    buffered = stream.line_buffering, stream.write_through
    return _Text(_Buffer(raw), stream.encoding, stream.errors, None, *buffered), raw
