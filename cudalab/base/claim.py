"""Lets one run at a time write a file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from cudalab.base import cache, scratch
from cudalab.base.errors import InputError


@contextlib.contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a file that a run writes again and again. Raises InputError if another run of this user holds it.

    The claim is the lock of a file in folders of the user, see `cache.places`, where no other user can take it; it ends
    with the process. Without such a folder on a file system with locks, the file is not held.
    """
    target = Path(path).resolve()
    key = hashlib.sha256(os.fsencode(target)).hexdigest()
    with contextlib.ExitStack() as stack:
        for place in cache.places("claims"):
            with contextlib.suppress(OSError):
                stack.callback(_freed, place / key, _locked(place / key, target))
        stack.enter_context(scratch.written(target))
        yield


def _locked(name: Path, target: Path) -> int:
    """Open the file that stands for `target`, with its lock, and write there which process has it, on which machine."""
    here = socket.gethostname()
    while True:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = re.fullmatch(r"(\d+) ([\w.-]*)", os.read(fd, 300).decode(errors="replace"))
                who = f"process {holder[1]}" if holder else "another run"
                who += f" on {holder[2]}" if holder and holder[2] != here else ""
                said = f"{who} is writing {target}; wait until it ends, or give another file with -o"
                raise InputError(said) from None
            if _is(fd, name):  # else its holder has just removed it
                with contextlib.suppress(OSError):  # a full disk: it is held without a name
                    os.truncate(fd, 0)
                    os.write(fd, f"{os.getpid()} {here}".encode())
                stack.pop_all()
                return fd


def _freed(name: Path, fd: int) -> None:
    """Let a lock go."""
    with contextlib.suppress(OSError):  # an empty file may stay
        name.unlink()
    os.close(fd)


def _is(fd: int, name: Path) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(fd), name.stat())
    except FileNotFoundError:
        return False
