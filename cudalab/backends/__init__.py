"""One file per backend: one way to run an operation. A backend is a module that fits the `Backend` protocol.

To add one, write `cudalab/backends/NAME.py` with the names below; it is found by its file name. Optional
libraries are imported inside functions only.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any, Protocol

from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel


class Backend(Protocol):
    devices: tuple[str, ...]  # where it runs: "cuda", "cpu"
    timed: bool  # False: it checks, and a time would mean nothing
    budget: str  # which of the spec's holds: "budgets" (it runs the .cu), "peers", "composed" (it rounds at each step)
    own_indexing: bool  # it computes indices itself, so awkward shapes are worth a check

    def missing(self, device: str) -> str | None:
        """Why it cannot run on `device` here and what to type, or None."""

    def variants(self, kernel: Kernel) -> tuple[str, ...]:
        """What it makes of `kernel`: ("",) for one form, entries' names for several, () for none."""

    def bind(self, kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
        """Make `variant` ready to run on `operands`; raises CompileError or Unavailable."""


@cache
def by_name() -> dict[str, Backend]:
    """Every backend, by the name of its file: numpy and host first, then in alphabetical order."""
    names = [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]
    found: dict[str, Any] = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: found[name] for name in sorted(found, key=lambda n: (n not in ("numpy", "host"), n))}
