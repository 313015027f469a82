"""`__constant__` variables of code that is loaded on a GPU: sets them, and sees whether a kernel wrote to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cudalab.base.errors import InputError
from cudalab.device import driver
from cudalab.device.kept_data import CONSTANTS, symbols
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.cuda_source import blank_comments
from cudalab.spec.dtype import of_c
from cudalab.spec.kernel import Kernel

WROTE = "wrote to its __constant__ variable {!r}, which a kernel may only read"

OfModule = Callable[[str], tuple[int, int]]  # gives address and bytes of a variable of loaded code


def set_all(
    kernel: Kernel, values: Mapping[str, Any], code: bytes, of_module: OfModule, context: int
) -> None:  # fmt: skip
    """Set the `__constant__` variables of a kernel for these arrays and scalars, by name; see `set_constant`."""
    for name, value in kernel.constants_of(values).items():
        set_constant(cuda_source.read(kernel.cu), code, name, value, of_module, context)


def set_constant(text: str, code: bytes, name: str, value: np.ndarray, of_module: OfModule, context: int) -> None:
    """Set a `__constant__` variable of a `.cu` with this text.

    `code` is its machine code, and `of_module` gives address and bytes of a variable where that is loaded: a PyCUDA
    module's `get_global`, or `driver.global_of` with code and context. What an earlier launch reads is not changed: the
    copy waits for it. Raises NotFound, and InputError for a value that does not fit.
    """
    known = entry_names.constants(blank_comments(text))
    full = entry_names.constant_named(name, known)
    pointer, size = of_module(_symbol(code, full))
    value, kind = np.ascontiguousarray(value), of_c(known[full])
    if kind and value.dtype != kind.numpy:
        raise InputError(f"constant {name}: got {value.dtype.name}, and it is declared as {known[full]} ({kind.name})")
    if value.nbytes != int(size):
        raise InputError(f"constant {name}: got {value.nbytes} bytes (shape {value.shape}), and it has {size} bytes")
    driver.write(int(pointer), value.tobytes(), context)


class Watched:
    """The `__constant__` variables of loaded code as they are when this is made.

    A kernel can write to one through its address, and would find there what an earlier launch left. `unseen`: bytes of
    variables that the driver does not find.
    """

    def __init__(self, text: str, code: bytes, of_module: OfModule, context: int) -> None:
        self._context, self.unseen = context, 0
        found = {name: (place, size) for name, place, size in symbols(code) if place}
        named = {_symbol(code, full) for full in entry_names.constants(blank_comments(text))}
        self._values: dict[str, tuple[int, bytes]] = {}
        for name, (place, size) in found.items():
            if name in named or (place == CONSTANTS and size):
                try:
                    pointer, nbytes = map(int, of_module(name))
                except Exception:  # the driver's, of a variable that it does not show
                    self.unseen += size
                else:
                    self._values[name] = pointer, driver.read(pointer, nbytes, context)

    def altered(self) -> str:
        """What was written since, in words; the variable then has its value again. Waits for all work."""
        said = ""
        for name, (pointer, value) in self._values.items():
            if driver.read(pointer, len(value), self._context) != value:
                driver.write(pointer, value, self._context)
                said = said or WROTE.format(name)
        return said


def _symbol(code: bytes, full: str) -> str:
    """The compiler's name of a variable: plain at file level, else with its namespaces."""
    *path, base = full.split("::")
    mangled = re.compile("_ZN?L?.*" + ".*".join(f"{len(part)}{part}" for part in (*path, base)) + "E?")
    found = {name for name, place, _ in symbols(code) if place}
    if not path and base in found:
        return base
    return next((name for name in sorted(found) if mangled.fullmatch(name)), base)
