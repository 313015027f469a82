"""Standard output and standard error of the command, which may be full or closed, and the end of its process.

What the exit code says must not depend on who reads: 1 is a wrong answer or something slower, and nothing else.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from cudalab.base import program
from cudalab.base.errors import text

FAILED = 2  # the exit code of what could not be done


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

    Threads that a spec has started and that go on do not hold the process up.
    """
    program.heed_children()
    (sys.stdout, out), (sys.stderr, _) = _opened(sys.stdout), _opened(sys.stderr)
    try:
        work()
        code: Any = 0
    except SystemExit as end:
        code = end.code
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {text(error)}".removesuffix(": ")
        print(f"Error: {what}; a mistake of cudalab: please report it with these lines", file=sys.stderr)
        code = FAILED
    sys.stdout.flush()
    if out and out.lost:
        print(f"Error: standard output: {out.lost}", file=sys.stderr)
        code = FAILED
    if any(one is not threading.current_thread() and not one.daemon for one in threading.enumerate()):
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else bool(code) * FAILED)
    sys.exit(code)


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
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, None, *buffered), raw
