"""Finding a GPU, and compiling a `.cu` for it through PyCUDA."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalab.base.errors import CompileError, Unavailable
from cudalab.device import interop
from cudalab.device.interop import DeviceArray
from cudalab.device.operands import Operands
from cudalab.spec import cuda_source
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu

INSTALL = "pip install -e '.[cuda12]' in the checkout (or cuda13, as your driver has; it needs a CUDA toolkit)"
FLAGS = ("-std=c++17",)
LAB = Path(__file__).with_name("lab.cu")


@cache
def missing() -> str | None:
    """Why no kernel can run on a GPU here, and what to type; None if one can. Asks the driver, not a library."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1 is not there)"
    count, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if code := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return f"the NVIDIA driver does not start (CUDA error {code}); does nvidia-smi work?"
    if not count.value:
        return "the NVIDIA driver sees no GPU; is one hidden by CUDA_VISIBLE_DEVICES?"
    driver.cuDeviceGetName(name, len(name), 0)
    if b"no GPU" in name.value and not os.environ.get("CUDALAB_FAKE_GPU"):
        return f"libcuda is a stand-in: {name.value.decode()}"
    if not interop.installed("pycuda"):
        return f"PyCUDA is not installed; {INSTALL}"
    try:
        import pycuda.driver  # noqa: F401
    except ImportError as error:
        return f"PyCUDA does not load: {error}; reinstall it against this machine's CUDA toolkit"
    if nvcc() is None:
        return "nvcc is not on PATH; install the CUDA toolkit, or add its bin folder to PATH"
    return None


def nvcc() -> str | None:
    """The compiler that PyCUDA will call."""
    root = os.environ.get("CUDA_ROOT") or os.environ.get("CUDA_HOME")
    return shutil.which("nvcc") or (shutil.which(str(Path(root) / "bin" / "nvcc")) if root else None)


@cache
def card(index: int) -> Card:
    """Of GPU number `index`, which is there."""
    import pycuda.driver as driver

    driver.init()
    device = driver.Device(index)
    return Card(".".join(map(str, device.compute_capability())), device.name())


def card_of(device: object) -> Card | None:
    """The card of an opened device; None for the CPU."""
    index: int | None = getattr(device, "index", None)
    return None if index is None else card(index)


def open_gpu(index: int, reason: str | None) -> Gpu:
    """The GPU number `index`; `reason` is what `missing` said. Raises Unavailable."""
    if reason:
        raise Unavailable(f"no GPU to use: {reason}; `cudalab doctor` says more, --device cpu runs on the CPU")
    import pycuda.driver as driver

    driver.init()
    if index >= driver.Device.count():
        raise Unavailable(f"no GPU number {index}: there are {driver.Device.count()}, counted from 0")
    from cudalab.device.gpu import Gpu

    return Gpu(index)


def compiled(text: str, name: str, macros: Mapping[str, str] | None = None, include: Path | None = None) -> Any:
    """A PyCUDA module of `text`, compiled for the current device and loaded into the current context.

    PyCUDA keeps compiled code on disk. Raises CompileError with the compiler's lines.
    """
    return _compiled(text, name, tuple((macros or {}).items()), include, current_context())


@cache
def libcuda() -> ctypes.CDLL:
    """The driver itself."""
    return ctypes.CDLL("libcuda.so.1")


def current_context() -> int:
    """The address of the CUDA context that is current: what is loaded belongs to it alone."""
    context = ctypes.c_void_p()
    libcuda().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


@cache
def _compiled(text: str, name: str, macros: tuple[tuple[str, str], ...], include: Path | None, context: int) -> Any:
    from pycuda.compiler import SourceModule

    with _saying_what_failed(name):
        return SourceModule(cuda_source.with_c_names(text, name), **_options(macros, include))


def cubin(text: str, name: str, macros: Mapping[str, str], include: Path, architecture: str) -> bytes:
    """The code of `text` for an architecture such as sm_90, as `compiled` has it and PyCUDA keeps it on disk."""
    return _cubin(text, name, tuple(macros.items()), include, architecture)


@cache
def _cubin(text: str, name: str, macros: tuple[tuple[str, str], ...], include: Path, architecture: str) -> bytes:
    from pycuda.compiler import compile as compile_

    with _saying_what_failed(name):
        return compile_(cuda_source.with_c_names(text, name), arch=architecture, **_options(macros, include))


def _options(macros: tuple[tuple[str, str], ...], include: Path | None) -> dict[str, Any]:
    options = [*FLAGS, *(f"-D{k}={v}" for k, v in macros)]
    return {"options": options, "no_extern_c": True, "include_dirs": [str(include)] if include else []}


@contextmanager
def _saying_what_failed(name: str) -> Iterator[None]:
    from pycuda.driver import CompileError as Failed

    try:
        yield
    except Failed as error:
        raise CompileError(f"{name} does not compile:\n{error.stderr or error}") from None


def prepare(kernel: Kernel, entry: str, dtype: DType, operands: Operands) -> Callable[[], None]:
    """Compile one entry, pack its arguments, and return what launches it on the operands' stream."""
    module = compiled(cuda_source.read(kernel.cu), kernel.cu.name, kernel.macros(dtype), kernel.cu.parent)
    launch = kernel.launch(entry, operands.named(kernel))
    if launch.empty:
        return lambda: None
    function = module.get_function(entry)
    function.prepare(["P" if isinstance(a, DeviceArray) else a.dtype.char for a in launch.args])
    values = [a.ptr if isinstance(a, DeviceArray) else a for a in launch.args]
    (grid, block), stream, shared = launch.dims, operands.stream, launch.shared

    def run() -> None:
        function.prepared_async_call(grid, block, stream, *values, shared_size=shared)

    return run


def driver_release() -> str:
    """The driver's release, such as 580.159.03, where the system tells."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return "unknown"
