"""Programs of others, such as git and compilers, which may be broken, or may not end."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from time import sleep
from typing import Any

from cudalab.base import leftovers
from cudalab.base.errors import Unavailable

ANSWER = 30.0  # seconds for what takes a moment, such as --version
COMPILATION = 600.0  # seconds for what may take minutes
TRIES = 20
MARK = "CUDALAB_PROGRAM"  # in the environment of a program and of what it starts


def run(command: Sequence[str | os.PathLike[str]], seconds: float = ANSWER, **options: Any) -> Any:
    """Run a program with the options of `subprocess.run`; return its CompletedProcess, with what it printed.

    Raises Unavailable where it cannot be started, and where it does not end within `seconds`: it is killed, with all
    that it has started. They are known by a mark in their environment. They stay in the group of this process, so that
    what ends that group ends them.
    """
    name, mark = os.path.basename(command[0]), secrets.token_hex(8)
    options["env"] = {**(options.get("env") or os.environ), MARK: mark}
    heed_children()
    left = TRIES
    while True:
        try:
            return subprocess.run(command, capture_output=True, check=False, timeout=seconds, **options)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
            leftovers.end_processes(MARK, mark)
            if isinstance(stop, KeyboardInterrupt):
                raise
            raise Unavailable(f"{name} did not end within {seconds:g} s; try it in a shell: {command[0]}") from None
        except OSError as error:
            left -= 1
            if error.errno != errno.ETXTBSY or not left:  # busy: another thread's child may have it open, just written
                raise Unavailable(f"cannot run {command[0]}: {error.strerror}") from None
            sleep(0.05)


def heed_children() -> None:
    """Let this process learn how its children end. A program that ignores that leaves it so to those that it starts."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # in another thread than the main one
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
