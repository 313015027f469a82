"""Arrays of more than 2^31 and 2^32 elements: does each index fit its type?

No such array is made, and no result is computed. The arrays are reserved address space; the first and the last blocks
of the grid run, on zeros, and each access is looked at (host/global_races.h). An address outside of all arrays is a
fault, and so is a large output whose end the last blocks do not write.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

from cudalab import host
from cudalab.base.errors import CudalabError, OverrunError, Unavailable
from cudalab.checks import inputs
from cudalab.host.reserved import reserved
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Shape

LIMITS = (1 << 31, 1 << 32)  # elements of the largest array, which an int and an unsigned cannot count
BEYOND = (1 << 20) + 3  # elements
SMALL = 1 << 24  # elements, at most, of a shape from which the arrays' shapes are told
ENDS = 64  # blocks that run at each end of the grid; one, if the grid is small and each block does much
FEW = 1 << 14  # blocks of such a grid


class Refused(CudalabError):
    """The kernel, its spec or this machine takes no such arrays: the reason."""


def shapes(kernel: Kernel, dtype: DType, limit: int) -> dict[str, Shape]:
    """The shape of each array, by name, where the first dimension makes the largest pass the limit. Raises Refused."""
    small = [s for s in (*kernel.sizes.values(), *kernel.edges) if s and 0 < math.prod(s) <= SMALL and s[0] > 1]
    if not small:
        raise Refused("no size or edge of the spec is small and has a first dimension to extend")
    base = max(small, key=lambda shape: (math.prod(shape[1:]), -shape[0]))  # long rows need the fewest blocks
    one, two, three = (_shapes(kernel, dtype, (base[0] * times, *base[1:])) for times in (1, 2, 3))
    for name in one:
        steps = [
            tuple(b - a for a, b in zip(*pair, strict=False))
            for pair in ((one[name], two[name]), (two[name], three[name]))
        ]
        if not len(one[name]) == len(two[name]) == len(three[name]) or steps[0] != steps[1]:
            raise Refused(f"the shape of {name!r} does not grow evenly with the first dimension alone")
    slopes = {name: [(b - a) / base[0] for a, b in zip(one[name], two[name], strict=True)] for name in one}

    def at(first: int) -> dict[str, Shape]:
        return {
            name: tuple(round(a + (first - base[0]) * s) for a, s in zip(one[name], slopes[name], strict=True))
            for name in one
        }

    largest = max(one, key=lambda name: math.prod(two[name]) - math.prod(one[name]))
    grows = (math.prod(two[largest]) - math.prod(one[largest])) / base[0]
    if grows <= 0:
        raise Refused("no array grows with the first dimension")
    first = base[0] + math.ceil((limit + BEYOND - math.prod(one[largest])) / grows)
    found = at(first | 1)
    if math.prod(found[largest]) <= limit or sum(math.prod(shape) for shape in found.values()) > 16 * limit:
        raise Refused("the arrays do not grow with the first dimension alone")
    return found


def _shapes(kernel: Kernel, dtype: DType, shape: Shape) -> dict[str, Shape]:
    try:
        made = {name: array.shape for name, array in kernel.make(shape, dtype).items()}
        return {**made, kernel.output: kernel.result_shape(made)}
    except Exception as error:  # the spec's own
        raise Refused(f"the spec makes no inputs of {shape}: {error}") from None


def fault(
    module: host.Module, kernel: Kernel, entry: str, dtype: DType, beyond: dict[int, dict[str, Shape]]
) -> Iterator[str]:
    """Launch an entry beyond each limit, on arrays of these `shapes`: what is wrong with it, or "".

    Raises Refused where it takes no such arrays.
    """
    known = inputs.kinds(kernel, dtype)
    for limit, found in beyond.items():
        try:
            arrays = {name: reserved(shape, known.get(name, dtype.numpy)) for name, shape in found.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)  # NumPy 1 wraps a scalar that does not fit
                launch = kernel.launch(entry, arrays)
            grid, block = launch.dims
            ends = 1 if math.prod(grid) <= FEW else ENDS
            written = module.launch_ends(entry, grid, block, launch.args, launch.shared, ends)
        except OverrunError as error:
            yield f"{error} ({_listed(found)})"
            return
        except Unavailable as error:
            raise Refused(str(error)) from None
        except Exception as error:  # the spec's own, or the launch's
            raise Refused(f"at {_listed(found)}: {error}") from None
        output = arrays[kernel.output]
        if written is None or output.size <= limit:
            yield ""
            continue
        address = output.ctypes.data
        _, last = written.get(address, (output.nbytes, 0))
        if last == 0:
            yield f"the first and the last blocks write nothing of {kernel.output!r} ({_listed(found)})"
            return
        if last <= output.nbytes // 2:
            yield (
                f"the last blocks write nothing of the second half of {kernel.output!r}, and something else twice: is "
                f"an index of 32 bits too small? ({_listed(found)})"
            )
            return
        yield ""


def _listed(found: dict[str, Shape]) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in found.items())
