"""Repeated calls of kernels with scalars, a workspace, or outputs that are not one new array.

The key of such a call is that of `fast_path`, and the values of those scalars with which the launch function computes.
A scalar that it only passes on is written into the launch at each call; see `device.passed`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cudalab.base.errors import SpecError
from cudalab.call.libraries import Done, as_tuple, own_outputs
from cudalab.device.launch import InOrder, Prepared
from cudalab.spec.array import Scalar
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel

VALUES = 64  # combinations of values that are remembered of scalars with which a launch function computes


@dataclass(frozen=True)
class Hit:
    """Calls that were checked and prepared, for some values of scalars."""

    launch: Callable[..., None] | None  # takes the stream, the pointers, the bytes of the passed scalars
    new: tuple[tuple[Callable[[Any], Any], int], ...]  # what allocates each new array, and its alignment


@dataclass
class Like:
    """Calls whose arrays are alike, and which give the same scalars."""

    passed: tuple[str, ...]  # scalars that the launch function only passes on
    defaults: dict[str, Any]  # every scalar, rounded: those of the spec for these arrays count
    device: int
    nbytes: tuple[int, ...]  # of the arrays given: inputs, then outputs
    again: Callable[[Mapping[str, Any]], Prepared | InOrder | None] | None  # None: other values are other shapes
    hits: dict[tuple[bytes, ...], Hit] = field(default_factory=dict)  # by those that it computes with


class Several:
    """Repeated calls of one kernel with arrays of one library, whose `fast_path.Quick` reads and makes them."""

    def __init__(self, kernel: Kernel, quick: Any, most: int) -> None:
        own = own_outputs(kernel)
        self._quick, self._most = quick, most
        self._arrays = (*kernel.input_names, *own, *kernel.workspace)
        self._results = tuple(self._arrays.index(name) for name in kernel.outs)
        self._fills = tuple((kernel.outs.get(n) or kernel.workspace[n]).fill for n in (*own, *kernel.workspace))
        self._updated = tuple(kernel.input_names.index(name) for name in kernel.in_place)
        self._inputs, self._lengths = len(kernel.input_names), kernel.length_scalars
        self._scalars = kernel.scalars
        self._bytes = {name: bytes_of(one, name) for name, one in kernel.scalars.items()}
        self._known: dict[Hashable, Like] = {}

    def hit(self, arrays: tuple[Any, ...], out: Any, scalars: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The call's results; None if it must be made as a first one."""
        given = arrays if out is None else (*arrays, *as_tuple(out))
        quick = self._quick
        key, pointers = quick.signature(given)
        like = self._known.get((len(arrays), out is None, key, tuple(scalars))) if key else None
        if like is None:
            return None
        try:
            numbers = {name: self._bytes[name](value) for name, value in scalars.items()}
            values = tuple([numbers[name] for name in numbers if name not in like.passed])
            hit = like.hits.get(values) or self._again(like, values, scalars)
        except (SpecError, struct.error, OverflowError):
            return None
        if hit is None or self._overlap(pointers, like.nbytes):
            return None
        every, filled = list(given), len(given) - self._inputs
        for make, alignment in hit.new:
            every.append(made := make(arrays[0]))
            pointers.append(pointer := quick.pointer(made))
            if quick.place(pointer) != alignment:
                return None
        for array, fill in zip(every[self._inputs :], self._fills, strict=True):
            if fill is not None:
                quick.fill(array, fill)
        for i in (*self._updated, *range(self._inputs, self._inputs + filled)):
            quick.written(every[i])
        if hit.launch is not None:
            passed = [numbers.get(name) or like.defaults[name].tobytes() for name in like.passed]
            hit.launch(quick.stream(like.device), *pointers, *passed)
        return tuple([every[i] for i in self._results])

    def remember(self, arrays: tuple[Any, ...], out: Any, scalars: Mapping[str, Any], done: Done) -> None:
        given = arrays if out is None else (*arrays, *as_tuple(out))
        key, _ = self._quick.signature(given)
        if key is None:
            return
        full = (len(arrays), out is None, key, tuple(scalars))
        passed = done.prepared.passed if done.prepared else ()
        like = self._known.get(full)
        if like is None or like.passed != passed:
            if len(self._known) >= self._most:
                self._known.clear()  # the program keeps using new shapes
            again = None if set(scalars) & set(self._lengths) else done.again
            nbytes = tuple(array.nbytes for array in given)
            like = Like(passed, dict(done.scalars), self._quick.device(arrays[0]), nbytes, again)
            self._known[full] = like
        made, quick = done.made[len(given) - len(arrays) :], self._quick
        new = tuple((quick.maker(arrays[0], one), quick.place(quick.pointer(one))) for one in made)
        values = tuple(self._bytes[name](value) for name, value in scalars.items() if name not in passed)
        self._keep(like, values, Hit(done.prepared.__call__ if done.prepared else None, new))

    def _again(self, like: Like, values: tuple[bytes, ...], scalars: Mapping[str, Any]) -> Hit | None:
        """The hit for other values of scalars with which the launch function computes; None if it must check them."""
        first = next(iter(tuple(like.hits.values())), None)
        if first is None or like.again is None:
            return None
        rounded = {name: self._scalars[name].rounded(value, name) for name, value in scalars.items()}
        prepared = like.again({**like.defaults, **rounded})
        return self._keep(like, values, Hit(prepared.__call__, first.new)) if prepared else None

    def _keep(self, like: Like, values: tuple[bytes, ...], hit: Hit) -> Hit:
        if len(like.hits) >= VALUES:
            like.hits.clear()
        like.hits[values] = hit
        return hit

    def _overlap(self, pointers: list[int], nbytes: tuple[int, ...]) -> bool:
        """Whether an array that is updated or given as an output shares memory with another one."""
        for i in (*self._updated, *range(self._inputs, len(nbytes))):
            start, stop = pointers[i], pointers[i] + nbytes[i]
            for k, (first, size) in enumerate(zip(pointers, nbytes, strict=True)):
                if k != i and first < stop and start < first + size:
                    return True
        return False


def bytes_of(scalar: Scalar, name: str) -> Callable[[Any], bytes]:
    """What rounds a value to a scalar's dtype and gives its bytes; as quick as it can be for Python's own numbers."""
    kind = DTYPES[scalar.dtype].numpy
    exact = float if kind.kind == "f" else int
    pack = struct.Struct(kind.char).pack if kind.char in "fdbBhHiIlLqQ" else None

    def found(value: Any) -> bytes:
        its = type(value)
        if pack and (its is exact or (its is int and -(2**53) < value < 2**53)):
            return pack(value)
        return value.tobytes() if its is kind.type else scalar.rounded(value, name).tobytes()

    return found
