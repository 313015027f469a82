"""Sizes at which the grid has many blocks: does each block find its own place?

A block index of 8 bits, or an array with a place for each of 256 blocks, is right at small sizes. So one dimension of a
size or edge of the spec is made longer until an entry launches more blocks. The grid shows which dimension: one that
the launch function shares out among blocks. A size is tried if the CPU can afford it. For more than IN_ONE blocks it
may be longer than all sizes of the spec, for more than IN_ALL it may not: a kernel may well have room for 1024 blocks.
"""

from __future__ import annotations

import math
import tracemalloc
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from time import perf_counter

import numpy as np

from cudalab.base.bounded import Stopped
from cudalab.base.errors import text
from cudalab.base.fork import Lost, in_fork
from cudalab.checks.expected import Expected
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Shape
from cudalab.spec.launch import MAX_GRID_Y, Launch

IN_ONE = 256  # blocks in one direction of the grid: what 8 bits count
CAP = 1  # blocks in one direction from which on a grid may stop growing
IN_ALL = (1 << 16, 1024)  # blocks: what 16 bits count, and the threads of a block
HELD = 132  # blocks of a cooperative launch, at most: one on each multiprocessor of an H200
SPARE = 8  # a grid has one block in so many more, since what one block adds to a sum may be within the budget
SMALL = 1 << 16  # elements, at most, of a shape that is made longer
THREADS, ELEMENTS = 1 << 20, 5 << 20  # of a size, at most
MADE = 5 << 19  # elements of a size, at most, where the spec makes the inputs itself
QUICK = 1 << 19  # the same where a grid that stops growing is looked for
FIRST = 1 << 15  # elements from which a grid that stays as it is does not grow
LEAP = 8  # how much longer the next shape is that is looked at
MOST = 1 << 31
SECONDS, BYTES = 1.0, 1 << 29  # that the reference takes, at most
PROBE = 32  # it is tried at this part of the size
LIMIT = 4.0  # seconds that a launch may take on the CPU
LAUNCHES = 1.0  # seconds, at most, in the launch function of an entry, which is called for many sizes
SEARCH = 20.0  # seconds, at most, of the whole search
COSTLY = "the reference takes"
NOT_SOUGHT = f"no size with more than {IN_ONE} blocks was looked for"


@dataclass(frozen=True)
class Goal:
    """What the grids of some entries should have more than `limit` of."""

    entries: tuple[str, ...]
    limit: int
    count: Callable[[tuple[int, int, int]], int]

    @property
    def enough(self) -> int:
        return self.limit + self.limit // SPARE

    @property
    def threads(self) -> int:
        """Of a size, at most. So many blocks are affordable only if each is a warp."""
        return max(THREADS, self.enough * 40 if self.limit == IN_ALL[0] else 0)


def _goals(kernel: Kernel) -> Iterator[Goal]:
    """The largest first, and all entries at once: such a size may do for the others."""
    every = [(limit, math.prod) for limit in IN_ALL] + [(IN_ONE, itemgetter(axis)) for axis in range(3)]
    for limit, count in every:
        yield Goal(tuple(kernel.entries), limit, count)
        yield from (Goal((entry,), limit, count) for entry in kernel.entries)


