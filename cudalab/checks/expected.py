"""What the references of a spec say is right, from copies of the inputs in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cudalab.base import threads
from cudalab.base.errors import SpecError
from cudalab.spec import reference
from cudalab.spec.kernel import Arrays, Kernel


class Expected:
    """The right outputs for some inputs, by name. SpecError for a result that cannot be judged as it is.

    An output whose reference takes an earlier one is computed from what the kernel made of that one.
    """

    def __init__(self, kernel: Kernel, arrays: Arrays) -> None:
        self._kernel, self._arrays = kernel, arrays
        self._scalars = reference.plain(kernel.scalars_of(arrays))
        self._shapes = {name: array.shape for name, array in arrays.items()}
        first = [n for n in reference.judged(kernel) if not reference.on_earlier(kernel, n)]
        own = tuple(name for name in first if kernel.outs[name].reference)
        self._found = self._computed(own)

    def of(self, name: str, got: Mapping[str, np.ndarray]) -> np.ndarray:
        """The right values of an output, float64, integers or complex numbers; `got`: the kernel's outputs by name."""
        if name in self._found:
            return self._found[name]
        earlier = {n: wide(got[n]) for n in reference.on_earlier(self._kernel, name)}
        with np.errstate(all="ignore"):
            found = reference.of_output(self._kernel, name, self._values(self._arrays) | earlier)
        return self._fitting(name, found)

    def _values(self, arrays: Arrays) -> dict[str, Any]:
        return {name: wide(array) for name, array in arrays.items()} | self._scalars

    def _computed(self, own: tuple[str, ...]) -> dict[str, np.ndarray]:
        """What `reference` gives, and the outputs that have a reference of their own."""

        def of(arrays: Arrays) -> dict[str, Any]:
            found = reference.of_kernel(self._kernel, self._values(arrays))
            return found | {name: reference.of_output(self._kernel, name, self._values(arrays)) for name in own}

        if not self._kernel.pointwise:
            return {name: self._fitting(name, result) for name, result in of(self._arrays).items()}
        flat = {name: array.reshape(-1) for name, array in self._arrays.items()}
        first = next(iter(flat.values()))
        parts = threads.each(lambda s: self._of_chunk(of, {name: a[s] for name, a in flat.items()}), first.size)
        shape = next(iter(self._shapes.values()))
        if not parts:
            return {name: wide(np.empty(shape, first.dtype)) for name in (*reference.shared(self._kernel), *own)}
        return {name: np.concatenate([part[name] for part in parts]).reshape(shape) for name in parts[0]}

    def _of_chunk(self, of: Any, arrays: Arrays) -> dict[str, np.ndarray]:
        """A pointwise reference's results for one chunk, without floating-point warnings."""
        with np.errstate(all="ignore"):
            found = {name: _as_it_is(self._kernel, result) for name, result in of(arrays).items()}
        shape = next(iter(arrays.values())).shape
        for result in found.values():
            if result.shape != shape:
                raise SpecError(
                    f"{self._kernel.file}: reference gives shape {result.shape} for {shape}; is the kernel pointwise?"
                )
        return found

    def _fitting(self, name: str, result: Any) -> np.ndarray:
        found, shape = _as_it_is(self._kernel, result), self._kernel.shape_of(name, self._shapes)
        if found.shape != shape:
            due = f"shapes says {shape}" if name in self._kernel.shapes else f"the first input has {shape}; set shapes"
            what = "reference" if len(self._kernel.outs) == 1 else f"the reference of {name}"
            raise SpecError(f"{self._kernel.file}: {what} gives shape {found.shape}, but {due}")
        return found


def wide(array: np.ndarray) -> np.ndarray:
    """A copy of an input for the reference, which may change it: float64 or complex128; integers and booleans as is."""
    kind = array.dtype.kind
    with np.errstate(invalid="ignore"):  # raised by signalling NaN, which convert like quiet ones
        return array.astype(array.dtype if kind in "biu" else np.complex128 if kind == "c" else np.float64)


def _as_it_is(kernel: Kernel, result: Any) -> np.ndarray:
    """The reference's result as an array of real numbers; raises SpecError where a conversion would lose something."""
    if isinstance(result, np.ma.MaskedArray):
        raise SpecError(f"{kernel.file}: reference gives a masked array, whose mask would be lost; give y.filled(0)")
    try:
        want = np.asarray(result)
    except Exception as error:  # from rows of different lengths, or from another library's array
        what = f"reference gives a {type(result).__name__}, which is no NumPy array ({error})"
        raise SpecError(f"{kernel.file}: {what}; give numbers, such as np.asarray(y)") from None
    if want.dtype.kind == "c":
        what = "reference gives complex values; give real ones, such as y.real, or both parts along an axis of two"
        raise SpecError(f"{kernel.file}: {what}")
    if want.dtype.kind == "b":
        return want.astype(np.uint8)
    if want.dtype.kind not in "iuf" and not _of_ml_dtypes(want.dtype):
        what = "None" if result is None else f"values of dtype {want.dtype}"
        raise SpecError(f"{kernel.file}: reference gives {what}; give an array of numbers, such as y.astype(float)")
    return want


def _of_ml_dtypes(dtype: np.dtype) -> bool:
    return dtype.type.__module__ == "ml_dtypes"


def expected(kernel: Kernel, arrays: Arrays) -> np.ndarray:
    """The right values of the first output for copies of these inputs."""
    return Expected(kernel, arrays).of(next(iter(kernel.outs)), {})
