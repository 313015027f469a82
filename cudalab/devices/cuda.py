"""One GPU: its primary context (shared with torch and CuPy), one PyCUDA stream, buffers between guard bands."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cudalab import interop, source
from cudalab.backends import Bound, Operands
from cudalab.devices import GUARD, GUARD_BYTE, POISON_BYTE, Clock
from cudalab.dtypes import DType
from cudalab.errors import CompileError, Unavailable
from cudalab.interop import DeviceArray
from cudalab.spec import Arrays, Kernel, blocks

INSTALL = "pip install 'cudalab[cuda12]' (or cuda13, as your driver has; it needs a CUDA toolkit)"
FLAGS = ("-std=c++17",)
THREADS = 256
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


def open_gpu(index: int, reason: str | None) -> Gpu:
    """The GPU number `index`; `reason` is what `missing` said. Raises Unavailable."""
    if reason:
        raise Unavailable(f"no GPU to use: {reason}; `cudalab doctor` says more, --device cpu runs on the CPU")
    import pycuda.driver as driver

    driver.init()
    if index >= driver.Device.count():
        raise Unavailable(f"no GPU number {index}: there are {driver.Device.count()}, counted from 0")
    return Gpu(index)


def compiled(text: str, name: str, macros: Mapping[str, str] | None = None, include: Path | None = None) -> Any:
    """A PyCUDA module of `text`, compiled for the current device and loaded into the current context.

    PyCUDA keeps compiled code on disk. Raises CompileError with the compiler's lines.
    """
    context = ctypes.c_void_p()
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
    return _compiled(text, name, tuple((macros or {}).items()), include, context.value)


@cache
def _compiled(text: str, name: str, macros: tuple[tuple[str, str], ...], include: Path | None, context: int) -> Any:
    from pycuda.compiler import SourceModule
    from pycuda.driver import CompileError as Failed

    options = [*FLAGS, *(f"-D{k}={v}" for k, v in macros)]
    folders = [str(include)] if include else []
    try:
        return SourceModule(source.with_c_names(text, name), options=options, no_extern_c=True, include_dirs=folders)
    except Failed as error:
        raise CompileError(f"{name} does not compile:\n{error.stderr or error}") from None


def prepare(kernel: Kernel, entry: str, dtype: DType, operands: Operands) -> Callable[[], None]:
    """Compile one entry, pack its arguments, and return what launches it on the operands' stream."""
    module = compiled(source.read(kernel.cu), kernel.cu.name, source.defines(dtype), kernel.cu.parent)
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


class Buffer:
    """Device memory with guard bands before and after."""

    def __init__(self, nbytes: int, stream: Any) -> None:
        import pycuda.driver as driver

        self.nbytes = nbytes
        self._memory = driver.mem_alloc(nbytes + 2 * GUARD)
        self.ptr = int(self._memory) + GUARD
        for start in (self.ptr - GUARD, self.ptr + nbytes):
            driver.memset_d8_async(start, GUARD_BYTE, GUARD, stream)

    def overrun(self) -> str | None:
        """Where its ends were written, or None. The stream must be idle."""
        import pycuda.driver as driver

        for where, start in (("before", self.ptr - GUARD), ("after", self.ptr + self.nbytes)):
            band = np.empty(GUARD, np.uint8)
            driver.memcpy_dtoh(band, start)
            if touched := int((band != GUARD_BYTE).sum()):
                return f"{touched} bytes {where}"
        return None


