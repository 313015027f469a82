"""Callables that the spec or the command line sets beside the entries: Triton, C++ extensions, whole libraries.

A rival takes the inputs as arrays of PyTorch, CuPy, NumPy or JAX, in the order of the reference's parameters, scalars
by name, and works on the library's current stream. With `out` it writes into its last arguments, one for each output
that is no input; otherwise it returns its result, a tuple of several.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from cudalab.backends import _cupy, _jax, _torch
from cudalab.base.errors import InputError, Unavailable
from cudalab.device.arrays import cupy_missing, overlap, to_cupy, to_torch, torch_missing
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
    return rival.rival_of(kernel.rivals[variant]).runs_on


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    chosen = rival.rival_of(kernel.rivals[variant])
    device = "cpu" if operands.stream is None else "cuda"
    lacking = {"torch": torch_missing, "cupy": cupy_missing, "jax": _jax.missing}
    if reason := lacking.get(chosen.arrays, lambda device: None)(device):
        raise Unavailable(reason)
    if chosen.arrays == "cupy":
        _cupy.refuse_foreign(dtype)
    function = chosen.load()
    if inspect.iscoroutinefunction(function):
        raise InputError("it is an async function, and a rival is called without await; give a plain function")
    if chosen.arrays == "jax":
        _jax.refuse_wide(operands, pieces(operands.output))
        function = _jax.of_tensors(function, operands)
    function = _torch.with_scalars(function, operands)

    def inputs(on: Operands) -> list[Any]:
        return {"torch": _torch.tensors, "cupy": _cupy.arrays, "jax": _torch.tensors}.get(chosen.arrays, _plain)(on)

    if not chosen.out:
        pools = {"torch": lambda: _torch.pool(operands), "cupy": _cupy.pool}
        pool = pools.get(chosen.arrays, lambda: nullcontext)()
        bound = returning(function, inputs, operands, pool)
        note = [_jax.HANDED_OVER] if chosen.arrays == "jax" and device == "cuda" else []
        return _judged(replace(bound, remarks=lambda: note), operands)

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


def _judged(bound: Bound, operands: Operands) -> Bound:
    """The same, where a result that is none is refused by name. Once one was right, others are not looked at, as
    results are asked for while a run is timed; the reference still judges them.
    """
    right = False

    def output() -> Any:
        nonlocal right
        result = bound.output()
        if not right and (wrong := _wrong(result, operands)):
            raise InputError(wrong)
        right = True
        return result

    def again(on: Operands) -> Bound:
        assert bound.again is not None
        return _judged(bound.again(on), on)

    return replace(bound, output=output, again=again)


def _wrong(result: Any, operands: Operands) -> str:
    """What is wrong with what a rival returned, apart from its values; "" if nothing is."""
    kind = type(result).__name__
    if result is None:
        return "returns None; return the result, or, if it writes into its last argument, add :out (in Python 'out')"
    for piece in pieces(result):
        on_gpu = hasattr(piece, "__cuda_array_interface__")
        if not (on_gpu or hasattr(piece, "__array__")) or isinstance(piece, np.generic):
            what = f"a {kind}" if piece is result else f"a {kind} with a {type(piece).__name__}"
            return f"returns {what}; return an array, or a tuple of arrays for several outputs"
        if on_gpu is (operands.stream is None):
            here, there = ("CPU", "GPU") if on_gpu else ("GPU", "CPU")
            return f"returns an array on the {there}, but the inputs are on the {here}; return it on the inputs' device"
        if not _contiguous(piece):
            return "returns an array that is not C-contiguous; give a copy that is, such as y.contiguous()"
        for name, array in operands.inputs.items():
            if operands.updates(name) and overlap(piece, array):
                return f"updates its input {name!r} in place; add :out (in Python 'out') to get new contents each time"
    return ""


def _contiguous(array: Any) -> bool:
    return bool(array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous)


def _plain(operands: Operands) -> list[Any]:
    return list(operands.inputs.values())


def _outputs(arrays: str, operands: Operands) -> list[Any]:
    """What it writes and does not update in place: those arrays are among its inputs."""
    own = {id(array) for array in operands.inputs.values()}
    view = {"torch": to_torch, "cupy": to_cupy}.get(arrays, lambda array: array)
    return [view(piece) for piece in pieces(operands.output) if id(piece) not in own]


def _empty_like(arrays: str) -> Callable[[Any], Any]:
    return importlib.import_module(arrays).empty_like
