"""Element types: their NumPy dtype, their name in CUDA C++ and the shape of their floating-point format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cudalab.base.errors import InputError, NotFound, unknown

EXPONENT = np.int64(0x7FF << 52)  # the bits of a float64 that are its exponent
LARGEST = 2.0**1023  # the largest power of two that float64 has


@dataclass(frozen=True)
class DType:
    """One element type of a kernel.

    `precision` counts significand bits with the implicit one (IEEE 754's p) and `emin` is the exponent
    of the smallest normal number; both are None for integers and bool. Of a complex type they are those of a part.
    """

    name: str
    ctype: str  # its name in CUDA C++
    precision: int | None = None
    emin: int | None = None
    part: str = ""  # of a complex type, the type of its real and imaginary part

    @cached_property
    def numpy(self) -> np.dtype:
        if self.name in _OF_ML_DTYPES:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.name))
        return np.dtype(self.name)

    @property
    def macro(self) -> str:
        """What `scalar_t` is defined as: the C type, in a form in which `scalar_t(0)` works for types of two words."""
        return f"decltype(({self.ctype})0)" if " " in self.ctype else self.ctype

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def floating(self) -> bool:
        """Whether its numbers, or the parts of its complex numbers, are floating-point ones."""
        return self.precision is not None

    @property
    def complex(self) -> bool:
        return bool(self.part)

    @cached_property
    def largest(self) -> float:
        """Return the largest finite number of a floating-point type, of a complex one that of a part."""
        import ml_dtypes

        return float(ml_dtypes.finfo(DTYPES[self.part or self.name].numpy).max)

    def ulp(self, value: np.ndarray) -> np.ndarray:
        """Spacing of this type's numbers at |value| (float64, any shape), float64.

        A unit in the last place is 2**(max(e, emin) - (p - 1)) for 2**e <= |value| < 2**(e + 1), and that of
        the smallest normal number at 0; for integers it is 1. Not meaningful where value is not finite. Of a complex
        type it is that of a part; `value` is the number's modulus.
        """
        if self.precision is None or self.emin is None:
            return np.ones_like(value, dtype=np.float64)
        bits = np.asarray(value, np.float64, order="C").view(np.int64)
        power = np.asarray(bits & EXPONENT).view(np.float64)  # 2**e, and 0 for subnormals
        np.clip(power, 2.0**self.emin, LARGEST, out=power)
        power *= 2.0 ** (1 - self.precision)
        return power

    def rounded(self, value: np.ndarray) -> np.ndarray:
        """float64 numbers rounded to this floating-point type; to those of 8 and 16 bits through float32.

        Numbers of float16 are returned as float64: NumPy's conversion takes 45 ns for one that is subnormal, as most of
        the softmax of a long row are.
        """
        if self.itemsize > 2:
            return value.astype(self.numpy)
        narrow = value.astype(np.float32)
        if self.name != "float16":
            return narrow.astype(self.numpy)
        ulp = self.ulp(narrow)
        found = narrow / ulp
        np.rint(found, out=found)
        found *= ulp
        if (beyond := np.abs(found) > self.largest).any():
            found[beyond] = np.copysign(np.inf, found[beyond])
        return found


_OF_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # NumPy has none of these
DTYPES = {
    t.name: t
    for t in (
        DType("float32", "float", 24, -126),
        DType("float16", "__half", 11, -14),
        DType("bfloat16", "__nv_bfloat16", 8, -126),
        DType("float64", "double", 53, -1022),
        DType("float8_e4m3fn", "__nv_fp8_e4m3", 4, -6),
        DType("float8_e5m2", "__nv_fp8_e5m2", 3, -14),
        DType("complex64", "cuFloatComplex", 24, -126, part="float32"),
        DType("complex128", "cuDoubleComplex", 53, -1022, part="float64"),
        DType("int8", "signed char"),
        DType("int16", "short"),
        DType("int32", "int"),
        DType("int64", "long long"),
        DType("uint8", "unsigned char"),
        DType("uint16", "unsigned short"),
        DType("uint32", "unsigned int"),
        DType("uint64", "unsigned long long"),
        DType("bool", "bool"),
    )
}

# Other names of these types in CUDA C++, beside the ways to write an integer type in several words.
_ALIASES = {
    "half": "float16", "nv_bfloat16": "bfloat16", "cuComplex": "complex64",
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int64_t": "int64", "uint8_t": "uint8", "uchar": "uint8",
    "uint16_t": "uint16", "ushort": "uint16", "uint": "uint32", "uint32_t": "uint32", "ulong": "uint64",
    "size_t": "uint64", "uint64_t": "uint64",
}  # fmt: skip
OTHER_NAMES = {  # of these types, as people write them: what a message suggests
    "fp64": "float64", "f64": "float64", "double": "float64", "fp32": "float32", "f32": "float32", "float": "float32",
    "single": "float32", "fp16": "float16", "f16": "float16", "half": "float16", "__half": "float16",
    "bf16": "bfloat16", "bfloat": "bfloat16", "e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn",
    "fp8": "float8_e4m3fn", "e5m2": "float8_e5m2", "complex": "complex64", "i8": "int8", "char": "int8", "i16": "int16",
    "short": "int16", "i32": "int32", "int": "int32", "i64": "int64", "long": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "bool_": "bool",
}  # fmt: skip
_NAMED = {d.ctype: d for d in DTYPES.values()} | {alias: DTYPES[name] for alias, name in _ALIASES.items()}
_BITS = {"char": 8, "short": 16, "long": 64}  # `long` is that of Linux


def of_c(ctype: str) -> DType | None:
    """The element type that CUDA C++ calls so: `float`, `unsigned`, `long unsigned int`, `std::uint8_t`.

    None if there is none, and for plain `char`, which is signed on x86-64 alone.
    """
    words = ctype.replace("std::", "").split()
    if not words or not set(words) <= {"signed", "unsigned", "int", *_BITS}:
        return _NAMED.get(" ".join(words))
    if "char" in words and len(words) == 1:
        return None
    bits = next((bits for word, bits in _BITS.items() if word in words), 32)
    return DTYPES[f"{'u' * ('unsigned' in words)}int{bits}"]


def unknown_dtype(name: str) -> NotFound:
    """The error for a name that no element type has; it suggests the one that is meant."""
    return unknown("dtype", name, DTYPES, OTHER_NAMES)


def dtype(name: str) -> DType:
    """The element type called `name`; raises NotFound with the closest name."""
    if name not in DTYPES:
        raise unknown_dtype(name)
    return DTYPES[name]


def foreign(dtype: np.dtype) -> bool:
    """Whether it is a type of ml_dtypes, such as bfloat16: array protocols know none, so the bits go as integers."""
    return dtype.type.__module__ == "ml_dtypes"


def bits_of(dtype: np.dtype) -> np.dtype:
    """The integers that hold the bits of an element of `dtype`."""
    return np.dtype(f"i{dtype.itemsize}")


def dtype_of(array: object) -> DType:
    """The element type of a NumPy, CuPy or PyCUDA array or a torch tensor, by its dtype's name."""
    name = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(f"arrays of {name} are not supported; use one of {', '.join(DTYPES)}")
    return DTYPES[name]
