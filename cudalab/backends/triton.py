"""The spec's Triton form: an expression of one element, or a launch function, mostly in a file beside the spec.

Each is autotuned, as Triton's documentation does it. An expression becomes a kernel that is tuned over elements a
program, warps, and what L2 is told about the input (`eviction_policy`), separately for every number of elements.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from cudalab.backends import _generated, _torch, _triton
from cudalab.base import advice
from cudalab.base.cache import use_for
from cudalab.base.errors import SpecError, Unavailable
from cudalab.device.arrays import installed, to_torch, torch_missing
from cudalab.device.operands import Bound, Operands, pieces, writing
from cudalab.spec import find
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "triton"

FUNCTION = "launch"  # what a file defines
SHAPES = ((1024, 4), (512, 4), (1024, 8), (2048, 8), (4096, 8), (256, 1), (256, 2))  # elements of a program, warps
HINTS = ("", "evict_last", "evict_first")
TEMPLATE = """import triton
import triton.language as tl


@triton.jit
def kernel({pointers}, n, BLOCK: tl.constexpr, HINT: tl.constexpr, LONG: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    if LONG:
        start = tl.program_id(0).to(tl.int64) * BLOCK
    i = start + tl.arange(0, BLOCK)
    inside = i < n
{loads}
    tl.store({output}_ptr + i, {expression}, inside)
"""


def missing(device: str) -> str | None:
    if not installed("triton"):
        return f"Triton is not installed; {advice.packages('triton')} (Linux)"
    return torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    expression = isinstance(kernel.triton, str) and not kernel.triton_file
    return ("",) if kernel.triton and (kernel.pointwise or not expression) else ()


def load() -> None:
    importlib.import_module("triton")


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    use_for("TRITON_CACHE_DIR")
    if dtype.complex:
        raise Unavailable("Triton has no complex numbers")
    tensors = _tensors(operands)
    launch = _torch.with_scalars(_launch(kernel, dtype, tensors), operands)
    if operands.output.size:
        launch(*tensors)  # tunes: a later launch must not, least of all while a graph is captured

    def prepare(on: Operands) -> Callable[[], object]:
        arrays = _tensors(on)
        return (lambda: launch(*arrays)) if on.output.size else lambda: None

    def as_users_call(on: Operands) -> Callable[[], Any]:
        import torch

        inputs, like = _torch.tensors(on), _tensors(on)[len(on.inputs) :]

        def call() -> Any:
            results = [torch.empty_like(one) for one in like]
            if on.output.size:
                launch(*inputs, *results)
            return results[0] if len(results) == 1 else tuple(results)

        return call

    return writing(prepare, operands, None if kernel.in_place else as_users_call)


def _tensors(on: Operands) -> list[Any]:
    """The inputs, then the outputs that are no inputs."""
    own = {id(array) for array in on.inputs.values()}
    return [*_torch.tensors(on), *(to_torch(piece) for piece in pieces(on.output) if id(piece) not in own)]


def _launch(kernel: Kernel, dtype: DType, tensors: list[Any]) -> Callable[..., object]:
    """What takes the inputs and the output as tensors and launches the form of a kernel."""
    if kernel.triton_file:
        found = getattr(find.loaded(kernel.triton_file), FUNCTION, None)
        if not callable(found):
            raise SpecError(f"{kernel.triton_file} has no function {FUNCTION!r}; define {FUNCTION}(inputs..., output)")
        return found
    if not isinstance(kernel.triton, str):
        assert kernel.triton is not None
        return kernel.triton
    text = _text(kernel.input_names, kernel.output, kernel.triton, dtype.floating and dtype.itemsize <= 2)
    return _pointwise(_tuner(text), tensors)


def _pointwise(tuner: Any, tensors: list[Any]) -> Callable[..., object]:
    """The tuned kernel with its best configuration, called without the tuner, which takes time on the host."""
    import triton

    n = tensors[-1].numel()
    long = n > 2**31 - 2**13  # the last program's indices do not fit in 32 bits
    if n:
        tuner[lambda values: (triton.cdiv(n, values["BLOCK"]),)](*tensors, n, LONG=long)
    best = tuner.best_config.all_kwargs() if n else {}
    function, grid = tuner.fn, (triton.cdiv(n, best["BLOCK"]) if n else 0,)
    return lambda *arrays: function[grid](*arrays, n, LONG=long, **best)


@cache
def _tuner(text: str) -> Any:
    """The kernel, to be tuned. Triton reads its source from a file, so the cache gets one."""
    import triton

    configs = [
        triton.Config({"BLOCK": block, "HINT": hint}, num_warps=warps) for hint in HINTS for block, warps in SHAPES
    ]
    return _triton.tuned(configs, key=["n"])(_generated.module(text, "triton").kernel)


def _text(inputs: tuple[str, ...], output: str, expression: str, widen: bool) -> str:
    load = "    {0} = tl.load({0}_ptr + i, inside, eviction_policy=HINT)" + (".to(tl.float32)" if widen else "")
    return TEMPLATE.format(
        pointers=", ".join(f"{n}_ptr" for n in (*inputs, output)),
        loads="\n".join(load.format(n) for n in inputs),
        output=output,
        expression=expression,
    )
