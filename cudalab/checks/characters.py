"""Inputs of one character each, such as all negative or tied, for kernels that are not functions of single elements.

Normal values do not show a maximum that starts at 0, a missing epsilon, or a sum that overflows. Only inputs that look
free are replaced: the first one that does, and those of its shape and dtype. An input is free if the spec leaves it to
the lab, or if the values that the spec draws for it have both signs and few repeats, and are neither sorted nor whole
numbers; indices, masks, lengths and probabilities are not. A character at which the reference itself is not finite is
not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from cudalab.checks.expected import Expected, wide
from cudalab.spec import reference
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import CHARACTERS
from cudalab.spec.kernel import Arrays, Budget, Kernel, Shape

Make = Callable[[np.ndarray, float], np.ndarray]  # from normal values and a scale

_LARGE = {"float16": (2.0**8, 2.0**3)}  # the first at which the results stay finite; values whose squares do, too
_LARGE_OTHERS = (2.0**30, 2.0**12, 2.0**6, 2.0**3)
_TINY = {"float16": (2.0**-10,)}
_ONCE = (1.0,)
LARGEST = 1 << 13  # elements of a shape at which they are tried
SLACK = 4  # results may move by this many times what the rounding of the inputs moves them by


def _ends(x: np.ndarray, scale: float) -> np.ndarray:
    """The largest value first and the smallest last in a row, and the other way round in the next row."""
    found = x.copy()
    if x.ndim and x.shape[-1]:
        rows = found.reshape(-1, x.shape[-1])
        rows[0::2, 0], rows[0::2, -1] = 32, -32
        rows[1::2, 0], rows[1::2, -1] = -32, 32
    return found


MAKERS: dict[str, Make] = {
    "zeros": lambda x, scale: np.zeros_like(x),
    "negative": lambda x, scale: -2 * np.abs(x) - 128,  # whose exponential is 0 in float32
    "large": lambda x, scale: x * scale,
    "tiny": lambda x, scale: x * scale,
    "ties": lambda x, scale: np.clip(np.rint(x), -1, 1),
    "ends": _ends,
    "rising": lambda x, scale: np.sort(4 * x, axis=-1) if x.ndim else x,
    "falling": lambda x, scale: np.sort(4 * x, axis=-1)[..., ::-1] if x.ndim else x,
}
_OF_INTEGERS = ("zeros", "ties", "rising", "falling")


def chosen(kernel: Kernel) -> tuple[str, ...]:
    """The characters that the spec allows."""
    if isinstance(kernel.characters, bool):
        return CHARACTERS if kernel.characters else ()
    return kernel.characters


def free(kernel: Kernel, arrays: Arrays) -> list[str]:
    """The inputs that a character may replace: alike in shape and dtype, the first one among them."""
    found: list[str] = []
    for name, array in arrays.items():
        if not _replaceable(kernel, array):
            continue
        if not found or (array.shape == arrays[found[0]].shape and array.dtype == arrays[found[0]].dtype):
            found.append(name)
    return found


def apply(kernel: Kernel, shape: Shape, dtype: DType) -> bool:
    """Whether some input at this shape is free. A property that decides an output is one of the usual inputs."""
    if kernel.characters is True and any(out.check for out in kernel.outs.values()):
        return False
    try:
        return bool(free(kernel, kernel.make(shape, dtype)))
    except Exception:  # the spec's own; the rows of other groups say it
        return False


def _replaceable(kernel: Kernel, array: np.ndarray) -> bool:
    known = DTYPES.get(array.dtype.name)
    if not array.size or not known:
        return False
    if kernel.inputs is None:
        return True
    if not known.floating:
        return False
    values = (array.real if known.complex else array).astype(np.float64)
    if (
        values.ndim and values.shape[-1] > 3 and (values[..., 1:] >= values[..., :-1]).all()
    ):  # sorted, as a search asks for
        return False
    values = values[np.isfinite(values)]
    if not values.size or not values.min() < 0 < values.max() or (values == np.rint(values)).all():
        return False
    return len(np.unique(values)) >= min(8, values.size // 2)


def arrays(kernel: Kernel, shape: Shape, dtype: DType, which: str, seed: int) -> Arrays:
    """The inputs that the spec draws, the free ones replaced; as drawn where the character does not apply."""
    drawn = kernel.make(shape, dtype, seed)
    names = free(kernel, drawn)
    if not names:
        return drawn
    kind = DTYPES[drawn[names[0]].dtype.name]
    if not kind.floating and which not in _OF_INTEGERS:
        return drawn
    rng = np.random.default_rng((seed, CHARACTERS.index(which)))
    scales = _LARGE.get(kind.name, _LARGE_OTHERS) if which == "large" else _ONCE
    scales = _TINY.get(kind.name, (2.0**-30,)) if which == "tiny" else scales
    normal = {name: rng.standard_normal((1 + kind.complex, *drawn[name].shape)) for name in names}
    for scale in scales:
        made = {name: _as(kind, [MAKERS[which](part, scale) for part in normal[name]]) for name in names}
        if _defined(kernel, dtype, drawn | made):
            return drawn | made
    return drawn


def _as(kind: DType, parts: list[np.ndarray]) -> np.ndarray:
    """Values in a dtype, from their real and imaginary parts if it is a complex one."""
    value = parts[0] + 1j * parts[1] if kind.complex else parts[0]
    if kind.numpy.kind == "u":
        value = np.maximum(value, 0)
    return value.astype(kind.numpy)


def _results(kernel: Kernel, dtype: DType, expected: Expected, rounded: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    """What the references say of each output that they decide. Later ones meet earlier ones as `rounded` has them."""
    found, met = Arrays(), Arrays()
    for name in reference.judged(kernel):
        if all(earlier in met for earlier in reference.on_earlier(kernel, name)):
            found[name] = expected.of(name, met)
            with np.errstate(all="ignore"):
                met[name] = rounded(found[name].astype(kernel.kind_of(name, dtype).numpy))
    return found


def _defined(kernel: Kernel, dtype: DType, given: Arrays) -> bool:
    """Whether the references give finite values well within the outputs' dtypes."""
    kinds = {name: kernel.kind_of(name, dtype) for name in reference.judged(kernel)}
    try:
        with np.errstate(invalid="ignore" if all(kind.floating for kind in kinds.values()) else "raise"):
            wanted = _results(kernel, dtype, Expected(kernel, given), lambda array: array)
    except Exception:  # the spec's own: what it asks of its inputs is not known
        return False
    sizes = {name: np.abs(want).max(initial=0.0) for name, want in wanted.items() if kinds[name].floating}
    return all(size < _limit(kinds[name]) / 4 for name, size in sizes.items())  # also False for NaN


