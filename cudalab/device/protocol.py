"""What the engine asks of a device: memory, verdicts on that memory, and what the device is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from cudalab.device.guard import POISON_BYTE
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel


class Device(Protocol):
    kind: str  # "cpu" or "cuda"
    name: str

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        """Copy the inputs and allocate an output, each between guard bands; the output is poisoned.

        `offsets` are bytes, for the inputs and then the output: each moves an array off its natural alignment.
        """

    def poison(self, array: Any, byte: int = POISON_BYTE) -> None:
        """Fill an array of any library with a pattern that results hardly have (NaN for floats)."""

    def fetch(self, array: Any) -> np.ndarray:
        """Wait for all work and copy an array of any library into new NumPy memory."""

    def fingerprint(self, array: Any) -> int:
        """Wait for all work and return a 64-bit digest of an array's bytes, computed on the device."""

    def tampered(self, operands: Operands) -> str | None:
        """Wait, then name memory that a kernel must not write and wrote: an input, or bytes beyond an array's ends."""

    def restore(self, arrays: Arrays) -> None:
        """Repair what `tampered` found: the inputs placed last, and the guard bands of every buffer."""

    def copy(self, nbytes: int) -> Bound | None:
        """A copy that moves `nbytes` in all (half read, half written), or None where none is measured."""

    def condition(self) -> dict[str, float | str]:
        """The device's clocks, power and temperature under load, and what slows it down."""

    def details(self) -> dict[str, str | int | float]:
        """What identifies the device and bounds its speed, for the results file."""

    def alive(self) -> bool:
        """Wait, then say whether the device still works: some errors end all work of a process."""

    def release(self) -> None:
        """Free the arrays that were placed."""

    def close(self) -> None:
        """Release all that the device holds."""
