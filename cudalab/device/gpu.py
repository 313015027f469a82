"""One GPU: its primary context (shared with torch and CuPy), one PyCUDA stream, buffers between guard bands."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.base.errors import CudalabError, LaunchError
from cudalab.device import GUARD, GUARD_BYTE, OUTPUT_GUARD_BYTE, POISON_BYTE, by_name, cuda, interop
from cudalab.device.interop import DeviceArray
from cudalab.device.nvml import Condition, Nvml
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, blocks
from cudalab.timing.clock import Clock
from cudalab.timing.events import CALLS_MOST, COLD, HOT_LEAST, HOT_MOST, Timer, affordable
from cudalab.timing.graph import Graph

THREADS = 256
ROTATION = 5  # times the L2's size that the buffers of a cold graph hold together
MOST_SETS = 1024  # of operands for one
NOT_HELD = "waits for the GPU inside: the queue was not held, launch gaps are counted"
LET_GO = "in some samples the held queue let go by itself: they hold launch gaps, or a wait for the GPU"
HOST_WIDTH = 0.05  # of host times' medians: noisier than the GPU's, the more so the fewer calls a sample has
API_WARM_UPS = 3  # calls, in the first of which something may be compiled or loaded
BUSY = 50  # copies enqueued before the clocks are read, so that they are those of a working GPU


class Buffer:
    """Device memory with guard bands before and after."""

    def __init__(self, nbytes: int, stream: Any, offset: int = 0, guard: int = GUARD_BYTE) -> None:
        import pycuda.driver as driver

        self.nbytes, self._guard = nbytes, guard
        self._memory = driver.mem_alloc(nbytes + 2 * GUARD + offset)
        self.ptr = int(self._memory) + GUARD + offset
        self._stream = stream
        self.mend()

    def mend(self) -> None:
        """Write the pattern into both ends."""
        import pycuda.driver as driver

        for start in (self.ptr - GUARD, self.ptr + self.nbytes):
            driver.memset_d8_async(start, self._guard, GUARD, self._stream)

    def overrun(self) -> str | None:
        """Where its ends were written, or None. The stream must be idle."""
        import pycuda.driver as driver

        for where, start in (("before", self.ptr - GUARD), ("after", self.ptr + self.nbytes)):
            band = np.empty(GUARD, np.uint8)
            driver.memcpy_dtoh(band, start)
            if touched := int((band != self._guard).sum()):
                return f"{touched} bytes {where}"
        return None


class Gpu:
    kind = "cuda"

    def __init__(self, index: int) -> None:
        import pycuda.driver as driver

        self._driver = driver
        self._device = driver.Device(index)
        self._buffers: dict[str, Buffer] = {}
        self._digests: dict[str, int] = {}
        self._sets: list[Operands] = []  # the operands that were placed, and copies of them
        self._graphs: list[Graph] = []
        self.index, self.name = index, self._device.name()
        self._context = self._device.retain_primary_context()
        self._context.push()
        try:
            self.stream = driver.Stream(1)  # non-blocking: nothing waits for the legacy default stream
            self._lab = cuda.compiled(cuda.LAB.read_text(), cuda.LAB.name)
            self._timer = Timer(self._lab, self.stream, self._device)
            self._probe = driver.mem_alloc(1)  # what `alive` writes to
            self._nvml = Nvml(self._device.pci_bus_id())
        except BaseException:
            self._context.pop()  # PyCUDA aborts the process if one is left at its end
            raise

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        off = by_name(kernel, offsets)
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
        plain = interop.as_plain(array)
        if plain.size:
            self._driver.memset_d8_async(plain.ptr, byte, plain.nbytes, self.stream)  # type: ignore[union-attr]

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
            self._lab.get_function("digest")(
                np.uintp(array.ptr), np.int64(words), self._driver.InOut(result),
                grid=(min(blocks(words, THREADS), 4096), 1), block=(THREADS, 1, 1),
            )  # fmt: skip
        if rest:  # the last of an odd number of small elements
            last = np.zeros(4, np.uint8)
            self._driver.memcpy_dtoh(last[:rest], array.ptr + 4 * words)
            result += last.view(np.uint32)
        return int(result[0])

    def warm_up(self, bound: Bound) -> float:
        start = perf_counter()
        bound.run()
        self.stream.synchronize()
        first = perf_counter() - start
        for _ in range(4):
            bound.run()
        self.stream.synchronize()
        return first

    def clocks(self, bound: Bound, modes: Collection[str], notes: list[str]) -> dict[str, Clock]:
        timer, found = self._timer, dict[str, Clock]()
        held = timer.blocking and timer.can_hold(bound.run)
        if timer.blocking and not held:
            notes.append(NOT_HELD)
        once = timer.once(bound.run, held)
        runs = timer.batch(bound.run, once, held)
        calls = timer.calls(once)
        width = HOST_WIDTH * (CALLS_MOST / calls) ** 0.5
        if "launch" in modes:
            samples = affordable(COLD, once)
            found["cold"] = Clock(self._noting(lambda: timer.cold(bound.run, samples, held), notes), bound)
            found["hot"] = Clock(self._noting(lambda: timer.hot(bound.run, runs, held), notes), bound)
            found["call"] = Clock(lambda: timer.host(bound.run, calls), bound, width=width)
        if "api" in modes and bound.api:
            try:
                found["api"] = self._api_clock(bound.api(), calls, width)
            except CudalabError as error:
                notes.append(f"no api time: {error}")
        if "graph" in modes:
            try:
                found["graph"] = self._graph_clock([bound] * runs, flush=False)
                found["graph_cold"] = self._graph_clock(self._rotating(bound), flush=True)
            except CudalabError as error:
                notes.append(f"no graph: {error}")
        return found

    def _api_clock(self, call: Callable[[], Any], calls: int, width: float) -> Clock:
        """A clock of the host's time for a call as a user makes it, which returns a new array."""
        last: list[Any] = [None]

        def run() -> None:
            last[0] = call()

        for _ in range(API_WARM_UPS):
            run()
        return Clock(lambda: self._timer.host(call, calls), Bound(run, lambda: last[0]), width=width)

    def _noting(self, sample: Callable[[], list[float]], notes: list[str]) -> Callable[[], list[float]]:
        """The same clock; the first time that a hold expires in the middle of its samples, the row says so."""

        def noting() -> list[float]:
            before = self._timer.expired
            samples = sample()
            if self._timer.expired > before and LET_GO not in notes:
                notes.append(LET_GO)
            return samples

        return noting

    def _graph_clock(self, bounds: Sequence[Bound], flush: bool) -> Clock:
        """A clock that replays one run of each of `bounds`; a replay that leaves an output unwritten is an error."""
        graph = Graph(bounds, self.stream)
        self._graphs.append(graph)
        for work in graph.works:
            self.poison(work.output())
        poisoned = self.fingerprint(graph.works[0].output())
        graph.replay()
        unwritten = sum(self.fingerprint(work.output()) == poisoned for work in graph.works)
        if unwritten and interop.as_plain(graph.works[0].output()).size:
            raise LaunchError(f"a replay left {unwritten} of {len(graph.works)} outputs unwritten")
        return Clock(lambda: self._timer.replay(graph.replay, graph.runs, flush), graph.works[-1], graph.build_seconds)

    def _rotating(self, bound: Bound) -> list[Bound]:
        """The variant on so many sets of operands that each run finds nothing of its own in L2."""
        if bound.again is None:
            raise LaunchError("this variant cannot be bound to other arrays")
        first = self._sets[0]
        footprint = sum(a.nbytes for a in (*first.inputs.values(), first.output))
        l2 = self._device.get_attribute(self._driver.device_attribute.L2_CACHE_SIZE)
        while len(self._sets) < min(blocks(ROTATION * l2, max(footprint, 1)), MOST_SETS):
            self._sets.append(self._copied(first))
        self.stream.synchronize()
        bounds = [bound.again(operands) for operands in self._sets]
        return (bounds * HOT_LEAST)[: max(len(bounds), HOT_LEAST)]

    def _copied(self, operands: Operands) -> Operands:
        def put(array: DeviceArray) -> DeviceArray:
            buffer = Buffer(array.nbytes, self.stream)
            if array.nbytes:
                self._driver.memcpy_dtod_async(buffer.ptr, array.ptr, array.nbytes, self.stream)
            return DeviceArray(array.shape, array.dtype, buffer.ptr, buffer)

        copies = {n: put(a) for n, a in operands.inputs.items()}
        return Operands(copies, put(operands.output), self.stream, self.index)

    def copy(self, nbytes: int) -> Bound | None:
        words = blocks(nbytes, 32)  # 16 bytes read and 16 written by each thread
        function, grid = self._lab.get_function("copy").prepare("PPq"), (blocks(words, THREADS), 1)

        def ready(operands: Operands | None) -> Bound:
            origin, target = (Buffer(16 * words, self.stream) for _ in range(2))
            self._driver.memset_d32_async(origin.ptr, 0x3F9D70A4, 4 * words, self.stream)
            held = DeviceArray((4 * words,), np.dtype(np.float32), target.ptr, (origin, target))

            def run() -> None:
                function.prepared_async_call(grid, (THREADS, 1, 1), self.stream, origin.ptr, target.ptr, words)

            return Bound(run, lambda: held, again=ready)

        return ready(None)

    def calibrate(self, modes: Collection[str]) -> dict[str, list[float]]:
        found = self._timer.floors()
        if "graph" in modes:
            try:
                graph = Graph([Bound(self._timer.empty, lambda: None)] * HOT_MOST, self.stream)
            except CudalabError:
                return found  # every row will say why
            nodes = (self._timer.replay(graph.replay, graph.runs, flush=False) for _ in range(50))
            found["empty graph node"] = [t for samples in nodes for t in samples]
            graph.close()
        return found

    def condition(self) -> Condition:
        """Clocks, power and temperature of the GPU at work; {} where NVML does not tell."""
        busy = self.copy(1 << 28)
        for _ in range(BUSY if busy and not self._nvml.missing else 0):
            busy.run()  # type: ignore[union-attr]
        found = self._nvml.condition()
        self.stream.synchronize()
        return found

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
            "driver": cuda.driver_release(),
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
        for graph in self._graphs:
            graph.close()
        self._graphs, self._sets, self._buffers, self._digests = [], [], {}, {}
        interop.give_back_memory()

    def close(self) -> None:
        try:
            self.release()
            interop.leave_stream()
        finally:
            self._context.pop()


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)  # the buffer protocol has no bfloat16