class Gpu:
    kind = "cuda"

    def __init__(self, index: int) -> None:
        import pycuda.driver as driver

        from cudalab.devices.events import Timer

        self._driver = driver
        self._device = driver.Device(index)
        self._buffers: dict[str, Buffer] = {}
        self._digests: dict[str, int] = {}
        self.index, self.name = index, self._device.name()
        self._context = self._device.retain_primary_context()
        self._context.push()
        try:
            self.stream = driver.Stream(1)  # non-blocking: nothing waits for the legacy default stream
            self._lab = compiled(LAB.read_text(), LAB.name)
            self._timer = Timer(self._lab, self.stream, self._device)
        except BaseException:
            self._context.pop()  # PyCUDA aborts the process if one is left at its end
            raise

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays) -> Operands:
        driver = self._driver
        inputs = {name: self._put(name, array.shape, array.dtype) for name, array in arrays.items()}
        for name, array in arrays.items():
            if array.size:
                driver.memcpy_htod(inputs[name].ptr, _bytes(np.ascontiguousarray(array)))
        shape = kernel.result_shape({k: a.shape for k, a in arrays.items()})
        output = self._put(kernel.output, shape, dtype.numpy)
        self.poison(output)
        self._context.synchronize()  # the uploads went through another stream
        self._digests = {name: self._digest(array) for name, array in inputs.items()}
        return Operands(inputs, output, self.stream)

    def _put(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        array = DeviceArray(tuple(shape), dtype, 0)
        buffer = self._buffers[name] = Buffer(array.nbytes, self.stream)
        return DeviceArray(array.shape, dtype, buffer.ptr, buffer)

    def poison(self, array: Any) -> None:
        plain = interop.as_plain(array)
        if plain.size:
            self._driver.memset_d8_async(plain.ptr, POISON_BYTE, plain.nbytes, self.stream)  # type: ignore[union-attr]

    def fetch(self, array: Any) -> np.ndarray:
        plain = interop.as_plain(array)
        self.stream.synchronize()
        out = np.empty(plain.shape, plain.dtype)
        if out.size:
            self._driver.memcpy_dtoh(_bytes(out), plain.ptr)  # type: ignore[union-attr]
        return out

    def fingerprint(self, array: Any) -> int:
        plain = interop.as_plain(array)
        assert isinstance(plain, DeviceArray)
        self.stream.synchronize()
        return self._digest(plain)

    def tampered(self, operands: Operands) -> str | None:
        self.stream.synchronize()
        for name, buffer in self._buffers.items():
            if where := buffer.overrun():
                return f"wrote {where} {name!r}"
        for name, before in self._digests.items():
            if self._digest(operands.inputs[name]) != before:
                return f"changed its input {name!r}"
        return None

    def _digest(self, array: DeviceArray) -> int:
        result = np.zeros(1, np.uint64)
        words, rest = divmod(array.nbytes, 4)
        if words:
            self._lab.get_function("digest")(
                np.uintp(array.ptr), np.int64(words), self._driver.InOut(result),
                grid=(min(blocks(words, THREADS), 4096), 1), block=(THREADS, 1, 1),
            )  # fmt: skip
        if rest:  # the last of an odd number of small elements
            last = np.zeros(4, np.uint8)
            self._driver.memcpy_dtoh(last[:rest], array.ptr + 4 * words)
            result += last.view(np.uint32)
        return int(result[0])

    def warm_up(self, bound: Bound) -> None:
        for _ in range(5):
            bound.run()
        self.stream.synchronize()

    def clocks(self, bound: Bound, modes: Collection[str], notes: list[str]) -> dict[str, Clock]:
        return self._timer.clocks(bound, modes, notes)

    def copy(self, nbytes: int) -> Bound | None:
        words = blocks(nbytes, 32)  # 16 bytes read and 16 written by each thread
        origin, target = (Buffer(16 * words, self.stream) for _ in range(2))
        self._driver.memset_d32_async(origin.ptr, 0x3F9D70A4, 4 * words, self.stream)
        function = self._lab.get_function("copy").prepare("PPq")
        held = DeviceArray((4 * words,), np.dtype(np.float32), target.ptr, (origin, target))
        grid = (blocks(words, THREADS), 1)

        def run() -> None:
            function.prepared_async_call(grid, (THREADS, 1, 1), self.stream, origin.ptr, target.ptr, words)

        return Bound(run, lambda: held)

    def calibrate(self, modes: Collection[str]) -> dict[str, list[float]]:
        return self._timer.calibrate(modes)

    def details(self) -> dict[str, str | int | float]:
        attribute = self._device.get_attribute
        known = self._driver.device_attribute
        return {
            "compute_capability": ".".join(map(str, self._device.compute_capability())),
            "multiprocessors": attribute(known.MULTIPROCESSOR_COUNT),
            "l2_bytes": attribute(known.L2_CACHE_SIZE),
            "memory_bytes": self._device.total_memory(),
            "memory_clock_hz": attribute(known.MEMORY_CLOCK_RATE) * 1000,
            "memory_bus_bits": attribute(known.GLOBAL_MEMORY_BUS_WIDTH),
            "driver_cuda": self._driver.get_driver_version(),
            "driver": driver_release(),
        }

    def release(self) -> None:
        self.stream.synchronize()
        self._timer.release()
        self._buffers, self._digests = {}, {}

    def close(self) -> None:
        try:
            self.release()
        finally:
            self._context.pop()


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)  # the buffer protocol has no bfloat16


def driver_release() -> str:
    """The driver's release, such as 580.159.03, where the system tells."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return "unknown"
