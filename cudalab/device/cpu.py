"""The CPU: NumPy memory between guard bands."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cudalab.base.threads import chunks
from cudalab.device.arrays import as_plain
from cudalab.device.guard import BLOCK, GUARD, GUARD_BYTE, OUTPUT_GUARD_BYTE, POISON_BYTE, Content, offsets_by_name
from cudalab.device.operands import IN_PLACE, Bound, Operands, every, output_of, pieces
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel

ALIGN = 256  # bytes, the alignment of CUDA's allocator


class Guarded:
    """A NumPy array in the middle of a larger buffer whose ends hold a known pattern."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, offset: int = 0, guard: int = GUARD_BYTE) -> None:
        self._guard = guard
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = np.empty(size + 2 * GUARD + ALIGN + offset, np.uint8)
        start = -raw.ctypes.data % ALIGN + offset
        self.whole = raw[start : start + size + 2 * GUARD]
        self.mend()
        self.array = self.whole[GUARD : GUARD + size].view(dtype).reshape(shape)

    def mend(self) -> None:
        """Write the pattern into both ends."""
        self.whole[:GUARD] = self.whole[-GUARD:] = self._guard

    def overrun(self) -> str | None:
        """Where its ends were written, or None."""
        for where, band in (("before", self.whole[:GUARD]), ("after", self.whole[-GUARD:])):
            if touched := int((band != self._guard).sum()):
                return f"{touched} bytes {where}"
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
        if isinstance(content, int):
            memory[:] = content
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
            if where := guarded.overrun():
                return f"wrote {where} {name!r}; is each index checked against the size?"
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

    def details(self) -> dict[str, str | int | float]:
        return {}

    def alive(self) -> bool:
        return True

    def release(self) -> None:
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
    return next(names, platform.processor() or platform.machine())
