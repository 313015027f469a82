"""The `.cu` through PyCUDA's SourceModule: every entry, launched with arguments packed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cudalab.backends import _torch
from cudalab.base.errors import Unavailable
from cudalab.device import cuda, launch
from cudalab.device.arrays import torch_missing
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "budgets"
own_indexing = True


def missing(device: str) -> str | None:
    return cuda.missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    def as_a_function(on: Operands) -> Callable[[], Any]:
        if reason := torch_missing("cuda"):
            raise Unavailable(f"api is the time of {kernel.name}(x) on torch tensors: {reason}")
        tensors = _torch.tensors(on)
        # The spec of a kernel is a `cudalab.Kernel`, which can be called.
        call = _torch.with_scalars(cast(Callable[..., Any], kernel), on)
        return lambda: call(*tensors)

    def fresh(on: Operands) -> Bound:
        module = cuda.loaded_anew(kernel, dtype, launched)
        return writing(lambda other: launch.on_stream(kernel, variant, dtype, other, module), on)

    launched = tuple(one.entry for one in kernel.launches(variant, operands.by_name(kernel)))
    called = kernel.entry_of_call(operands.inputs)  # the entry that kernel(x) launches
    launch.set_constants(kernel, dtype, operands, launched, cuda.of_kernel(kernel, dtype, launched))
    constants = cuda.constants_of(kernel, dtype, launched)
    return writing(
        lambda on: launch.on_stream(kernel, variant, dtype, on),
        operands,
        as_a_function if variant == called and not kernel.in_place else None,
        cuda.kept_bytes(kernel, dtype, launched) + constants.unseen,
        fresh,
        constants.altered,
        launch.local_bytes(kernel, dtype, launched),
    )
