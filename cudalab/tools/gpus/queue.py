"""Which group a GPU does next, what becomes of a group whose GPU is lost, and when a group is given up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from cudalab.engine.selection import Rows, Way

G = TypeVar("G", bound=Rows[Way])
TRIES = 3  # a group that has ended so many actors is given up
STRIKES = 3  # a GPU whose actors were lost so many times in a row, each time with another group, is left out


class Queue(Generic[G]):
    """The groups that are not done. GPUs are known by their numbers."""

    def __init__(self, groups: Sequence[G], seconds: Sequence[float]) -> None:
        """`seconds` are what each group might take; only their proportions count."""
        self._waiting = list(groups)
        self._seconds = {id(group): one for group, one in zip(groups, seconds, strict=True)}
        self._doing: dict[int, G] = {}  # by GPU
        self._compiled: dict[int, set[tuple[str, str]]] = {}  # by GPU, the kernels and dtypes that it has had
        self._tries: dict[int, list[tuple[int, str]]] = {}  # by group, the GPUs that were lost with it, and why
        self._strikes: dict[int, list[int]] = {}  # by GPU, the groups that were lost since it finished one

    def __bool__(self) -> bool:
        """Whether a group waits or is being done."""
        return bool(self._waiting or self._doing)

    @property
    def doing(self) -> dict[int, G]:
        """The group that each GPU does."""
        return dict(self._doing)

    @property
    def waiting(self) -> list[G]:
        """The groups that no GPU does."""
        return list(self._waiting)

    def keep(self, groups: Sequence[G]) -> None:
        """Of the groups that wait, these alone are still to be done."""
        self._waiting = list(groups)

    def next(self, gpu: int, others: Collection[int]) -> G | None:
        """Give a GPU that does nothing its next group; None where none is left for it. `others` are the other GPUs.

        It continues with a kernel and dtype that it has compiled, else takes one that no GPU has; the longest first, so
        that all GPUs end at about the same time. A group that was lost goes to a GPU that it has not been on.
        """
        found = [group for group in self._waiting if not self._elsewhere(group, gpu, others)]
        if not found:
            return None
        every = set().union(*self._compiled.values())
        mine = self._compiled.setdefault(gpu, set())

        def rank(group: G) -> tuple[int, float]:
            code = group.file, group.dtype.name
            return 0 if code in mine else 1 if code not in every else 2, -self._seconds[id(group)]

        group = min(found, key=rank)
        self._waiting.remove(group)
        self._doing[gpu] = group
        mine.add((group.file, group.dtype.name))
        return group

    def _elsewhere(self, group: G, gpu: int, others: Collection[int]) -> bool:
        """Whether a group was lost on this GPU, and there is another on which it was not."""
        been = {number for number, _ in self._tries.get(id(group), ())}
        return gpu in been and not been.issuperset(others)

    def done(self, gpu: int) -> G:
        """The GPU has finished its group: return it."""
        self._strikes.pop(gpu, None)
        return self._doing.pop(gpu)

    def lost(self, gpu: int, reason: str) -> G | None:
        """The GPU's actor is lost. Its group waits again, before the others; a group that is given up is returned."""
        self._compiled.pop(gpu, None)
        group = self._doing.pop(gpu, None)
        if group is None:
            return None
        tries = self._tries.setdefault(id(group), [])
        tries.append((gpu, reason))
        self._strikes.setdefault(gpu, []).append(id(group))
        if len(tries) >= TRIES:
            return group
        self._waiting.insert(0, group)
        return None

    def tries(self, group: G) -> list[tuple[int, str]]:
        """The GPUs whose actors were lost with the group, and why."""
        return self._tries.get(id(group), [])

    def join(self, gpu: int, groups: Sequence[G]) -> None:
        """A GPU is open, which has not had these groups."""

    def leave_out(self, gpu: int) -> None:
        """The GPU does nothing more; the others do what waits."""

    def struck_out(self, gpu: int) -> bool:
        """Whether the GPU loses every actor, whatever the group."""
        return len(set(self._strikes.get(gpu, ()))) >= STRIKES


class Everywhere(Queue[G]):
    """The same where every GPU does every group: one that is lost is not tried again on that GPU."""

    def __init__(self, found: Sequence[G]) -> None:
        """`found`: the groups that have rows from an earlier run. GPUs bring what they do: see `join`."""
        super().__init__([], [])
        self._left: dict[int, list[G]] = {}
        self._found = {id(group) for group in found}  # groups that a GPU has finished

    def __bool__(self) -> bool:
        return bool(self._doing or any(self._left.values()))

    def next(self, gpu: int, others: Collection[int]) -> G | None:
        """Give a GPU that does nothing its next group; None where it has had all."""
        if not self._left.get(gpu):
            return None
        self._doing[gpu] = self._left[gpu].pop(0)
        return self._doing[gpu]

    def done(self, gpu: int) -> G:
        """The GPU has finished its group: return it."""
        group = super().done(gpu)
        self._found.add(id(group))
        return group

    def lost(self, gpu: int, reason: str) -> G | None:
        """The GPU's actor is lost. Its group is returned where no other GPU has done it, or will do it."""
        group = self._doing.pop(gpu, None)
        if group is None:
            return None
        self._tries.setdefault(id(group), []).append((gpu, reason))
        self._strikes.setdefault(gpu, []).append(id(group))
        there = [*self._doing.values(), *(one for groups in self._left.values() for one in groups)]
        return None if id(group) in self._found or any(one is group for one in there) else group

    def join(self, gpu: int, groups: Sequence[G]) -> None:
        """A GPU is open: it does these groups."""
        self._left[gpu] = list(groups)

    def leave_out(self, gpu: int) -> None:
        """The GPU does nothing more."""
        self._left.pop(gpu, None)
