"""Callables that the spec or the command line sets beside the entries: Triton, C++ extensions, whole libraries.

A rival takes the inputs as arrays of PyTorch, CuPy or NumPy, in the order of the reference's parameters, scalars by
name, and works on the library's current stream. With `out` it writes into its last arguments, one for each output that
is no input; otherwise it returns its result, a tuple of several.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from cudalab.backends import _cupy, _torch
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import cupy_missing, to_cupy, to_torch, torch_missing
from cudalab.device.operands import Bound, Operands, pieces, returning, writing
from cudalab.spec import rival
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda", "cpu")
timed = True
budget = "peers"
own_indexing = True


def missing(device: str) -> str | None:
    return None  # `bind` says which library a rival lacks


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.rivals)


def only_on(kernel: Kernel, variant: str) -> tuple[str, ...]:
    return rival.of(kernel.rivals[variant]).runs_on


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    chosen = rival.of(kernel.rivals[variant])
    device = "cpu" if operands.stream is None else "cuda"
    if reason := {"torch": torch_missing, "cupy": cupy_missing}.get(chosen.arrays, lambda device: None)(device):
        raise Unavailable(reason)
    if chosen.arrays == "cupy":
        _cupy.refuse_bfloat16(dtype)
    function = _torch.with_scalars(chosen.load(), operands)

    def inputs(on: Operands) -> list[Any]:
        return {"torch": _torch.tensors, "cupy": _cupy.arrays}.get(chosen.arrays, _plain)(on)

    if not chosen.out:
        pool = _cupy.pool() if chosen.arrays == "cupy" else _torch.pool(operands)
        return returning(function, inputs, operands, pool)

    def prepare(on: Operands) -> Callable[[], object]:
        arrays = [*inputs(on), *_outputs(chosen.arrays, on)]
        return lambda: function(*arrays)

    def as_users_call(on: Operands) -> Callable[[], Any]:
        arrays, like, empty_like = inputs(on), _outputs(chosen.arrays, on), _empty_like(chosen.arrays)

        def call() -> Any:
            results = tuple(empty_like(one) for one in like)
            function(*arrays, *results)
            return results[0] if len(results) == 1 else results

        return call

    return writing(prepare, operands, None if kernel.in_place else as_users_call)


def _plain(operands: Operands) -> list[Any]:
    return list(operands.inputs.values())


def _outputs(arrays: str, operands: Operands) -> list[Any]:
    """What it writes and does not update in place: those arrays are among its inputs."""
    own = {id(array) for array in operands.inputs.values()}
    view = {"torch": to_torch, "cupy": to_cupy}.get(arrays, lambda array: array)
    return [view(piece) for piece in pieces(operands.output) if id(piece) not in own]


def _empty_like(arrays: str) -> Callable[[Any], Any]:
    return importlib.import_module(arrays).empty_like
