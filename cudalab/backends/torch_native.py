"""PyTorch at its best: the one call that a well-informed user makes, such as `torch.nn.functional.gelu`."""

from __future__ import annotations

from cudalab.backends import _torch
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "peers"
own_indexing = False
library = "torch"


def missing(device: str) -> str | None:
    return torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch_native else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.torch_native is not None
    return _torch.bound(kernel.torch_native, operands)
