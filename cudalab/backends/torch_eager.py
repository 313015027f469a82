"""Eager PyTorch: the formula as people write it, one launch per array operation."""

from __future__ import annotations

from cudalab.backends import _torch
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "composed"
own_indexing = False
library = "torch"


def missing(device: str) -> str | None:
    return torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.torch is not None
    return _torch.bound(kernel.torch, operands)
