"""Results of a kernel whose rows do not depend on each other (`independent`), computed in parts on all cores.

NumPy works on whole arrays with one core, and its temporary arrays do not fit into a cache: parts are ten times as fast
on sixteen cores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cudalab.base import threads
from cudalab.base.errors import SpecError
from cudalab.spec.kernel import Arrays, Kernel

CLOSE = 1e-9  # how far rows by themselves may be from the parts: a library may add up a matrix in another order


def computed(kernel: Kernel, of: Callable[[Arrays], Arrays], arrays: Arrays) -> Arrays:
    """Return what `of` makes of arrays, in parts where they are large; all results have as many rows as their inputs.

    SpecError where a few rows have other results by themselves: they do depend on each other, or on where they stand.
    What `of` cannot make of a part is made of the whole.
    """
    cut = [name for name in arrays if kernel.independent and kernel.in_parts(name)]
    rows, most = (len(arrays[cut[0]]), max(arrays[name].size for name in cut)) if cut else (0, 0)
    length = max(threads.CHUNK // max(most // max(rows, 1), 1), 1)
    few = _few(rows, length)
    if rows <= max(length, 2 * len(few)) or any(len(arrays[name]) != rows for name in cut):
        return of(arrays)
    if any(array.size > threads.CHUNK for name, array in arrays.items() if name not in cut):
        return of(arrays)

    def some(at: slice | list[int]) -> Arrays:
        return of({name: array[at] if name in cut else array for name, array in arrays.items()})

    try:
        found = _joined(some, rows, length)
        other = [name for name, alone in some(few).items() if not _same(found[name][few], alone)]
    except Exception:  # the spec's own: it is told as it is of whole arrays
        return of(arrays)
    if other:
        raise SpecError(
            f"{kernel.file}: independent={kernel.independent!r}, but a few {kernel.independent} by themselves have "
            f"another reference or atol of {other[0]}; leave out independent="
        )
    return found


def _few(rows: int, length: int) -> list[int]:
    """Rows at both ends, at both sides of borders between parts, and inside of parts, each at two places.

    What uses the place of a row in its array gives another result at one of them.
    """
    last = max(rows - 1, 0) // length * length
    inside = (length // 2, last // length // 2 * length + length // 3)
    near = {0, 1, *inside, length - 1, length, length + 1, last - 1, last, rows - 2, rows - 1}
    found = sorted((row for row in near if 0 <= row < rows), reverse=True)
    return [*found, *found[1:], *found[:1]]


def _same(part: np.ndarray, alone: np.ndarray) -> bool:
    """Whether these rows have the same values. ValueError where they do not fit."""
    with np.errstate(all="ignore"):
        return bool(np.allclose(*_fitting(part, alone), CLOSE, 0.0, equal_nan=True))


def _fitting(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if one.shape != other.shape or one.dtype != other.dtype:
        raise ValueError
    return one, other


def _joined(some: Callable[[slice], Arrays], rows: int, length: int) -> Arrays:
    """The results of all parts. ValueError where those of a part do not fit the first ones."""
    first = some(slice(0, length))
    found = {name: np.empty((rows, *part.shape[1:]), part.dtype) for name, part in first.items()}

    def fill(at: slice) -> None:
        for name, part in (some(at) if at.start else first).items():
            whole, part = _fitting(found[name][at], part)
            whole[...] = part

    threads.each(fill, rows, length)
    return found
