"""Inputs that are one value throughout, for outputs that count: does a counter of 8 or 16 bits overflow?

An output counts if it is of whole numbers, and the largest of them grows with the number of elements of such an input,
but never exceeds it. Random values spread over the bins of a histogram, so that none of them becomes large.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cudalab.checks import characters, many_blocks
from cudalab.checks.expected import Expected, results
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, Shape

BITS_16 = 1 << 16  # what 16 bits count
FLOAT32 = 1 << 24  # where a sum of ones in float32 stops, and the counters of single threads and blocks may overflow
SPARE = 8  # a shape has one element in so many more
MOST = 4  # times as many elements as are counted, at most, that the largest array has


def shape(kernel: Kernel, dtype: DType, limit: int = BITS_16) -> Shape | None:
    """The smallest shape at which an output counts more than `limit` elements; None for none.

    One beyond BITS_16 may be longer than all sizes of the spec. None too where the reference takes too long there.
    """
    if "zeros" not in characters.chosen(kernel) or any(out.check for out in kernel.outs.values()):
        return None
    whole = [name for name in kernel.outs if kernel.kind_of(name, dtype).numpy.kind in "iu"]
    holds = min((np.iinfo(kernel.kind_of(name, dtype).numpy).max for name in whole), default=0)
    shapes = (shape for shape in _longer(kernel, dtype, limit) if whole and kernel.elements(shape) <= holds)
    found = min(shapes, key=kernel.elements, default=None)
    return None if found is None or many_blocks.too_slow(kernel, dtype, found) else found


def _longer(kernel: Kernel, dtype: DType, limit: int) -> Iterator[Shape]:
    for way in many_blocks.every_way(kernel):
        needed = limit + limit // SPARE
        if limit == BITS_16 and way.known < needed:
            continue
        length = way.allowed(needed + 1) if way.allowed(needed + 1) > limit else way.allowed(2 * limit)
        longer = way.to(length).shape if length > limit else ()
        fits = longer and not kernel.unfit_at(longer) and kernel.elements(longer) <= MOST * needed
        if fits and (twice := way.allowed(2 * way.length)) > way.length:
            shapes = way.shape, way.to(twice).shape
            most = [_most(kernel, dtype, shape) for shape in shapes]
            if most[1] - most[0] >= twice - way.length and most[1] <= kernel.elements(shapes[1]):
                yield longer


def _most(kernel: Kernel, dtype: DType, shape: Shape) -> float:
    """The largest value in outputs of whole numbers where the inputs are one value throughout; 0 if not known."""
    try:
        found = results(kernel, dtype, Expected(kernel, arrays(kernel, shape, dtype, 0)))
        whole = [want for name, want in found.items() if kernel.kind_of(name, dtype).numpy.kind in "iu"]
        return max(float(want.max(initial=0)) for want in whole)
    except Exception:  # the spec's own
        return 0


def arrays(kernel: Kernel, shape: Shape, dtype: DType, seed: int) -> Arrays:
    """The inputs that the spec draws; those that are free, and integers between limits, are one value throughout."""
    drawn = kernel.make(shape, dtype, seed)
    names = set(characters.free(kernel, drawn))
    if not callable(kernel.inputs):
        names |= {name for name, one in (kernel.inputs or {}).items() if one.high is not None}
    return {
        name: np.full_like(array, array.flat[0]) if name in names and array.size else array
        for name, array in drawn.items()
    }
