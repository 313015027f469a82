"""What a spec or a kernel's module does to end the process of pytest: an error that says so.

`os._exit(0)` ends a session without a report; a handler of atexit that calls it hides that tests have failed.
"""

from __future__ import annotations

import atexit
import os
import posix
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cudalab.base.bounded import ENDS, Stopped
from cudalab.base.errors import short

FAILED = 2  # the exit code of a process that is ended so

SESSION, BETWEEN, EXIT = "the session", "between", "exit"  # what the process is in
Aside = Callable[[], AbstractContextManager[Any]]  # what lets a message through pytest's capture
_now = BETWEEN
_sessions: list[Aside] = []  # a test may run a session of its own
PLUGIN = "pytest_timeout"  # how the threads of a plugin begin that ends pytest where it is asked to


def watch(aside: Aside) -> None:
    """From now on a call that ends this process is an error; in the context `aside` standard error is not captured.

    In the main thread it raises Stopped, and fails the test or the collection. A thread of its own, and a handler of
    atexit, end the process after a message, and not with exit code 0. Processes that are forked may end as they like.
    """
    global _now
    if not _sessions:
        atexit.register(_over)  # called after the handlers that the session registers, before earlier ones
    _sessions.append(aside)
    _now = SESSION
    for name in ENDS:
        if not isinstance(function := getattr(os, name), _End):
            setattr(os, name, end := _End(name, function, os.getpid()))
            setattr(posix, name, end)


def release() -> None:
    """The session has ended: who has started pytest may end the process, and handlers of atexit may not."""
    global _now
    _sessions.pop()
    if not _sessions:
        _now = BETWEEN
        atexit.register(_at_exit)  # what is registered last is called first


def _at_exit() -> None:
    global _now
    if _now == BETWEEN:  # no session runs in a thread of its own
        _now = EXIT


def _over() -> None:
    global _now
    _now = BETWEEN


class _End:
    """Stands for a function of ENDS in this process."""

    def __init__(self, name: str, function: Callable[..., Any], process: int) -> None:
        self._name, self._function, self._process = name, function, process

    def __call__(self, *given: Any, **named: Any) -> None:
        thread = threading.current_thread()
        if os.getpid() != self._process or _now == BETWEEN or thread.name.startswith(PLUGIN):
            self._function(*given, **named)
            return
        first = next(iter((*given, *named.values())), "")
        call = f"os.{self._name}({short(first)})"
        if _now == SESSION and thread is threading.main_thread():
            raise Stopped(f"it ends the process with {call}")
        who = "a handler of atexit" if _now == EXIT else f"the thread {thread.name}"
        with _sessions[-1]() if _sessions else nullcontext():
            sys.stderr.write(f"\nError: {who} ends pytest with {call}: a spec or a kernel's module has left it\n")
            sys.stderr.flush()
        code = first if self._name == "_exit" and isinstance(first, int) else 0
        leave = self._function if self._name == "_exit" else getattr(os._exit, "_function", os._exit)
        leave(code & 0xFF or FAILED)
