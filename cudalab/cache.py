"""Where compiled things are kept between runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from cudalab.errors import Unavailable


def folder(name: str) -> Path:
    """The cache's subfolder `name`, made if need be: in $CUDALAB_CACHE, $XDG_CACHE_HOME/cudalab or ~/.cache/cudalab."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("CUDALAB_CACHE") or Path(base) / "cudalab").absolute() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise Unavailable(f"cannot write to the cache {path}: {error.strerror}; set CUDALAB_CACHE") from None
    return path
