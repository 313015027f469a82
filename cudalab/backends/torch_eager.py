"""Eager PyTorch: the formula as people write it, one launch per array operation."""

from __future__ import annotations

from cudalab.device import interop
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "composed"
own_indexing = False


def missing(device: str) -> str | None:
    return interop.torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.torch is not None
    return returning(kernel.torch, interop.to_torch_all, operands, interop.torch_pool(operands))
