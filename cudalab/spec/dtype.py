"""Element types: their NumPy dtype, their name in CUDA C++ and the shape of their floating-point format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cudalab.base.errors import InputError, unknown

EXPONENT = np.int64(0x7FF << 52)  # the bits of a float64 that are its exponent
LARGEST = 2.0**1023  # the largest power of two that float64 has


@dataclass(frozen=True)
class DType:
    """One element type of a kernel.

    `precision` counts significand bits with the implicit one (IEEE 754's p) and `emin` is the exponent
    of the smallest normal number; both are None for integers.
    """

    name: str
    ctype: str  # what `scalar_t` stands for when a .cu is compiled for this type
    precision: int | None = None
    emin: int | None = None

    @cached_property
    def numpy(self) -> np.dtype:
        if self.name == "bfloat16":
            import ml_dtypes  # NumPy has no bfloat16 of its own

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.name)

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def floating(self) -> bool:
        return self.precision is not None

    def ulp(self, value: np.ndarray) -> np.ndarray:
        """Spacing of this type's numbers at |value| (float64, any shape), float64.

        A unit in the last place is 2**(max(e, emin) - (p - 1)) for 2**e <= |value| < 2**(e + 1), and that of
        the smallest normal number at 0; for integers it is 1. Not meaningful where value is not finite.
        """
        if self.precision is None or self.emin is None:
            return np.ones_like(value, dtype=np.float64)
        bits = np.asarray(value, np.float64, order="C").view(np.int64)
        power = (bits & EXPONENT).view(np.float64)  # 2**e, and 0 for subnormals
        return np.clip(power, 2.0**self.emin, LARGEST) * 2.0 ** (1 - self.precision)


DTYPES = {
    t.name: t
    for t in (
        DType("float32", "float", 24, -126),
        DType("float16", "__half", 11, -14),
        DType("bfloat16", "__nv_bfloat16", 8, -126),
        DType("float64", "double", 53, -1022),
        DType("int32", "int"),
        DType("int64", "long long"),
        DType("uint8", "unsigned char"),
    )
}

C_DTYPES = {d.ctype: d for d in DTYPES.values()}


def dtype(name: str) -> DType:
    """The element type called `name`; raises NotFound with the closest name."""
    if name not in DTYPES:
        raise unknown("dtype", name, DTYPES)
    return DTYPES[name]


def dtype_of(array: object) -> DType:
    """The element type of a NumPy, CuPy or PyCUDA array or a torch tensor, by its dtype's name."""
    name = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(f"arrays of {name} are not supported; use one of {', '.join(DTYPES)}")
    return DTYPES[name]
