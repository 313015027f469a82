"""The `.cu` through CuPy's RawModule: every entry, launched on CuPy arrays. Loads are as wide as the `.cu` makes them.

CuPy compiles with NVRTC, which lacks nvcc's host headers (INFINITY, <cfloat>, ...). nvcc compiles what fails there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from cudalab.backends import _cupy
from cudalab.base.errors import CompileError, Unavailable
from cudalab.device import cuda, driver, limits
from cudalab.device.arrays import DeviceArray, cupy_missing, to_cupy
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType, foreign
from cudalab.spec.kernel import Kernel, Launch

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "cupy"
flushes = _cupy.FLUSHES


_refused: dict[tuple[str, tuple[str, ...]], str] = {}  # what NVRTC said of a text with its options


def missing(device: str) -> str | None:
    return cupy_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    _cupy.use_stream(operands)

    if kernel.constants:
        raise Unavailable("the lab sets __constant__ variables through PyCUDA only; see the pycuda rows")

    @cache
    def compiled(entry: str, cooperative: bool) -> Any:
        return _function(kernel, entry, dtype, cooperative)

    def function(launch: Launch) -> Any:
        return _able(compiled(launch.entry, bool(launch.cooperative)), launch)

    def prepare(on: Operands) -> Callable[[], object]:
        launches = [launch for launch in kernel.launches(variant, on.by_name(kernel)) if not launch.empty]
        ready = [partial(function(one), *one.dims, _views(one), shared_mem=one.shared) for one in launches]

        def run() -> None:
            for each in ready:
                each()

        return ready[0] if len(ready) == 1 else run

    def as_users_call(on: Operands) -> Callable[[], Any]:
        import cupy

        if foreign(dtype.numpy):
            raise Unavailable(f"CuPy has no {dtype.name} arrays, so a call cannot return one")
        launch, written = kernel.launch(variant, on.by_name(kernel)), to_cupy(on.output)
        args = [to_cupy(a) if isinstance(a, DeviceArray) else a for a in launch.args]
        places = [i for i, a in enumerate(launch.args) if a is on.output]
        grid, block = launch.dims

        def call() -> Any:
            result = cupy.empty(written.shape, written.dtype)
            for place in places:
                args[place] = result
            if not launch.empty:
                function(launch)(grid, block, tuple(args), shared_mem=launch.shared)
            return result

        return call

    launched = tuple(one.entry for one in kernel.launches(variant, operands.by_name(kernel)))
    kept = cuda.kept_bytes(kernel, dtype, launched) + cuda.constant_bytes(kernel, dtype, launched)  # not watched here
    called = kernel.simple and variant == kernel.entry_of_call(operands.inputs)
    return writing(prepare, operands, as_users_call if called else None, kept)


def _views(launch: Launch) -> tuple[Any, ...]:
    """The arguments of a launch, arrays as CuPy's."""
    return tuple(to_cupy(a) if isinstance(a, DeviceArray) else a for a in launch.args)


def _able(function: Any, launch: Launch) -> Any:
    """The function with as much shared memory as the launch asks for. Raises Unavailable, and LaunchError."""
    if launch.cluster:
        raise Unavailable("CuPy does not take cluster=; see the pycuda rows, or put __cluster_dims__ in the .cu")
    if grow := limits.shared_to_opt_in(
        launch, function.shared_size_bytes, limits.most_shared(driver.current_context())
    ):
        function.max_dynamic_shared_size_bytes = grow
    return function


def _function(kernel: Kernel, entry: str, dtype: DType, cooperative: bool) -> Any:
    import cupy

    text, file = cuda_source.read(kernel.cu), kernel.cu.name
    options = _cupy.options(kernel, dtype)
    failed = _refused.get((text, options), "")
    names = entry_names.in_all(text, kernel.entries, (entry,))
    plain = entry not in entry_names.not_plain(text, names)
    for compiler in (*(() if failed else ("nvrtc",)), *(("nvcc",) if cuda.nvcc() else ())):
        name, expressions = entry, None
        if not plain and compiler == "nvrtc":
            name = entry_names.expression(text, entry)
            expressions = (name,)
        elif not plain:
            name = cuda.symbols_of(kernel, dtype, (entry,))[entry]
        source = entry_names.source(text, file, names, instantiate=compiler == "nvcc")
        groups = {"enable_cooperative_groups": True} if cooperative else {}
        try:
            module = cupy.RawModule(
                code=source, options=options, backend=compiler, name_expressions=expressions, **groups
            )
            return module.get_function(name)
        except cupy.cuda.compiler.CompileException as error:
            failed = _refused.setdefault((text, options), str(error))
    raise CompileError(f"{file} does not compile with NVRTC:\n{failed}")
