"""Other values for the scalars of a kernel: one that has the spec's value written into it is wrong for them.

A spec may name them (`Scalar.others`). Else a value is drawn near the spec's, at which the reference's answer differs
by more than a kernel may be wrong: `eps` beside values around 1 must grow a lot, a factor hardly at all. It keeps its
sign, and stays between 0 and 1 where it is there, as a probability must. A whole number becomes smaller: a larger one
may lead a kernel beyond its arrays. What the reference cannot tell apart, or does not take, stays as it is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, cast

import numpy as np

from cudalab.checks import characters, parity
from cudalab.checks.expected import Expected, results
from cudalab.spec import allowed
from cudalab.spec.array import Scalar
from cudalab.spec.budget import Budget
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Kernel, Shape

Move = Callable[[Any], Any]  # from the spec's value to another one

STEPS = (0.3, 1, 2, 4, 7, 11, 16, 22, 30, 38)  # powers of two that `_scaled` takes in turn
APART = 4  # budgets of the widest kind by which an answer must differ
FEW = 8  # bits of a value that was chosen so that products with it are exact
SMALL = 1 << 16  # elements, at most, of a size with other lengths
LANES = 64  # a length, if it may be so large, for which a kernel with a place in each lane of a warp is too small
SHARE = 0.02  # of an output's elements that should differ; where no value does so much, the one that does most is taken

ASKED = "others=() asks for it"
FOLLOWS = "it is a whole number that is computed from the inputs"
NO_LENGTH = "dims= and the sizes allow no smaller one"
NO_CHANGE = "no value that was tried changes what the reference gives by more than the budgets"


@dataclass(frozen=True)
class Others:
    """A kernel with other values of its scalars, and why some have none."""

    kernel: Kernel
    usual: Mapping[str, Any] = field(default_factory=dict)  # by name, the spec's values of those that have another one
    values: Mapping[str, Any] = field(default_factory=dict)  # those other values
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name}={self.values[name]!s} instead of {self.usual[name]!s}" for name in self.values)


def chosen(kernel: Kernel, dtype: DType, arrays: Arrays, seed: int) -> Others:
    """Other values of the scalars for a group with these inputs; all of them change at once. SpecError: see `others`.

    The same for the same seed, inputs' shapes and dtype.
    """
    rng = np.random.default_rng((seed, *next(iter(arrays.values())).shape))
    usual, values, why = kernel.scalars_of(arrays), dict[str, Any](), dict[str, str]()
    probe = _Probe(kernel, dtype, seed)
    for name, scalar in kernel.scalars.items():
        if name in kernel.length_scalars:  # groups of their own have other values
            if not callable(scalar.value) and name not in lengths(kernel)[1]:
                why[name] = ASKED if scalar.others == () else NO_LENGTH
            continue
        if scalar.others is not None:
            given = [value for value in scalar.others_of(arrays, name) if value != usual[name]]
            if not given:
                why[name] = ASKED
                continue
            values[name] = given[int(rng.integers(len(given)))]
            probe.take(name, partial(_constant, values[name]))
        elif move := probe.find(name, scalar, rng):
            values[name] = scalar.rounded(move(usual[name]), name)
        elif name in probe.taken:
            follows = callable(scalar.value) and not DTYPES[scalar.dtype].floating
            why[name] = FOLLOWS if follows else NO_CHANGE
    notes = tuple(
        f"the scalar {name} has one value in every check: {said}"
        + ("" if said == ASKED else f"; {kernel.name}.py can name others, as in Scalar(..., others=(1, 2))")
        for name, said in why.items()
    )
    values = {name: value for name, value in values.items() if value != usual[name]}
    return Others(kernel.with_scalars(values), {name: usual[name] for name in values}, values, notes)


def lengths(kernel: Kernel) -> tuple[Shape, dict[str, list[int]]]:
    """A small size, and other values there of the scalars that are lengths, such as the k of a top-k, by name.

    They need arrays of their own. None for a scalar that follows from the inputs' shapes: sizes give it other values.
    """
    sizes, found = kernel.small((*kernel.edges, *kernel.sizes.values()), SMALL), dict[str, list[int]]()
    if not kernel.length_scalars or not sizes or not (inputs := kernel.shapes_at(sizes[-1])):
        return (), {}
    for name, (usual,) in kernel.scalar_lengths(inputs).items():
        scalar, stand_ins = kernel.scalars[name], {n: np.broadcast_to(np.float32(0), one) for n, one in inputs.items()}
        if scalar.others is not None:
            wanted = [int(value) for value in scalar.others_of(stand_ins, name)]
        else:
            wanted = [] if callable(scalar.value) else _beside(kernel, sizes[-1], name, usual)
        if takes := [n for n in wanted if n != usual and not kernel.unfit_at(sizes[-1], {name: n})]:
            found[name] = takes
    return sizes[-1], found


def _beside(kernel: Kernel, size: Shape, name: str, usual: int) -> list[int]:
    """Other lengths for a scalar at a size: smaller ones, and a larger one where `dims` says how large it may be."""
    smaller = [n for n in _fewer(usual) if n]
    if not (choices := allowed.choices(kernel.dims, name, kernel.lengths_at(size), kernel.tunables)):
        return smaller if choices is None else []
    wanted = [*smaller, max(LANES, 2 * usual)] if choices[-1] < allowed.MOST // 2 else smaller
    near = [choices[at - 1] for n in wanted if (at := bisect_right(choices, n))]
    return [n for n in dict.fromkeys(near) if n]


class _Probe:
    """The kernel at a small shape, where the references say which values make a difference."""

    def __init__(self, kernel: Kernel, dtype: DType, seed: int) -> None:
        self._dtype, self._kernel = dtype, kernel
        small = characters.small(kernel) or [next(iter(kernel.sizes.values()))]
        self._arrays, self._results = Arrays(), cast(Arrays | None, None)
        try:
            self._arrays = kernel.make(small[-1], dtype, seed)
            self._results = self._of(kernel)
        except Exception:  # the spec's own; the rows of the group say it
            pass
        judges = {name: out.check or out.reference or kernel.reference for name, out in kernel.outs.items()}
        self.taken = {name for judge in judges.values() for name in kernel.named_by(judge)}
        untold = [judge for name, judge in judges.items() if name not in (self._results or ())]
        self._untold = {name for judge in untold for name in kernel.named_by(judge)}  # taken where no answer is known

    def find(self, name: str, scalar: Scalar, rng: np.random.Generator) -> Move | None:
        """What gives a scalar a value with another answer; later scalars are judged beside it."""
        best, most = None, 0.0
        for move in _moves(scalar, rng) if self._results is not None and name in self.taken else ():
            if (share := self._share(name, move)) > most:
                best, most = move, share
            if most >= SHARE:
                break
        if best:
            self.take(name, best)
        return best

    def take(self, name: str, move: Move) -> None:
        """Move a scalar from here on; where the reference fails, it stays."""
        if found := self._moved(name, move):
            self._kernel, self._results = found

    def _share(self, name: str, move: Move) -> float:
        """The share of elements, of the output with the largest one, that would be WRONG if a scalar did not move."""
        found = self._moved(name, move)
        if not found or not self._finite(found[1]):
            return 0.0
        shares = [self._apart(output, want) for output, want in found[1].items()]
        return max(shares, default=0.0) or float(name in self._untold)

    def _moved(self, name: str, move: Move) -> tuple[Kernel, Arrays] | None:
        try:
            usual = self._kernel.scalars_of(self._arrays)[name]
            value = self._kernel.scalars[name].rounded(move(usual), name)
            kernel = self._kernel.with_scalars({name: value})
            return None if value == usual else (kernel, self._of(kernel))
        except Exception:  # the value does not fit the dtype, or the reference not the value
            return None

    def _of(self, kernel: Kernel) -> Arrays:
        return results(kernel, self._dtype, Expected(kernel, self._arrays))

    def _finite(self, results: Arrays) -> bool:
        """Whether these results are finite where the present ones are, and hardly larger."""
        assert self._results is not None
        for name, new in results.items():
            old, kind = self._results[name], self._kernel.kind_of(name, self._dtype)
            if not np.array_equal(np.isfinite(old), np.isfinite(new)):
                return False
            if kind.floating and _largest(new) > max(kind.largest / 4, 2 * _largest(old)):
                return False
        return True

    def _apart(self, name: str, want: np.ndarray) -> float:
        """The share of the present results that would be WRONG where these ones are right."""
        assert self._results is not None
        kind = self._kernel.kind_of(name, self._dtype)
        budgets = [self._kernel.budget(self._dtype, whose, name) for whose in ("budgets", "peers", "composed")]
        widest = replace(budgets[0], ulp=APART * max(b.ulp for b in budgets))
        atol = APART * reduce(np.maximum, (self._atol(name, budget) for budget in budgets))
        with np.errstate(all="ignore"):
            present = self._results[name].astype(kind.numpy)
        return parity.compare(present, want, kind, widest, atol=atol).wrong / max(want.size, 1)

    def _atol(self, name: str, budget: Budget) -> float | np.ndarray:
        return Expected(self._kernel, self._arrays).atol(name, budget) if callable(budget.atol) else budget.atol


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def _moves(scalar: Scalar, rng: np.random.Generator) -> Iterator[Move]:
    """What may become of a scalar's value, the nearest first."""
    kind = DTYPES[scalar.dtype]
    if kind.floating:
        for step in STEPS:
            power = step * rng.uniform(0.8, 1.2) * rng.choice((-1, 1))
            yield partial(_scaled, 2.0**power)
            yield partial(_scaled, 2.0**-power)
    elif kind.name == "bool":
        yield lambda value: not value
    elif not callable(scalar.value):
        yield from (partial(_constant, number) for number in _fewer(int(scalar.value)))


