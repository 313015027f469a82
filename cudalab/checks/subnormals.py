"""Subnormal numbers: does a kernel take them for 0? And what is right for a library that always does?

Code that is compiled with -ftz=true does. Of a kernel that is not a function of single elements, they are tried where
one that takes them as they are cannot fail: where the outputs are linear in them, as sums and products with usual
numbers are, or copies of them. The square of a subnormal number is 0 in any kernel, so a norm is not tried; nor is a
kernel whose budget allows as much as they change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cudalab.checks import parity
from cudalab.checks.allowance import in_float32
from cudalab.checks.expected import Expected, results, wide
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Budget, Kernel

LEAST = 4  # times what the budget allows: so much do the subnormal numbers change some element
SHARE = 1 / 8  # of the largest change, which an element may be off by: what rounding subnormal numbers does is less
CLOSE = 2.0**-10  # of the largest change; what is linear in float64 is so to more digits
KINDS = ("float32", "float64")  # of a kernel that is tried: 16 bits are converted to float32, which takes most as usual
NORMAL = 2.0**-126  # the least normal number of float32, in which code with -ftz=true computes
FLUSHED = 2 * NORMAL  # what two of its instructions change in a sum: less than a normal number each
OWN = "budgets"  # whose results lose by it; what libraries do with subnormal numbers is theirs


def inputs(kernel: Kernel, dtype: DType, drawn: Arrays, names: Sequence[str], rng: np.random.Generator) -> Arrays:
    """Subnormal numbers for all of these inputs, or for one of them; none where no result would show anything.

    `names`: floating-point arrays of one shape and dtype.
    """
    made = {name: _subnormal(drawn[name], rng) for name in names}
    several = [made] if len(names) > 1 else []
    for chosen in [*several, *({name: made[name]} for name in names)]:
        try:
            if _tell(kernel, dtype, drawn, chosen, rng):
                return chosen
        except Exception:  # the spec's own: what it asks of its inputs is not known
            continue
    return {}


def widened(
    kernel: Kernel, dtype: DType, given: Arrays, budgets: Mapping[str, Budget], whose: str
) -> dict[str, Budget]:
    """By output, the budget with a share of what the subnormal inputs change; of a library's results with all of it."""
    changes = _changes(kernel, dtype, given)
    share = SHARE if whose == OWN else 1 + CLOSE

    def wider(name: str, budget: Budget) -> Budget:
        change = float(np.abs(changes[name]).max(initial=0.0)) if name in changes else 0.0
        return budget if budget.exact or not change else budget.at_least(share * change)

    return {name: wider(name, budget) for name, budget in budgets.items()}


def settled(
    kernel: Kernel, dtype: DType, budgets: Mapping[str, Budget], got: Sequence[np.ndarray], want: Expected,
    given: Arrays,
) -> list[np.ndarray]:  # fmt: skip
    """Results with what the reference says where they are wrong, but right for code with -ftz=true.

    So is what the reference gives with 0 in place of subnormal numbers of float32 among the inputs, up to `FLUSHED` in
    outputs that are no wider than float32. All others stay as they are.
    """
    flushed = Expected(kernel, {name: _flushed(array) for name, array in given.items()})
    by_name, found = dict(zip(kernel.outs, got, strict=True)), list[np.ndarray]()
    for name, result in by_name.items():
        kind, budget = kernel.kind_of(name, dtype), budgets[name]
        due = None if kernel.outs[name].check else want.compute(name, by_name)
        if due is None or due.shape != result.shape or result.dtype != kind.numpy:
            found.append(result)
            continue
        other, wider = flushed.compute(name, by_name), budget.at_least(FLUSHED) if _narrow(kind) else budget
        free = parity.where_wrong(result, due, kind, budget, want.atol(name, budget))
        free &= ~parity.where_wrong(result, other, kind, wider, flushed.atol(name, wider))
        free &= (due != 0) | (result != 0)  # else only the sign can differ
        with np.errstate(all="ignore"):
            found.append(np.where(free, due.astype(result.dtype), result))
    return found


def _flushed(array: np.ndarray) -> np.ndarray:
    """The array as code with -ftz=true reads it: 0, with the sign, in place of subnormal numbers of float32."""
    if array.dtype.kind == "c":
        return np.stack([_flushed(array.real), _flushed(array.imag)], axis=-1).view(array.dtype)[..., 0]
    if not _narrow(DTYPES.get(array.dtype.name)):
        return array
    with np.errstate(all="ignore"):
        return np.where(np.abs(wide(array)) < NORMAL, np.copysign(array.dtype.type(0), array), array)


def _narrow(kind: DType | None) -> bool:
    return bool(kind and kind.floating and DTYPES[kind.part or kind.name].itemsize <= 4)


def _subnormal(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    least = 2.0 ** ((DTYPES[like.dtype.name].emin or 0) - 2)
    return (np.clip(rng.standard_normal(like.shape), -3.9, 3.9) * least).astype(like.dtype)


def _tell(kernel: Kernel, dtype: DType, drawn: Arrays, made: Arrays, rng: np.random.Generator) -> bool:
    """Whether each result is linear in the inputs that were made, or copies them, and one shows that they are not 0."""
    given = drawn | made
    want, changes = _wanted(kernel, dtype, given), _changes(kernel, dtype, given)
    expected, off = Expected(kernel, given), in_float32(kernel, given, want)
    parts = {name: array.astype(np.float64) * rng.uniform(-1, 1, array.shape) for name, array in made.items()}
    rest = {name: made[name] - part for name, part in parts.items()}
    one, other = (_changes(kernel, dtype, drawn | some, made) for some in (parts, rest))
    shown = False
    for name, change in changes.items():
        most = float(np.abs(change).max(initial=0.0))
        if not np.isfinite(want[name]).all() or off.get(name, 0.0) > SHARE * most:
            return False
        linear = np.abs(one[name] + other[name] - change).max(initial=0.0) <= CLOSE * most
        if not linear and not (kernel.kind_of(name, dtype).floating and _copied(want[name], made)):
            return False
        kind, budget = kernel.kind_of(name, dtype), kernel.budget(dtype, output=name)
        allowed = max(budget.ulp, 1) * kind.ulp(want[name]) + expected.atol(name, budget)
        shown |= kind.floating and bool((np.abs(change) > LEAST * allowed).any())
    return shown


def _copied(want: np.ndarray, made: Arrays) -> bool:
    return bool(np.isin(want, [0.0, *(value for array in made.values() for value in wide(array).ravel())]).all())


def _wanted(kernel: Kernel, dtype: DType, given: Arrays) -> Arrays:
    return results(kernel, dtype, Expected(kernel, given), rounded=wide)


def _changes(kernel: Kernel, dtype: DType, given: Arrays, made: Arrays | None = None) -> Arrays:
    """By output, what the inputs that were made change, compared with 0 in their place; those that are subnormal."""
    names = [name for name, array in given.items() if _is_subnormal(array)] if made is None else list(made)
    usual = _wanted(kernel, dtype, given | {name: np.zeros_like(given[name]) for name in names})
    with np.errstate(all="ignore"):
        return {name: wide(want) - wide(usual[name]) for name, want in _wanted(kernel, dtype, given).items()}


def _is_subnormal(array: np.ndarray) -> bool:
    kind = DTYPES.get(array.dtype.name)
    if not kind or not kind.floating or kind.complex:
        return False
    return bool(array.any() and (np.abs(wide(array)) < 2.0 ** (kind.emin or 0)).all())
