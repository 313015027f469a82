"""One file per backend: one way to run an operation.

To add a backend, write `cudalab/backends/NAME.py` with the parts of the `Backend` protocol, in its order: `devices`,
`timed`, `budget`, `own_indexing`, `missing`, `variants`, `bind`. It is found by its file name; a name that begins with
`_` is a module that several backends share. The contract:

- Importing the file imports no optional library; functions import it. `missing` says what to type where it is absent.
- `bind` compiles, loads and allocates. What it returns is a `Bound`, made by `writing` (the backend writes into
  `operands.output`) or `returning` (it returns an array of its own); both are in `cudalab/device/operands.py`.
  A backend for a library that allocates its results uses `returning`, and calls the library as its users do, without
  `out=`. The clock then keeps the results of a batch, so that every run writes to memory of its own, as it does with
  `writing`; `call` and `api` times contain the allocation.
- Each row is the library's best documented form, said in the docstring of its file. What tunes does so in `bind`, on
  the case's operands, and keeps its choice: later runs do not tune. Only the output may change meanwhile.
- `Bound.run` enqueues the work once on `operands.stream` and does not wait for it. On the CPU it returns when done.
- `Bound.again` binds the same compiled code to other operands of the same shape. Graphs on cold data need it.
- `Bound.pool` gives a captured graph memory of its own where the library allocates results.
- `Bound.api` prepares the call as a user of the library makes it: it allocates a result and returns it.
- `only_on` in a backend's file, which may be left out, names devices by variant, for variants that run on fewer devices
  than `devices` says.
- `remarks(kernel)`, which may be left out, gives notes for its rows: what a reader must know of how they were made.
- A case that the backend cannot run raises Unavailable with the reason, which becomes the row's text.
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
    timed: bool  # False: it only checks, since its time would mean nothing
    budget: str  # the spec's budget for it: "budgets" (it runs the .cu), "peers", "composed" (it rounds at each step)
    own_indexing: bool  # True: it computes indices itself, so awkward shapes are checked

    def missing(self, device: str) -> str | None:
        """Why it cannot run on `device` here and what to type, or None."""

    def variants(self, kernel: Kernel) -> tuple[str, ...]:
        """Its variants of `kernel`: ("",) for one form, names of entries for several, () for none."""

    def bind(self, kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
        """Make `variant` ready to run on `operands`; raises CompileError or Unavailable."""


@cache
def by_name() -> dict[str, Backend]:
    """Every backend, by the name of its file: numpy and host first, then in alphabetical order."""
    names = [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]
    found: dict[str, Any] = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: found[name] for name in sorted(found, key=lambda n: (n not in ("numpy", "host"), n))}
