"""The spec's Numba form: an expression of one element, or a launch function, mostly in a file beside the spec.

An expression becomes a `@cuda.jit` kernel with a thread an element. Kernels get Numba's device arrays, made once: a
kernel that is launched on arrays of another library makes them at each launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from cudalab.backends import _generated
from cudalab.base import advice, packages
from cudalab.base.errors import SpecError, Unavailable
from cudalab.device.arrays import DeviceArray, installed
from cudalab.device.operands import Bound, Operands, pieces, writing
from cudalab.spec import find
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, blocks
from cudalab.spec.reference import plain

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "numba-cuda"

FUNCTION = "launch"  # what a file defines
THREADS = 256
TEMPLATE = """import math

import numpy as np
from numba import cuda


@cuda.jit
def kernel({arrays}):
    i = cuda.grid(1)
    if i < {output}_.size:
{loads}
        {output}_[i] = np.{kind}({expression})
"""


@cache
def missing(device: str) -> str | None:
    if not installed("numba_cuda"):
        return f"numba-cuda is not installed; {advice.packages('numba-cuda')}"
    try:
        from numba import cuda

        if not cuda.is_available():
            return f"Numba sees no GPU; {advice.packages('numba-cuda[cu13]')}, or [cu12]"
        cuda.compile_ptx(_nothing, (), cc=(8, 0))  # Numba's own parts meet NumPy when the first kernel is compiled
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("numba-cuda", error, "numba-cuda, Numba and NumPy need releases that fit together")
    return None


def _nothing() -> None:
    """A kernel that does nothing."""


def variants(kernel: Kernel) -> tuple[str, ...]:
    expression = isinstance(kernel.numba, str) and not kernel.numba_file
    return ("",) if kernel.numba and (kernel.pointwise or not expression) else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    if any(array.dtype.kind == "V" for array in _arrays(operands)):
        raise Unavailable("Numba's device arrays have no bfloat16")
    from numba import cuda

    stream = cuda.external_stream(operands.stream.handle)
    launch = _launch(kernel, dtype)
    scalars = plain(operands.scalars)

    def prepare(on: Operands) -> Callable[[], object]:
        flat = isinstance(kernel.numba, str) and not kernel.numba_file
        views = [replace(array, shape=(array.size,)) if flat else array for array in _arrays(on)]
        arrays = [cuda.as_cuda_array(view) for view in views] if on.output.size else []
        return (lambda: launch(*arrays, **scalars, stream=stream)) if arrays else lambda: None

    bound = writing(prepare, operands)
    bound.run()  # compiles: a later launch must not, least of all while a graph is captured
    return bound


def _arrays(on: Operands) -> list[DeviceArray]:
    """The inputs, then the outputs that are no inputs."""
    own = {id(array) for array in on.inputs.values()}
    return [*on.inputs.values(), *(piece for piece in pieces(on.output) if id(piece) not in own)]


def _launch(kernel: Kernel, dtype: DType) -> Callable[..., object]:
    """What takes the arrays, scalars by name and the stream, and launches the form of a kernel."""
    if kernel.numba_file:
        found = getattr(find.loaded(kernel.numba_file), FUNCTION, None)
        if not callable(found):
            wanted = f"define {FUNCTION}(inputs..., output, stream)"
            raise SpecError(f"{kernel.numba_file} has no function {FUNCTION!r}; {wanted}")
        return found
    if not isinstance(kernel.numba, str):
        assert kernel.numba is not None
        return kernel.numba
    function = _generated.module(text(kernel.input_names, kernel.output, kernel.numba, dtype), "numba").kernel

    def launch(*arrays: Any, stream: Any) -> None:
        function[blocks(arrays[-1].size, THREADS), THREADS, stream](*arrays)

    return launch


def text(inputs: tuple[str, ...], output: str, expression: str, dtype: DType) -> str:
    """A kernel of one element a thread. In 16 bits the inputs are float32 in the expression."""
    load = "        {0} = np.float32({0}_[i])" if dtype.name == "float16" else "        {0} = {0}_[i]"
    return TEMPLATE.format(
        arrays=", ".join(f"{name}_" for name in (*inputs, output)),
        loads="\n".join(load.format(name) for name in inputs),
        output=output,
        expression=expression,
        kind=dtype.name,
    )
