"""Inputs of one character each, such as all negative or tied, for kernels that are not functions of single elements.

Normal values do not show a maximum that starts at 0, a missing epsilon, or a sum that overflows. Only inputs that look
free are replaced: the first one that does, and those of its shape and dtype. An input is free if the spec leaves it to
the lab, or if the values that the spec draws for it have both signs and few repeats, and are neither sorted nor whole
numbers; indices, masks, lengths and probabilities are not. A character at which the reference itself is not finite is
not tried, but for rows of an infinity throughout. What a kernel should make of those is what the reference makes of
them; where that is NaN, any result will do. Rows of NaN are not tried: fmaxf() ignores NaN and NumPy's maximum does
not, and no comparison holds, so kernels and references may well differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from cudalab.checks.expected import Expected, Invalid, wide
from cudalab.spec import reference
from cudalab.spec.declared import AFFORDABLE
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import CHARACTERS, INFINITE
from cudalab.spec.kernel import Arrays, Budget, Kernel, Shape

Make = Callable[[np.ndarray, float], np.ndarray]  # from normal values and a scale

_LARGE = {"float16": (2.0**8, 2.0**3)}  # the first at which the results stay finite; values whose squares do, too
_LARGE_OTHERS = (2.0**30, 2.0**12, 2.0**6, 2.0**3)
_TINY = {"float16": (2.0**-10,)}
_ONCE = (1.0,)
_MASKED = (1.0, 0.5, 2.0**-3, 2.0**-5, 2.0**-7)  # the parts of a row that are -inf; tried in this order
LARGEST = 1 << 13  # elements of a shape at which they are tried
SLACK = 4  # results may move by this many times what the rounding of the inputs moves them by
OF_FLOAT32 = 4  # ... and by this many times the error of the reference where it computes in float32


def _ends(x: np.ndarray, scale: float) -> np.ndarray:
    """The largest value first and the smallest last in a row, and the other way round in the next row."""
    found = x.copy()
    if x.ndim and x.shape[-1]:
        rows = found.reshape(-1, x.shape[-1])
        rows[0::2, 0], rows[0::2, -1] = 32, -32
        rows[1::2, 0], rows[1::2, -1] = -32, 32
    return found


def _ties(x: np.ndarray) -> np.ndarray:
    """Values -1, 0 and 1. All zeros are negative, which a copy may lose; of both zeros a maximum may take either."""
    found = np.clip(np.rint(x), -1, 1)
    return np.where(found == 0, -0.0, found)


def _masked(x: np.ndarray, part: float) -> np.ndarray:
    """-inf at this part of the places of each row, as a mask puts it there; one value of a row always stays."""
    if not x.ndim or not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1])
    hidden = np.abs(rows) * 4096 % 1 < part
    hidden[np.arange(len(rows)), rows.argmax(axis=1)] = False
    return np.where(hidden, -np.inf, rows).reshape(x.shape)


def _throughout(x: np.ndarray, value: float) -> np.ndarray:
    """Every other row is this value, the first one among them."""
    found = np.atleast_2d(x.copy())
    found.reshape(-1, found.shape[-1])[::2] = value
    return found.reshape(x.shape)


MAKERS: dict[str, Make] = {
    "zeros": lambda x, scale: np.zeros_like(x),
    "negative": lambda x, scale: -2 * np.abs(x) - 128,  # whose exponential is 0 in float32
    "large": lambda x, scale: x * scale,
    "tiny": lambda x, scale: x * scale,
    "ties": lambda x, scale: _ties(x),
    "ends": _ends,
    "rising": lambda x, scale: np.sort(4 * x, axis=-1) if x.ndim else x,
    "falling": lambda x, scale: np.sort(4 * x, axis=-1)[..., ::-1] if x.ndim else x,
    "positive": lambda x, scale: 2 * np.abs(x) + 128,  # whose exponential overflows in float32
    "masked": _masked,
    "neginf": _throughout,
    "posinf": _throughout,
}
_OF_INTEGERS = ("zeros", "negative", "ties", "rising", "falling", "positive")


def small(kernel: Kernel) -> list[Shape]:
    """The shapes of the spec that are small enough, the largest last."""
    return kernel.small((*kernel.edges, *kernel.sizes.values()), LARGEST)


def not_tried(kernel: Kernel) -> list[str]:
    """A note where the spec has no shape that is small enough."""
    if small(kernel) or not chosen(kernel):
        return []
    least = f"no size has at most {AFFORDABLE:,} elements; give small ones, such as edges=((1,),)"
    return [f"no zeros, ties, infinities, ... were tried: {least}"]


def chosen(kernel: Kernel) -> tuple[str, ...]:
    """The characters that the spec allows."""
    if isinstance(kernel.characters, bool):
        return CHARACTERS if kernel.characters else ()
    return kernel.characters


def free(kernel: Kernel, arrays: Arrays) -> list[str]:
    """The inputs that a character may replace: alike in shape and dtype, the first one among them."""
    found: list[str] = []
    for name, array in arrays.items():
        if not _replaceable(kernel, name, array):
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


def _replaceable(kernel: Kernel, name: str, array: np.ndarray) -> bool:
    known = DTYPES.get(array.dtype.name)
    if not array.size or not known:
        return False
    if not callable(kernel.inputs):  # values between limits are chosen ones
        own = (kernel.inputs or {}).get(name)
        return own is None or own.high is None
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
    if (not kind.floating and which not in _OF_INTEGERS) or (kind.complex and which in ("masked", *INFINITE)):
        return drawn
    rng = np.random.default_rng((seed, CHARACTERS.index(which)))
    scales = {
        "large": _LARGE.get(kind.name, _LARGE_OTHERS), "tiny": _TINY.get(kind.name, (2.0**-30,)), "masked": _MASKED,
        "neginf": (-np.inf,), "posinf": (np.inf,),
    }.get(which, _ONCE)  # fmt: skip
    normal = {name: rng.standard_normal((1 + kind.complex, *drawn[name].shape)) for name in names}
    for scale in scales:
        made = {name: _as(kind, [MAKERS[which](part, scale) for part in normal[name]]) for name in names}
        if defined(kernel, dtype, drawn | made, which):
            return drawn | made
    return drawn


def _as(kind: DType, parts: list[np.ndarray]) -> np.ndarray:
    """Values in a dtype, from their real and imaginary parts if it is a complex one."""
    value = parts[0] + 1j * parts[1] if kind.complex else parts[0]
    if kind.numpy.kind in "iu":
        limits = np.iinfo(kind.numpy)
        value = np.clip(value, limits.min, limits.max)
    return value.astype(kind.numpy)


def results(kernel: Kernel, dtype: DType, expected: Expected, rounded: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    """What the references say of each output that they decide; later ones meet earlier ones as `rounded` has them."""
    found, met = Arrays(), Arrays()
    for name in reference.judged(kernel):
        if all(earlier in met for earlier in reference.on_earlier(kernel, name)):
            found[name] = expected.of(name, met)
            with np.errstate(all="ignore"):
                met[name] = rounded(found[name].astype(kernel.kind_of(name, dtype).numpy))
    return found


def defined(kernel: Kernel, dtype: DType, given: Arrays, which: str) -> bool:
    """Whether the references give finite values well within the outputs' dtypes for inputs of this character.

    Of masked inputs values that must be exact may be infinite, which are copies of the inputs. A sum of -inf may well
    be NaN in another order of its terms. Of rows of an infinity throughout it is enough if some value is not NaN, and
    each integer is a number.
    """
    kinds = {name: kernel.kind_of(name, dtype) for name in reference.judged(kernel)}
    try:
        invalid: Invalid = "ignore" if all(kind.floating for kind in kinds.values()) else "raise"
        wanted = results(kernel, dtype, Expected(kernel, given, invalid), lambda array: array)
    except Exception:  # the spec's own: what it asks of its inputs is not known
        return False
    if which in INFINITE:
        infinite = any(a.dtype.kind not in "biuc" and np.isinf(a.astype(np.float64)).any() for a in given.values())
        numbers = all(kinds[name].floating or np.isfinite(want).all() for name, want in wanted.items())
        return infinite and numbers and not all(np.isnan(want).all() for want in wanted.values())
    for name, want in wanted.items():
        budget = kernel.budget(dtype, output=name)
        copied = want[~np.isinf(want)] if which == "masked" and budget.exact else want
        if kinds[name].floating and not np.abs(copied).max(initial=0.0) < limit(kinds[name]) / 4:  # also for NaN
            return False
    return True


def limit(dtype: DType) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(DTYPES[dtype.part or dtype.name].numpy).max)


def settled(
    kernel: Kernel, dtype: DType, budgets: Mapping[str, Budget], got: list[np.ndarray], want: Expected
) -> tuple[list[np.ndarray], list[str]]:
    """Results with what the reference says where it decides nothing, and what is doubtful about others.

    It decides nothing where it gives NaN. Where it gives an infinity and the kernel NaN, the result is doubtful, unless
    it must be exact: a mean that is updated value by value (Welford) is inf - inf on the way.
    """
    by_name, found, doubts = dict(zip(kernel.outs, got, strict=True)), list[np.ndarray](), list[str]()
    for name, result in by_name.items():
        decided = kernel.outs[name].check or not kernel.kind_of(name, dtype).floating
        due = result if decided else want.of(name, by_name)
        if decided or due.shape != result.shape:
            found.append(result)
            continue
        doubtful = np.isinf(due) & np.isnan(result) & (not budgets[name].exact)
        if doubtful.any():
            doubts.append(f"{name} is NaN where the reference gives an infinity, for rows of an infinity throughout")
        with np.errstate(all="ignore"):
            found.append(np.where(np.isnan(due) | doubtful, due.astype(result.dtype), result))
    return found, doubts


def widened(
    kernel: Kernel, dtype: DType, given: Arrays, want: Expected, budgets: Mapping[str, Budget], seed: int
) -> dict[str, Budget]:
    """By output, the budget with what rounding the inputs does to the results: a sum of large terms may cancel.

    Once all values move towards the larger ones: of a sum that is as much as its terms may lose on the way. A budget of
    0 stays: a result that must be exact, such as a copy, is so for any input.
    """
    if not any(kernel.kind_of(name, dtype).floating for name in budgets):
        return dict(budgets)
    usual = results(kernel, dtype, want, lambda array: array)
    names = [name for name in usual if kernel.kind_of(name, dtype).floating]
    moved = dict.fromkeys(names, 0.0)
    rng = np.random.default_rng(seed)
    for how in ("random", "random", "up"):
        with np.errstate(all="ignore"):
            off_by = partial(_rounded, how=how, rng=rng)
            other = results(kernel, dtype, Expected(kernel, {k: off_by(a) for k, a in given.items()}), off_by)
            off = {name: np.abs(other[name] - usual[name]) for name in names}
        moved = {name: max(moved[name], float(off[name][np.isfinite(off[name])].max(initial=0.0))) for name in names}
    narrow = _in_float32(kernel, given, usual)

    def wider(name: str, budget: Budget) -> Budget:
        if budget.exact:
            return budget
        by = max(max(budget.ulp, SLACK) * moved[name], OF_FLOAT32 * narrow.get(name, 0.0))
        return replace(budget, atol=max(budget.atol, by))

    return {name: wider(name, budget) if name in moved else budget for name, budget in budgets.items()}


def _in_float32(kernel: Kernel, given: Arrays, usual: Arrays) -> dict[str, float]:
    """By output, how far the kernel's `reference` is off where it computes in float32: logits that are large, say."""
    kinds = {name: DTYPES.get(array.dtype.name) for name, array in given.items()}
    narrow = {
        name: array.astype(np.float32) if (kind := kinds[name]) and kind.floating and not kind.complex else array
        for name, array in given.items()
    }
    if any(kind and (kind.name == "float64" or kind.complex) for kind in kinds.values()):
        return {}
    try:
        with np.errstate(all="ignore"):
            found = reference.of_kernel(kernel, narrow | reference.plain(kernel.scalars_of(given)))
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
