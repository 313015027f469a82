"""`--size fit`: the largest size whose run fits into a share of the memory.

One dimension of the spec's largest size, or those that its sizes keep in proportion, becomes longer or shorter. The run
needs the arrays of a launch, other contents of the inputs, a copy, and results of variants, batches and graphs
(`footprint`). The reference in float64 bounds the size too, since the processor computes it, and so do the launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import process_time

from cudalab.base import memory, numbers
from cudalab.base.errors import Unavailable, at_line, message_of
from cudalab.base.fork import Lost, in_fork
from cudalab.checks import huge
from cudalab.checks.many_blocks import Way, proportional, reference_cost
from cudalab.engine.groups import Group
from cudalab.host.reserved import reserved
from cudalab.results import limit, record
from cudalab.results.record import Case, Machine
from cudalab.spec.kernel import Kernel, Shape
from cudalab.spec.launch import MAX_GRID_Y
from cudalab.spec.sizes import MAX_ELEMENTS

CONTEXT = 1 << 30  # bytes of the GPU that a process takes for itself
COPIES = 6  # of all arrays of a launch: its own, other contents of the inputs, a copy's, and what is spare
ON_CPU = 1 << 22  # elements of the largest array where the processor executes the threads
SECONDS = {"cuda": 20.0, "cpu": 2.0}  # of a processor that the reference takes, at most, by kind of device
TRIES = 3  # of the reference at each
STEEP = 1.4  # a power from which on it grows faster than the elements; caches and noise are below
PROBES = (1 << 21, 1 << 18)  # elements at which the reference is tried
HOST_CONTENTS = 3  # contents of the inputs that a process keeps in the machine's memory
EXACT = 6  # bits of a length; the others are 0, so that a little less free memory gives the same size
BETTER = 2  # how many times as much another dimension must fill, to change in place of an earlier one
SEARCH = 60.0  # seconds of the whole search, at most


@dataclass(frozen=True)
class Room:
    """What a run may take. `labels` of its variants; `processes` that hold their arrays at a time, of `most`."""

    machine: Machine
    free: int  # bytes of the device
    labels: Sequence[str]
    modes: Collection[str]
    processes: int = 1
    most: int = 1
    host: int = field(default_factory=memory.free)  # bytes of the machine
    said: str = ""  # which of several cards this is

    def within(self, share: float) -> int:
        """Bytes of the device for one process: of a GPU a share of all its memory, as far as it is free."""
        if self.machine.device == "cpu":
            return int(share * self.free / self.processes)
        total = int(limit.number(self.machine, "memory_bytes")) or self.free
        return max(min(int(share * total), self.free) - self.most * CONTEXT, 0)


@dataclass(frozen=True)
class Found:
    """A size that fits: its shape, the bytes that the run needs at it, and what keeps it from being longer."""

    shape: Shape
    nbytes: int
    why: str
    held: bool  # whether the spec or a launch does, and another dimension may be longer


def fitted(group: Group, room: Room, known: Sequence[Case] = ()) -> Group:
    """The group at the size that fits; as in `known`, rows of a baseline, if that has some of it.

    Raises Unavailable where no size fits, or that of the baseline needs more memory than is free.
    """
    if kept := shaped(group, known):
        _refuse_larger(kept, room)
        return replace(kept, fitted=f"{group.size} is the size of the baseline")
    try:
        found = in_fork(partial(_answer, group, room), SEARCH)
    except Lost as lost:
        raise Unavailable(f"{group}: no size was found that fits: the process that looks for it {lost}") from None
    if isinstance(found, str):
        raise Unavailable(f"{group}: {found}")
    where = f"{_gb(room.within(1.0))} of memory that is free" if room.machine.device == "cpu" else _card(room)
    shape = "x".join(map(str, found.shape))
    said = f"{group.size} is {shape}: up to {100 * group.fit:g} % of {where}; the run needs about {_gb(found.nbytes)}"
    return replace(group, shape=found.shape, fitted="; ".join(filter(None, (said, found.why, room.said))))


def shaped(group: Group, known: Sequence[Case]) -> Group | None:
    """The group with the shape that it has in `known`; None if that has no rows of it."""
    names = group.name, group.size, group.dtype.name
    shape = next((case.shape for case in known if case.group == names), None)
    return replace(group, shape=tuple(shape)) if shape else None


def _refuse_larger(group: Group, room: Room) -> None:
    """Raise Unavailable where a run at the group's shape needs more than the memory that is free."""
    try:
        needs = in_fork(partial(_needs, group, room), SEARCH)
    except Lost:  # it is not known; the run itself says what does not fit
        return
    if needs > (within := room.free // room.processes):
        raise Unavailable(
            f"{group}: the baseline's size is {'x'.join(map(str, group.shape))}; a run at it needs about {_gb(needs)}, "
            f"and {_gb(within)} are free here; give fewer variants (--only) or processes (--processes 1), or a size of "
            "your own, or take a baseline on this device"
        )


def _needs(group: Group, room: Room) -> int:
    """Bytes of the device that a run at the group's shape needs; 0 where the spec does not tell."""
    try:
        way = next(_ways(group.kernel, group.shape))
        return _Search(group, room, way).nbytes(way.length)
    except Exception:  # the spec's own, or a shape that it refuses
        return 0


def footprint(arrays: int, results: int, room: Room) -> int:
    """Bytes of the device that a process needs for a group, at most: of arrays, and of a run's `results`."""
    whole = COPIES * arrays + len(room.labels) * results
    if not room.modes or room.machine.device == "cpu":
        return whole
    from cudalab.timing.gpu import WRITTEN, results_bytes  # which a CPU needs not load

    libraries = sum(label.partition(":")[0] not in record.ENTRIES for label in room.labels)
    rate = limit.bus(room.machine) * results / arrays if arrays else 0.0
    return whole + results_bytes(results, libraries, room.modes, rate or WRITTEN)


def _answer(group: Group, room: Room) -> Found | str:
    """The size, or why there is none."""
    try:
        return _found(group, room)
    except Exception as error:  # the spec's own, such as one of its reference
        return at_line(f"no size was found that fits: {message_of(error)}", error, group.file)


def _found(group: Group, room: Room) -> Found | str:
    within, refused = room.within(group.fit), list[str]()
    sizes = sorted(dict.fromkeys(group.kernel.sizes.values()), key=group.kernel.elements, reverse=True)
    for base in sizes:
        best: Found | None = None
        for way in _ways(group.kernel, base):
            try:
                found = _Search(group, room, way).longest(within)
            except huge.Refused as reason:
                refused.append(str(reason))
                continue
            if found and (best is None or found.nbytes > BETTER * best.nbytes):
                best = found
            if found and not found.held:
                break
        if best:
            return best
    said = f"; {refused[0]}" if refused else ""
    smallest = "x".join(map(str, sizes[-1]))
    less = f" less {room.most} x {_gb(CONTEXT)} for the processes" if room.machine.device == "cuda" else ""
    return (
        f"no size fits into {_gb(within)}, which is {100 * group.fit:g} % of {_gb(room.free)}{less}: not {smallest}, "
        f"and none that is shorter{said}; give a larger share (fit:0.95), fewer variants (--only) or processes "
        "(--processes 1), or a size of your own"
    )


def _ways(kernel: Kernel, base: Shape) -> Iterator[Way]:
    """The dimensions of a size that may change: those that differ among the named sizes first."""
    named = [shape for shape in dict.fromkeys(kernel.sizes.values()) if len(shape) == len(base) and 0 not in shape]
    every = [*named, *(shape for shape in kernel.edges if len(shape) == len(base) and 0 not in shape)]
    varied = [i for i in range(len(base)) if len({shape[i] for shape in named}) > 1]
    others = [i for i in range(len(base)) if i not in varied and len({shape[i] for shape in every}) > 1]
    taken = set[int]()
    columns = list(zip(*named, strict=True))
    for i in [*varied, *others] or [*range(len(base))][:1]:
        if i in taken:
            continue
        dims = (i, *(j for j in varied if i in varied and j > i and proportional(columns[i], columns[j])))
        taken |= set(dims)
        lengths = [shape[i] for shape in (named if dims[1:] else every)]
        powers = len(set(lengths)) > 1 and max(lengths) > 8 and all(length & (length - 1) == 0 for length in lengths)
        step = math.gcd(*lengths) if len(set(lengths)) > 1 else 1
        yield Way(base, dims, step, powers, base[i], kernel.allowed(base, i))


class _Search:
    """Looks for the longest length of a dimension at which all is affordable."""

    def __init__(self, group: Group, room: Room, way: Way) -> None:
        self.group, self.kernel, self.room, self.way = group, group.kernel, room, way
        inputs = self.kernel.input_kinds(group.dtype)
        names = (*self.kernel.outs, *self.kernel.workspace)
        own = {name: self.kernel.kind_of(name, group.dtype).numpy for name in names if name not in inputs}
        self.kinds, self.inputs = {**inputs, **own}, tuple(inputs)
        self.which = huge.ordinal(way.dims[0])
        self._why = ""  # the last refusal
        self._slow = False  # whether that was for the time of the reference
        self._held = False  # whether it was the spec's or a launch's
        self.shapes: Callable[[int], dict[str, Shape]] = self._known_shapes
        if not self.kernel.shapes_at(way.shape):
            start = max(way.step, way.allowed(1))
            self.shapes = huge.by_length(self.kernel, group.dtype, self._shape, start, self.which)[0]

    def longest(self, within: int) -> Found | None:
        """The longest length whose run needs so many bytes at most; None where the least needs more."""
        reference = self._reference()
        length = self._up_to(lambda n: self._affords(n, within, *reference(self._elements(n))) and self._takes(n))
        if not length:
            return None
        kept = 1 if self._slow else EXACT  # seconds differ from run to run, and the size should not
        few = max(length.bit_length() - kept, 0)
        length = self.way.allowed(length >> few << few) or length
        return Found(self._shape(length), self.nbytes(length), self._why, self._held)

    def _reference(self) -> Callable[[int], tuple[float, float]]:
        """Seconds and bytes of the reference, by elements of the largest array, from two short lengths.

        They grow as a power of the elements: 1 for each element alone, 1.5 for products of square matrices, 2 for each
        pair of elements.
        """
        lengths = [self._up_to(partial(self._has_at_most, most)) or self._shortest() for most in PROBES]
        near, far = (
            (self._elements(n), *reference_cost(self.kernel, self.group.dtype, self._shape(n), process_time, TRIES))
            for n in lengths
        )

        def at(elements: int, which: int) -> float:
            more = math.log(near[0] / far[0]) if near[0] > far[0] else 0.0
            power = math.log(near[which] / far[which]) / more if more and near[which] > far[which] else 1.0
            return near[which] * (elements / near[0]) ** (min(power, 3.0) if power >= STEEP else 1.0)

        return lambda elements: (at(elements, 1), at(elements, 2))

    def nbytes(self, length: int) -> int:
        """Bytes of the device that the run needs."""
        size = self._sizes(length)
        return footprint(sum(size.values()), sum(size[name] for name in self.kernel.outs), self.room)

    def _shape(self, length: int) -> Shape:
        return self.way.to(length).shape

    def _known_shapes(self, length: int) -> dict[str, Shape]:
        return huge.all_shapes(self.kernel, self.kernel.shapes_at(self._shape(length)))

    def _shortest(self) -> int:
        found = next((length for i in range(42) if (length := self.way.allowed(1 << i))), 0)
        if not found:
            raise huge.Refused(f"dims= allows the {self.which} dimension no length")
        return found

    def _up_to(self, fits: Callable[[int], bool]) -> int:
        """The longest allowed length that fits; 0 for none."""

        def good(n: int) -> bool:
            return not (length := self.way.allowed(n)) or fits(length)

        high = 1
        while high <= MAX_ELEMENTS and good(high):
            high *= 2
        low = high // 2
        while high - low > max(low >> 9, 1):
            between = (low + high) // 2
            low, high = (between, high) if good(between) else (low, between)
        return self.way.allowed(low)

    def _sizes(self, length: int) -> dict[str, int]:
        return {name: math.prod(one) * self.kinds[name].itemsize for name, one in self.shapes(length).items()}

    def _elements(self, length: int) -> int:
        return max(map(math.prod, self.shapes(length).values()), default=0)

    def _has_at_most(self, most: int, length: int) -> bool:
        return self._elements(length) <= most

    def _takes(self, length: int) -> bool:
        """Whether the spec takes the size, and all entries launch at it."""
        longer = f"longer {self.which} dimension"
        try:
            if math.prod(self._shape(length)) > MAX_ELEMENTS:
                return self._no(f"the lengths of a size have a product of at most {MAX_ELEMENTS:,}", held=True)
            if wrong := self.kernel.unfit_at(self._shape(length)):
                return self._no(f"the spec takes no {longer}: {wrong}", held=True)
            for entry in self.entries:
                if wrong := self._refuses(entry, length):
                    return self._no(f"{entry} does not launch at a {longer}: {wrong}", held=True)
        except Exception as error:  # the spec's own, or no address space
            return self._no(f"no {longer}: {error}", held=True)
        return True

    @cached_property
    def entries(self) -> list[str]:
        """The chosen entries, or all, without those that launch neither at the size of the spec nor at a short one."""
        chosen = {label.partition(":")[2] for label in self.room.labels}
        every = [entry for entry in self.kernel.entries if entry in chosen] or [*self.kernel.entries]
        lengths = self.way.length, self._shortest()
        return [entry for entry in every if not all(self._refuses(entry, length) for length in lengths)]

    def _refuses(self, entry: str, length: int) -> str:
        """Why an entry does not launch at a length; "" if it does."""
        try:
            arrays = {name: reserved(one, self.kinds[name]) for name, one in self.shapes(length).items()}
            launches = [launch for launch in self.kernel.launches(entry, arrays) if not launch.empty]
        except Exception as error:  # the launch function's
            return str(error)
        deep = any(max(launch.dims[0][1:]) > MAX_GRID_Y for launch in launches)
        return f"a grid has at most {MAX_GRID_Y:,} blocks in y and z" if deep else ""

    def _affords(self, length: int, within: int, seconds: float, peak: float) -> bool:
        """Whether the device, the machine's memory and the time of the reference allow a length."""
        kind, size = self.room.machine.device, self._sizes(length)
        results = sum(math.prod(self.shapes(length)[name]) for name in self.kernel.outs)
        own = HOST_CONTENTS * (sum(size[name] for name in self.inputs) + 8 * results) + peak  # in float64
        if self.nbytes(length) + (peak if kind == "cpu" else 0) > within:
            return self._no("")
        if kind == "cpu" and self._elements(length) > ON_CPU:
            return self._no(f"the processor executes the threads: no array has more than {ON_CPU:,} elements")
        if self.room.host and own > self.group.fit * self.room.host:
            return self._no(f"the inputs and the reference take {_gb(own)} of the machine's memory at a larger one")
        if seconds > SECONDS[kind]:
            return self._no(f"the reference takes more than {SECONDS[kind]:g} s at a larger one", slow=True)
        return True

    def _no(self, why: str, slow: bool = False, held: bool = False) -> bool:
        self._why, self._slow, self._held = why, slow, held
        return False


def _gb(nbytes: float) -> str:
    return f"{numbers.amount(nbytes)}B"


def _card(room: Room) -> str:
    total = int(limit.number(room.machine, "memory_bytes")) or room.free
    return f"the card's {_gb(total)}, of which {_gb(room.free)} are free"
