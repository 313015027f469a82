"""NumPy: the spec's reference, in float32 where the input is no wider. The slow, obvious baseline."""

from __future__ import annotations

import numpy as np

from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cpu",)
timed = True
budget = "peers"
own_indexing = False


def missing(device: str) -> str | None:
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    narrow = dtype.floating and dtype.itemsize == 2  # NumPy computes these in float32 at best

    def work(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # the check judges NaN and overflow
            wide = [a.astype(np.float32) for a in arrays] if narrow else arrays
            return np.asarray(kernel.reference(*wide), order="C").astype(dtype.numpy, copy=False)

    return returning(work, lambda on: list(on.inputs.values()), operands)
