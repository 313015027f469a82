"""`torch.compile` (Inductor) of the eager form, compiled for the case's own shape."""

from __future__ import annotations

import shutil

from cudalab import host
from cudalab.backends import _torch
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "composed"
own_indexing = False


def missing(device: str) -> str | None:
    if device == "cuda" and not (shutil.which("gcc") or shutil.which("cc")):
        return "Triton needs a C compiler; install gcc"
    return torch_missing(device) or (host.compiler_missing() if device == "cpu" else None)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    import torch

    assert kernel.torch is not None
    torch._dynamo.reset()  # otherwise later shapes use the first one's tuning
    compiled = torch.compile(kernel.torch, dynamic=False)
    compiled(*_torch.tensors(operands))
    return _torch.bound(compiled, operands)
