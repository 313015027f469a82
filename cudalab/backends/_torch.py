"""What the backends that run PyTorch share: tensors on the operands' memory, on the operands' stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cudalab.device.arrays import to_torch
from cudalab.device.operands import Bound, Operands, returning


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
    """A function of tensors that returns its result."""
    return returning(function, tensors, operands, pool(operands))
