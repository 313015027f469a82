"""One GPU: its primary context (shared with torch and CuPy), one PyCUDA stream, buffers between guard bands."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from cudalab.device import cuda, driver
from cudalab.device.arrays import DeviceArray, as_plain
from cudalab.device.guard import GUARD, GUARD_BYTE, OUTPUT_GUARD_BYTE, POISON_BYTE, offsets_by_name
from cudalab.device.nvml import Condition, Nvml
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, blocks

THREADS = 256
COPIED = 0x3F9D70A4  # the word that `copy` copies: 1.23 in float32
BUSY = 50  # copies enqueued before the clocks are read, so that they are those of a working GPU


class Buffer:
    """Device memory with guard bands before and after."""

    def __init__(self, nbytes: int, stream: Any, offset: int = 0, guard: int = GUARD_BYTE) -> None:
        self.nbytes, self._guard = nbytes, guard
        self._memory = driver.pycuda().mem_alloc(nbytes + 2 * GUARD + offset)
        self.ptr = int(self._memory) + GUARD + offset
        self._stream = stream
        self.mend()

    def mend(self) -> None:
        """Write the pattern into both ends."""
        for start in (self.ptr - GUARD, self.ptr + self.nbytes):
            driver.pycuda().memset_d8_async(start, self._guard, GUARD, self._stream)

    def overrun(self) -> str | None:
        """Where its ends were written, or None. The stream must be idle."""
        for where, start in (("before", self.ptr - GUARD), ("after", self.ptr + self.nbytes)):
            band = np.empty(GUARD, np.uint8)
            driver.pycuda().memcpy_dtoh(band, start)
            if touched := int((band != self._guard).sum()):
                return f"{touched} bytes {where}"
        return None


class Gpu:
    """One GPU, open: its primary context is current until `close`.

    `stream` is the PyCUDA stream of all work, `lab` the module of lab.cu. What refers to placed arrays and has to end
    before them, such as a graph, is put on `at_release`.
    """

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self._driver = driver.pycuda()
        self._device = self._driver.Device(index)
        self._buffers: dict[str, Buffer] = {}
        self._digests: dict[str, int] = {}
        self._sets: list[Operands] = []  # the operands that were placed, and copies of them
        self.at_release = ExitStack()
        self.index, self.name = index, self._device.name()
        self._context = self._device.retain_primary_context()
        self._context.push()
        try:
            self.stream = self._driver.Stream(1)  # non-blocking: nothing waits for the legacy default stream
            self.lab = cuda.compiled(cuda.LAB.read_text(), cuda.LAB.name)
            self._probe = self._driver.mem_alloc(1)  # what `alive` writes to
            self._nvml = Nvml(self._device.pci_bus_id())
        except BaseException:
            self._context.pop()  # PyCUDA aborts the process if one is left at its end
            raise

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        off = offsets_by_name(kernel, offsets)
        inputs = {name: self._put(name, array.shape, array.dtype, off[name]) for name, array in arrays.items()}
        self._upload(arrays, inputs)
        shape = kernel.result_shape({k: a.shape for k, a in arrays.items()})
        output = self._put(kernel.output, shape, dtype.numpy, off[kernel.output], OUTPUT_GUARD_BYTE)
        self.poison(output)
        self._context.synchronize()  # the uploads went through another stream
        self._digests = {name: self._digest(array) for name, array in inputs.items()}
        self._sets = [Operands(inputs, output, self.stream, self.index)]
        return self._sets[0]

    def restore(self, arrays: Arrays) -> None:
        for buffer in self._buffers.values():
            buffer.mend()
        self._upload(arrays, self._sets[0].inputs)
        self._context.synchronize()

    def _upload(self, arrays: Arrays, to: Mapping[str, DeviceArray]) -> None:
        for name, array in arrays.items():
            if array.size:
                self._driver.memcpy_htod(to[name].ptr, _bytes(np.ascontiguousarray(array)))

    def _put(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, offset: int, guard: int = GUARD_BYTE
    ) -> DeviceArray:
        array = DeviceArray(tuple(shape), dtype, 0)
        buffer = self._buffers[name] = Buffer(array.nbytes, self.stream, offset, guard)
        return DeviceArray(array.shape, dtype, buffer.ptr, buffer)

    def poison(self, array: Any, byte: int = POISON_BYTE) -> None:
        plain = as_plain(array)
        if plain.size:
            self._driver.memset_d8_async(plain.ptr, byte, plain.nbytes, self.stream)  # type: ignore[union-attr]

    def fetch(self, array: Any) -> np.ndarray:
        plain = as_plain(array)
        self.stream.synchronize()
        out = np.empty(plain.shape, plain.dtype)
        if out.size:
            self._driver.memcpy_dtoh(_bytes(out), plain.ptr)  # type: ignore[union-attr]
        return out

    def fingerprint(self, array: Any) -> int:
        plain = as_plain(array)
        assert isinstance(plain, DeviceArray)
        self.stream.synchronize()
        return self._digest(plain)

    def tampered(self, operands: Operands) -> str | None:
        self.stream.synchronize()
        for name, buffer in self._buffers.items():
            if where := buffer.overrun():
                return f"wrote {where} {name!r}; is each index checked against the size?"
        for name, before in self._digests.items():
            if self._digest(operands.inputs[name]) != before:
                return f"changed its input {name!r}"
        return None

    def _digest(self, array: DeviceArray) -> int:
        if array.ptr % 4:  # the kernel reads words; such arrays are small
            plain = np.empty(array.nbytes, np.uint8)
            self._driver.memcpy_dtoh(plain, array.ptr)
            return zlib.crc32(plain.tobytes())
        result = np.zeros(1, np.uint64)
        words, rest = divmod(array.nbytes, 4)
        if words:
            self.lab.get_function("digest")(
                np.uintp(array.ptr), np.int64(words), self._driver.InOut(result),
                grid=(min(blocks(words, THREADS), 4096), 1), block=(THREADS, 1, 1),
            )  # fmt: skip
        if rest:  # the last of an odd number of small elements
            last = np.zeros(4, np.uint8)
            self._driver.memcpy_dtoh(last[:rest], array.ptr + 4 * words)
            result += last.view(np.uint32)
        return int(result[0])

    def attribute(self, name: str) -> int:
        """A device attribute by PyCUDA's name, such as L2_CACHE_SIZE."""
        return int(self._device.get_attribute(getattr(self._driver.device_attribute, name)))

    def operand_sets(self, count: int) -> list[Operands]:
        """The placed operands, and copies of them in other memory until there are `count`; all stay until `release`."""

        def copied(array: DeviceArray) -> DeviceArray:
            buffer = Buffer(array.nbytes, self.stream)
            if array.nbytes:
                self._driver.memcpy_dtod_async(buffer.ptr, array.ptr, array.nbytes, self.stream)
            return DeviceArray(array.shape, array.dtype, buffer.ptr, buffer)

        first = self._sets[0]
        while len(self._sets) < count:
            inputs = {name: copied(array) for name, array in first.inputs.items()}
            self._sets.append(Operands(inputs, copied(first.output), self.stream, self.index))
        self.stream.synchronize()
        return list(self._sets)

    def copy(self, nbytes: int) -> Bound | None:
        words = blocks(nbytes, 32)  # 16 bytes read and 16 written by each thread
        function, grid = self.lab.get_function("copy").prepare("PPq"), (blocks(words, THREADS), 1)

        def ready(operands: Operands | None) -> Bound:
            origin, target = (Buffer(16 * words, self.stream) for _ in range(2))
            self._driver.memset_d32_async(origin.ptr, COPIED, 4 * words, self.stream)
            held = DeviceArray((4 * words,), np.dtype(np.float32), target.ptr, (origin, target))

            def run() -> None:
                function.prepared_async_call(grid, (THREADS, 1, 1), self.stream, origin.ptr, target.ptr, words)

            return Bound(run, lambda: held, again=ready)

        return ready(None)

    def condition(self) -> Condition:
        """Clocks, power and temperature of the GPU under load; {} where NVML does not tell."""
        busy = self.copy(1 << 28)
        for _ in range(BUSY if busy and not self._nvml.missing else 0):
            busy.run()  # type: ignore[union-attr]
        found = self._nvml.condition()
        self.stream.synchronize()
        return found

    def details(self) -> dict[str, str | int | float]:
        return {
            "compute_capability": ".".join(map(str, self._device.compute_capability())),
            "multiprocessors": self.attribute("MULTIPROCESSOR_COUNT"),
            "l2_bytes": self.attribute("L2_CACHE_SIZE"),
            "memory_bytes": self._device.total_memory(),
            "memory_clock_hz": self.attribute("MEMORY_CLOCK_RATE") * 1000,
            "memory_bus_bits": self.attribute("GLOBAL_MEMORY_BUS_WIDTH"),
            "driver_cuda": self._driver.get_driver_version(),
            "driver": driver.release(),
        }

    def alive(self) -> bool:
        """False after an illegal address, a trap or the like: every later call fails as well."""
        try:
            self._driver.memset_d8_async(int(self._probe), 0, 1, self.stream)
            self._context.synchronize()
        except self._driver.Error:
            return False
        return True

    def release(self) -> None:
        self.stream.synchronize()
        self.at_release.close()
        self._sets, self._buffers, self._digests = [], {}, {}
        # Libraries that were used free the device memory that they keep for later.
        if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if cupy := sys.modules.get("cupy"):
            cupy.get_default_memory_pool().free_all_blocks()

    def close(self) -> None:
        try:
            self.release()
            # Libraries that were used go back to their default stream: the lab's stream ends here.
            if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
                torch.cuda.set_stream(torch.cuda.default_stream())
            if cupy := sys.modules.get("cupy"):
                cupy.cuda.Stream.null.use()
        finally:
            self._context.pop()


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)  # the buffer protocol has no bfloat16
