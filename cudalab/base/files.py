"""Writes files whole or not at all."""

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
    """Write the file whole or not at all. Raises OSError and then leaves the old file as it was."""
    target = Path(path).resolve()  # the file behind a link is replaced, not the link
    scratch = _beside(target)
    try:
        with scratch:
            scratch.write(data)
            scratch.flush()
            os.fsync(scratch.fileno())  # else a power failure may keep the new name without the data
        os.chmod(scratch.name, 0o644)
        os.replace(scratch.name, target)
    except BaseException:  # such as a full disk, or Ctrl-C
        with contextlib.suppress(OSError):
            os.unlink(scratch.name)
        raise


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
    try:
        with _beside(target) as scratch:
            os.unlink(scratch.name)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose another place with -o") from None
    return target


def _beside(target: Path) -> IO[bytes]:
    """A new file in the target's folder, which `write` renames to the target."""
    return tempfile.NamedTemporaryFile(dir=target.absolute().parent, prefix=f".{target.name}.", delete=False)
