"""Where compiled things are kept between runs."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cudalab.base.errors import Unavailable

# Where every compiling library keeps what it has compiled.
VARIABLES = (
    "CUDALAB_CACHE", "PYCUDA_CACHE_DIR", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
)  # fmt: skip


@contextmanager
def fresh() -> Iterator[None]:
    """Processes started inside find every compiler's cache empty; what was there before is not touched."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    with tempfile.TemporaryDirectory(prefix="cudalab-fresh-", ignore_cleanup_errors=True) as scratch:
        for name in VARIABLES:
            empty = Path(scratch, name.lower())
            empty.mkdir()  # PyCUDA does not make the folder that it is given
            os.environ[name] = str(empty)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def folder(name: str) -> Path:
    """The cache's subfolder `name`, made if need be: in $CUDALAB_CACHE, $XDG_CACHE_HOME/cudalab or ~/.cache/cudalab."""
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
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cudalab"
    except RuntimeError:  # a container's user, of whom the system knows nothing
        raise Unavailable("there is no home folder for the cache; set CUDALAB_CACHE to a folder") from None