def _limit(dtype: DType) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(DTYPES[dtype.part or dtype.name].numpy).max)


def widened(
    kernel: Kernel, dtype: DType, given: Arrays, want: Expected, budgets: Mapping[str, Budget], seed: int
) -> dict[str, Budget]:
    """By output, the budget with what rounding the inputs does to the results: a sum of large terms may cancel.

    Once all values move towards the larger ones: of a sum that is as much as its terms may lose on the way.
    """
    if not any(kernel.kind_of(name, dtype).floating for name in budgets):
        return dict(budgets)
    usual = _results(kernel, dtype, want, lambda array: array)
    names = [name for name in usual if kernel.kind_of(name, dtype).floating]
    moved = dict.fromkeys(names, 0.0)
    rng = np.random.default_rng(seed)
    for how in ("random", "random", "up"):
        with np.errstate(all="ignore"):
            off_by = partial(_rounded, how=how, rng=rng)
            other = _results(kernel, dtype, Expected(kernel, {k: off_by(a) for k, a in given.items()}), off_by)
            off = {name: np.abs(other[name] - usual[name]) for name in names}
        moved = {name: max(moved[name], float(off[name][np.isfinite(off[name])].max(initial=0.0))) for name in names}

    def wider(budget: Budget, by: float) -> Budget:
        return replace(budget, atol=max(budget.atol, max(budget.ulp, SLACK) * by))

    return {name: wider(budget, moved[name]) if name in moved else budget for name, budget in budgets.items()}


def _rounded(array: np.ndarray, how: str, rng: np.random.Generator) -> np.ndarray:
    """The values, each off by up to half a unit in the last place of its dtype, of float32 where that is narrower."""
    known = DTYPES.get(array.dtype.name)
    if not known or not known.floating:
        return array
    values = wide(array)
    by = rng.uniform(-1, 1, values.shape) if how == "random" else 1.0 if known.complex else np.sign(values)
    return values * (1 + by * 2.0 ** -min(known.precision or 24, 24))
