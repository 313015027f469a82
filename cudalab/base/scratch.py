"""The scratch folder of a run: temporary files of all its processes, compilers too, that do not outlive it.

While this process holds the folder, a small process waits beside it (`cudalab.base.leftovers`). When the last holder
lets go, or when this process ends in whatever way, that one kills the processes of the run that are left and removes
the folder. If it was killed too, the next run removes the folder.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import RLock

from cudalab.base import leftovers
from cudalab.base.errors import Unavailable, why
from cudalab.base.leftovers import PREFIX, VARIABLE, WRITTEN


class _Scratch:
    """One folder, and the process that removes it."""

    def __init__(self) -> None:
        self.holders = 0
        self.path, self._lock = _made()
        self.cleaner: subprocess.Popen[bytes] | None = None
        given = {name: value for name, value in os.environ.items() if name != VARIABLE}
        with contextlib.suppress(OSError):  # without it, the next run removes what is left
            self.cleaner = subprocess.Popen(
                [sys.executable, "-I", "-S", leftovers.__file__, str(self.path)], stdin=subprocess.PIPE, cwd="/",
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(self._lock,), start_new_session=True,
                env=given,
            )  # fmt: skip

    def abandon(self) -> None:
        """Close what this process has of it; another process removes it."""
        if self.cleaner and self.cleaner.stdin:
            self.cleaner.stdin.close()
        os.close(self._lock)

    def close(self) -> None:
        """Remove it."""
        if self.cleaner:
            self.cleaner.communicate()
        if self.path.exists():
            leftovers.clean(self.path)
        os.close(self._lock)


class _Here:
    """What this process holds."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.scratch: _Scratch | None = None

    def path(self) -> Path | None:
        """This process's folder, or that of the run that started it."""
        if self.scratch:
            return self.scratch.path
        given = os.environ.get(VARIABLE)
        return Path(given) if given and leftovers.in_use(given) else None


_here = _Here()
_parents: list[_Scratch] = []  # of the process that this one is a fork of


def _forked() -> None:
    """In a fork: the folder is the parent's, and the fork's copy of the pipe must not hide that the parent ends."""
    if scratch := _here.scratch:
        scratch.abandon()
        _parents.append(scratch)
    _here.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def cleaner() -> int:
    """The process that cleans up after this one; 0 if there is none."""
    found = _here.scratch and _here.scratch.cleaner
    return found.pid if found else 0


def acquire() -> None:
    """Hold the folder until `release`; make it if there is none. Raises Unavailable if it cannot be made."""
    with _here.lock:
        if not _here.path():
            _here.scratch = _Scratch()
        if _here.scratch:
            _here.scratch.holders += 1


def release() -> None:
    """Let the folder go. After the last holder it is removed, and what still runs of the run is killed."""
    with _here.lock:
        if scratch := _here.scratch:
            scratch.holders -= 1
            if not scratch.holders:
                _here.scratch = None
                scratch.close()


@contextlib.contextmanager
def held() -> Iterator[Path]:
    """Hold the folder."""
    acquire()
    try:
        found = _here.path()
        assert found
        yield found
    finally:
        release()


@contextlib.contextmanager
def folder(name: str = "cudalab-") -> Iterator[Path]:
    """A new folder inside the scratch folder, removed at the end."""
    with held() as place, tempfile.TemporaryDirectory(prefix=name, dir=place, ignore_cleanup_errors=True) as made:
        yield Path(made)


@contextlib.contextmanager
def written(target: Path) -> Iterator[None]:
    """While inside, a process that is killed leaves nothing half-written beside `target`.

    Without a place for temporary files, it is left to the next run that writes there.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Unavailable, OSError):
            place = stack.enter_context(held())
            with open(place / WRITTEN, "ab", buffering=0) as list_:  # the processes of a run all add to it
                list_.write(os.fsencode(target.absolute()) + b"\0")
        yield


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """`given`, or this process's environment, for a process that belongs to the run: hold the folder while it runs."""
    found = dict(os.environ if given is None else given)
    if path := _here.path():
        found |= {VARIABLE: str(path), "TMPDIR": str(path)}
    return found


def _made() -> tuple[Path, int]:
    """A new folder with a name that cannot be guessed, and the descriptor that holds its lock."""
    while True:
        try:
            path = tempfile.mkdtemp(prefix=PREFIX)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as error:
            if error.filename and os.path.isdir(os.path.dirname(error.filename)):
                continue  # another process has just taken it for a leftover
            raise Unavailable(f"no folder for temporary files: {why(error)}; set TMPDIR to one") from None
        except OSError as error:
            raise Unavailable(f"no folder for temporary files: {why(error)}; set TMPDIR to one") from None
        leftovers.locked(lock)
        if os.path.isdir(path):
            return Path(path), lock
        os.close(lock)
