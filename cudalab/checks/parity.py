"""Compare an output with the float64 reference, and report the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from sys import float_info

import numpy as np

from cudalab.base import numbers, threads
from cudalab.base.errors import SpecError, short
from cudalab.checks.expected import Expected, wide
from cudalab.results.record import ErrorCurve, Parity
from cudalab.spec import reference
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Budget, Kernel, Shape
from cudalab.spec.validate import called_with

SHOWN = 3  # mismatches quoted in a message
BIN = 128  # inputs per point of an error curve; divides the number of finite float16 values, and of bfloat16


def compare(
    got: np.ndarray, want: np.ndarray, dtype: DType, budget: Budget, inputs: Arrays | None = None
) -> Parity:  # fmt: skip
    """Judge `got`, which should have `dtype` and the shape of `want`, against `want` (float64 or integers).

    `inputs`: of a pointwise kernel, whose values are quoted beside an element.
    """
    if got.shape != want.shape:
        return Parity(ok=False, n=want.size, message=f"the output's shape is {got.shape}, expected {want.shape}")
    if got.dtype != dtype.numpy:
        return Parity(ok=False, n=want.size, message=f"the output's dtype is {got.dtype}, expected {dtype.name}")
    g, w = got.reshape(-1), want.reshape(-1)
    parts = threads.each(lambda s: _Chunk(g[s], w[s], dtype, budget, s.start), w.size)
    flat = {name: array.reshape(-1) for name, array in (inputs or {}).items()}
    return _summary(parts, got.shape, dtype, budget, flat)


def compare_all(
    kernel: Kernel, dtype: DType, budgets: Mapping[str, Budget], got: Sequence[np.ndarray], expected: Expected,
    arrays: Arrays,
) -> Parity:  # fmt: skip
    """Judge all outputs of a kernel, in their order. What differs is said of the first output that is wrong."""
    names = tuple(kernel.outs)
    if len(got) != len(names):
        count = f"{len(got)} array{'s' * (len(got) != 1)}"
        return Parity(ok=False, n=0, message=f"the result is {count}, expected {len(names)}: {', '.join(names)}")
    by_name = dict(zip(names, got, strict=True))
    found = {name: _judged(kernel, dtype, name, budgets[name], by_name, expected, arrays) for name in names}
    if len(found) == 1:
        return found[names[0]]
    for name, parity in found.items():
        parity.message = f"{name}: {parity.message}" if parity.message else ""
        parity.worst = f"{name}{parity.worst}" if parity.worst else ""
    whole = joined(list(found.values()))
    whole.message = next((parity.message for parity in found.values() if not parity.ok), "")
    return whole


def _judged(
    kernel: Kernel, dtype: DType, name: str, budget: Budget, got: Mapping[str, np.ndarray], expected: Expected,
    arrays: Arrays,
) -> Parity:  # fmt: skip
    out, kind, result = kernel.outs[name], kernel.kind_of(name, dtype), got[name]
    if out.check is None:
        quoted = arrays if kernel.pointwise else None
        return compare(result, expected.of(name, got), kind, budget, quoted)
    shape = kernel.shape_of(name, {n: a.shape for n, a in arrays.items()})
    if result.shape != shape or result.dtype != kind.numpy:
        return compare(result, np.empty(shape, kind.numpy), kind, budget)
    values = {**arrays, **reference.plain(kernel.scalars_of(arrays)), **got}
    with np.errstate(all="ignore"):
        said = called_with(out.check, values)
    if said is None or isinstance(said, (bool, np.bool_)):
        said = "" if said is None or said else f"the check of {name} says False"
    if not isinstance(said, str):
        raise SpecError(
            f"{kernel.file}: the check of {name} gives {short(said)}; give True, or a text that says why not"
        )
    return Parity(ok=not said, n=result.size, message=said)


class _Chunk:
    """The errors of one chunk of the arrays, which `_summary` adds up."""

    def __init__(self, g: np.ndarray, w: np.ndarray, dtype: DType, budget: Budget, start: int) -> None:
        want, exact, error, finite, ulp, ulps = _errors(g, w, dtype)
        with np.errstate(all="ignore"):
            good = exact | (finite & (error <= budget.ulp * ulp + budget.atol))
        if dtype.floating and not budget.ulp and not budget.atol:  # the same value: +0 is not -0
            zero = np.flatnonzero(w == 0)
            good[zero] &= np.signbit(g[zero]) == np.signbit(w[zero])
        self.n = len(w)
        self.wrong = self.n - int(np.count_nonzero(good))
        self.rounded = int(np.count_nonzero(ulps <= 0.5))
        at = int(np.argmax(ulps)) if self.n else 0
        self.max_ulp = float(ulps[at]) if self.n else 0.0
        kind = float if dtype.floating else np.generic.item
        self.worst = (start + at, kind(g[at]), kind(w[at])) if self.n else None
        first = np.flatnonzero(~good)[:SHOWN] if self.wrong else ()
        self.first = [(start + int(i), kind(g[i]), kind(w[i])) for i in first]
        if not finite.all():
            error, want = error[finite], want[finite]
        with np.errstate(over="ignore"):  # of float64: see _bounded
            self.error2 = float(np.square(error).sum())
            self.want2 = float(np.square(want).sum())


def _errors(g: np.ndarray, w: np.ndarray, dtype: DType) -> tuple[np.ndarray, ...]:
    """(want in float64, exact match, |error|, |error| is finite, size of a ULP, error in ULP), by element.

    An error is finite where both values are finite.
    """
    with np.errstate(all="ignore"):
        exact = g == w if not dtype.floating else _same(g, w, dtype)
        want = w.astype(np.float64, copy=False)
        whole = g.dtype.kind in "iu" and w.dtype.kind in "iu"
        error, ulp = _distance(g, w) if whole else np.abs(g.astype(np.float64) - want), dtype.ulp(want)
        ulps, finite = error / ulp, np.isfinite(error)
    if not finite.all():
        ulps[exact & ~finite] = 0.0
        ulps[np.isnan(ulps)] = np.inf  # a number where NaN is wanted, or NaN where a number is
    return want, exact, error, finite, ulp, ulps


def _distance(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """|g - w| of integers as float64, subtracted as uint64: 0 if and only if they are equal."""
    low, high = np.minimum(g, w).astype(np.int64), np.maximum(g, w).astype(np.int64)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


def error_curve(x: np.ndarray, got: np.ndarray, want: np.ndarray, dtype: DType) -> ErrorCurve:
    """The largest error in ULP among each BIN neighbouring inputs. `x` has every 16-bit value once.

    x has five digits, enough to tell all 16-bit numbers apart; an error has four.
    """
    inputs = wide(x.reshape(-1))
    ulps = _errors(got.reshape(-1), want.reshape(-1), dtype)[-1]
    finite = np.flatnonzero(np.isfinite(inputs))
    order = finite[np.argsort(inputs[finite], kind="stable")].reshape(-1, BIN)
    worst = order[np.arange(len(order)), ulps[order].argmax(axis=1)]
    return ErrorCurve(
        x=[float(f"{v:.5g}") for v in inputs[worst].tolist()],
        ulp=[float(f"{v:.4g}") if np.isfinite(v) else None for v in ulps[worst].tolist()],
    )


def _same(g: np.ndarray, w: np.ndarray, dtype: DType) -> np.ndarray:
    """Where `g` equals `w` rounded to the dtype (both may overflow to infinity), or both are NaN."""
    rounded = w.astype(np.float32).astype(dtype.numpy) if dtype.itemsize == 2 else w.astype(dtype.numpy)
    same, none = g == rounded, np.isnan(w)
    return same | (none & np.isnan(g)) if none.any() else same


def _summary(parts: list[_Chunk], shape: Shape, dtype: DType, budget: Budget, inputs: Arrays) -> Parity:
    n, wrong = sum(p.n for p in parts), sum(p.wrong for p in parts)
    worst = max(parts, key=lambda p: p.max_ulp, default=None)
    max_ulp = worst.max_ulp if worst else 0.0
    want2 = sum(p.want2 for p in parts)
    parity = Parity(
        ok=not wrong,
        n=n,
        wrong=wrong,
        max_ulp=max_ulp if np.isfinite(max_ulp) else None,
        worst=_quote(worst.worst, shape, inputs) if worst and worst.worst and max_ulp else "",
        worst_at=worst.worst[0] if worst and worst.worst else -1,
        rounded=sum(p.rounded for p in parts) / n if n else 1.0,
        rel_l2=_bounded(sqrt(sum(p.error2 for p in parts) / want2)) if want2 else 0.0,
        norm=_bounded(sqrt(want2)),
    )
    if wrong:
        first = [f for p in parts for f in p.first][:SHOWN]
        allowed = f"{budget.ulp:g} ULP" + (f" + {budget.atol:g}" if budget.atol else "")
        unwritten = all(np.isnan(value) for _, value, _ in first)
        narrowly = dtype.floating and max_ulp < 10 * budget.ulp
        largest = f"; the largest error is {numbers.ulp(max_ulp)} ULP" if narrowly else ""
        parity.message = (
            f"{wrong:,} of {n:,} values differ by more than {allowed}: "
            + "; ".join(_quote(f, shape, inputs) for f in first)
            + ("; ..." if wrong > len(first) else "")
            + largest
            + (" (NaN: was every element written? shared memory, before it was read?)" if unwritten else "")
        )
    return parity


def _bounded(value: float) -> float:
    """`value`, or the largest float if it is not finite: a results file is JSON, which has no infinity."""
    return value if value < float_info.max else float_info.max


def joined(parities: Sequence[Parity]) -> Parity:
    """The verdict on an output that was compared in parts. Its message quotes the first wrong part."""
    n, norm = sum(p.n for p in parities), float(np.sqrt(sum(p.norm**2 for p in parities)))
    worst = max(parities, key=lambda p: np.inf if p.max_ulp is None else p.max_ulp)
    message = next((p.message for p in parities if not p.ok), "")
    if counted := message.partition(" values differ")[2]:
        message = f"{sum(p.wrong for p in parities):,} of {n:,} values differ{counted}"
    return Parity(
        ok=all(p.ok for p in parities),
        n=n,
        wrong=sum(p.wrong for p in parities),
        max_ulp=worst.max_ulp,
        worst=worst.worst,
        rounded=sum(p.rounded * p.n for p in parities) / n if n else 1.0,
        rel_l2=float(np.sqrt(sum((p.rel_l2 * p.norm) ** 2 for p in parities))) / norm if norm else 0.0,
        norm=norm,
        message=message,
        curve=_joined_curve([p.curve for p in parities if p.curve]),
    )


def _joined_curve(curves: Sequence[ErrorCurve]) -> ErrorCurve | None:
    points = sorted(((x, ulp) for c in curves for x, ulp in zip(c.x, c.ulp)), key=lambda point: point[0])
    return ErrorCurve([x for x, _ in points], [ulp for _, ulp in points]) if points else None


def _quote(entry: tuple[int, float, float], shape: Shape, inputs: Arrays) -> str:
    index, got, want = entry
    at = ", ".join(str(int(i)) for i in np.unravel_index(index, shape))
    given = ", ".join(f"{name} = {flat[index]}" for name, flat in inputs.items())
    return f"[{at}] got {_shown(got)}, want {_shown(want)}" + (f" for {given}" if given else "")


def _shown(value: float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
