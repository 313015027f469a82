"""PyTorch at its best: the one call that a well-informed user makes, such as `torch.nn.functional.gelu`."""

from __future__ import annotations

from cudalab.device import interop
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "peers"
own_indexing = False


def missing(device: str) -> str | None:
    return interop.torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch_native else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.torch_native is not None
    return returning(kernel.torch_native, interop.to_torch_all, operands, interop.torch_pool(operands))
