"""Whether a run of a batch or graph takes as long as one alone.

Runs of one sample share contents and cannot be kept from each other's results, in memory or on the chip. A run that
copies such a result would save its work. So one run is timed alone: its inputs lie in L2 as those of the batch do, but
the run before it had other contents, and every output is poisoned. What a batch can save beside that is known: the
launches, and bytes that come from L2. Variants that write into given arrays are tried; a library's own results are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cudalab.base import numbers, stats
from cudalab.base.errors import CudalabError, LaunchError
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound
from cudalab.results.limit import MEMORY
from cudalab.timing.clock import Clock
from cudalab.timing.graph import Graph
from cudalab.timing.proof import Proof
from cudalab.timing.work import Batch, Unproven, repeatable, spent

if TYPE_CHECKING:
    from cudalab.timing.events import Timer

TRIES = 5  # runs alone, all of which must take longer: a disturbed one refuses nothing
MORE = 4e-6  # seconds: instructions and addresses that a batch fetches once
BESIDE = 3  # samples of the batch beside a run alone that took longer
WARM = 8  # cold runs before a run alone, where an earlier one took longer: clocks fall while the host works
REUSED = "a run takes {} \u00b5s {}, and {} \u00b5s alone with the same data in L2: do runs reuse earlier results?"


class Apart:
    """One run, after a run on other contents, with its data in L2 and all outputs poisoned."""

    runs = 1

    def __init__(self, device: Gpu, work: Batch, proof: Proof) -> None:
        """`work`: one run."""
        self._device, self._work, self._proof, self._next = device, work, proof, 0
        self.run, self.verify = work.run, work.verify

    def before(self) -> None:
        self._device.forget_outputs(self._proof.contents.word())
        first, self._next = self._proof.contents.rng.choice(sorted(self._proof.met), 2, replace=False).tolist()
        self._load(first)

    def touch(self) -> None:
        """Run on other contents, and make all new for the run that is timed."""
        self._work.touch()
        self._load(self._next)

    def _load(self, number: int) -> None:
        with self._proof.on(number):
            self._work.before()


class Neighbours:
    """Refuses the times of a variant's batches and graphs that are far below that of a run alone."""

    def __init__(self, device: Gpu, timer: Timer, bound: Bound, work: Callable[[], Batch], proof: Proof) -> None:
        """`work` makes one run of the variant `bound`."""
        self._device, self._timer, self._bound, self._work, self._proof = device, timer, bound, work, proof
        self._alone = list[float]()  # seconds of the runs alone
        self._launches: int | None = 1
        rate = 2e3 * device.attribute("MEMORY_CLOCK_RATE") * device.attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8
        (on,) = device.operand_sets(1, bound.on)
        moved = min(sum(a.nbytes for a in on.inputs.values()) + on.output.nbytes, device.attribute("L2_CACHE_SIZE"))
        self._moving = moved / (MEMORY * rate) if rate else float("inf")  # seconds

    def bounded(self, clock: Clock, kind: str) -> Clock:
        """The clock of this kind of time, in words; its `confirm` raises LaunchError where runs take too little."""

        def confirm(rounds: Sequence[Sequence[float]]) -> None:
            if len(self._proof.met) < 2:
                return
            measured = stats.median(rounds)
            for i in range(TRIES):
                if measured >= self._least(i):
                    return
                now = [clock.sample() for _ in range(BESIDE)]
                measured = max(measured, stats.median(now))  # the GPU may have become slow
            alone = min(self._alone)
            raise LaunchError(REUSED.format(numbers.three(1e6 * measured), kind, numbers.three(1e6 * alone)))

        return replace(clock, confirm=confirm)

    def _least(self, i: int) -> float:
        """Seconds that a run of a batch takes at least, by the run alone of this number."""
        if i == len(self._alone):
            self._alone.append(self._run_alone(WARM if i else 0))
        if i and self._launches == 1:
            self._launches = self._kernels()
        if self._launches is None:
            return 0.0
        saved = self._launches * self._timer.launch + self._moving
        return self._proof.limits.alone * (self._alone[i] - saved) - MORE

    def _run_alone(self, warm: int) -> float:
        """Seconds of a run alone, after so many cold runs; 0 where the queue was not held."""
        before, run = self._timer.expired, repeatable(self._device, self._bound)
        self._timer.once(run, True)
        self._timer.cold(Unproven(run), warm, True)
        (found,) = self._timer.hot(Apart(self._device, self._work(), self._proof), True)
        return found if self._timer.expired == before else 0.0

    def _kernels(self) -> int | None:
        """How many kernels a run launches; None where that cannot be told."""
        outputs = [self._bound.output()] if spent(self._bound) else []
        try:
            graph = Graph([self._bound], self._device.stream, lambda: self._device.make_new(outputs))
        except CudalabError:
            return None
        graph.close()
        return graph.kernels
