"""Writes files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import stat
from functools import partial
from pathlib import Path
from typing import IO

from cudalab.base import leftovers, scratch
from cudalab.base.errors import InputError, why
from cudalab.base.text import visible

FREE = 1 << 16  # bytes that a disk must have room for, or no run begins


def write(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Write the file whole or not at all. Raises OSError and then leaves the old file as it was.

    A new file has `mode` less the umask; a file that was there keeps its mode and, if possible, its owner.
    """
    target = Path(path).resolve()  # the file behind a link is replaced, not the link
    with scratch.written(target), _beside(target, mode) as half:
        try:
            half.write(data)
            half.flush()
            _like(target, half.fileno())
            os.fsync(half.fileno())  # else a power failure may keep the new name without the data
            os.replace(half.name, target)
        except BaseException:  # such as a full disk, or Ctrl-C
            with contextlib.suppress(OSError):
                os.unlink(half.name)
            raise
    _sync(target.parent)


def place(path: str | os.PathLike[str]) -> Path:
    """The file that `path` names, with links resolved. Raises InputError now if `write` would fail later."""
    try:
        target = Path(path).resolve()
        target.exists()  # raises for a name that is too long
        str(target).encode()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that form a loop
        raise InputError(
            f"cannot write {visible(os.fspath(path))}: {why(error)}; choose another place with -o"
        ) from None
    folder = target.parent
    if target.exists() and not target.is_file() and not target.is_dir():
        raise InputError(f"{target} is not a regular file; give another, such as -o results.json")
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file, such as -o {target / 'results.json'}")
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; make it first: mkdir -p {shlex.quote(str(folder))}")
    leftovers.sweep_halves(target)
    try:
        half, most = len(os.fsencode(_half(target))), os.pathconf(folder, "PC_NAME_MAX")
        if 0 < most < half:
            raise InputError(f"the name of {target} has {half - most} bytes too many; give a shorter one with -o")
        _try(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose another place with -o") from None
    return target


def _try(target: Path) -> None:
    """Write FREE bytes to the target's folder, to a file without a name where the file system has such files."""
    try:
        unnamed = os.open(target.parent, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        with scratch.written(target), _beside(target) as half:
            try:
                half.write(bytes(FREE))
                half.flush()
            finally:
                os.unlink(half.name)
        return
    with open(unnamed, "wb") as file:
        file.write(bytes(FREE))


def _half(target: Path) -> str:
    """A new name for what is written of a file."""
    return f".{target.name}.{secrets.token_hex(4)}.half"


def _beside(target: Path, mode: int = 0o666) -> IO[bytes]:
    """A new file in the target's folder, which `write` renames to the target. It is locked while it is open."""
    while True:
        name = target.absolute().parent / _half(target)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode if not target.exists() else 0o600)
        leftovers.locked(fd)
        if name.exists():  # else another process has just taken it for a leftover
            return open(name, "wb", opener=partial(_opened, fd))
        os.close(fd)


def _opened(fd: int, name: str, flags: int) -> int:
    return fd


def _like(target: Path, fd: int) -> None:
    """Give a new file mode and owner of the file that it replaces, as far as the system allows it."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = os.fstat(fd)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(fd, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)


def _sync(folder: Path) -> None:
    """Write the new name to the disk as well. Some file systems cannot."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
