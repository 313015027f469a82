"""Processes of the lab's own: how one is started, that none outlives the one it works for, and how one has ended."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from select import select
from threading import Thread

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
KILLED = "was killed by "

# The parent's own sys.path, and before anything is imported: `-m` would put the current folder first, where a user's
# kernel may well be called copy.py or select.py.
BOOT = (
    "import sys; end = 4 + int(sys.argv[3]); sys.path[:], given = sys.argv[end:], sys.argv[1:end]; "
    "from cudalab.base.child import begin; begin(given[0], int(given[1]), given[3:])"
)


def command(main: str, *given: str) -> list[str]:
    """What starts a process that calls a function, such as "cudalab.engine.worker.main", with these texts.

    It ends with the process that asks for this command, however that one ends.
    """
    return [sys.executable, "-c", BOOT, main, str(os.getpid()), str(len(given)), *given, *sys.path]


def begin(main: str, parent: int, given: Sequence[str]) -> None:
    """What such a process does."""
    end_with(parent)
    module, _, name = main.rpartition(".")
    getattr(importlib.import_module(module), name)(*given)


def end_with(pid: int) -> None:
    """End this process when the one of this id ends, however, be it the parent or not. At once, if it is no more."""
    if os.getppid() == pid:
        with contextlib.suppress(AttributeError, OSError):  # not Linux
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != pid:  # it died before this could be asked for
                os._exit(1)
            return
    try:
        alive = os.pidfd_open(pid)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # a kernel or a container that does not have it
        return
    Thread(target=lambda: (select([alive], [], []), os._exit(1)), daemon=True).start()


def kill(child: subprocess.Popen[bytes]) -> None:
    """End it and every process that it has started, at once; it leads a session of its own."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # not reaped yet, so the number is still its own
            os.killpg(child.pid, signal.SIGKILL)


def how(code: int) -> str:
    """How a process with this `returncode` ended, as the end of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{KILLED}{name}"
