"""NaN among the inputs of a kernel that is not a function of single elements: which results have to be NaN.

A result that depends on an element is NaN where that element is: a sum, and the maximum as NumPy and PyTorch have it.
fmaxf() and comparisons lose it; `nans="ignored"` in the spec says that this is meant. A result depends on an element if
it changes with its finite values. Nothing is said of 0 * NaN, whose other factor decides, nor of a sort or a top-k,
which put NaN somewhere among other results, nor of integers.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from cudalab.checks.expected import Expected, results
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel

FACTORS = (2.0, -1.0, 0.25)  # by which the largest value is multiplied for what takes the place of a NaN
ADVICE = 'the reference gives NaN where an input is NaN; where the kernel ignores NaN on purpose, write nans="ignored"'


def scattered(x: np.ndarray, scale: float) -> np.ndarray:
    """Return the array with one NaN in every other row, the first among them, at a place that depends on the values."""
    found = np.atleast_2d(x.copy())
    if found.size:
        rows = found.reshape(-1, found.shape[-1])[::2]
        rows[np.arange(len(rows)), (np.abs(rows[:, 0]) * 4096).astype(int) % rows.shape[1]] = np.nan
    return found.reshape(x.shape)


class Fate(NamedTuple):
    """Of each element of an output."""

    decided: np.ndarray  # whether it is to be what the reference gives
    depends: np.ndarray  # whether it depends on an input that is NaN


def fates(kernel: Kernel, dtype: DType, given: Arrays) -> dict[str, Fate]:
    """By floating-point output, what a NaN decides of it. Raises what the reference raises."""
    plain = [results(kernel, dtype, Expected(kernel, _without(given, factor))) for factor in FACTORS]
    found = {}
    for name, want in results(kernel, dtype, Expected(kernel, given)).items():
        if not kernel.kind_of(name, dtype).floating:
            continue
        depends, lost = np.zeros(want.shape, bool), np.isnan(want)
        for other in plain[1:]:
            depends |= ~((other[name] == plain[0][name]) | (np.isnan(other[name]) & np.isnan(plain[0][name])))
        among_others = (depends & lost).any() and (depends & ~lost).any()
        found[name] = Fate(~depends & ~lost if among_others else depends | ~lost, depends)
    return found


def decides(kernel: Kernel, dtype: DType, given: Arrays) -> bool:
    """Whether some result has to be NaN, and none of integers is, nor is NaN converted to one on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with np.errstate(all="warn"):
            wanted = results(kernel, dtype, Expected(kernel, given, "warn"))
    whole = [want for name, want in wanted.items() if not kernel.kind_of(name, dtype).floating]
    if any(np.isnan(want).any() for want in whole) or any("cast" in str(one.message) for one in said):
        return False
    return any(np.isnan(wanted[name][fate.decided]).any() for name, fate in fates(kernel, dtype, given).items())


def _without(given: Arrays, factor: float) -> Arrays:
    """The inputs with a number in the place of each NaN."""
    found = Arrays()
    for name, array in given.items():
        lost = array != array
        largest = np.abs(array[~lost].astype(np.float64)).max(initial=0.0) if lost.any() else 0.0
        found[name] = np.where(lost, factor * (largest + 1), array).astype(array.dtype) if lost.any() else array
    return found
