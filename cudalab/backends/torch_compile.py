"""`torch.compile` (Inductor), compiled for the case's own shape: in its default mode, and with max-autotune.

It compiles `torch_native` where the spec has it, otherwise `torch`: Inductor has its own code for F.softmax or
F.layer_norm, and makes better kernels of them than of the formula. The row max_autotune is
mode="max-autotune-no-cudagraphs": Inductor times more configurations, and of a matrix product several kernels and
cuBLAS. CUDA Graphs are left out, since the lab captures every variant itself for graph times. Inductor keeps its
choices on disk, in $TORCHINDUCTOR_CACHE_DIR or the lab's cache: its own default is a folder in /tmp whose name others
can guess, and it runs the code that it finds there.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cudalab import host
from cudalab.backends import _torch
from cudalab.base import cache
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "composed"
own_indexing = False
library = "torch"
compiles_scalars = True

MODES = {"": "default", "max_autotune": "max-autotune-no-cudagraphs"}


def missing(device: str) -> str | None:
    if device == "cuda" and not (shutil.which("gcc") or shutil.which("cc")):
        return "Triton needs a C compiler; install gcc"
    return torch_missing(device) or (host.compiler_missing() if device == "cpu" else None)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(MODES) if kernel.torch else ()


def only_on(kernel: Kernel, variant: str) -> tuple[str, ...]:
    return ("cuda",) if variant else devices  # one compilation is enough where the row is mostly checked


def keep_code() -> None:
    """Let Inductor keep code in the lab's cache, its precompiled headers too, which take seconds to make."""
    place = cache.use_for("TORCHINDUCTOR_CACHE_DIR")
    from torch._inductor import codecache

    if hasattr(codecache, "_HEADER_DIR"):  # else they are made anew in each process
        codecache._HEADER_DIR = str(place / "precompiled_headers")


def load() -> None:
    """Import what compiling imports, which takes seconds: Dynamo and Inductor."""
    keep_code()
    importlib.import_module("torch._inductor.compile_fx")


def warm_up(number: int) -> None:
    """Compile a sum of one element on the GPU of this number.

    A first compilation hashes the sources of PyTorch and Triton, starts processes that compile, and asks for the GPU's
    properties. What is compiled later is the same with it and without.
    """
    import torch

    torch.cuda.set_device(number)  # as `bind` does
    with torch.no_grad():
        torch.compile(lambda x: x + 1, dynamic=False)(torch.zeros(1, device="cuda"))
    torch.cuda.synchronize()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    import torch

    form = kernel.torch_native or kernel.torch
    assert form is not None
    keep_code()
    compiled = torch.compile(own_code(form), mode=MODES[variant], dynamic=False)
    _torch.with_scalars(compiled, operands)(*_torch.tensors(operands))  # compiles and tunes
    return _torch.bound(compiled, operands)


def own_code(form: Callable[..., Any]) -> FunctionType:
    """The function with a code object of its own.

    Dynamo keeps what it compiled by code object: up to 8 versions, and `torch._dynamo.reset()` discards all of them,
    those of other variants of the group too.
    """
    if not isinstance(form, FunctionType):  # such as torch.nn.functional.gelu itself
        built_in = form

        def form(*tensors: Any) -> Any:
            return built_in(*tensors)

    return FunctionType(form.__code__.replace(), form.__globals__, form.__name__, form.__defaults__, form.__closure__)
