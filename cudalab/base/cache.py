"""The folder that keeps compiled code between runs."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cudalab.base.errors import Unavailable

# Each library that compiles has a variable for its cache folder.
VARIABLES = (
    "CUDALAB_CACHE", "PYCUDA_CACHE_DIR", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
)  # fmt: skip


@contextmanager
def fresh() -> Iterator[None]:
    """Give the processes started inside empty compiler caches; the caches of the user are not touched."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    with tempfile.TemporaryDirectory(prefix="cudalab-fresh-", ignore_cleanup_errors=True) as scratch:
        for name in VARIABLES:
            empty = Path(scratch, name.lower())
            empty.mkdir()  # PyCUDA does not create this folder itself
            os.environ[name] = str(empty)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def folder(name: str) -> Path:
    """Return the subfolder `name` of the cache; create it if necessary.

    The cache is $CUDALAB_CACHE, else the user's cache folder: $XDG_CACHE_HOME/cudalab or ~/.cache/cudalab on Linux.
    """
    path = _base().absolute() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise Unavailable(f"cannot write to the cache {path}: {error.strerror}; set CUDALAB_CACHE") from None
    return path


def _base() -> Path:
    if chosen := os.environ.get("CUDALAB_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path

    try:
        # Older platformdirs return a path with ~ where this raises: the user of a container may have no home folder.
        return user_cache_path("cudalab").expanduser()
    except RuntimeError:
        raise Unavailable("there is no home folder for the cache; set CUDALAB_CACHE to a folder") from None
