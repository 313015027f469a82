"""What budgets allow in addition where inputs are unusual: what rounding the inputs does to the results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from cudalab.checks.expected import Expected, results, wide
from cudalab.spec import reference
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Budget, Kernel

SLACK = 4  # results may move by this many times what the rounding of the inputs moves them by
# ... and by this many times the error of the reference where it computes in float32. NumPy adds in pairs; a kernel that
# adds 100 products one after another was off by 6 times as much.
OF_FLOAT32 = 16


def widened(
    kernel: Kernel, dtype: DType, given: Arrays, want: Expected, budgets: Mapping[str, Budget], seed: int
) -> dict[str, Budget]:
    """By output, the budget with what rounding the inputs does to the results: a sum of large terms may cancel.

    Once all values move towards the larger ones: of a sum that is as much as its terms may lose on the way. A budget of
    0 stays: a result that must be exact, such as a copy, is so for any input.
    """
    if not any(kernel.kind_of(name, dtype).floating for name in budgets):
        return dict(budgets)
    usual = results(kernel, dtype, want)
    names = [name for name in usual if kernel.kind_of(name, dtype).floating]
    moved = dict.fromkeys(names, 0.0)
    rng = np.random.default_rng(seed)
    for how in ("random", "random", "up"):
        with np.errstate(all="ignore"):
            off_by = partial(_rounded, how=how, rng=rng)
            other = results(kernel, dtype, Expected(kernel, {k: off_by(a) for k, a in given.items()}), off_by)
            off = {name: np.abs(other[name] - usual[name]) for name in names}
        moved = {name: max(moved[name], float(off[name][np.isfinite(off[name])].max(initial=0.0))) for name in names}
    narrow = in_float32(kernel, given, usual)

    def wider(name: str, budget: Budget) -> Budget:
        if budget.exact:
            return budget
        by = max(max(budget.ulp, SLACK) * moved[name], OF_FLOAT32 * narrow.get(name, 0.0))
        return budget.at_least(by)

    return {name: wider(name, budget) if name in moved else budget for name, budget in budgets.items()}


def in_float32(kernel: Kernel, given: Arrays, usual: Arrays) -> dict[str, float]:
    """By output, how far its reference is off where it computes in float32: logits that are large, say.

    Without outputs whose reference takes an earlier one.
    """
    kinds = {name: DTYPES.get(array.dtype.name) for name, array in given.items()}
    narrow = {
        name: array.astype(np.float32) if (kind := kinds[name]) and kind.floating and not kind.complex else array
        for name, array in given.items()
    }
    if any(kind and (kind.name == "float64" or kind.complex) for kind in kinds.values()):
        return {}
    try:
        with np.errstate(all="ignore"):
            values = narrow | reference.plain(kernel.scalars_of(given))
            found = reference.of_kernel(kernel, values)
            own = (name for name in usual if kernel.outs[name].reference and not reference.on_earlier(kernel, name))
            found |= {name: reference.of_output(kernel, name, values) for name in own}
            off = {name: np.abs(np.asarray(result) - usual[name]) for name, result in found.items() if name in usual}
    except Exception:  # the spec's own, which asks for float64
        return {}
    return {name: float(each[np.isfinite(each)].max(initial=0.0)) for name, each in off.items()}


def _rounded(array: np.ndarray, how: str, rng: np.random.Generator) -> np.ndarray:
    """The values, each off by up to half a unit in the last place of its dtype, of float32 where that is narrower."""
    known = DTYPES.get(array.dtype.name)
    if not known or not known.floating:
        return array
    values = wide(array)
    by = rng.uniform(-1, 1, values.shape) if how == "random" else 1.0 if known.complex else np.sign(values)
    return values * (1 + by * 2.0 ** -min(known.precision or 24, 24))
