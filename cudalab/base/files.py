"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from pathlib import Path
from typing import IO

from cudalab.base.errors import InputError, why
from cudalab.base.text import visible


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write the file whole or not at all; raises OSError, and leaves what was there."""
    target = Path(path).resolve()  # a link stays a link
    scratch = _beside(target)
    try:
        with scratch:
            scratch.write(data)
            scratch.flush()
            os.fsync(scratch.fileno())  # else a machine that stops may keep the new name and not what is in it
        os.chmod(scratch.name, 0o644)
        os.replace(scratch.name, target)
    except BaseException:  # a full disk, or Ctrl-C
        with contextlib.suppress(OSError):
            os.unlink(scratch.name)
        raise


def place(path: str | os.PathLike[str]) -> Path:
    """The file that `path` names, links followed. Raises InputError now if `write` would fail there later."""
    try:
        target = Path(path).resolve()
        target.exists()  # raises for a name that is too long
        str(target).encode()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a ring of links
        raise InputError(
            f"cannot write {visible(os.fspath(path))}: {why(error)}; choose another place with -o"
        ) from None
    folder = target.parent
    if target.exists() and not target.is_file() and not target.is_dir():
        raise InputError(f"{target} is no regular file; give another, such as -o results.json")
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file, such as -o {target / 'results.json'}")
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; make it first: mkdir -p {shlex.quote(str(folder))}")
    try:
        with _beside(target) as scratch:
            os.unlink(scratch.name)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose another place with -o") from None
    return target


def _beside(target: Path) -> IO[bytes]:
    """A new file in the target's folder, to be renamed to it."""
    return tempfile.NamedTemporaryFile(dir=target.absolute().parent, prefix=f".{target.name}.", delete=False)
