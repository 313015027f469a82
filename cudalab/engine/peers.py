"""Whose an error is: that of an optional library, whose row is then skipped, or that of what the user wrote.

A library that does not work here is no error of the user: it is absent, it does not load, or it fails at a kernel of
the lab, which it is known to run. Only where `--only` names the backend is its failure an error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cudalab import backends
from cudalab.base import packages
from cudalab.base.errors import Unavailable
from cudalab.device import driver
from cudalab.device.arrays import DeviceArray
from cudalab.device.operands import Operands, output_of
from cudalab.engine.groups import Variant
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Kernel, Shape

SIMPLE = ("plus_one", "sum")  # kernels of the lab, which between them have a form for every library


def fault(variant: Variant, kernel: Kernel, operands: Operands, error: Exception) -> packages.DoesNotWork | None:
    """What is said of the library of a variant that failed before it ran; None where the library is not at fault.

    The forms of the lab's own kernels are known to be right. For a kernel of the user's, the library is tried with one
    of the lab's.
    """
    library = getattr(variant.backend, "library", "")
    if not library or isinstance(error, Unavailable) or "Memory" in type(error).__name__:
        return None
    if find.of_lab(kernel) and variant.backend.budget != "budgets":  # those run the .cu
        return packages.broken(library, error)
    own = _failure(variant.backend_name, operands.stream, operands.device)
    return packages.broken(library, own) if own else None


@cache
def _failure(backend_name: str, stream: Any, device: int) -> Exception | None:
    """What a backend raises for the first kernel of SIMPLE that it has a form of; None: it runs it."""
    backend, kind = backends.by_name()[backend_name], dtype("float32")
    for kernel in map(find.kernel, SIMPLE):
        for variant in backend.variants(kernel)[:1]:
            try:
                backend.bind(kernel, variant, kind, _small(kernel, stream, device)).run()
            except Unavailable:
                return None
            except Exception as error:  # a broken installation raises what it likes
                return error
            return None
    return None


def _small(kernel: Kernel, stream: Any, device: int) -> Operands:
    """Operands of a kernel's smallest size, apart from those that are judged."""
    inputs = kernel.make(next(iter(kernel.sizes.values())), kind := dtype("float32"))

    def put(array: np.ndarray) -> Any:
        if stream is None:
            return array
        memory = driver.pycuda().mem_alloc(max(array.nbytes, 1))
        driver.write(int(memory), array.tobytes(), driver.current_context())
        return DeviceArray(array.shape, array.dtype, int(memory), memory)

    def empty(name: str, shape: Shape, kind: np.dtype) -> Any:
        return put(np.zeros(shape, kind))

    placed = {name: put(array) for name, array in inputs.items()}
    return Operands(placed, output_of(kernel, kind, placed, empty), stream, device, scalars=kernel.scalars_of(inputs))
