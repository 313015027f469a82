"""The contents that the inputs of a kernel's group take in turn, and what the reference makes of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace

import numpy as np

from cudalab.base.errors import SpecError
from cudalab.checks import inputs
from cudalab.checks.expected import Expected
from cudalab.device.operands import Operands
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.spec.kernel import Arrays, Kernel
from cudalab.timing.proof import Contents

SETS, LARGE_SETS = 3, 2  # contents that the inputs of a timed group take in turn; the second where they are LARGE
LARGE = 1 << 26  # bytes
STRIDE = 1_000_003  # between the seeds of contents


def drawn(group: Group, seed: int, number: int) -> Arrays:
    """The contents of this number, in a run with this seed."""
    return group.arrays(seed + number * STRIDE)


def count(first: Arrays) -> int:
    """How many contents the inputs of a timed group take in turn; one more may come at the end."""
    return LARGE_SETS if _large(first) else SETS


def _large(first: Arrays) -> bool:
    return sum(array.nbytes for array in first.values()) > LARGE


class Inputs:
    """The contents of a group's inputs, the first of which are placed, and what the reference makes of each."""

    def __init__(self, job: Job, group: Group, first: Arrays, want: Expected | None, operands: Operands) -> None:
        """`want`: the right result for the first; None: computed when it is asked for."""
        self._job, self._group, self._operands, self._made = job, group, operands, job.made
        self.arrays, self._wanted = [first], {} if want is None else {0: want}
        self.names: list[str] = []  # of the contents, by which processes of a run share verdicts; none where one works
        # Making large ones takes seconds, so one process alone does. Which one it is depends on the run.
        self._last = not _large(first) or job.process == job.seed % job.processes
        if job.modes and not group.values:
            self.arrays += [self._drawn(i) for i in range(1, count(first))]
            if same := inputs.alike(self.arrays[0], self.arrays[1], group.kernel.in_place):
                raise SpecError(f"{group.kernel.file}: inputs: {same}")
        elif not group.values and not group.awkward and group.shape == next(iter(group.kernel.sizes.values())):
            other = self._drawn(1)
            alike = all(a.shape == other[k].shape and a.dtype == other[k].dtype for k, a in first.items())
            self.arrays += [other] if alike else []
        if len(self.arrays) > 1 or group.kernel.in_place:
            for arrays in self.arrays:
                job.device.keep(arrays)
            if job.processes > 1 and len(self.arrays) > 1:
                self.names = [self._name(number) for number in range(len(self.arrays))]
                job.device.load(0)

    def _drawn(self, number: int) -> Arrays:
        made = self._made
        return made[number][0] if number < len(made) else drawn(self._group, self._job.seed, number)

    def _name(self, number: int) -> str:
        self._job.device.load(number)
        return " ".join(f"{self._job.device.fingerprint(array):x}" for array in self._operands.inputs.values())

    def want(self, number: int) -> Expected:
        """The right results for contents, computed when it is first asked for."""
        if number not in self._wanted:
            found = self._made[number][1] if number < len(self._made) else None
            self._wanted[number] = Expected(self._group.kernel, self.arrays[number], found=found)
        return self._wanted[number]

    def want_all(self, before: Callable[[], object]) -> None:
        """Compute the right results for all contents, so that no round waits for a reference; `before` each."""
        with suppress(Exception):  # the spec's own: it is raised again where a result is judged
            for number in range(len(self.arrays)):
                before()
                self.want(number)

    def adapt(self, kernel: Kernel, values: str) -> Inputs:
        """The same contents for a kernel that differs in the values of its scalars, which `values` tells."""
        found = copy(self)
        found._group, found._wanted, found._made = replace(self._group, kernel=kernel), {}, ()
        found.names = [f"{name} {values}" for name in self.names]
        return found

    def in_turn(self) -> Contents:
        """The contents as the clocks take them."""
        rng = np.random.default_rng(self._job.order_seed)
        return Contents(len(self.arrays), self._job.device.load, rng, self._one_more, self._last)

    def _one_more(self) -> None:
        """Draw contents that no variant has met."""
        drawn = self._drawn(len(self.arrays))
        self._job.device.keep(drawn)  # raises where there is no memory for it
        self.arrays.append(drawn)
        if self.names:
            self.names.append(self._name(len(self.arrays) - 1))
