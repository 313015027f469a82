"""Setting `__constant__` variables of code that is loaded on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from cudalab.base.errors import InputError
from cudalab.device import driver
from cudalab.device.kept_data import symbols
from cudalab.spec import entry_names
from cudalab.spec.cuda_source import blank_comments
from cudalab.spec.dtype import C_DTYPES


def set_constant(
    text: str, code: bytes, name: str, value: np.ndarray, of_module: Callable[[str], tuple[int, int]], context: int
) -> None:
    """Set a `__constant__` variable of a `.cu` with this text.

    `code` is its machine code, and `of_module` gives address and bytes of a variable where that is loaded: a PyCUDA
    module's `get_global`, or `driver.global_of` with code and context. What an earlier launch reads is not changed: the
    copy waits for it. Raises NotFound, and InputError for a value that does not fit.
    """
    known = entry_names.constants(blank_comments(text))
    full = entry_names.constant_named(name, known)
    pointer, size = of_module(_symbol(code, full))
    value, kind = np.ascontiguousarray(value), C_DTYPES.get(known[full])
    if kind and value.dtype != kind.numpy:
        raise InputError(f"constant {name}: got {value.dtype.name}, and it is declared as {known[full]} ({kind.name})")
    if value.nbytes != int(size):
        raise InputError(
            f"constant {name}: got {value.nbytes} bytes (shape {value.shape}), and it has {int(size)} bytes"
        )
    driver.write(int(pointer), value.tobytes(), context)


def _symbol(code: bytes, full: str) -> str:
    """The compiler's name of a variable: plain at file level, else with its namespaces."""
    *path, base = full.split("::")
    mangled = re.compile("_ZN?L?.*" + ".*".join(f"{len(part)}{part}" for part in (*path, base)) + "E?")
    found = {name for name, place, _ in symbols(code) if place}
    if not path and base in found:
        return base
    return next((name for name in sorted(found) if mangled.fullmatch(name)), base)
