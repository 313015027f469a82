"""What the backends that run PyTorch share: tensors on the operands' memory, on the operands' stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from cudalab.device.arrays import to_torch
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec import find
from cudalab.spec.kernel import Kernel
from cudalab.spec.reference import plain


def tensors(operands: Operands) -> list[Any]:
    """The inputs as tensors; from here on torch works on the operands' stream."""
    if operands.stream is not None:
        import torch

        torch.cuda.set_device(operands.device)
        torch.cuda.set_stream(torch.cuda.ExternalStream(operands.stream.handle))
    return [to_torch(a) for a in operands.inputs.values()]


def pool(operands: Operands) -> Callable[[], AbstractContextManager[object]]:
    """For `Bound.pool`: a memory pool, so that no later tensor reuses memory that a captured graph writes."""
    if operands.stream is None:
        return nullcontext
    import torch

    own = torch.cuda.MemPool()
    return lambda: torch.cuda.use_mem_pool(own)


def bound(function: Callable[..., Any], operands: Operands) -> Bound:
    """A function of tensors, and of scalars by name, that returns its result."""
    return returning(with_scalars(function, operands), tensors, operands, pool(operands))


def form_of(kernel: Kernel, forms: Mapping[tuple[str, ...], Callable[..., Any]]) -> Callable[..., Any] | None:
    """A library's form of one of the lab's own kernels, by its name and those of its inputs; None: it has none."""
    return forms.get((kernel.name, *kernel.input_names)) if find.of_lab(kernel) else None


def with_scalars(function: Callable[..., Any], operands: Operands) -> Callable[..., Any]:
    """The function with the scalars of the operands, which it takes by name."""
    return partial(function, **plain(operands.scalars)) if operands.scalars else function
