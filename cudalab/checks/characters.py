"""Inputs of one character each, such as all negative or tied, for kernels that are not functions of single elements.

Normal values do not show a maximum that starts at 0, a missing epsilon, or a sum that overflows. Only inputs that look
free are replaced: the first one that does, and those of its shape and dtype. An input is free if the spec leaves it to
the lab, or if the values that the spec draws for it have both signs and few repeats, and are neither sorted nor whole
numbers; indices, masks, lengths and probabilities are not. A character at which the reference itself is not finite is
not tried, but for rows of an infinity throughout. What a kernel should make of those is what the reference makes of
them; where that is NaN, any result will do. What becomes of a NaN in a row is said in nans.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from cudalab.checks import nans, subnormals, thresholds
from cudalab.checks.expected import Expected, Invalid, results
from cudalab.spec import reference
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import CHARACTERS, INFINITE, NAN, NEGATIVE, PEAK, SCALARS, SUBNORMAL
from cudalab.spec.kernel import Arrays, Budget, Kernel, Shape
from cudalab.spec.sized import AFFORDABLE

Make = Callable[[np.ndarray, float], np.ndarray]  # from normal values and a scale

_LARGE = {"float16": (2.0**8, 2.0**3)}  # the first at which the results stay finite; values whose squares do, too
_LARGE_OTHERS = (2.0**30, 2.0**12, 2.0**6, 2.0**3)
_LOW = {"float16": (2.0**14,)}  # below the -1e4 that stands for a masked value, or where a maximum starts
_LOW_OTHERS = (2.0**17, 2.0**14)
_TINY = {"float16": (2.0**-10,)}
_ONCE = (1.0,)
_PEAKS = ((20, 2048.0), (10, 64.0), (0, 16.0))  # in a row, from so many bits: each more of a sum than rounding
_MASKED = (1.0, 0.5, 2.0**-3, 2.0**-5, 2.0**-7)  # the parts of a row that are -inf; tried in this order
_INFINITY = "an infinity, for rows of an infinity throughout"
DOUBTS = {"neginf": _INFINITY, "posinf": _INFINITY, NAN: "a number, which does not depend on the NaN among the inputs"}
BEGINS = {  # at the end of a wrong result's message
    "neginf": " (in rows of -inf: does a maximum begin at a finite number instead of -INFINITY?)",
    "posinf": " (in rows of +inf: does a minimum begin at a finite number instead of INFINITY?)",
}
LARGEST = 1 << 13  # elements of a shape at which they are tried
LONGEST = 1 << 17  # elements of the shape at which peaks are
FEW = 4  # values of a row that tie
PART = 4  # one with longer rows may have so many times fewer


def _ends(x: np.ndarray, scale: float) -> np.ndarray:
    """Put the largest value first and the smallest last in a row, and the other way round in the next row."""
    found = x.copy()
    if x.ndim:
        rows = found.reshape(-1, x.shape[-1])
        rows[0::2, 0], rows[0::2, -1] = 32, -32
        rows[1::2, 0], rows[1::2, -1] = -32, 32
    return found


def _zeros(x: np.ndarray) -> np.ndarray:
    """Rows of -0.0, of +0.0, and of +0.0 before -0.0: as an integer -0.0 is less than every other number.

    A single row is of the last kind.
    """
    found = np.atleast_2d(np.zeros_like(x))
    rows = found.reshape(-1, found.shape[-1])
    half = rows.shape[-1] // 2
    rows[::2] = -0.0
    rows[2 % len(rows) :: 4, :half] = 0.0
    return found.reshape(x.shape)


def _sorted(x: np.ndarray, falling: bool) -> np.ndarray:
    """Rows that rise or fall throughout; every other row does so in lanes, the first of which has the largest values.

    A lane has each p-th place of a row, for the largest power of two p below its length: a thread of a block of p, or
    of fewer, meets the largest values one after another.
    """
    if not x.ndim:
        return x
    places = np.arange(x.shape[-1])
    p = 1 << max((places.size - 1).bit_length() - 1, 0)
    step = -(places // p) if falling else places // p
    found = np.sort(4 * x, axis=-1)
    rows = found.reshape(-1, places.size)
    lanes = np.empty_like(rows[1::2])
    lanes[:, np.lexsort((step, -(places % p)))] = rows[1::2]
    rows[0::2] = rows[0::2, ::-1] if falling else rows[0::2]
    rows[1::2] = lanes
    return found


def _ties(x: np.ndarray) -> np.ndarray:
    """Values -1, 0 and 1. All zeros are negative, which a copy may lose; of both zeros a maximum may take either.

    Every other row, the first one among them, is 0 but for few of the others: those that tie lie far apart, in other
    warps and packs. The rows between have many of each.
    """
    found = np.clip(np.rint(x), -1, 1)
    if x.ndim and x.shape[-1] > 4 * FEW:
        rows, order = found.reshape(-1, x.shape[-1])[::2], x.reshape(-1, x.shape[-1])[::2].argsort(axis=-1)
        rows[:] = 0
        np.put_along_axis(rows, order[:, :FEW], -1, axis=-1)
        np.put_along_axis(rows, order[:, -FEW:], 1, axis=-1)
    return np.where(found == 0, -0.0, found)


def _peaks(x: np.ndarray, most: float) -> np.ndarray:
    """Rows of tiny values but for up to `most` large ones: a sum that drops one of these is far off.

    Each place is such a peak in some row, if there are rows enough; the last one is in the first row.
    """
    if not x.ndim:
        return x
    rows = x.reshape(-1, x.shape[-1])
    cols = rows.shape[-1]
    place = rows[0].argsort().argsort()  # a random order
    place[(place == 0).argmax()], place[-1] = place[-1], 0
    sets = max(len(rows), 2, -(-cols // int(most)))
    peak = place % sets == np.arange(len(rows))[:, None] % sets
    return np.where(peak, 8 + np.abs(rows) / 8, rows / 64).reshape(x.shape)


def _masked(x: np.ndarray, part: float) -> np.ndarray:
    """-inf at this part of the places of each row, as a mask puts it there; one value of a row always stays."""
    if not x.ndim:
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


_MAKERS: dict[str, Make] = {
    "zeros": lambda x, scale: _zeros(x),
    "negative": lambda x, scale: -2 * np.abs(x) - 128,  # whose exponential is 0 in float32
    "large": lambda x, scale: x * scale,
    "tiny": lambda x, scale: x * scale,
    "ties": lambda x, scale: _ties(x),
    "ends": _ends,
    "rising": lambda x, scale: _sorted(x, falling=False),
    "falling": lambda x, scale: _sorted(x, falling=True),
    "low": lambda x, scale: -(1 + np.abs(x) / 4) * scale,
    "positive": lambda x, scale: 2 * np.abs(x) + 128,  # whose exponential overflows in float32
    "masked": _masked,
    "neginf": _throughout,
    "posinf": _throughout,
    NAN: nans.scattered,
    PEAK: _peaks,
}


def _or_empty(make: Make) -> Make:
    """What makes an array without elements of one without elements."""
    return lambda x, scale: make(x, scale) if x.size else x


MAKERS = {which: _or_empty(make) for which, make in _MAKERS.items()}
_OF_INTEGERS = ("zeros", "negative", "ties", "rising", "falling", "positive", SCALARS)


def small(kernel: Kernel) -> list[Shape]:
    """The shapes of the spec that are small enough, the largest last."""
    return kernel.small((*kernel.edges, *kernel.sizes.values()), LARGEST)


def at(kernel: Kernel) -> Shape | None:
    """The shape at which characters are tried: of the largest small ones, that with the longest rows; None for none.

    It has two rows or more where one of them does: many characters give every other row something of its own.
    """
    known = small(kernel)
    if not known:
        return None
    large = [shape for shape in known if PART * kernel.elements(shape) >= kernel.elements(known[-1])]
    return max(large, key=lambda shape: (prod(shape[:-1]) > 1, shape[-1:], kernel.elements(shape)))


def longest(kernel: Kernel) -> Shape:
    """The shape with the longest rows of those that a check tries anyway and that have not too many elements."""
    first = next(iter(kernel.sizes.values()))
    return max(kernel.small((*kernel.edges, first), LONGEST), key=lambda shape: (shape[-1:], kernel.elements(shape)))


def not_tried(kernel: Kernel) -> list[str]:
    """A note where the spec has no shape that is small enough."""
    if small(kernel) or not chosen(kernel):
        return []
    least = f"no size has at most {AFFORDABLE:,} elements; give small ones, such as edges=((1,),)"
    return [f"no zeros, ties, infinities, ... were tried: {least}"]


def chosen(kernel: Kernel) -> tuple[str, ...]:
    """The characters that the spec allows."""
    every = CHARACTERS if kernel.characters else ()
    found: tuple[str, ...] = every if isinstance(kernel.characters, bool) else kernel.characters
    found = tuple(which for which in found if which != SCALARS or kernel.scalars)
    return tuple(which for which in found if which != NAN or kernel.nans != "ignored")


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
    if (not kind.floating and which not in _OF_INTEGERS) or (
        kind.complex and which in ("low", "masked", NAN, SUBNORMAL, *INFINITE)
    ):
        return drawn
    rng = np.random.default_rng((seed, CHARACTERS.index(which)))
    if which == SCALARS:
        values = thresholds.values(kernel, drawn, kind)
        given = drawn | {name: thresholds.scattered(drawn[name], values, rng) for name in names}
        return given if defined(kernel, dtype, given, which) and thresholds.steady(kernel, dtype, given) else drawn
    if which == SUBNORMAL:
        return drawn | subnormals.inputs(kernel, dtype, drawn, names, rng)
    peaks = next(most for bits, most in _PEAKS if (kind.precision or 0) >= bits)
    scales = {
        "large": _LARGE.get(kind.name, _LARGE_OTHERS), "tiny": _TINY.get(kind.name, (2.0**-30,)), "masked": _MASKED,
        "low": _LOW.get(kind.name, _LOW_OTHERS), PEAK: (peaks,),
        "neginf": (-np.inf,), "posinf": (np.inf,),
    }.get(which, _ONCE)  # fmt: skip
    normal = {name: rng.standard_normal((1 + kind.complex, *drawn[name].shape)) for name in names}
    for scale in scales:
        made = {name: _as(kind, [MAKERS[which](part, scale) for part in normal[name]]) for name in names}
        if which == NEGATIVE and kind.floating and not kind.complex:
            made |= _positive(kernel, drawn, names[0])
        if defined(kernel, dtype, drawn | made, which):
            return drawn | made
    return drawn


def _positive(kernel: Kernel, drawn: Arrays, besides: str) -> Arrays:
    """The magnitudes of the other free numbers: sums and products with the negative ones are negative.

    A maximum of products that begins at 0, such as that of an attention, shows nowhere else. Of what the lab draws all
    numbers are free, whatever their shape; what a spec computes may be a table, such as that of a transform.
    """
    names = free(kernel, drawn) if callable(kernel.inputs) else list(drawn)
    return {
        name: np.abs(drawn[name])
        for name in names
        if name != besides and drawn[name].dtype.name in DTYPES and _is_real(drawn[name])
        and _replaceable(kernel, name, drawn[name])
    }  # fmt: skip


def _is_real(array: np.ndarray) -> bool:
    known = DTYPES[array.dtype.name]
    return known.floating and not known.complex


def _as(kind: DType, parts: list[np.ndarray]) -> np.ndarray:
    """Values in a dtype, from their real and imaginary parts if it is a complex one."""
    value = parts[0] + 1j * parts[1] if kind.complex else parts[0]
    if kind.numpy.kind in "iu":
        limits = np.iinfo(kind.numpy)
        value = np.clip(value, limits.min, limits.max)
    return value.astype(kind.numpy)


def defined(kernel: Kernel, dtype: DType, given: Arrays, which: str) -> bool:
    """Whether the references give finite values well within the outputs' dtypes for inputs of this character.

    Of masked inputs values that must be exact may be infinite, which are copies of the inputs. A sum of -inf may well
    be NaN in another order of its terms. Of rows of an infinity throughout it is enough if some value is not NaN, and
    each integer is a number.
    """
    kinds = {name: kernel.kind_of(name, dtype) for name in reference.judged(kernel)}
    try:
        invalid: Invalid = "ignore" if all(kind.floating for kind in kinds.values()) else "raise"
        if which == NAN:
            return nans.decides(kernel, dtype, given)
        wanted = results(kernel, dtype, Expected(kernel, given, invalid))
    except Exception:  # the spec's own: what it asks of its inputs is not known
        return False
    if which in INFINITE:
        infinite = any(a.dtype.kind not in "biuc" and np.isinf(a.astype(np.float64)).any() for a in given.values())
        numbers = all(kinds[name].floating or np.isfinite(want).all() for name, want in wanted.items())
        return infinite and numbers and not all(np.isnan(want).all() for want in wanted.values())
    for name, want in wanted.items():
        budget = kernel.budget(dtype, output=name)
        copied = want[~np.isinf(want)] if which == "masked" and budget.exact else want
        if kinds[name].floating and not np.abs(copied).max(initial=0.0) < kinds[name].largest / 4:  # also for NaN
            return False
    return True


def settled(
    kernel: Kernel, dtype: DType, which: str, budgets: Mapping[str, Budget], got: list[np.ndarray], want: Expected,
    given: Arrays,
) -> tuple[list[np.ndarray], list[str]]:  # fmt: skip
    """Results with what the reference says where inputs of this character decide nothing, and what is doubtful.

    Of zeros the sign of a 0 is not decided: a sum may start at +0. Of rows of an infinity nothing is where the
    reference gives NaN. Where it gives an infinity and the kernel NaN, the result is doubtful, unless it must be exact:
    a mean that is updated value by value (Welford) is inf - inf on the way. Of a NaN see nans.py; a NaN where the
    reference gives a number that does not depend on it is doubtful.
    """
    by_name, found, doubts = dict(zip(kernel.outs, got, strict=True)), list[np.ndarray](), list[str]()
    fates = nans.fates(kernel, dtype, given) if which == NAN else {}
    for name, result in by_name.items():
        floating = kernel.kind_of(name, dtype).floating
        if kernel.outs[name].check or not (floating or which == NAN):
            found.append(result)
            continue
        due = want.compute(name, by_name)
        if due.shape != result.shape:
            found.append(result)
            continue
        free, doubtful = _OPEN[which](due, result, budgets[name].exact, fates.get(name))
        if doubtful.any():
            doubts.append(f"{name} is NaN where the reference gives {DOUBTS[which]}")
        with np.errstate(all="ignore"):
            found.append(np.where(free | doubtful, due.astype(result.dtype), result))
    return found, doubts


Open = tuple[np.ndarray, np.ndarray]  # by element, whether it is left to the kernel, and whether it is doubtful


def _open_zeros(due: np.ndarray, result: np.ndarray, exact: bool, fate: nans.Fate | None) -> Open:
    return (due == 0) & (result == 0), np.zeros(due.shape, bool)


def _open_infinities(due: np.ndarray, result: np.ndarray, exact: bool, fate: nans.Fate | None) -> Open:
    return np.isnan(due), np.isinf(due) & np.isnan(result) & (not exact)


def _open_nans(due: np.ndarray, result: np.ndarray, exact: bool, fate: nans.Fate | None) -> Open:
    if fate is None:  # of integers
        return np.ones(due.shape, bool), np.zeros(due.shape, bool)
    return ~fate.decided, ~fate.depends & np.isnan(result) & ~np.isnan(due)


_OPEN = {"zeros": _open_zeros, **dict.fromkeys(INFINITE, _open_infinities), NAN: _open_nans}
UNDECIDED = tuple(_OPEN)  # the characters at which something is left to the kernel