@dataclass(frozen=True)
class Way:
    """A shape whose dimensions `dims` are made longer together; the first of them to multiples of `step`."""

    shape: Shape
    dims: tuple[int, ...]
    step: int
    powers: bool  # of 2 only
    known: int  # the largest length in the spec, or the most elements if it is the only dimension
    choices: Sequence[int] | None  # the lengths that the spec's dims= leaves to the first; None: any

    @property
    def length(self) -> int:
        """Return the length of the first of the dimensions."""
        return self.shape[self.dims[0]]

    def to(self, length: int) -> Way:
        longer = {i: self.shape[i] * length // self.length for i in self.dims}
        return replace(self, shape=tuple(longer.get(i, n) for i, n in enumerate(self.shape)))

    def allowed(self, length: int) -> int:
        """The largest length up to this one that the dimension may have; 0 for none."""
        while True:
            found = 1 << length.bit_length() - 1 if self.powers and length else length // self.step * self.step
            if self.choices is None or not found:
                return found
            at = bisect_right(self.choices, found)
            length = self.choices[at - 1] if at else 0
            if length == found:
                return found


def every_way(kernel: Kernel) -> Iterator[Way]:
    """The dimensions that can be made longer, each in up to three shapes: others may decide on the launch as well.

    Dimensions in a fixed proportion in all shapes of the spec stay so; one that has the same length in all of them
    stays as it is. All lengths of one keep their common divisor, and stay powers of 2 if they are.
    """
    known = [shape for shape in dict.fromkeys((*kernel.edges, *kernel.sizes.values())) if math.prod(shape)]
    most = max(map(math.prod, known), default=0)
    for rank in dict.fromkeys(map(len, known)):
        alike = [shape for shape in known if len(shape) == rank]
        small = [shape for shape in alike if kernel.elements(shape) <= SMALL]
        small.sort(key=kernel.elements, reverse=True)
        columns = list(zip(*alike, strict=True))
        taken: set[int] = set()
        for i, lengths in enumerate(columns if small else ()):
            fixed = len(set(lengths)) == 1
            if i in taken or (fixed and len(alike) > 1):
                continue
            dims = (i, *(j for j in range(i + 1, rank) if not fixed and proportional(lengths, columns[j])))
            taken |= set(dims)
            rest = {tuple(n for j, n in enumerate(shape) if j not in dims): shape for shape in small}
            powers = max(lengths) > 8 and not fixed and all(length & (length - 1) == 0 for length in lengths)
            chosen = sorted((one for one in rest if 1 not in one), key=math.prod) or sorted(rest, key=math.prod)
            for one in dict.fromkeys((chosen[0], chosen[len(chosen) // 2], chosen[-1])):
                shape = rest[one]
                choices = kernel.allowed(shape, i)
                yield Way(shape, dims, math.gcd(*lengths), powers, most if rank == 1 else max(lengths), choices)


def proportional(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two dimensions, given by their lengths in all sizes, are in a fixed proportion."""
    return all(a * other[0] == b * one[0] for a, b in zip(one, other, strict=True))


class _Grids:
    """The launches of the entries by shape, as the spec makes them."""

    def __init__(self, kernel: Kernel, dtype: DType) -> None:
        self._kernel, self._dtype = kernel, dtype
        self._known: dict[Shape, dict[str, tuple[Launch, ...]]] = {}
        self._elements: dict[Shape, int] = {}
        self.refusal = ""  # the last one
        self.left_out: dict[str, str] = {}  # entries, and why
        self._spent: dict[str, float] = {}  # seconds in the launch functions
        self.most = MADE if callable(kernel.inputs) else ELEMENTS

    def count(self, goal: Goal, shape: Shape) -> int:
        """What each entry of a goal has; 0 where the spec, a launch function or CUDA refuses the shape."""
        found = self.find_launches(shape)
        return min(max((goal.count(one.dims[0]) for one in found.get(name, ())), default=0) for name in goal.entries)

    def threads(self, shape: Shape) -> int:
        """Of the entry that has the most."""
        each = (
            sum(math.prod(map(math.prod, launch.dims)) for launch in one) for one in self.find_launches(shape).values()
        )
        return max(each, default=0)

    def elements(self, shape: Shape) -> int:
        """Of all arrays."""
        self.find_launches(shape)
        return self._elements.get(shape, 0)

    def find_launches(self, shape: Shape) -> dict[str, tuple[Launch, ...]]:
        """Return the launches by entry, without the entries that refuse the shape."""
        if shape not in self._known:
            self._known[shape] = {}
            try:
                arrays = self._arrays(shape)
                self._elements[shape] = sum(array.size for array in arrays.values())
                for entry in self._kernel.entries:
                    if entry not in self.left_out:
                        self._known[shape][entry] = self._launches(entry, arrays)
            except (Exception, Stopped) as error:  # the spec's own
                self.refusal = text(error)
        return self._known[shape]

    def _arrays(self, shape: Shape) -> dict[str, np.ndarray]:
        kernel, dtype = self._kernel, self._dtype
        inputs = (kernel.make if callable(kernel.inputs) else kernel.unfilled)(shape, dtype)
        shapes = {name: array.shape for name, array in inputs.items()}
        own = [name for name in (*kernel.outs, *kernel.workspace) if name not in kernel.in_place]
        return inputs | {n: np.empty(kernel.shape_of(n, shapes), kernel.kind_of(n, dtype).numpy) for n in own}

    def _launches(self, entry: str, arrays: dict[str, np.ndarray]) -> tuple[Launch, ...]:
        start = perf_counter()
        try:
            launches = tuple(launch for launch in self._kernel.launches(entry, arrays) if not launch.empty)
        except (Exception, Stopped) as error:
            self.refusal = text(error)
            return ()
        self._spent[entry] = self._spent.get(entry, 0.0) + perf_counter() - start
        if self._spent[entry] > LAUNCHES:
            self.left_out[entry] = f"{NOT_SOUGHT}: its launch function took more than {LAUNCHES:g} s"
        for launch in launches:
            if max(launch.dims[0][1:]) > MAX_GRID_Y:
                self.refusal = f"a grid of {launch.dims[0]} has more than {MAX_GRID_Y:,} blocks in y or z"
                return ()
        if any(launch.cooperative and math.prod(launch.dims[0]) > HELD for launch in launches):
            return ()  # a GPU must hold all blocks at once
        return launches


def shapes(kernel: Kernel, dtype: DType, tried: Iterable[Shape]) -> tuple[dict[Shape, int], dict[str, str]]:
    """Shapes with many blocks, and the blocks of each; and by entry why it has no more than IN_ONE in any of them.

    `tried`: shapes that are checked anyway. An entry whose grid does not grow so far needs no such shape.
    """
    key = id(kernel), dtype.name, tuple(tried)
    if key not in _found:
        try:
            answer = in_fork(lambda: _shapes(kernel, dtype, list(key[2])), SEARCH)
        except Lost as lost:
            why = f"{NOT_SOUGHT}: the process with the launch functions {lost}"
            answer = {}, dict.fromkeys(kernel.entries, why)
        _found[key] = kernel, answer
    return _found[key][1]


# By the identity of a kernel, which is kept so that no other gets it. A test session asks several times for each.
_found: dict[tuple[int, str, tuple[Shape, ...]], tuple[Kernel, tuple[dict[Shape, int], dict[str, str]]]] = {}


def _shapes(kernel: Kernel, dtype: DType, tried: list[Shape]) -> tuple[dict[Shape, int], dict[str, str]]:
    grids, ways = _Grids(kernel, dtype), list(every_way(kernel))
    seen = [shape for shape in tried if math.prod(shape) <= MADE or not callable(kernel.inputs)]
    found: dict[Shape, int] = {}
    for goal in _goals(kernel):
        if any(grids.count(goal, shape) > goal.limit for shape in (*seen, *found)):
            continue
        longer = [longer for way in ways if (longer := _longer(grids, goal, way))]
        affordable = {
            way.shape: (way.length > way.known, grids.threads(way.shape) + grids.elements(way.shape))
            for way in longer
            if grids.threads(way.shape) <= goal.threads and (way.length <= way.known or goal.limit == IN_ONE)
        }
        if affordable:
            best = min(affordable, key=lambda shape: affordable[shape])
            found[best] = max(
                math.prod(launch.dims[0]) for each in grids.find_launches(best).values() for launch in each
            )
    for entry in kernel.entries:
        for axis in range(3):
            if beyond := _past_cap(grids, Goal((entry,), CAP, itemgetter(axis)), ways, [*seen, *found]):
                found[beyond] = max(
                    math.prod(launch.dims[0]) for each in grids.find_launches(beyond).values() for launch in each
                )
    lacking = {
        entry: _lacking(grids, Goal((entry,), IN_ONE, math.prod), ways, [*seen, *found]) for entry in kernel.entries
    }
    return found, {**{entry: why for entry, why in lacking.items() if why}, **grids.left_out}


def _longer(grids: _Grids, goal: Goal, way: Way) -> Way | None:
    """The way to a shape at which a goal is met; None where the grid does not grow so far."""
    short = length = way.length
    most = before = 0
    for length in _lengths(grids, way):
        shape, before = way.to(length).shape, most
        most = grids.count(goal, shape)
        needed = goal.enough / max(most, 1)  # times as much
        too_large = max(grids.threads(shape) / goal.threads, grids.elements(shape) / grids.most) * needed > 2
        stays = most == before and grids.elements(way.to(short).shape) >= FIRST
        if needed <= 1 or too_large or stays:
            break
        short = length
    if most < goal.enough:
        return way.to(length) if most > goal.limit else None
    while (between := way.allowed((short + length) // 2)) > 1.05 * short:
        if grids.count(goal, way.to(between).shape) >= goal.enough:
            length = between
        else:
            short = between
    odd = way.to(way.allowed(length - 1) or length)  # whose last block has less to do
    return odd if grids.count(goal, odd.shape) >= goal.enough else way.to(length)


def _past_cap(grids: _Grids, goal: Goal, ways: list[Way], tried: list[Shape]) -> Shape | None:
    """A shape that an entry covers only by a loop, since its grid stops growing in the direction that the goal counts.

    None where one is among those tried. A grid such as min(blocks(n, 256), 1024) is as long as the arrays at all small
    sizes.
    """
    for way in ways:
        lengths = [way.length, *_lengths(grids, way, QUICK if grids.most == MADE else math.inf)]
        if (more := way.allowed(lengths[-1] + lengths[-1] // 4)) <= lengths[-1]:  # a power of 2
            continue
        lengths.append(more)
        counts = [grids.count(goal, way.to(length).shape) for length in lengths]
        cap = counts[-1]
        if cap <= goal.limit or cap == counts[0] or cap != counts[-2] or cap != max(counts):
            continue
        longest = lengths[counts.index(cap)]
        shortest = lengths[counts.index(cap) - 1]
        while (between := way.allowed((shortest + longest) // 2)) > 1.02 * shortest:
            if grids.count(goal, way.to(between).shape) == cap:
                longest = between
            else:
                shortest = between
        past = way.to(way.allowed(int(longest * cap / (cap - 1) * 1.1) + 1))
        if any(
            _is_past(grids, goal, replace(way, shape=shape), cap) for shape in tried if len(shape) == len(way.shape)
        ):
            return None
        if past.length > longest and grids.threads(past.shape) <= THREADS and grids.elements(past.shape) <= grids.most:
            return past.shape
    return None


def _is_past(grids: _Grids, goal: Goal, way: Way, cap: int) -> bool:
    """Whether a shape is longer than what so many blocks cover: the last one is needed at one that is shorter by it."""
    less = way.allowed(int(way.length * (cap - 1) / cap / 1.05))
    return less > 0 and cap == grids.count(goal, way.shape) == grids.count(goal, way.to(less).shape)


def _lengths(grids: _Grids, way: Way, most: float = math.inf) -> Iterator[int]:
    """Lengths to look at, as long as the arrays have few elements, as far as can be told from the last two."""
    most = min(most, grids.most)
    length, size, power, times = way.length, max(grids.elements(way.shape), 1), 1.0, 2
    while size * times**power <= most and length * times < MOST:
        before, longer = (length, size), way.allowed(length * times)
        if longer <= length:  # dims= allows none that is so near
            times *= 2
            continue
        length = longer
        yield length
        size = max(grids.elements(way.to(length).shape), size)
        power = min(max(math.log(size / before[1]) / math.log(length / before[0]), 1.0), 3.0)
        times = LEAP
    longest = way.allowed(int(length * (most / size) ** (1 / power)))
    if length < longest < MOST:
        yield longest


def _lacking(grids: _Grids, goal: Goal, ways: list[Way], tried: list[Shape]) -> str:
    """Why an entry has few blocks in all shapes although its grid grows; "" if it has many, or does not grow."""
    if any(grids.count(goal, shape) > goal.limit for shape in tried):
        return ""
    for way in ways:
        *_, half, last = (way.length, way.length, *_lengths(grids, way))
        most = grids.count(goal, way.to(last).shape)
        if way.allowed(MOST) <= last:  # dims= allows no longer one
            continue
        if most > grids.count(goal, way.to(half).shape):
            shape = way.to(last).shape
            least = f"{'x'.join(map(str, shape))} has {most:,} blocks, {grids.threads(shape):,} threads and "
            return (
                f"no size with more than {goal.limit} blocks is small enough for a check on the CPU: {least}"
                f"{grids.elements(shape):,} elements"
            )
    return ""


def too_slow(kernel: Kernel, dtype: DType, shape: Shape) -> str:
    """Why the reference takes too much at one of these shapes, as two smaller ones tell; "" if it does not."""
    way = next((way for way in every_way(kernel) if way.to(shape[way.dims[0]]).shape == shape), None)
    if way is None:
        return ""
    length = shape[way.dims[0]]
    near, far = (max(way.allowed(length // part), way.length) for part in (PROBE, 2 * PROBE))
    costs = [reference_cost(kernel, dtype, way.to(one).shape) for one in dict.fromkeys((near, far))]
    costs = [(seconds if seconds > 0.002 else 0.0, size) for seconds, size in costs]  # less does not tell how it grows
    seconds, size = (_at(length, near, far, *(cost[i] for cost in costs)) for i in (0, 1))
    if size > BYTES:
        return f"{COSTLY} {size / 1e9:,.1f} GB of memory at this size"
    return f"{COSTLY} {seconds:,.0f} s at this size" if seconds > SECONDS else ""


def _at(length: int, near: int, far: int, cost: float, less: float = 0.0) -> float:
    """A cost at a length, from that of `near`, and that of `far`, which is shorter: as a power of the length."""
    power = math.log(cost / less) / math.log(near / far) if less and cost > less else 1.0
    return cost * (length / near) ** min(max(power, 1.0), 3.0)


def reference_cost(
    kernel: Kernel, dtype: DType, shape: Shape, clock: Callable[[], float] = perf_counter, tries: int = 3
) -> tuple[float, float]:  # fmt: skip
    """Seconds and bytes that the reference takes at a shape: of so many tries the shortest."""
    arrays, seconds = kernel.make(shape, dtype), math.inf
    for _ in range(tries):
        start = clock()
        Expected(kernel, arrays)
        seconds = min(seconds, clock() - start)
    tracemalloc.start()
    try:
        Expected(kernel, arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return seconds, float(peak)
