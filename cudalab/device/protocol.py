"""What the engine asks of a device: memory, verdicts on that memory, and what the device is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cudalab.device.guard import POISON_BYTE, Content
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel


class Device(Protocol):
    kind: str  # "cpu" or "cuda"
    name: str

    @property
    def free_bytes(self) -> int:
        """Memory that is free for arrays."""

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        """Copy the inputs and allocate what a run writes, each between guard bands; outputs are poisoned or filled.

        `offsets` are bytes, in the order of `Kernel.array_names`: each moves an array off its natural alignment.
        """

    def poison(self, array: Any, content: Content = POISON_BYTE) -> None:
        """Fill an output, or arrays of any library, with what results hardly have: NaN for floats, or other bytes.

        What a kernel asks to begin with something else gets that; what it updates in place is left to `load`.
        """

    def fetch(self, array: Any) -> np.ndarray:
        """Wait for all work and copy an array of any library into new NumPy memory."""

    def fingerprint(self, array: Any) -> int:
        """Wait for all work and return a 64-bit digest of the bytes of an array, or of all results of an output."""

    def digests(self, arrays: Sequence[Any]) -> list[int]:
        """Wait for all work and return the fingerprint of each array."""

    def keep(self, arrays: Arrays) -> int:
        """Keep contents of the placed inputs on the device, for `load`; returns their number, counted from 0."""

    def load(self, contents: int, operands: Operands | None = None, names: Collection[str] = ()) -> None:
        """Copy contents that are kept into the inputs: those of `operands`, None: those that were placed.

        `names`: only into these inputs.
        """

    def tampered(self, operands: Operands, slack: bool = False) -> str | None:
        """Wait, then name memory that a kernel must not write and wrote: an input, or bytes beyond an array's ends.

        `slack`: look at all that a buffer's pages hold, and not at its guard bands alone.
        """

    def restore(self, arrays: Arrays) -> None:
        """Repair what `tampered` found: the inputs placed last, and the guard bands of every buffer."""

    def copy(self, nbytes: int) -> Bound | None:
        """A copy that moves `nbytes` in all (half read, half written), or None where none is measured."""

    def copies(self, nbytes: int) -> Mapping[str, Bound]:
        """That copy in each form that the device has, by name, all from one buffer to one other."""

    def condition(self) -> dict[str, float | str]:
        """The device's clocks, power and temperature under load, and what slows it down."""

    def held_down(self) -> list[str]:
        """What has held the device's clocks down since the last call; [] where nothing did or it is not known."""

    def details(self) -> dict[str, str | int | float]:
        """What identifies the device and bounds its speed, for the results file."""

    def alive(self) -> bool:
        """Wait, then say whether the device still works: some errors end all work of a process."""

    def release(self) -> None:
        """Free the arrays that were placed."""

    def close(self) -> None:
        """Release all that the device holds."""
