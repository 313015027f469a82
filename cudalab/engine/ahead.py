"""Inputs and right results of a large group, made in a process beside the run while the group before is prepared.

The process lies still while times are taken. What it made lies in memory that every process of the run maps and none
can change: none draws the inputs again. What it cannot make, the worker makes in the group's turn, and errors are told
there. There is room for the group at work and for one more.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cudalab.base import genuine, memory, threads
from cudalab.base.child import ERR, OUT, Child, Ended, Parent
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.checks import vacuous
from cudalab.checks.expected import Expected
from cudalab.engine import inputs
from cudalab.engine.groups import Group, Work
from cudalab.engine.messages import Made, Place, Places
from cudalab.spec.kernel import Arrays, Kernel

MAIN = "cudalab.engine.ahead.main"
WAITING = "inputs and reference"  # the phase of a group that waits for what is made of it
LARGE = 1 << 22  # elements from which a group is made ahead: smaller ones take less than the process needs to start
NICE = 5  # added to the process's niceness: the group at work goes first
ROOM = 0.5  # of the memory that is free, which a group may take
TEMPORARY = 3  # as many times the memory of one of the contents is needed while it is made
COPY = 1 << 24  # bytes that one thread copies at once
NAME = "cudalab-ahead"
MOST = inputs.SETS + 1  # contents of a group
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class Wanted(msgspec.Struct, frozen=True):
    """Make a group, each of the contents into one of the files at `paths`."""

    work: Work
    seed: int
    paths: list[str]


class Answer(msgspec.Struct, frozen=True):
    """One of the contents; at the end none, and whether the group is made."""

    places: Places | None = None
    whole: bool = False


class Ahead:
    """The process that makes groups. A context manager: at its end there is no process, and the memory is free.

    Where it has died, or gives no answer for `timeout` seconds, no further group is made ahead.
    """

    def __init__(self, seed: int, timeout: float) -> None:
        self._seed, self._timeout = seed, timeout
        self._usable = threads.cores() > 1
        self._child: Child[Answer] | None = None
        self._next: Group | None = None  # which is being made
        self._files, self._taken = list[int](), list[int]()  # the memory of that group, and of the group at work

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child:
            self._child.kill()
        self._files, self._taken = _closed(self._files), _closed(self._taken)

    def begin(self, later: Sequence[object]) -> None:
        """Let the first large one of the groups that come later be made, unless one is being made already."""
        group = next((one for one in later if isinstance(one, Group) and _large(one)), None)
        if not self._usable or self._next or not group:
            return
        try:
            self._child = self._child or Child(MAIN, answers=Answer, echo=(OUT, ERR))
            self._files = [os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) for _ in range(MOST)]
        except (OSError, Unavailable):
            self._usable = False
            return
        self._next = group
        self._child.send(Wanted(Work.on(group), self._seed, _paths(self._files)))

    def take(self, group: object, alive: Callable[[], object]) -> Made | None:
        """What was made for a group, which is now at work; None if nothing was. Waits; `alive` is called meanwhile."""
        self._taken = _closed(self._taken)
        if group is not self._next or not self._child:
            return None
        self._next, self._taken, self._files = None, self._files, []
        contents, whole = list[Places](), False
        try:
            while (found := self._child.receive(self._timeout, lambda: bool(alive()))).places:
                contents.append(found.places)
            whole = found.whole
        except Ended:
            self._usable = False
        except BaseException:  # of `alive`: what else the process answers is not of the next group
            self._usable = False
            self._child.kill()
            raise
        if not whole:
            self._taken = _closed(self._taken)  # frees the memory
            return None
        return Made(_paths(self._taken), contents)

    def paused(self) -> AbstractContextManager[None]:
        """Let the process lie still until the end of this context: times are taken there."""
        return self._child.paused() if self._child else nullcontext()


def _large(group: Group) -> bool:
    usual = group.timed and not (group.values or group.awkward or group.why or group.fit)
    return usual and prod(group.shape) >= LARGE


def _paths(files: Sequence[int]) -> list[str]:
    return [f"/proc/{os.getpid()}/fd/{file}" for file in files]


def _closed(files: Sequence[int]) -> list[int]:
    for file in files:
        os.close(file)
    return []


def main(parent: Parent) -> None:
    """Make what the parent wants, one group after the other."""
    os.nice(NICE)
    memory.keep()
    with suppress(OSError):  # where memory runs out, this process goes, and none of the run's
        Path("/proc/self/oom_score_adj").write_text("1000")
    for wanted in parent.orders(Wanted):
        whole = False
        with suppress(Exception):  # the worker meets it too, and tells it
            for places in made(wanted.work.group(), wanted.seed, wanted.paths):
                parent.answer(Answer(places))  # each is a sign of life
            whole = True
        parent.answer(Answer(whole=whole and not genuine.replaced()))


def made(group: Group, seed: int, paths: Sequence[str]) -> Iterator[Places]:
    """Write the contents of a group and the right results to files; where they lie. Nothing where memory is short.

    Each file is sealed: nobody can change it. Raises CudalabError if another process had done so before.
    """
    arrays = inputs.drawn(group, seed, 0)
    count = inputs.count(arrays) + 1  # the last one is for the end
    if _bytes(group.kernel, arrays) * (count + TEMPORARY) > ROOM * memory.free():
        return
    vacuous.refuse(group.kernel, group.dtype, arrays, seed)
    for number in range(count):
        arrays = inputs.drawn(group, seed, number) if number else arrays
        right = Expected(group.kernel, arrays).found
        with open(paths[number], "r+b", buffering=0) as file:
            places = Places(_written(file.fileno(), arrays), _written(file.fileno(), right))
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
            yield _read_again(file.fileno(), places, arrays, right)


def _bytes(kernel: Kernel, arrays: Arrays) -> int:
    """Of these inputs, and of what is right in float64."""
    shapes = {name: array.shape for name, array in arrays.items()}
    results = sum(prod(kernel.shape_of(name, shapes)) for name in kernel.outs)
    return sum(array.nbytes for array in arrays.values()) + 8 * results


def _written(file: int, arrays: Mapping[str, np.ndarray]) -> dict[str, Place]:
    """Append arrays to a file of memory, on all cores, in the byte order of the machine."""
    arrays = _native(arrays)
    begin, found = os.fstat(file).st_size, dict[str, Place]()
    end = begin
    for name, array in arrays.items():
        found[name] = Place(end, array.shape, array.dtype.name)
        end += -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    if end > begin:
        os.ftruncate(file, end)
        with contextlib.closing(mmap.mmap(file, end - begin, offset=begin)) as mapped:
            for name, array in arrays.items():
                _copy(array, mapped, found[name].offset - begin)
    return found


def _native(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _copy(array: np.ndarray, mapped: mmap.mmap, offset: int) -> None:
    source = _bits(array)
    target = np.ndarray(source.shape, np.uint8, mapped, offset)

    def part(at: slice) -> None:
        target[at] = source[at]

    threads.each(part, source.size, COPY)


def _read_again(file: int, places: Places, arrays: Arrays, right: Arrays) -> Places:
    """The places, where a sealed file has these bits there."""
    for due, found in zip((arrays, right), _mapped(file, places, mmap.ACCESS_READ), strict=True):
        for name, array in _native(due).items():
            ours, theirs = _bits(array), _bits(found[name])
            if not all(threads.each(lambda at: np.array_equal(ours[at], theirs[at]), ours.size, COPY)):  # noqa: B023
                raise CudalabError(f"another process has changed {name!r} while it was made")
    return places


def mapped(made: Made | None) -> list[tuple[Arrays, Arrays]]:
    """The contents and the right results; a change of them is seen by this process alone. Nothing if it cannot be."""
    found: list[tuple[Arrays, Arrays]] = []
    for path, places in zip(made.paths, made.contents, strict=False) if made else ():
        try:
            with open(path, "rb") as file:
                found.append(_mapped(file.fileno(), places, mmap.ACCESS_COPY))
        except (OSError, ValueError):
            return []
    return found


def _mapped(file: int, places: Places, access: int) -> tuple[Arrays, Arrays]:
    whole = mmap.mmap(file, 0, access=access)
    return _arrays(places.inputs, whole), _arrays(places.right, whole)


def _arrays(places: Mapping[str, Place], whole: Any) -> Arrays:
    return {name: np.ndarray(one.shape, np.dtype(one.dtype), whole, one.offset) for name, one in places.items()}
