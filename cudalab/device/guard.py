"""Patterns around and in every buffer. They reveal forbidden writes and reads of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudalab.spec.kernel import Kernel

GUARD = 1 << 16  # bytes before and after every buffer: more than a block of threads can overrun
GUARD_BYTE = 0x7F  # huge or NaN in every floating-point format: a read beyond an input's end shows in the result
OUTPUT_GUARD_BYTE = 0xA5  # differs from GUARD_BYTE, so that a copy of the input's band is seen as a write
POISON_BYTE = 0xFF  # NaN in every floating-point format, -1 in every integer
OTHER_POISON = 0x3C  # a second pattern, where NaN or -1 may be the right result


def offsets_by_name(kernel: Kernel, offsets: Sequence[int]) -> Mapping[str, int]:
    """The offsets that `Device.place` takes, by array name; 0 for every array if `offsets` is empty."""
    names = (*kernel.input_names, kernel.output)
    return dict(zip(names, offsets or (0,) * len(names), strict=True))
