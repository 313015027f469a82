"""The inputs of a kernel: the default ones, and what an input may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.base.threads import normal
from cudalab.spec.launch import Shape

Arrays = dict[str, np.ndarray]

# Inputs of one character each, which a check tries (checks/characters.py).
INFINITE = ("neginf", "posinf")  # rows of an infinity throughout
NAN = "nan"  # one NaN in every other row
NEGATIVE = "negative"
PEAK = "peak"  # few large values, at other places in each row, among tiny ones
SUBNORMAL = "subnormal"  # where they change the results of a kernel, which then does not take them for 0
SCALARS = "scalars"  # a quarter of the values are those of scalars, of either sign
CHARACTERS = (
    "zeros", NEGATIVE, "large", "tiny", "ties", "ends", "rising", "falling", "positive", "masked", *INFINITE, NAN,
    "low", PEAK, SUBNORMAL, SCALARS,
)  # fmt: skip


def draw(shape: Shape, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Standard normal values in `dtype`, in both parts of complex numbers; True and False equally often.

    Integers from the least to the largest, with both among them.
    """
    if dtype.kind == "b":
        return rng.integers(0, 2, shape, np.uint8).view(dtype)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return normal((*shape, 2), part, rng).reshape(-1).view(dtype).reshape(shape)
    if dtype.kind not in "iu":
        return normal(shape, dtype, rng)
    least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = rng.integers(least, largest, shape, dtype, endpoint=True)
    flat = found.reshape(-1)
    special = np.array([least, largest, 0, 1, largest - 1], dtype)
    places = rng.integers(0, max(flat.size, 1), flat.size // 64 + min(flat.size // 2, 2))
    flat[places] = np.resize(special, places.size)
    return found


def unfit(array: Any) -> str:
    """What is wrong with an input that a spec makes, and what to give instead; "" if a kernel can take it."""
    if isinstance(array, np.ma.MaskedArray):
        return "a masked array, whose mask would be lost; give x.filled(0), and the mask as another input"
    if not isinstance(array, np.ndarray | np.generic):
        return f"of type {type(array).__name__}; give a NumPy array, such as np.asarray(x, dtype)"
    kind = array.dtype
    known = kind.kind in "biufc" or kind.type.__module__ == "ml_dtypes"  # such as bfloat16
    if not known or (kind.kind in "fc" and kind.itemsize > (8 if kind.kind == "f" else 16)):
        return f"of dtype {kind}, which CUDA does not have; give numbers, such as x.astype(np.float32)"
    if not kind.isnative:
        return f"of dtype {kind}, in another byte order; give x.astype(x.dtype.newbyteorder('='))"
    return ""
