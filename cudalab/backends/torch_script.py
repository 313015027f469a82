"""TorchScript (`torch.jit.script`) of the eager form. Deprecated upstream; kept because users ask about it."""

from __future__ import annotations

import warnings
from types import FunctionType

from cudalab.backends import _torch
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel
from cudalab.spec.reference import plain

devices = ("cuda", "cpu")
timed = True
budget = "composed"
own_indexing = False
library = "torch"

PROFILING_RUNS = 5  # the profiling executor specialises and fuses in its first few runs


def missing(device: str) -> str | None:
    return torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.torch else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    import torch

    assert kernel.torch is not None
    if kernel.torch.__name__ == "<lambda>":
        raise Unavailable("TorchScript cannot read a lambda; write the function that torch= names with def")
    given = plain(operands.scalars).items()
    if bare := [f"{name}: {type(value).__name__}" for name, value in given if name not in kernel.torch.__annotations__]:
        raise Unavailable(f"TorchScript treats a parameter without a type as a tensor; annotate {', '.join(bare)}")
    tensors = _torch.tensors(operands)
    # A new function object each time: TorchScript keeps one graph per object, for the shapes of its first call.
    form = FunctionType(kernel.torch.__code__, kernel.torch.__globals__, kernel.torch.__name__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the docstring of this file says that it is deprecated
        try:
            scripted = torch.jit.script(form)
        except torch.jit.frontend.UnsupportedNodeError as error:
            if "import statements" not in str(error):
                raise
            raise Unavailable(
                "TorchScript cannot read an import in a function; write it at the top of the spec"
            ) from None
        for _ in range(PROFILING_RUNS):
            _torch.with_scalars(scripted, operands)(*tensors)
    return _torch.bound(scripted, operands)
