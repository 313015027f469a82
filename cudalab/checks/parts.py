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

ENDS = 2  # rows of each end that are computed once more, by themselves
CLOSE = 1e-9  # how far they may be from what the parts gave: a library may add up a matrix in another order


def computed(kernel: Kernel, of: Callable[[Arrays], Arrays], arrays: Arrays) -> Arrays:
    """Return what `of` makes of arrays, in parts where they are large; all results have as many rows as their inputs.

    SpecError where a few rows have other results by themselves: they do depend on each other.
    """
    cut = [name for name in arrays if kernel.independent and kernel.in_parts(name)]
    rows, most = (len(arrays[cut[0]]), max(arrays[name].size for name in cut)) if cut else (0, 0)
    length = max(threads.CHUNK // max(most // max(rows, 1), 1), 1)
    if rows <= length or any(array.size > threads.CHUNK for name, array in arrays.items() if name not in cut):
        return of(arrays)

    def some(at: slice | list[int]) -> Arrays:
        return of({name: array[at] if name in cut else array for name, array in arrays.items()})

    try:
        found = _joined(some, rows, length)
    except Exception:  # the spec's own: it is told as it is of whole arrays
        return of(arrays)
    ends = sorted({*range(ENDS), *range(rows - ENDS, rows)})
    for name, alone in some(ends).items():
        with np.errstate(all="ignore"):
            if not np.allclose(found[name][ends], alone, CLOSE, 0.0, equal_nan=True):
                raise SpecError(
                    f"{kernel.file}: independent={kernel.independent!r}, but a few {kernel.independent} by themselves "
                    f"have another reference or atol of {name}; leave out independent="
                )
    return found


def _joined(some: Callable[[slice], Arrays], rows: int, length: int) -> Arrays:
    """The results of all parts. ValueError where those of a part do not fit the first ones."""
    first = some(slice(0, length))
    found = {name: np.empty((rows, *part.shape[1:]), part.dtype) for name, part in first.items()}

    def fill(at: slice) -> None:
        for name, part in (some(at) if at.start else first).items():
            whole = found[name][at]
            if part.shape != whole.shape or part.dtype != whole.dtype:
                raise ValueError
            whole[...] = part

    threads.each(fill, rows, length)
    return found
