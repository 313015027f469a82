"""Lets one run at a time write a file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from cudalab.base import cache, scratch
from cudalab.base.errors import InputError, Unavailable


@contextlib.contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a file that a run writes again and again. Raises InputError if another run of this user holds it.

    The claim is the lock of a file in the user's cache, where no other user can take it; it ends with the process.
    Without a cache, or on a file system without locks, the file is not held.
    """
    target = Path(path).resolve()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Unavailable, OSError):
            name = cache.folder("claims") / hashlib.sha256(os.fsencode(target)).hexdigest()
            stack.callback(os.close, _locked(name, target))
            stack.callback(name.unlink, missing_ok=True)
        with scratch.written(target):
            yield


def _locked(name: Path, target: Path) -> int:
    """Open the file that stands for `target`, with its lock, and write there which process has it."""
    while True:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = os.read(fd, 20).decode(errors="replace")
                who = f"process {pid}" if pid.isdigit() else "another run"
                said = f"{who} is writing {target}; wait until it ends, or give another file with -o"
                raise InputError(said) from None
            if name.exists() and os.path.samestat(os.fstat(fd), os.stat(name)):  # else its holder has just removed it
                os.truncate(fd, 0)
                os.write(fd, str(os.getpid()).encode())
                stack.pop_all()
                return fd
