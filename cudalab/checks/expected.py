"""What the references of a spec say is right, from copies of the inputs in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from cudalab.base import float_mode, threads
from cudalab.base.errors import SpecError, short
from cudalab.checks import parts
from cudalab.spec import dimensions, reference
from cudalab.spec.dtype import DTYPES, DType, foreign
from cudalab.spec.kernel import Arrays, Budget, Kernel
from cudalab.spec.validate import called_with

Invalid = Literal["ignore", "warn", "raise"]


class Expected:
    """The right outputs for some inputs, by name. SpecError for a result that cannot be judged as it is.

    An output whose reference takes an earlier one is computed from what the kernel made of that one. `invalid`: what an
    operation without a result does, as in `numpy.errstate`. `found`: that of another process, which is not computed.
    """

    def __init__(
        self, kernel: Kernel, arrays: Arrays, invalid: Invalid = "ignore", found: Arrays | None = None
    ) -> None:
        float_mode.restore()
        self._kernel, self._arrays, self._invalid = kernel, arrays, invalid
        self._scalars = reference.plain(kernel.scalars_of(arrays))
        self._shapes = {name: array.shape for name, array in arrays.items()}
        self._atols: dict[tuple[str, Callable[..., Any], float], np.ndarray] = {}  # by output and budget
        self._last: dict[str, tuple[Arrays, np.ndarray]] = {}  # by output, the earlier ones that it was computed from
        first = [n for n in reference.judged(kernel) if not reference.on_earlier(kernel, n)]
        own = tuple(name for name in first if kernel.outs[name].reference)
        self.found = self._computed(own) if found is None else found  # by output, of those that take no earlier one

    def compute(self, name: str, got: Mapping[str, np.ndarray]) -> np.ndarray:
        """The right values of an output, float64, integers or complex numbers; `got`: the kernel's outputs by name."""
        if name in self.found:
            return self.found[name]
        earlier = {n: got[n] for n in reference.on_earlier(self._kernel, name)}
        known, found = self._last.get(name, ({}, None))
        if found is not None and all(_same_bits(known[n], array) for n, array in earlier.items()):
            return found

        def compute(arrays: Arrays) -> Arrays:
            with np.errstate(all="ignore"):
                result = reference.of_output(self._kernel, name, self._values(arrays))
            return {name: self._fitting(name, result, arrays)}

        found = parts.computed(self._kernel, compute, self._arrays | earlier)[name]
        self._last[name] = {n: array.copy() for n, array in earlier.items()}, found
        return found

    def atol(self, name: str, budget: Budget) -> float | np.ndarray:
        """The absolute error that a budget allows an output: a number, or one for each element, in the output's shape.

        Where a function gives no finite number, as for inputs that are infinite or NaN, none is allowed but the least.
        """
        atol = budget.atol
        if not callable(atol):
            return atol
        key = name, atol, budget.least
        if key not in self._atols:
            self._atols[key] = parts.computed(
                self._kernel, lambda some: {name: self._given_atol(name, atol, budget.least, some)}, self._arrays
            )[name]
        return self._atols[key]

    def _given_atol(self, name: str, atol: Callable[..., Any], least: float, arrays: Arrays) -> np.ndarray:
        shape, where = self._shape(name, arrays), f"{self._kernel.file}: the budget's atol of {name}"
        with np.errstate(all="ignore"):
            given = called_with(atol, self._values(arrays))
        try:
            if given is None or np.iscomplexobj(given):
                raise TypeError
            found = np.broadcast_to(np.asarray(given, np.float64), shape)
        except (TypeError, ValueError):
            shown = f"an array of shape {np.shape(given)}" if isinstance(given, np.ndarray) else short(given)
            raise SpecError(f"{where} is {shown}; let it return real numbers of the output's shape, {shape}") from None
        if (found < 0).any():
            raise SpecError(f"{where} is below 0; let it add up magnitudes, as in abs(x).sum(axis=1)")
        return np.maximum(np.where(np.isfinite(found), found, 0.0), least)

    def _values(self, arrays: Arrays) -> dict[str, Any]:
        return {name: wide(array) for name, array in arrays.items()} | self._scalars

    def _computed(self, own: tuple[str, ...]) -> dict[str, np.ndarray]:
        """What `reference` gives, and the outputs that have a reference of their own, without NumPy's warnings."""

        def compute(arrays: Arrays) -> dict[str, Any]:
            with np.errstate(all="ignore", invalid=self._invalid):  # a kernel has no such warnings
                found = reference.of_kernel(self._kernel, self._values(arrays))
                return found | {name: reference.of_output(self._kernel, name, self._values(arrays)) for name in own}

        if not self._kernel.pointwise:

            def fitting(arrays: Arrays) -> Arrays:
                return {name: self._fitting(name, result, arrays) for name, result in compute(arrays).items()}

            return parts.computed(self._kernel, fitting, self._arrays)
        flat = {name: array.reshape(-1) for name, array in self._arrays.items()}
        first = next(iter(flat.values()))
        found = threads.each(lambda s: self._of_chunk(compute, {name: a[s] for name, a in flat.items()}), first.size)
        shape = next(iter(self._shapes.values()))
        if not found:
            return {name: wide(np.empty(shape, first.dtype)) for name in (*reference.shared(self._kernel), *own)}
        return {name: np.concatenate([one[name] for one in found]).reshape(shape) for name in found[0]}

    def _of_chunk(self, compute: Any, arrays: Arrays) -> dict[str, np.ndarray]:
        """A pointwise reference's results for one chunk."""
        found = {name: _as_it_is(self._kernel, result) for name, result in compute(arrays).items()}
        shape = next(iter(arrays.values())).shape
        for name, result in found.items():
            if result.shape != shape:
                what = f"the reference returns {name} of shape {result.shape} for inputs of shape {shape}"
                raise SpecError(f"{self._kernel.file}: {what}; is the kernel pointwise?")
        return found

    def _shape(self, name: str, arrays: Arrays) -> tuple[int, ...]:
        return self._kernel.shape_of(name, {n: arrays[n].shape for n in self._shapes})

    def _fitting(self, name: str, result: Any, arrays: Arrays) -> np.ndarray:
        found, shape = _as_it_is(self._kernel, result), self._shape(name, arrays)
        if found.shape != shape:
            first = next(iter(self._shapes))
            copied = f"{name} has the shape of {first}, {shape}, unless shapes= gives it another"
            due = f"shapes= says {shape}" if name in self._kernel.shapes else copied
            lengths = self._kernel.scalar_lengths(self._shapes)
            for own in set(lengths) & set(dimensions.names([self._kernel.shapes.get(name, "")])):
                most = f"{{{own!r}: 'at most {self._kernel.dimension_names[-1]}'}}"
                due += f", where {own} is {lengths[own][0]}; dims= may say how long it is, as in {most}"
            raise SpecError(f"{self._kernel.file}: the reference returns {name} of shape {found.shape}, but {due}")
        return found


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two outputs of a kernel are equal, bit by bit: NaN is equal to itself, and -0 is not 0."""
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(a, b)


def wide(array: np.ndarray) -> np.ndarray:
    """A copy of an input for the reference, which may change it: float64 or complex128; integers and booleans as is."""
    kind = array.dtype.kind
    with np.errstate(invalid="ignore"):  # raised by signalling NaN, which convert like quiet ones
        return array.astype(array.dtype if kind in "biu" else np.complex128 if kind == "c" else np.float64)


def _as_it_is(kernel: Kernel, result: Any) -> np.ndarray:
    """The reference's result as an array of real numbers; raises SpecError where a conversion would lose something."""
    if isinstance(result, np.ma.MaskedArray):
        raise SpecError(f"{kernel.file}: reference returns a masked array, whose mask is lost; return y.filled(0)")
    try:
        want = np.asarray(result)
    except Exception as error:  # from rows of different lengths, or from another library's array
        what = f"reference returns a {type(result).__name__}, which is not a NumPy array ({error})"
        raise SpecError(f"{kernel.file}: {what}; return numbers, such as np.asarray(y)") from None
    if want.dtype.kind == "c" and not any(DTYPES[name].complex for name in _dtypes(kernel)):
        what = "reference returns complex values; return real ones, such as y.real, or both parts along an axis of two"
        raise SpecError(f"{kernel.file}: {what}")
    if want.dtype.kind == "b":
        return want.astype(np.uint8)
    if want.dtype.kind not in "iufc" and not foreign(want.dtype):
        what = "None" if result is None else f"values of dtype {want.dtype}"
        raise SpecError(f"{kernel.file}: reference returns {what}; return an array of numbers, such as y.astype(float)")
    return want


def _dtypes(kernel: Kernel) -> list[str]:
    """The names of the dtypes that outputs have."""
    return [*kernel.dtypes, *(out.dtype for out in kernel.outs.values() if out.dtype)]


def results(
    kernel: Kernel, dtype: DType, expected: Expected, rounded: Callable[[np.ndarray], np.ndarray] = lambda array: array
) -> Arrays:  # fmt: skip
    """What the references say of each output that they decide; later ones meet earlier ones as `rounded` has them."""
    found, met = Arrays(), Arrays()
    for name in reference.judged(kernel):
        if all(earlier in met for earlier in reference.on_earlier(kernel, name)):
            found[name] = expected.compute(name, met)
            with np.errstate(all="ignore"):
                met[name] = rounded(found[name].astype(kernel.kind_of(name, dtype).numpy))
    return found


def expected(kernel: Kernel, arrays: Arrays) -> np.ndarray:
    """The right values of the first output for copies of these inputs."""
    return Expected(kernel, arrays).compute(next(iter(kernel.outs)), {})
