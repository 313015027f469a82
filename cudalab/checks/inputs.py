"""The dtypes of a kernel's inputs, which may differ from that of its output."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cudalab.checks import hard_inputs
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Kernel

MANY = 0.1  # of an output's elements
LEAST, SAMPLED = 64, 1 << 14  # elements of all inputs from which they are compared, and of each that are looked at
FEWEST = 1 << 16  # hard values of 16 bits; of more bits there are more
VARIES = 0.05  # of the integers or booleans of an input: it changes with the seed, although many stay by chance


def floating(kernel: Kernel, dtype: DType) -> tuple[DType, ...]:
    """The dtypes of the inputs, if hard values can take their places: if all are floating-point ones; else ()."""
    found = [DTYPES.get(kind.name) for kind in kernel.input_kinds(dtype).values()]
    return tuple(kind for kind in found if kind) if all(kind and kind.floating for kind in found) else ()


def no_place(kernel: Kernel, arrays: Arrays) -> list[str]:
    """Why hard values cannot take the places of these inputs of a pointwise kernel: at most one reason."""
    if kernel.dims and hard_inputs.shape(kernel, FEWEST) is None:
        return [f"dims= allows no array of {FEWEST:,} elements"]
    if len(arrays) > 2:
        return ["they are for kernels of one or two inputs"]
    found = (name for name, a in arrays.items() if not (known := DTYPES.get(a.dtype.name)) or not known.floating)
    return [f"input {name!r} is {arrays[name].dtype}; let inputs= give its special values" for name in found][:1]


def alike(one: Arrays, other: Arrays, in_place: Collection[str] = ()) -> str:
    """Why these inputs, drawn with different seeds, are too much alike to tell an answer from one that was kept; "" if
    they are not: at least half of all elements differ. A constant array that is updated in place is no input.
    """
    total = varied = 0.0
    for name, array in one.items():
        if other[name].shape != array.shape:
            return ""
        kept = slice(None, None, max(array.size // SAMPLED, 1))
        a, b = _bytes(array.reshape(-1)[kept]), _bytes(other[name].reshape(-1)[kept])
        if not array.size or (name in in_place and (a == a[0]).all()):
            continue
        share = float((a != b).any(axis=1).mean())
        total += array.size
        varied += array.size * (1.0 if array.dtype.kind in "biu" and share >= VARIES else share)
    if total < LEAST or varied >= total / 2:
        return ""
    return (
        f"{1 - varied / total:.0%} of the elements are the same for each seed, so a timed run could return an answer "
        "that it has kept; draw them from rng, the third parameter"
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, a row for each element."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(array.size, array.itemsize)


def fractional(kernel: Kernel, dtype: DType, wanted: Arrays) -> list[str]:
    """Outputs of whole numbers for which the reference gives others, as where it returns them in another order."""
    kinds = {name: kernel.kind_of(name, dtype) for name in wanted}
    order = f", or return {', '.join(kernel.outs)} in this order" if len(kernel.outs) > 1 else ""
    return [
        f"the reference gives {found[0]:.6g} for {name}, which is {kind.name}: round it{order}"
        for name, kind in kinds.items()
        if not (kind.floating or kind.complex)
        and (found := wanted[name][np.isfinite(wanted[name]) & (wanted[name] != np.rint(wanted[name]))]).size
    ]


def undefined(arrays: Arrays, wanted: Arrays) -> list[str]:
    """Which outputs are NaN in much of what the reference gives for usual inputs: there a kernel need only give NaN."""
    if any(np.isnan(a).any() for a in arrays.values() if a.dtype.kind in "fc"):
        return []
    of_numbers = {name: want for name, want in wanted.items() if want.size and want.dtype.kind in "fc"}
    return [
        f"the reference gives NaN for {100 * share:.0f} % of {name}, which tests nothing there; give inputs for which "
        'it is defined, such as inputs={"v": In("float32", 0, 1)}'
        for name, want in of_numbers.items()
        if (share := float(np.isnan(want).mean())) > MANY
    ]
