"""Arrays of more than 2^31 and 2^32 elements: does each index fit its type?

No such array is made, and no result is computed. The arrays are reserved address space; the first and the last blocks
of the grid run, on zeros and last indices, and each access is looked at (host/global_races.h). An address outside of
all arrays is a fault, and so is a large output whose end the last blocks do not write, and a read that stays at the
beginning of a large array although it moves from block to block, up to the last ones.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cudalab import host
from cudalab.base.errors import CudalabError, OverrunError, Unavailable
from cudalab.checks.many_blocks import proportional
from cudalab.host.module import FAR_ACCESSES
from cudalab.host.reserved import reserved, touched
from cudalab.spec.dimensions import of_arrays
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, Launch, Shape

if TYPE_CHECKING:
    from cudalab.host.isolated import Isolated

ORDINALS = ("first", "second", "third")
LIMITS = (1 << 31, 1 << 32)  # elements of the largest array, which an int and an unsigned cannot count
BEYOND = (1 << 20) + 3  # elements
SMALL = 1 << 24  # elements, at most, of a shape from which the arrays' shapes are told
ENDS = (64, 8)  # blocks that run at each end of the grid: the most whose accesses can be followed
MORE = (1024, 320)  # where the last ones write nothing: a grid in three dimensions may end far beyond the arrays
FILLED = 1 << 20  # elements at each end of an array of indices that are the last index
FEW = 1 << 14  # blocks of a grid, at most, of which one runs at each end, since each does much


class Refused(CudalabError):
    """The kernel, its spec or this machine takes no such arrays: the reason."""


def dimensions(kernel: Kernel) -> range:
    """The dimensions of a size of the spec, each of which may be what makes an array long."""
    return range(max(len(size) for size in (*kernel.sizes.values(), *kernel.edges, ())))


def shapes(kernel: Kernel, dtype: DType, limit: int, axis: int = 0) -> dict[str, Shape]:
    """The shape of each array, by name, where this dimension makes the largest one pass the limit. Raises Refused."""
    which = ordinal(axis)
    if (tied := _tied(kernel, axis)) is not None:
        raise Refused(f"the {which} dimension is in a fixed proportion to the {ordinal(tied)} in all sizes and edges")
    usual = [s for s in (*kernel.sizes.values(), *kernel.edges) if s and 0 < kernel.elements(s) <= SMALL]
    small = [s for s in usual if len(s) > axis and s[axis] > 1]
    if not small:
        raise Refused(f"no small size or edge of the spec has a {which} dimension that can be extended")
    # Others that are long need the fewest blocks.
    base = max(small, key=lambda shape: (math.prod(shape) // shape[axis], -shape[axis]))

    def longer(length: int) -> Shape:
        return (*base[:axis], length, *base[axis + 1 :])

    start = base[axis]
    at, one, two = by_length(kernel, dtype, longer, start, which)

    def allowed(length: int) -> int:
        choices = kernel.allowed(base, axis)
        if choices is None:
            return length | 1
        if (place := bisect_left(choices, length)) == len(choices):
            name = kernel.dimension_of(base, axis)
            raise Refused(f"dims= allows {name}, the {which} dimension, no such length")
        return choices[place]

    largest = max(one, key=lambda name: math.prod(two[name]) - math.prod(one[name]))
    grows = (math.prod(two[largest]) - math.prod(one[largest])) / start
    if grows <= 0:
        raise Refused(f"no array grows with the {which} dimension")
    length = allowed(start + math.ceil((limit + BEYOND - math.prod(one[largest])) / grows))
    if wrong := kernel.unfit_at(longer(length)):
        raise Refused(wrong)
    found = at(length)
    if math.prod(found[largest]) <= limit or sum(math.prod(shape) for shape in found.values()) > 16 * limit:
        raise Refused(f"the arrays do not grow with the {which} dimension alone")
    return found


def by_length(
    kernel: Kernel, dtype: DType, longer: Callable[[int], Shape], start: int, which: str
) -> tuple[Callable[[int], dict[str, Shape]], dict[str, Shape], dict[str, Shape]]:  # fmt: skip
    """The shapes of all arrays as a function of the length of a dimension, as three short ones tell them.

    Also gives those at `start` and twice that. `which` names the dimension. Raises Refused.
    """
    one, two, three = (_shapes(kernel, dtype, longer(start * times)) for times in (1, 2, 3))
    for name in kernel.input_names:
        steps = [
            tuple(b - a for a, b in zip(*pair, strict=False))
            for pair in ((one[name], two[name]), (two[name], three[name]))
        ]
        if not len(one[name]) == len(two[name]) == len(three[name]) or steps[0] != steps[1]:
            raise Refused(f"the shape of {name!r} does not grow linearly with the {which} dimension alone")
    slopes = {n: [(b - a) / start for a, b in zip(one[n], two[n], strict=True)] for n in kernel.input_names}

    def at(length: int) -> dict[str, Shape]:
        inputs = {
            name: tuple(round(a + (length - start) * s) for a, s in zip(one[name], slopes[name], strict=True))
            for name in slopes
        }
        return all_shapes(kernel, inputs)

    return at, one, two


def ordinal(axis: int) -> str:
    return ORDINALS[axis] if axis < len(ORDINALS) else f"{axis + 1}th"


def _tied(kernel: Kernel, axis: int) -> int | None:
    """Another dimension that is a fixed multiple of this one in all sizes and edges; None for none."""
    every = [s for s in {*kernel.edges, *kernel.sizes.values()} if len(s) > axis and 0 not in s]
    if len({size[axis] for size in every}) < 2 or len(set(map(len, every))) > 1:
        return None
    columns = list(zip(*every, strict=True))
    return next((i for i, one in enumerate(columns) if i != axis and proportional(columns[axis], one)), None)


def _shapes(kernel: Kernel, dtype: DType, shape: Shape) -> dict[str, Shape]:
    try:
        inputs = kernel.shapes_at(shape) or {n: array.shape for n, array in kernel.make(shape, dtype).items()}
        return all_shapes(kernel, inputs)
    except Refused:
        raise
    except Exception as error:  # the spec's own
        raise Refused(f"the spec cannot make inputs of {shape}: {error}") from None


def all_shapes(kernel: Kernel, inputs: dict[str, Shape]) -> dict[str, Shape]:
    """The shapes of all arrays: inputs, outputs, workspace."""
    try:
        return {**inputs, **{name: kernel.shape_of(name, inputs) for name in (*kernel.outs, *kernel.workspace)}}
    except Exception as error:  # the spec's own
        raise Refused(f"the spec's shapes= fails for {_listed(inputs)}: {error}") from None


def fault(
    load: Callable[[tuple[str, ...]], Isolated], kernel: Kernel, entry: str, dtype: DType,
    beyond: dict[int, dict[str, Shape]],
) -> Iterator[str]:  # fmt: skip
    """Launch an entry beyond each limit, on arrays of these `shapes`: what is wrong with it, or "".

    `load`: from the functions that are launched, the module that looks at each access.
    Raises Refused where it takes no such arrays, and what `load` raises.
    """
    known = kernel.input_kinds(dtype)
    for limit, found in beyond.items():
        kinds = {name: known[name] if name in known else kernel.kind_of(name, dtype).numpy for name in found}
        try:
            arrays = {name: reserved(shape, kinds[name]) for name, shape in found.items()}
            for name, last in last_indices(kernel, found).items():
                flat, value = arrays[name].reshape(-1), min(last, np.iinfo(arrays[name].dtype).max)
                flat[:FILLED] = flat[-FILLED:] = value
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)  # NumPy 1 wraps a scalar that does not fit
                launches = [launch for launch in kernel.launches(entry, arrays) if not launch.empty]
                constants = kernel.constants_of({**arrays, **kernel.scalars_of(arrays)})
        except Exception as error:  # the spec's own, or no address space
            raise Refused(str(error) if isinstance(error, Unavailable) else f"at {_listed(found)}: {error}") from None
        if any(launch.cooperative or launch.cluster for launch in launches):
            raise Refused("a cooperative or cluster launch cannot run only its first and last blocks")
        module = load(tuple(launch.entry for launch in launches))
        try:
            seen = _seen(module, launches, constants)
            unwritten = "" if seen is None else _unwritten(kernel, arrays, limit, seen)
            if unwritten and (more := _seen(module, launches, constants, MORE, 8 * FAR_ACCESSES)):
                unwritten = _unwritten(kernel, arrays, limit, more)
            wrong = unwritten or ("" if seen is None else _wrapped(module, arrays, limit, seen))
            whole = [arrays[name] for name, kind in known.items() if kind.kind in "biu"]
            if wrong and whole and seen and _decide(whole, seen, partial(_seen, module, launches, constants)):
                wrong = ""
        except OverrunError as error:
            yield f"{error} ({_listed(found)})"
            return
        except Exception as error:  # the launch's
            raise Refused(f"at {_listed(found)}: {error}") from None
        yield f"{wrong} ({_listed(found)})" if wrong else ""
        if wrong:
            return


def last_indices(kernel: Kernel, found: dict[str, Shape]) -> dict[str, int]:
    """The last index of each input of indices whose end the spec names, such as In("int32", 0, "rows")."""
    if callable(kernel.inputs) or not kernel.inputs:
        return {}
    inputs = {name: found[name] for name in kernel.input_names}
    lengths = of_arrays(kernel.shapes, inputs) | kernel.scalar_lengths(inputs)
    every = {name: one.last(lengths) for name, one in kernel.inputs.items()}
    return {name: last for name, last in every.items() if last is not None}


def _seen(
    module: Isolated, launches: Sequence[Launch], constants: dict[str, np.ndarray], most: Sequence[int] = ENDS,
    accesses: int = FAR_ACCESSES,
) -> host.Ends | None:  # fmt: skip
    """What the launches did; None if one of them says nothing. `most`: blocks to try at each end of a long grid."""
    for name, value in constants.items():
        module.set_constant(name, value)
    written, read = dict[int, int](), list[tuple[int, int, int]]()
    for launch in launches:
        grid, block = launch.dims
        tried = (1,) if math.prod(grid) <= FEW else most
        each = (
            module.launch_ends(launch.entry, grid, block, launch.args, launch.shared, ends, accesses) for ends in tried
        )
        if (found := next((one for one in each if one is not None), None)) is None:
            return None
        for address, end in found.written.items():
            written[address] = max(end, written.get(address, 0))
        read += found.read
    return host.Ends(written, read)


def _decide(whole: Sequence[np.ndarray], seen: host.Ends, again: Callable[[], host.Ends | None]) -> bool:
    """Whether the integers of these inputs decide on what the blocks read and write: as indices, offsets or masks.

    They are nearly all 0 here, or the last index: then a place that is not reached says nothing. Once they are 0 and 1
    in turn, and once 1 and 0; this leaves the arrays changed.
    """
    for first in (0, 1):
        for flat in (array.reshape(-1) for array in whole):
            flat[:FILLED] = flat[-FILLED:] = 0
            flat[first:FILLED:2] = flat[flat.size - min(FILLED, flat.size) + first :: 2] = 1
        try:
            if again() != seen:
                return True
        except OverrunError:
            return True
    return False


def _unwritten(kernel: Kernel, arrays: Arrays, limit: int, seen: host.Ends) -> str:
    """What is wrong where the last blocks do not write the end of a large output that is theirs to fill."""
    for name, out in kernel.outs.items():
        output = arrays[name]
        if output.size <= limit or name in kernel.in_place or out.fill is not None:
            continue
        last, flat = seen.written.get(output.ctypes.data, 0), output.reshape(-1)
        if touched(flat if last == 0 else flat[-(flat.size // 2 - 1) :]):
            continue
        if last == 0:
            return f"the first and the last blocks write nothing to {name!r}"
        if last <= output.nbytes // 2:
            return (
                f"the last blocks write nothing to the second half of {name!r}, and write other elements twice: is a "
                "32-bit index too small?"
            )
    return ""


def _wrapped(module: Isolated, arrays: Arrays, limit: int, seen: host.Ends) -> str:
    """What is wrong where the last blocks read what 32 bits leave of their indices: the first elements of an array."""
    if limit < LIMITS[-1]:
        return ""
    by_address = {array.ctypes.data: name for name, array in arrays.items()}
    for code, address, end in seen.read:
        name = by_address.get(address, "")
        beyond = arrays[name].size - limit if name else 0
        if 0 < end <= beyond * arrays[name].itemsize:
            return (
                f"{module.place(code)}: the last blocks read none but the first {beyond:,} elements of {name!r}, as "
                "the first blocks do: is a 32-bit index too small?"
            )
    return ""


def _listed(found: dict[str, Shape]) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in found.items())
