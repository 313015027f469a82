"""Inputs that hold the values of scalars: `x > limit` and `x >= limit` differ nowhere else.

Where the reference itself says something else in float32 than in float64 at such a value, as a floor of x / width may,
rounding decides and not the comparison: there the value is not tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cudalab.checks import hard_inputs
from cudalab.checks.allowance import in_float32
from cudalab.checks.expected import Expected, results
from cudalab.spec.dtype import DType
from cudalab.spec.inputs import draw
from cudalab.spec.kernel import Arrays, Kernel

CLOSE = 1e-3  # of the results of a pointwise reference in float32 and in float64


def values(kernel: Kernel, given: Arrays, kind: DType) -> np.ndarray:
    """The scalars' values for these inputs, and their negatives, that a dtype has exactly, without 0.

    Of whole numbers, such as lengths, only for inputs of whole numbers; none for complex numbers and bool.
    """
    if kind.complex or kind.name == "bool":
        return np.array([], kind.numpy)
    try:
        numbers = [
            float(n) for n in kernel.scalars_of(given).values() if n.dtype.kind in ("f" if kind.floating else "iuf")
        ]
    except Exception:  # the spec's own; the rows of other groups say it
        numbers = []
    every = np.array([sign * number for number in numbers for sign in (1, -1)], np.float64)
    if not kind.floating:
        limits = np.iinfo(kind.numpy)
        every = every[(every >= limits.min) & (every <= limits.max)]
    with np.errstate(all="ignore"):
        found = every.astype(kind.numpy)
        return np.unique(found[(found.astype(np.float64) == every) & np.isfinite(every) & (every != 0)])


def scattered(x: np.ndarray, of: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the array with one of these values at about a quarter of its places."""
    return np.where(rng.random(x.shape) < 0.25, of[rng.integers(of.size, size=x.shape)], x) if of.size else x


def steady(kernel: Kernel, dtype: DType, given: Arrays) -> bool:
    """Whether the reference gives the same whole numbers for these inputs in float32 as in float64, as far as known.

    What becomes of other results the budgets allow for (allowance.py).
    """
    whole = [name for name in kernel.outs if not kernel.kind_of(name, dtype).floating and not kernel.outs[name].check]
    off = in_float32(kernel, given, results(kernel, dtype, Expected(kernel, given))) if whole else {}
    return all(off.get(name) == 0 for name in whole)


def placed(kernel: Kernel, dtype: DType, kinds: Sequence[DType], hard: Arrays) -> Arrays:
    """Hard values of a pointwise kernel, behind whose special ones stand values of scalars. It changes the arrays.

    Each array has its hard values in a stretch of its own, the first one's first. All values of 16 bits hold them.
    """
    for i, (name, kind) in enumerate(zip(hard, kinds, strict=True)):
        found = [value for value in values(kernel, hard, kind) if _close(kernel, dtype, kinds, i, value)]
        if kind.itemsize <= 2 or not found:  # none for complex numbers
            continue
        flat = hard[name].reshape(-1)
        start = flat.size // len(hard) * i + len(hard_inputs.special(kind))
        if start + len(found) <= flat.size:
            flat[start : start + len(found)] = found
    return hard


def _close(kernel: Kernel, dtype: DType, kinds: Sequence[DType], which: int, value: np.generic) -> bool:
    """Whether the reference says much the same of a value of one input in float32, beside usual ones of the others."""
    rng = np.random.default_rng(0)
    given = {name: draw((8,), kind.numpy, rng) for name, kind in zip(kernel.input_names, kinds, strict=True)}
    given[kernel.input_names[which]][:] = value
    try:
        usual = results(kernel, dtype, Expected(kernel, given))
    except Exception:  # the spec's own; the rows of other groups say it
        return False
    off = in_float32(kernel, given, usual)
    return all(off.get(name, np.inf) <= CLOSE * np.abs(want).max() for name, want in usual.items())
