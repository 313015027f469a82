"""Where a case runs: a device places arrays, fetches and poisons them, and owns the clocks.

`cpu.py` is NumPy memory and the wall clock; `cuda.py` one GPU, one PyCUDA stream and driver events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cudalab.base.errors import InputError
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel
from cudalab.timing.clock import Clock

GUARD = 1 << 16  # bytes before and after every buffer: more than a block of threads can overrun
GUARD_BYTE = 0x7F  # huge, or NaN, in every floating-point format: what is read from there shows in the result
OUTPUT_GUARD_BYTE = 0xA5  # another: what copies, or adds 1 to a huge number, writes what it reads
POISON_BYTE = 0xFF  # all ones is a NaN in every floating-point format
OTHER_POISON = 0x3C  # for outputs in which a NaN may be right, or, of integers, -1: what stays is not right twice


class Device(Protocol):
    kind: str  # "cpu" or "cuda"
    name: str

    def place(self, kernel: Kernel, dtype: DType, arrays: Arrays, offsets: Sequence[int] = ()) -> Operands:
        """Copies of the inputs and an output, each between guard bands; the output is poisoned.

        `offsets` (bytes, inputs then output; none: 0) put an array off the alignment that it would have.
        """

    def poison(self, array: Any, byte: int = POISON_BYTE) -> None:
        """Fill an array of any library with a pattern that results hardly have (NaN for floats)."""

    def fetch(self, array: Any) -> np.ndarray:
        """Wait for all work and copy an array of any library into new NumPy memory."""

    def fingerprint(self, array: Any) -> int:
        """A 64-bit digest of an array's bytes, taken where it lies, after all work."""

    def tampered(self, operands: Operands) -> str | None:
        """Wait, then say what was written that no kernel may write: an input, or beyond an end."""

    def restore(self, arrays: Arrays) -> None:
        """Undo what `tampered` found: the inputs that were placed last, and the bands around every buffer."""

    def warm_up(self, bound: Bound) -> float:
        """Run often enough that lazy loading and compilation are over; returns the first run's seconds."""

    def clocks(self, bound: Bound, modes: Collection[str], notes: list[str]) -> dict[str, Clock]:
        """The clocks for these modes, by what they measure; adds to `notes` what a reader must know."""

    def copy(self, nbytes: int) -> Bound | None:
        """A copy that moves `nbytes` in all (half read, half written), or None where none is measured."""

    def calibrate(self, modes: Collection[str]) -> dict[str, list[float]]:
        """Seconds that the clocks themselves cost, by name: what an empty piece of work measures."""

    def condition(self) -> dict[str, float | str]:
        """How the device is while it works, for a reader of the times: clocks, power, what slows it down."""

    def details(self) -> dict[str, str | int | float]:
        """What identifies the device and bounds its speed, for the results file."""

    def alive(self) -> bool:
        """Wait, then say whether the device still does what it is told: some errors end all work of a process."""

    def release(self) -> None:
        """Forget the arrays that were placed."""

    def close(self) -> None:
        """Give back what the device holds."""


def by_name(kernel: Kernel, offsets: Sequence[int]) -> Mapping[str, int]:
    """Offsets as `place` takes them, by array; 0 where there are none."""
    names = (*kernel.input_names, kernel.output)
    return dict(zip(names, offsets or (0,) * len(names), strict=True))


def open_device(choice: str) -> tuple[Device, str]:
    """(device, note) for `auto`, `cpu`, `cuda` or `cuda:N`.

    The note says why there is no GPU when `auto` falls back to the CPU. Raises Unavailable if a GPU was asked
    for by name and cannot be used, InputError for another word.
    """
    from cudalab.device import cpu, cuda

    name, _, index = choice.partition(":")
    number = not index or (name == "cuda" and index.isascii() and index.isdigit() and len(index) < 10)
    if name not in ("auto", "cpu", "cuda") or not number:
        raise InputError(f"no device {choice!r}; use auto, cpu, cuda or cuda:N")
    if name == "cpu":
        return cpu.Cpu(), "the CPU was asked for (--device cpu)"
    reason = cuda.missing()
    if name == "auto" and reason:
        return cpu.Cpu(), reason
    return cuda.open_gpu(int(index or 0), reason), ""