def _constant(other: Any, value: Any) -> Any:
    return other


def _scaled(factor: float, value: Any) -> Any:
    """A number times a factor. Between -1 and 1 its odds are scaled, so that it stays there; 0 becomes positive.

    A value of few bits, such as a scale that is a power of two, becomes one of no more: products with it stay exact.
    """
    if np.iscomplexobj(value):
        return value * factor
    size = abs(float(value))
    if size >= 1:
        return math.copysign(_shortened(size * factor, _bits(size)), value)
    odds = factor if size == 0 else factor * size / (1 - size)
    moved = odds / (1 + odds)
    short = _shortened(moved, _bits(size))
    return math.copysign(short if short < 1 else moved, value)


def _bits(size: float) -> int:
    """The significant bits of a number; 1 for 0."""
    if not math.isfinite(size) or not size:
        return 1
    whole = int(math.frexp(size)[0] * 2**53)
    return 53 - ((whole & -whole).bit_length() - 1)


def _shortened(size: float, bits: int) -> float:
    """A number with so many significant bits, if they are FEW."""
    if bits > FEW or not math.isfinite(size):
        return size
    mantissa, exponent = math.frexp(size)
    return math.ldexp(round(mantissa * 2**bits), exponent - bits)


def _fewer(number: int) -> list[int]:
    """Smaller numbers of the same sign: the half of an even one, an odd one below an odd one, the next one."""
    size, sign = abs(number), -1 if number < 0 else 1
    wanted = (size // 2 if size % 2 == 0 else size - 2, size - 1)
    return [sign * found for found in dict.fromkeys(wanted) if 0 <= found < size]


def explained(others: Others, right: Callable[[Kernel], bool]) -> str:
    """Which of the spec's values a wrong result was computed with, as `eps=1e-06`; "" if none tells.

    `right(kernel)`: whether the result is that of a kernel with these values.
    """
    for names in (*((name,) for name in others.values), tuple(others.values)):
        if right(others.kernel.with_scalars({name: others.usual[name] for name in names})):
            return ", ".join(f"{name}={others.usual[name]!s}" for name in names)
    return ""
