"""The `.cu` through CuPy's RawModule (NVRTC): every entry, launched on CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable

from cudalab import interop, source
from cudalab.backends import Bound, Operands, writing
from cudalab.dtypes import DType
from cudalab.errors import CompileError
from cudalab.interop import DeviceArray
from cudalab.spec import Kernel

devices = ("cuda",)
timed = True
composed = False
own_indexing = True


def missing(device: str) -> str | None:
    return interop.cupy_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    import cupy

    interop.use_cupy_stream(operands)
    text = source.with_c_names(source.read(kernel.cu), kernel.cu.name)
    options = (*interop.cupy_options(dtype), f"-I{kernel.cu.parent}")
    try:
        function = cupy.RawModule(code=text, options=options).get_function(variant)
    except cupy.cuda.compiler.CompileException as error:
        raise CompileError(f"{kernel.cu.name} does not compile with NVRTC:\n{error}") from None

    def prepare(on: Operands) -> Callable[[], object]:
        launch = kernel.launch(variant, on.named(kernel))
        args = tuple(interop.to_cupy(a) if isinstance(a, DeviceArray) else a for a in launch.args)
        grid, block = launch.dims
        return (lambda: None) if launch.empty else lambda: function(grid, block, args, shared_mem=launch.shared)

    return writing(prepare, operands)
