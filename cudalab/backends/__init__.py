"""One file per backend: one way to run an operation.

An installed package adds a backend of its own by an entry point of the group `cudalab.backends`, whose value is a
module with the same parts.

To add a backend to the lab, write `cudalab/backends/NAME.py` with the parts of the `Backend` protocol, in its order:
`devices`, `timed`, `budget`, `own_indexing`, `missing`, `variants`, `bind`. It is found by its file name; a name that
begins with `_` is a module that several backends share. The contract:

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
- `only_on(kernel, variant)` in a backend's file, which may be left out, gives the devices of a variant that runs on
  fewer than `devices` says.
- `library`, which may be left out, names in `cudalab.base.packages` the optional library that it runs. Where that
  library fails, and not the user's form, its rows are skipped (`cudalab/engine/peers.py`).
- `flushes`, which may be left out, says why its code takes subnormal numbers of float32 for 0, whatever the `.cu` says.
  Its rows are then right with 0 in place of them, and a note says so.
- `load()`, which may be left out, imports what `bind` would import and `missing` does not. A process calls it before
  its turn, while another one compiles.
- `warm_up(number)`, which may be left out, compiles something small on the GPU of this number, after `load()`: what a
  first compilation starts, reads and hashes takes seconds.
- `remarks(kernel)`, which may be left out, gives notes for its rows: what a reader must know of how they were made.
- `compiles_scalars = True`, which may be left out, says that the values of scalars are part of the compiled code. A
  check then leaves out other values, which would be compiled again and say nothing of that code.
- A case that the backend cannot run raises Unavailable with the reason, which becomes the row's text.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from cudalab.base import genuine, packages
from cudalab.base.errors import Unavailable, message_of
from cudalab.device.operands import Bound, Operands
from cudalab.results.record import COPY
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


NAME = re.compile(rf"(?!{COPY}$)[A-Za-z_]\w*")
GROUP = "cudalab.backends"  # of the entry points by which other packages add backends
PARTS = ("devices", "timed", "budget", "own_indexing", "missing", "variants", "bind")


@cache
def by_name() -> dict[str, Backend]:
    """Every backend, by its name: numpy and host first, then in alphabetical order."""
    names = [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]
    found: dict[str, Any] = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for point in entry_points(group=GROUP):
        if NAME.fullmatch(point.name):
            found.setdefault(point.name, _of_package(point))
        else:
            why = f"a backend cannot be named {point.name!r}; give a name in letters, digits and _ that is not {COPY}"
            found[f"backend_{len(found)}"] = Broken(f"{_owner(point)} ({point.value}): {why}")
    return {name: found[name] for name in sorted(found, key=lambda n: (n not in ("numpy", "host"), n))}


def missing(backend: Backend, device: str) -> str | None:
    """Why a backend cannot run on `device`, a `DoesNotWork` for a library that is there and fails; None if it can."""
    try:
        return backend.missing(device)
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken(getattr(backend, "library", "its library"), error)


def _of_package(point: EntryPoint) -> Any:
    """The backend of another package; where it is none, one whose row says why."""
    package = _owner(point)
    genuine.watch()  # a package's code may replace functions as a spec's may
    before = {*genuine.replaced(), *genuine.configured()}
    try:
        found = point.load()
    except Exception as error:  # whatever the package raises
        return Broken(
            f"the backend of {package} does not load ({point.value}): {message_of(error)}; update or uninstall it"
        )
    if names := sorted({*genuine.replaced(), *genuine.configured()} - before):
        what = genuine.refusal(names).removeprefix("the spec ")
        return Broken(f"the backend of {package} ({point.value}) {what}")
    if lacking := [part for part in PARTS if not hasattr(found, part)]:
        return Broken(f"the backend of {package} ({point.value}) has no {', '.join(lacking)}; update or uninstall it")
    return found


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "its package"


@dataclass(frozen=True)
class Broken:
    """Stands for a backend of another package that cannot be used."""

    why: str
    devices: tuple[str, ...] = ("cuda", "cpu")
    timed: bool = True
    budget: str = "peers"
    own_indexing: bool = False

    def missing(self, device: str) -> str | None:
        return self.why

    def variants(self, kernel: Kernel) -> tuple[str, ...]:
        return ("",)

    def bind(self, kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
        raise Unavailable(self.why)
