"""The processor's floating-point mode, which a library can change for a whole thread."""

from __future__ import annotations

import ctypes
from functools import cache

FE_DFL_ENV = -1  # <fenv.h> of glibc: the mode of a new process


def restore() -> None:
    """Let this thread round to nearest and keep subnormal numbers again.

    A library that was compiled with -Ofast lets whoever loads it flush subnormal numbers to zero, and so does
    `torch.set_flush_denormal(True)`. Comparisons would then take 0 for each of them. Without glibc nothing changes.
    """
    if set_mode := _fesetenv():
        set_mode(ctypes.c_void_p(FE_DFL_ENV))


@cache
def _fesetenv() -> ctypes._NamedFuncPointer | None:
    try:
        return ctypes.CDLL("libm.so.6").fesetenv
    except (OSError, AttributeError):
        return None
