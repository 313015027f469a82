"""`check --watch`: the check again, whenever a file of its kernels changes."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep, strftime
from typing import NoReturn

import click

from cudalab.base.bounded import Interrupted
from cudalab.base.child import end_with, how
from cudalab.base.errors import CudalabError
from cudalab.cli import terminal
from cudalab.engine import process
from cudalab.spec import cuda_source, find, imported

LOOK = 0.1  # seconds between two looks at the files
SETTLE = 1.0  # seconds that a file may be absent or half written, while an editor replaces it
GRACE = 2.0  # seconds that a round has to end its workers
WHOLE, ENTRIES = b"w", b"e"  # what a round is told: all rows, or those of the `.cu` alone

State = dict[Path, tuple[int, ...]]
Check = Callable[[bool], int]  # (whether libraries are checked too) -> exit code


class Files:
    """The specs of kernels, what they import, their `.cu` and the headers of these. None of them is run."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._specs = self._found()
        self._seen = self._state()

    def changed(self) -> set[Path]:
        """The files that have come, gone or changed since the last call; empty where nothing has."""
        with suppress(CudalabError, OSError):  # a folder that is being replaced, say
            self._specs = self._found()
        now = self._state(self._seen)
        found = {path for path in now.keys() | self._seen.keys() if now.get(path) != self._seen.get(path)}
        if found:
            self._seen = self._state()
        return found

    def settled(self) -> set[Path]:
        """Wait until an editor has written what it is writing; the files that have changed meanwhile."""
        found, deadline = set[Path](), monotonic() + SETTLE
        while monotonic() < deadline:
            sleep(LOOK)
            more = self.changed()
            found |= more
            pairs = (path for spec in self._specs for path in (spec, spec.with_suffix(".cu")))
            if not more and all(self._seen.get(path) for path in pairs):
                break
        return found

    def _found(self) -> list[Path]:
        return [spec for name in self._names for spec in find.specs(name)]

    def _state(self, known: State | None = None) -> State:
        """What tells that a file was written, by path, an empty tuple where there is none; of `known` files if given.

        The text of a file says what else to look at, so it is read again only where something has changed.
        """
        paths = {*known, *self._specs} if known else self._all()
        return {path: _version(path) for path in paths}

    def _all(self) -> set[Path]:
        every = set(self._specs)
        for spec in self._specs:
            code = spec.with_suffix(".cu")
            every |= {code, *imported.on_disk(spec)}
            with suppress(OSError):
                every |= cuda_source.places_of_headers(code).keys()
        return every

    def __str__(self) -> str:
        names = [path.name for path in sorted(self._seen) if self._seen[path]]
        return ", ".join(names) if len(names) <= 4 else f"{len(names)} files"


def _version(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def watch(names: Sequence[str], check: Check) -> NoReturn:
    """Call `check` in a fork, and again after each change, until Ctrl-C; then exit with 130.

    A fork loads each spec anew, and is killed where a file changes while it runs. The next one starts its worker while
    it waits. Libraries are checked in the first round, and again where a Python file has changed.
    """
    files = Files(names)
    due, changed = True, set[Path]()  # whether libraries are to be checked; what the next round is about
    running = False
    try:
        while True:
            one = _Round(check)
            try:
                while not changed and running:  # the first round does not wait
                    sleep(LOOK)
                    changed = files.changed()
                if running:
                    changed |= files.settled()
                    _begin(changed)
                due = due or any(path.suffix == ".py" for path in changed)
                running, changed = True, set()
                one.tell(WHOLE if due else ENTRIES)
                while (code := one.ended()) is None and not (changed := files.changed()):
                    sleep(LOOK)
            finally:
                one.kill()
            if code is not None:
                due = due and code not in (0, 1)
                terminal.say(f"watching {files}; Ctrl-C ends" if code >= 0 else f"the check {how(code)}")
    except KeyboardInterrupt:
        terminal.stopped("stopped")


def _begin(changed: set[Path]) -> None:
    """Say why a round begins, on a clear screen where standard output is a terminal."""
    if terminal.live(sys.stdout):
        click.clear()
    names = ", ".join(sorted(path.name for path in changed))
    terminal.say(f"{strftime('%H:%M:%S')} {names} changed")


class _Round:
    """A fork that checks when it is told to. Its worker is started at once."""

    def __init__(self, check: Check) -> None:
        orders, self._orders = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._code: int | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Python drops what is raised in hooks of a fork
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads of NumPy's library: it prepares them for a fork
            self._pid = os.fork()
        if not self._pid:
            os.close(self._orders)
            _check(check, orders, parent)
        os.close(orders)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def tell(self, order: bytes) -> None:
        with suppress(BrokenPipeError):  # it has died: `ended` says how
            os.write(self._orders, order)

    def ended(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def kill(self) -> None:
        """End it with its worker: it gets GRACE seconds for that."""
        if self.ended() is None:
            os.kill(self._pid, signal.SIGTERM)
        deadline = monotonic() + GRACE
        while self.ended() is None:
            if monotonic() > deadline:
                os.kill(self._pid, signal.SIGKILL)
            sleep(0.01)
        os.close(self._orders)


def _check(check: Check, orders: int, parent: int) -> NoReturn:
    """In the fork: wait, check and end."""

    def changed(*signal_and_frame: object) -> NoReturn:
        raise Interrupted

    code = 2
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGTERM, changed)
        end_with(parent)
        with process.ahead():
            code = check(os.read(orders, 1) == WHOLE)
    except Interrupted:
        pass
    except CudalabError as error:
        terminal.say(f"Error: {error}")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 2
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
