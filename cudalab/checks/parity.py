"""Compare an output with the float64 reference, and report the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, inf, isfinite, sqrt
from sys import float_info
from typing import Any

import numpy as np
from msgspec.structs import replace

from cudalab.base import float_mode, numbers, threads
from cudalab.base.errors import SpecError, short
from cudalab.base.text import without_questions
from cudalab.checks.expected import Expected, wide
from cudalab.results.record import FAR, ErrorCurve, Parity
from cudalab.spec import reference
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Budget, Kernel, Shape
from cudalab.spec.validate import called_with

SHOWN = 3  # mismatches quoted in a message
POISON = 0xFF  # the byte of an element of a bool output that nobody has written (guard.py)
NAN_HINT = "NaN: was every element written? shared memory, before it was read? is it 0/0 or inf - inf?"
# Bytes that no kernel has put anywhere: beside arrays, and in memory that nobody has written (device/guard.py).
_BESIDE = "is what the check puts beside arrays: is an index out of bounds?"
_BEFORE = "is what the check puts into memory that nobody has written: was it read too early, or never written?"
MARKS = {0x7F: _BESIDE, 0xA5: _BESIDE, 0x7B: _BEFORE, 0xFB: _BEFORE}
# Ends a message if each wrong value is off by many ULP, and by less than the largest values may be.
NEAR_0 = "where values are near 0"
CANCELS = 256  # times smaller than the largest value: one wrong element in a hundred normal ones is so by chance
BIN = 128  # inputs per point of an error curve; divides the number of finite float16 values, and of bfloat16
Atol = float | np.ndarray  # the absolute error that is allowed: of all elements, or of each


def compare(
    got: np.ndarray, want: np.ndarray, dtype: DType, budget: Budget, inputs: Arrays | None = None,
    atol: Atol | None = None,
) -> Parity:  # fmt: skip
    """Judge `got`, which should have `dtype` and the shape of `want`, against `want` (float64 or integers).

    `inputs`: of a pointwise kernel, whose values are quoted beside an element. `atol`: what the function of the budget
    returns, where it has one (`Expected.atol`).
    """
    if atol is None:
        assert not callable(budget.atol), "a function: give what it returns as atol"
        atol = budget.atol
    if got.shape != want.shape:
        return Parity(ok=False, n=want.size, message=f"the output's shape is {got.shape}, expected {want.shape}")
    if got.dtype != dtype.numpy:
        how = f".to(torch.{dtype.name}), or .astype('{dtype.name}') of other arrays"
        said = f"the output's dtype is {got.dtype}, expected {dtype.name}; convert it: {how}"
        return Parity(ok=False, n=want.size, message=said)
    if want.dtype.kind == "c" and not dtype.complex:
        said = f"the reference returns complex values for an output of {dtype.name}"
        return Parity(ok=False, n=want.size, message=said)
    return _summary(_chunks(got, want, dtype, budget, atol), got.shape, dtype, budget, inputs or {})


def where_wrong(got: np.ndarray, want: np.ndarray, dtype: DType, budget: Budget, atol: Atol) -> np.ndarray:
    """By element, whether `compare` would call it wrong."""
    good = [np.broadcast_to(part.good, part.n) for part in _chunks(got, want, dtype, budget, atol)]
    return ~np.concatenate([np.ones(0, bool), *good]).reshape(got.shape)


def _chunks(got: np.ndarray, want: np.ndarray, dtype: DType, budget: Budget, atol: Atol) -> list[_Chunk]:
    g, w = got.reshape(-1), want.reshape(-1)
    if g.dtype.kind == "b":  # as bytes: what is neither 0 nor 1 was not written, or is no bool
        g, w = g.view(np.uint8), (w != 0).astype(np.uint8) if w.dtype.kind == "b" else w
    each = atol.reshape(-1) if isinstance(atol, np.ndarray) else None
    return threads.each(lambda s: _Chunk(g[s], w[s], dtype, budget, atol if each is None else each[s], s.start), w.size)


def compare_all(
    kernel: Kernel, dtype: DType, budgets: Mapping[str, Budget], got: Sequence[np.ndarray], expected: Expected,
    arrays: Arrays,
) -> Parity:  # fmt: skip
    """Judge all outputs of a kernel, in their order. What differs is said of the first output that is wrong."""
    float_mode.restore()
    names = tuple(kernel.outs)
    if len(got) != len(names):
        count = f"{len(got)} array{'s' * (len(got) != 1)}"
        return Parity(ok=False, n=0, message=f"the result is {count}, expected {len(names)}: {', '.join(names)}")
    by_name = dict(zip(names, got, strict=True))
    found = {name: judged(kernel, dtype, name, budgets[name], by_name, expected, arrays) for name in names}
    if len(found) == 1:
        return found[names[0]]
    for name, parity in found.items():
        parity.message = f"{name}: {parity.message}" if parity.message else ""
        parity.worst = f"{name}{parity.worst}" if parity.worst else ""
    whole = joined(list(found.values()))
    whole.message = next((parity.message for parity in found.values() if not parity.ok), "")
    return whole


def judged(
    kernel: Kernel, dtype: DType, name: str, budget: Budget, got: Mapping[str, np.ndarray], expected: Expected,
    arrays: Arrays,
) -> Parity:  # fmt: skip
    """Judge one output of a kernel, by its check= or by the reference; `got`: all outputs by name."""
    out, kind, result = kernel.outs[name], kernel.kind_of(name, dtype), got[name]
    if out.check is None:
        quoted = arrays if kernel.pointwise else None
        return compare(result, expected.compute(name, got), kind, budget, quoted, expected.atol(name, budget))
    shape = kernel.shape_of(name, {n: a.shape for n, a in arrays.items()})
    if result.shape != shape or result.dtype != kind.numpy:
        return compare(result, np.empty(shape, kind.numpy), kind, Budget(0))
    values = {**arrays, **reference.plain(kernel.scalars_of(arrays)), **got}
    with np.errstate(all="ignore"):
        said = called_with(out.check, values)
    if isinstance(said, (bool, np.bool_)):
        return Parity(ok=bool(said), n=result.size, message="" if said else f"the check of {name} returns False")
    if not isinstance(said, str) or not said:  # None too: a return that was forgotten verifies nothing
        raise SpecError(
            f"{kernel.file}: the check of {name} returns {short(said)}; return True, or a text that says what is wrong"
        )
    return Parity(ok=False, n=result.size, message=said)


class _Chunk:
    """The errors of one chunk of the arrays, which `_summary` adds up."""

    def __init__(self, g: np.ndarray, w: np.ndarray, dtype: DType, budget: Budget, atol: Atol, start: int) -> None:
        each = np.broadcast_to(atol, g.shape)
        want, exact, error, finite, ulp, ulps = errors(g, w, dtype)
        good = budget.allows(error, ulp, atol)
        good &= finite
        good |= exact
        if dtype.floating and budget.exact and not dtype.complex:  # the same value: +0 is not -0
            zero = np.flatnonzero(w == 0)
            good[zero] &= np.signbit(g[zero]) == np.signbit(w[zero])
        self.n, bad = len(w), np.flatnonzero(~good)
        self.wrong, self.good = len(bad), good if len(bad) else True  # which takes no memory
        self.rounded = int(np.count_nonzero(ulps <= 0.5))
        at = int(np.argmax(ulps)) if self.n else 0
        self.max_ulp = float(ulps[at]) if self.n else 0.0
        kind = np.generic.item if dtype.complex or not dtype.floating else float
        self.worst = (start + at, kind(g[at]), kind(w[at])) if self.n else None
        with np.errstate(over="ignore"):
            self.allowed = _finite(budget.ulp + each[at] / ulp[at]) if self.n else None
            self.needed = float(((error[bad] - each[bad]) / ulp[bad]).max(initial=0)) if finite[bad].all() else inf
        self.first = [(start + int(i), kind(g[i]), kind(w[i])) for i in bad[:SHOWN]]
        self.atol = max((float(each[i]) for i in bad[:SHOWN]), default=0.0)  # of the mismatches that are quoted
        at = int(bad[np.argmax(error[bad])]) if self.wrong and finite[bad].all() else -1
        self.farthest = (float(error[at]), start + at) if at >= 0 else None  # among the wrong, by the absolute error
        self.off_by_1 = w.dtype.kind == "f" and dtype.name != "bool" and (not self.wrong or error[bad].max() <= 1)
        self.scale = float(np.abs(want[finite]).max(initial=0.0)) if self.wrong else 0.0
        if not finite.all():
            error, want = error[finite], want[finite]
        self.error_norm, self.want_norm = _norm(error), _norm(want)


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _norm(values: np.ndarray) -> float:
    """Return the L2 norm of an array, also where the squares of its float64 numbers overflow."""
    with np.errstate(over="ignore"):
        if np.isfinite(total := float(np.square(values).sum())):
            return sqrt(total)
    if not np.isfinite(largest := float(np.abs(values).max())):
        return largest
    return largest * sqrt(float(np.square(values / largest).sum()))


def errors(g: np.ndarray, w: np.ndarray, dtype: DType) -> tuple[np.ndarray, ...]:
    """(want in float64, exact match, |error|, |error| is finite, size of a ULP, error in ULP), by element.

    An error is finite where both values are finite. Of complex numbers it is the larger one of the two parts, and the
    ULP is that of the modulus, which takes the place of `want`. A product has a bounded error so counted (2 ULP; Brent,
    Percival, Zimmermann 2007), while no number of ULP of a part bounds a part that cancels.
    """
    with np.errstate(all="ignore"):
        if dtype.complex:
            exact, want = _same_complex(g, w, dtype), np.abs(w)
            error = np.maximum(np.abs(g.real.astype(np.float64) - w.real), np.abs(g.imag.astype(np.float64) - w.imag))
        else:
            exact = g == w if not dtype.floating else _same(g, w, dtype)
            want = w.astype(np.float64, copy=False)
            whole = g.dtype.kind in "iu" and w.dtype.kind in "iu"
            error = _distance(g, w) if whole else g.astype(np.float64)
            if not whole:
                error -= want
                np.abs(error, out=error)
        ulp = dtype.ulp(want)
        if dtype.itemsize == 1 and dtype.floating:
            error[exact & np.isfinite(error) & (np.abs(want) > dtype.largest)] = 0  # saturated
        ulps, finite = error / ulp, np.isfinite(error)
    if not finite.all():
        ulps[exact & ~finite] = 0.0
        ulps[np.isnan(ulps)] = np.inf  # a number where NaN is wanted, or NaN where a number is
    return want, exact, error, finite, ulp, ulps


def _distance(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """|g - w| of integers as float64, subtracted as uint64: 0 if and only if they are equal."""
    if np.uint64 in (g.dtype, w.dtype) and g.dtype != w.dtype:  # NumPy has no integers that hold both
        return np.where(g == w, 0.0, np.maximum(np.abs(g.astype(np.float64) - w.astype(np.float64)), 1.0))
    low, high = np.minimum(g, w).astype(np.int64), np.maximum(g, w).astype(np.int64)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


def error_curve(x: np.ndarray, got: np.ndarray, want: np.ndarray, dtype: DType) -> ErrorCurve:
    """The largest error in ULP among each BIN neighbouring inputs. `x` has every 16-bit value once.

    x has five digits, enough to tell all 16-bit numbers apart; an error has four.
    """
    inputs = wide(x.reshape(-1))
    ulps = errors(got.reshape(-1), want.reshape(-1), dtype)[-1]
    finite = np.flatnonzero(np.isfinite(inputs))
    order = finite[np.argsort(inputs[finite], kind="stable")].reshape(-1, BIN)
    worst = order[np.arange(len(order)), ulps[order].argmax(axis=1)]
    return ErrorCurve(
        x=[float(f"{v:.5g}") for v in inputs[worst].tolist()],
        ulp=[float(f"{v:.4g}") if np.isfinite(v) else None for v in ulps[worst].tolist()],
    )


def _same(g: np.ndarray, w: np.ndarray, dtype: DType) -> np.ndarray:
    """Where `g` equals `w` rounded to the dtype (both may overflow to infinity), or both are NaN.

    8-bit formats have two ways to overflow, and both are right: to the largest number, as CUDA's conversions do unless
    told otherwise, and to infinity, or NaN where there is none (OCP 8-bit floating point specification, section 5.2). A
    reference that clips asks for the first one.
    """
    rounded = dtype.rounded(w)
    same, none = g == rounded, np.isnan(w)
    if dtype.itemsize == 1:
        largest = dtype.largest
        same |= g == np.clip(w, -largest, largest).astype(np.float32).astype(dtype.numpy)
        none |= np.isnan(rounded)
    return same | (none & np.isnan(g)) if none.any() else same


def _same_complex(g: np.ndarray, w: np.ndarray, dtype: DType) -> np.ndarray:
    """Where both parts are the same, or both numbers are infinite, or both are NaN.

    As in C (Annex G.3) a number with an infinite part is infinite, whatever the other part is; one with a NaN and no
    infinite part is NaN. Which parts are NaN depends on the order of the operations. Where the modulus is larger than
    any number, a part of a product may overflow on the way, as it does in NumPy and PyTorch.
    """
    part = DTYPES[dtype.part]
    rounded = w.astype(dtype.numpy)
    same = _same(g.real, w.real, part) & _same(g.imag, w.imag, part)
    infinite, none = np.isinf(rounded) & np.isinf(g), np.isnan(rounded) & np.isnan(g)
    overflows = (np.abs(w) > np.finfo(part.numpy).max) & ~np.isfinite(g)
    return same | infinite | overflows | (none & ~np.isinf(rounded) & ~np.isinf(g))


def _mark(dtype: DType, first: list[tuple[int, Any, Any]]) -> str:
    """What the first of these values that is one of MARKS tells; "" where none is, or where it may be a result."""
    if dtype.itemsize < 4 and dtype.name != "bfloat16":
        return ""
    for _, value, _ in first:
        for byte, said in MARKS.items():
            if value == np.frombuffer(bytes([byte]) * dtype.itemsize, dtype.numpy)[0]:
                return f" ({value if dtype.numpy.kind in 'iu' else format(value, '.9g')} {said})"
    return ""


def _summary(parts: list[_Chunk], shape: Shape, dtype: DType, budget: Budget, inputs: Arrays) -> Parity:
    n, wrong = sum(p.n for p in parts), sum(p.wrong for p in parts)
    worst = max(parts, key=lambda p: p.max_ulp, default=None)
    max_ulp = worst.max_ulp if worst else 0.0
    norm = hypot(*(p.want_norm for p in parts))
    parity = Parity(
        ok=not wrong,
        n=n,
        wrong=wrong,
        max_ulp=max_ulp if np.isfinite(max_ulp) else None,
        worst=_quote(worst.worst, shape, inputs) if worst and worst.worst and max_ulp else "",
        worst_at=worst.worst[0] if worst and worst.worst else -1,
        rounded=sum(p.rounded for p in parts) / n if n else 1.0,
        rel_l2=_bounded(hypot(*(p.error_norm for p in parts)) / norm) if norm and isfinite(norm) else 0.0,
        norm=_bounded(norm),
        allowed=worst.allowed if worst else None,
        needed=_finite(max(p.needed for p in parts if p.wrong)) if wrong else None,
    )
    if wrong:
        parity.close = _close(parity, hypot(*(p.error_norm for p in parts)), norm) and (
            dtype.floating or all(p.off_by_1 for p in parts)
        )
        first = [f for p in parts for f in p.first][:SHOWN]
        atol = max(part.atol for part in parts if part.first)
        allowed = f"{budget.ulp:g} ULP" + (f" + {atol:.3g}" if atol else "")
        unwritten = all(np.isnan(value) for _, value, _ in first)
        poisoned = dtype.name == "bool" and all(value == POISON for _, value, _ in first)
        overflown = all(np.isinf(value) and np.isfinite(due) for _, value, due in first)
        parity.message = (
            f"{wrong:,} of {n:,} values differ by more than {allowed}: "
            + "; ".join(_quote(f, shape, inputs) for f in first)
            + ("; ..." if wrong > len(first) else "")
            + _magnitude(parts, shape, dtype, budget, max_ulp)
            + (f" ({NAN_HINT})" if unwritten else "")
            + _mark(dtype, first)
            + (f" (inf: does it overflow on the way, beyond the largest {dtype.name}?)" if overflown else "")
            + (f" ({POISON} is the byte that the output held: was every element written?)" if poisoned else "")
        )
    return parity


def _close(found: Parity, error: float, norm: float) -> bool:
    """Whether it is near the reference as a whole, and NaN or infinity at few places."""
    return error <= FAR * norm < inf and (found.largest < inf or 2 * found.wrong <= found.n)


def _magnitude(parts: list[_Chunk], shape: Shape, dtype: DType, budget: Budget, max_ulp: float) -> str:
    """The largest absolute error of the wrong values, from which a budget can be chosen; "" where one is not finite."""
    wrong = [p for p in parts if p.wrong]
    farthest = [p.farthest for p in wrong if p.farthest]
    if len(farthest) < len(wrong) or dtype.name == "bool":
        return ""
    error, index = max(farthest, key=lambda found: found[0])
    if not error:
        return "; only the sign of zeros differs, which Budget(0) asks for; Budget(0.5) takes either"
    said = f"; largest error {error:.2g} at [{_place(index, shape)}]"
    if not dtype.floating:
        return said
    usual = budget.ulp * dtype.ulp(np.array([max(p.scale for p in wrong)]))[0]  # of the largest value
    if max_ulp < 10 * max(budget.ulp, 1):  # then only values far below the largest show that terms cancel
        said, usual = f"{said}, {numbers.ulp(max_ulp, budget.ulp)} ULP at most", usual / CANCELS
    return f"{said}, {NEAR_0}" if 0 < error <= usual else said


def because(found: Parity, cause: str) -> Parity:
    """`found` with the cause of what is wrong in place of the guess that ends its message."""
    said = without_questions(found.message)
    return replace(found, message=f"{said}{'' if said.endswith('?') else ';'} {cause}") if cause else found


def without_guess(found: Parity) -> Parity:
    """`found` without the guess that ends its message, where a note names the line that is at fault."""
    return replace(found, message=without_questions(found.message))


def _bounded(value: float) -> float:
    """`value`, or the largest float if it is not finite: a results file is JSON, which has no infinity."""
    return value if value < float_info.max else float_info.max


def joined(parities: Sequence[Parity], whole: bool = False) -> Parity:
    """The verdict on several outputs, or parts. Its message quotes the first wrong one.

    `whole`: they are parts of one floating-point output: `close` and the relative error are those of all parts
    together. Else the relative error is the largest, as outputs may have unlike dtypes.
    """
    n, norm = sum(p.n for p in parities), float(np.sqrt(sum(p.norm**2 for p in parities)))
    error = float(np.sqrt(sum((p.rel_l2 * p.norm) ** 2 for p in parities)))
    worst = max(parities, key=lambda p: np.inf if p.max_ulp is None else p.max_ulp)
    message = next((p.message for p in parities if not p.ok), "")
    if counted := message.partition(" values differ")[2]:
        message = f"{sum(p.wrong for p in parities):,} of {n:,} values differ{counted}"
    found = Parity(
        ok=all(p.ok for p in parities),
        n=n,
        wrong=sum(p.wrong for p in parities),
        max_ulp=worst.max_ulp,
        worst=worst.worst,
        rounded=sum(p.rounded * p.n for p in parities) / n if n else 1.0,
        rel_l2=(error / norm if norm else 0.0) if whole else max(p.rel_l2 for p in parities),
        norm=norm,
        allowed=worst.allowed,
        needed=_most([p.needed for p in parities if not p.ok]),
        message=message,
        curve=_joined_curve([p.curve for p in parities if p.curve]),
    )
    far = [p for p in parities if not (p.ok or p.close)]
    if whole and all(p.wrong and (p.norm or p.max_ulp is None) for p in far):  # else its relative error is not known
        far = [] if _close(found, error, norm) else far
    found.close = not far and not found.ok
    return found


def _most(needed: Sequence[float | None]) -> float | None:
    """The largest of them; None if one has none."""
    found = [one for one in needed if one is not None]
    return max(found) if found and len(found) == len(needed) else None


def _joined_curve(curves: Sequence[ErrorCurve]) -> ErrorCurve | None:
    points = sorted(((x, ulp) for c in curves for x, ulp in zip(c.x, c.ulp)), key=lambda point: point[0])
    return ErrorCurve([x for x, _ in points], [ulp for _, ulp in points]) if points else None


def _quote(entry: tuple[int, Any, Any], shape: Shape, inputs: Arrays) -> str:
    index, got, want = entry
    at = _place(index, shape)
    given = ", ".join(f"{name} = {array.flat[index]}" for name, array in inputs.items())
    digits = 9 if _shown(got, 9) != _shown(want, 9) else 17  # float64 numbers may differ in the last ones
    return f"[{at}] got {_shown(got, digits)}, want {_shown(want, digits)}" + (f" for {given}" if given else "")


def _place(index: int, shape: Shape) -> str:
    return ", ".join(str(int(i)) for i in np.unravel_index(index, shape))


def _shown(value: float | complex, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float | complex) else str(value)
