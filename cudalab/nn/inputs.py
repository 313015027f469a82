"""Which tensors go to a kernel, and in what form."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from cudalab.call.kernel import Kernel

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def takes(kernel: Kernel, *inputs: Any) -> bool:
    """Whether the kernel takes these tensors: plain ones on one device, of one dtype that the kernel has.

    None is no tensor. If one requires a gradient, the kernel must have a `backward`. In torch.jit.trace only kernels
    whose shapes need no comparison take tensors: there sizes are tensors, which cannot be compared.
    """
    first = inputs[0]
    if torch.jit.is_tracing() and not (kernel.pointwise and len(inputs) == 1):
        return False
    if NAMES.get(first.dtype) not in kernel.dtypes:
        return False
    if not all(is_plain(x) and x.dtype == first.dtype and x.device == first.device for x in inputs):
        return False
    return kernel.backward is not None or not (torch.is_grad_enabled() and any(x.requires_grad for x in inputs))


def is_plain(x: Any) -> bool:
    """Whether x is a strided tensor on a GPU or the CPU, without a torch function of its own."""
    if x is None or not (x.is_cuda or x.is_cpu) or x.layout is not torch.strided or x.is_nested:
        return False
    # Tensors can have a torch function without being a subclass: torch.set_default_device adds one to all.
    return type(x) in (torch.Tensor, torch.nn.Parameter) or not has_torch_function_unary(x)


def autocast_widens(x: Any) -> bool:
    """Whether autocast may convert x, which a kernel takes, to float32: for norms, softmax and losses it does."""
    return x.dtype != torch.float32 and bool(torch.is_autocast_enabled(x.device.type))


def dense(x: Any) -> Any:
    """x itself if it is contiguous, else a copy."""
    return x.resolve_neg().contiguous()


def rows(x: Any, cols: int) -> Any:
    """x as a contiguous matrix with `cols` columns, at least one."""
    return dense(x).view(-1, cols)
