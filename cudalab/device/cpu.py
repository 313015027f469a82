"""The CPU: NumPy memory between guard bands."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cudalab.base.threads import chunks
from cudalab.device.arrays import as_plain
from cudalab.device.guard import GUARD, GUARD_BYTE, OUTPUT_GUARD_BYTE, POISON_BYTE, Content, offsets_by_name
from cudalab.device.operands import Bound, Operands
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
        self._kept: list[Arrays] = []

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        shape = kernel.result_shape({k: a.shape for k, a in arrays.items()})
        off = offsets_by_name(kernel, offsets)
        self._guarded = {k: Guarded(a.shape, a.dtype, off[k]) for k, a in arrays.items()}
        for name, array in arrays.items():
            self._guarded[name].array[...] = array
        self._pristine = dict(arrays)
        result = Guarded(shape, dtype.numpy, off[kernel.output], OUTPUT_GUARD_BYTE)
        self._guarded[kernel.output] = result
        self.poison(result.array)
        return Operands({k: self._guarded[k].array for k in arrays}, result.array)

    def poison(self, array: Any, content: Content = POISON_BYTE) -> None:
        plain = as_plain(array)
        assert isinstance(plain, np.ndarray)
        memory = plain.reshape(-1).view(np.uint8)
        if isinstance(content, int):
            memory[:] = content
            return
        block = np.frombuffer(content, np.uint8)
        for part in chunks(memory.size, block.size):
            memory[part] = block[: part.stop - part.start]

    def fetch(self, array: Any) -> np.ndarray:
        return np.array(as_plain(array))

    def fingerprint(self, array: Any) -> int:
        plain = as_plain(array)
        assert isinstance(plain, np.ndarray)
        return int.from_bytes(hashlib.blake2b(_bytes(plain).data, digest_size=8).digest())

    def digests(self, arrays: Sequence[Any]) -> list[int]:
        return [self.fingerprint(array) for array in arrays]

    def keep(self, arrays: Arrays) -> int:
        self._kept.append(arrays)
        return len(self._kept) - 1

    def load(self, contents: int, operands: Operands | None = None) -> None:
        if operands is None:
            self._pristine = dict(self._kept[contents])
        for name, array in self._kept[contents].items():
            (operands.inputs[name] if operands else self._guarded[name].array)[...] = array

    def tampered(self, operands: Operands, slack: bool = False) -> str | None:
        for name, guarded in self._guarded.items():
            if where := guarded.overrun():
                return f"wrote {where} {name!r}; is each index checked against the size?"
        for name, before in self._pristine.items():
            now = operands.inputs[name]
            if not np.array_equal(_bytes(now), _bytes(before)):
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
