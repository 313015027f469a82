"""The spec's one-line expression as a PyCUDA ElementwiseKernel, with the `.cu`'s device functions in reach.

PyCUDA checks neither order nor shape nor dtype of the arguments. Here the argument list and the call are both made from
the spec's names, output first, so arguments cannot be swapped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from cudalab.base.errors import CompileError, InputError, Unavailable
from cudalab.device import cuda, driver
from cudalab.device.kept_data import constant_bytes
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType, dtype_of
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "budgets"
own_indexing = True


def missing(device: str) -> str | None:
    return cuda.missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.elementwise else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    from pycuda.gpuarray import GPUArray

    assert kernel.elementwise is not None
    if dtype.complex:
        raise Unavailable("PyCUDA's ElementwiseKernel uses its own complex type; see the entries' rows")
    names = (kernel.output, *operands.inputs)
    named = operands.by_name(kernel)
    for name in names:
        if named[name].shape != operands.output.shape or dtype_of(named[name]) != dtype:
            raise InputError(f"{kernel.name}: {name!r} must have the output's shape and dtype to be elementwise")
    options = (
        *kernel.flags, f"-I{kernel.cu.parent}", *(f"-D{k}={v}" for k, v in kernel.macros(dtype).items()),
    )  # fmt: skip
    text = entry_names.source(cuda_source.read(kernel.cu), kernel.cu.name)
    compiled, code = _compiled(
        text, kernel.cu.name, kernel.elementwise, names, dtype, options, driver.current_context()
    )

    def prepare(on: Operands) -> Callable[[], object]:
        by_name = on.by_name(kernel)
        arrays = [GPUArray(by_name[n].shape, by_name[n].dtype, gpudata=by_name[n].ptr) for n in names]
        return (lambda: compiled(*arrays, stream=on.stream)) if on.output.size else lambda: None

    return writing(prepare, operands, kept=cuda.kept_bytes(kernel, dtype, code=code) + constant_bytes(code))


@cache
def _compiled(
    text: str, file: str, expression: str, names: tuple[str, ...], dtype: DType, options: tuple[str, ...], context: int
) -> tuple[Any, bytes]:
    """The kernel and its machine code. Elements are called by their array's name in the expression: `x` is `x_[i]`."""
    from pycuda.driver import CompileError as Failed
    from pycuda.elementwise import ElementwiseKernel
    from pycuda.tools import VectorArg, get_or_register_dtype

    get_or_register_dtype(dtype.ctype, dtype.numpy)
    output, *inputs = names
    elements = "".join(f"const scalar_t {n} = {n}_[i]; " for n in inputs)
    made = ElementwiseKernel(
        [VectorArg(dtype.numpy, f"{n}_") for n in names],
        f"{elements}{output}_[i] = scalar_t({expression})",
        name=f"{file.removesuffix('.cu')}_elementwise",
        preamble=text,
        options=list(options),
    )
    try:
        with cuda.recorded() as code:
            made.generate_stride_kernel_and_types(False)  # compiles; PyCUDA caches it by this positional argument
    except Failed as error:
        raise CompileError(f"{file} as an ElementwiseKernel does not compile:\n{error.stderr}") from None
    return made, b"".join(code)
