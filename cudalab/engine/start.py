"""The first thing that a worker does: begin to load what takes longest.

The libraries of PyTorch take 0.2 s to load, which the interpreter need not wait for. Without a GPU a thread loads them
while the worker loads the lab, if a spec that it will run names PyTorch.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from cudalab.base.child import Parent
from cudalab.device import driver

LAB = Path(__file__).parents[2] / "kernels"  # of a checkout
NO_TORCH = "without torch"


def main(parent: Parent, shared: str, *kernels: str) -> None:
    """Do what `worker.main` does; where `kernels` begin with NO_TORCH, no variant that is chosen runs PyTorch."""
    names = tuple(name for name in kernels if name != NO_TORCH)
    loading = Thread(target=_load_torch, daemon=True)
    if names == kernels and any(map(_names_torch, names)) and driver.absent():
        import numpy  # noqa: F401 (the system loads one library at a time, and the lab needs these first)

        loading.start()
    from cudalab.engine import worker

    if loading.ident:
        loading.join()  # libraries that end the process do so now, and not while a variant runs
    worker.main(parent, shared, *names)


def _names_torch(kernel: str) -> bool:
    """Whether the spec of this name or path has the word; False for a folder, or what cannot be read."""
    path = Path(kernel) if os.sep in kernel else LAB / kernel
    with suppress(OSError, ValueError):
        return b"torch" in path.with_suffix(".py").read_bytes()
    return False


def _load_torch() -> None:
    """Load the libraries that `import torch` loads; it says what is wrong with them."""
    with suppress(Exception):
        found = find_spec("torch")
        if found and found.origin:
            ctypes.CDLL(str(Path(found.origin).parent / "lib" / "libtorch_python.so"))
