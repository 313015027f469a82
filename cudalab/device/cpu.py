"""The CPU: NumPy memory between guard bands."""

from __future__ import annotations

import hashlib
import mmap
import platform
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cudalab.base import memory
from cudalab.base.errors import Unavailable
from cudalab.base.threads import chunks
from cudalab.device.arrays import as_plain
from cudalab.device.guard import BLOCK, GUARD, GUARD_BYTE, OUTPUT_GUARD_BYTE, POISON_BYTE, Content, offsets_by_name
from cudalab.device.operands import IN_PLACE, Bound, Operands, every, output_of, pieces
from cudalab.host import processes
from cudalab.host.reserved import make, region_of
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel

ALIGN = 256  # bytes, the alignment of CUDA's allocator


FAR = 1 << 27  # bytes of address space on both sides of a buffer: a kernel that writes there harms nobody
HUGE_PAGES = 1 << 22  # bytes from which NumPy asks the system for huge pages


class Guarded:
    """A NumPy array in the middle of a larger buffer whose ends hold a known pattern, with nothing FAR around it."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, offset: int = 0, guard: int = GUARD_BYTE) -> None:
        self._guard = guard
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        used, shared = size + 2 * GUARD + offset, size < HUGE_PAGES  # files in memory have no huge pages
        try:
            self._space = make(used, FAR, True, shared)
        except Unavailable:  # a limit on address space
            self._space = make(used, 0, False, shared)
        self._region = region = region_of(self._space)
        start, end = region.around, region.around + region.size
        self._far = ((0, start), (end, start)) if start else ()
        for place in self._far:  # no page of the buffer reaches into what must stay untouched
            self._advise("MADV_NOHUGEPAGE", *place)
        if not shared:
            self._advise("MADV_HUGEPAGE", start, region.size)
        self.whole = np.frombuffer(self._space, np.uint8, size + 2 * GUARD, start + offset)
        if region.touched():  # a system that does not tell
            region.watched = False
        self.mend()
        self.array = self.whole[GUARD : GUARD + size].view(dtype).reshape(shape)

    @property
    def watched(self) -> bool:
        """Whether a use of the address space around it is seen."""
        return self._region.watched

    def mend(self) -> None:
        """Write the pattern into both ends, and give back what was touched around them."""
        self.whole[:GUARD] = self.whole[-GUARD:] = self._guard
        for place in self._far:
            self._advise("MADV_DONTNEED", *place)
        self._region.used.clear()

    def _advise(self, advice: str, start: int, length: int) -> None:
        if hasattr(mmap, advice):
            with suppress(OSError):  # a kernel without huge pages
                self._space.madvise(getattr(mmap, advice), start, length)

    def around(self) -> list[tuple[int, int]]:
        """Address and bytes of the memory on both sides that no kernel may touch."""
        far = self._region.around
        start, end = self.whole.ctypes.data, self.whole.ctypes.data + self.whole.nbytes
        return [(start - far, far + GUARD), (end - GUARD, GUARD + far)]

    def overrun(self) -> str | None:
        """Which memory around it was used, as a verb, a size and a side; None for none."""
        for where, band in (("before", self.whole[:GUARD]), ("after", self.whole[-GUARD:])):
            if changed := int((band != self._guard).sum()):
                return f"wrote {changed} bytes {where}"
        if used := self._region.used or self._region.touched():
            return f"reads or writes more than {GUARD >> 10} KB {max(used)}"  # "before" rather than "after"
        return None


class Cpu:
    kind = "cpu"

    def __init__(self) -> None:
        self.name = cpu_name()
        self._guarded: dict[str, Guarded] = {}
        self._pristine: dict[str, np.ndarray] = {}  # the contents that the inputs should have
        self._unchanged: set[str] = set()  # inputs that no kernel may write
        self._kept: list[Arrays] = []

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        off = offsets_by_name(kernel, offsets)
        self._guarded = {k: Guarded(a.shape, a.dtype, off[k]) for k, a in arrays.items()}
        for name, array in arrays.items():
            self._guarded[name].array[...] = array
        self._unchanged = {name for name in arrays if name not in kernel.in_place}
        self._pristine = dict(arrays)

        def put(name: str, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
            self._guarded[name] = made = Guarded(shape, kind, off[name], OUTPUT_GUARD_BYTE)
            return made.array

        inputs = {k: self._guarded[k].array for k in arrays}
        output = output_of(kernel, dtype, inputs, put)
        self.poison(output)
        return Operands(inputs, output, scalars=kernel.scalars_of(arrays))

    def poison(self, array: Any, content: Content = POISON_BYTE) -> None:
        for piece, begins in every(array):
            if begins != IN_PLACE:
                self._fill(piece, content if begins is None else begins)  # type: ignore[arg-type]

    def _fill(self, array: Any, content: Content) -> None:
        plain = as_plain(array)
        assert isinstance(plain, np.ndarray)
        memory = plain.reshape(-1).view(np.uint8)
        if isinstance(content, int) or not memory.size:
            memory[:] = content if isinstance(content, int) else 0
            return
        block = np.frombuffer(content, np.uint8)
        if block.size < BLOCK:  # an element's bytes
            block = np.tile(block, -(-min(BLOCK, memory.size) // block.size))
        for part in chunks(memory.size, block.size):
            memory[part] = block[: part.stop - part.start]

    def fetch(self, array: Any) -> np.ndarray:
        return np.array(as_plain(array))

    def fingerprint(self, array: Any) -> int:
        found = hashlib.blake2b(digest_size=8)
        for piece in pieces(array):
            plain = as_plain(piece)
            assert isinstance(plain, np.ndarray)
            found.update(_bytes(plain).data)
        return int.from_bytes(found.digest())

    def digests(self, arrays: Sequence[Any]) -> list[int]:
        return [self.fingerprint(array) for array in arrays]

    def keep(self, arrays: Arrays) -> int:
        self._kept.append(arrays)
        return len(self._kept) - 1

    def load(self, contents: int, operands: Operands | None = None, names: Collection[str] = ()) -> None:
        if operands is None and not names:
            self._pristine = dict(self._kept[contents])
        for name, array in self._kept[contents].items():
            if names and name not in names:
                continue
            (operands.inputs[name] if operands else self._guarded[name].array)[...] = array

    def tampered(self, operands: Operands, slack: bool = False) -> str | None:
        for name, guarded in self._guarded.items():
            if used := guarded.overrun():
                return f"{used} {name!r}; is each index checked against the size?"
        for name, before in self._pristine.items():
            now = operands.inputs[name]
            if name in self._unchanged and not np.array_equal(_bytes(now), _bytes(before)):
                return f"changed its input {name!r}"
        return None

    def restore(self, arrays: Arrays) -> None:
        for guarded in self._guarded.values():
            guarded.mend()
        self._pristine = dict(arrays)
        for name, array in arrays.items():
            self._guarded[name].array[...] = array

    def copy(self, nbytes: int) -> None:
        return None

    def copies(self, nbytes: int) -> dict[str, Bound]:
        return {}

    def condition(self) -> dict[str, float | str]:
        return {}

    def held_down(self) -> list[str]:
        return []

    @property
    def free_bytes(self) -> int:
        return memory.free()

    def details(self) -> dict[str, str | int | float]:
        return {}

    def alive(self) -> bool:
        return True

    def release(self) -> None:
        processes.release()
        self._guarded, self._pristine, self._kept = {}, {}, []

    def close(self) -> None:
        self.release()


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()  # processor() may start a program
