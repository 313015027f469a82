"""The engine of a run, inside the worker: check, then time. No number without a passed check, and every variant
leaves a row.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

import msgspec

from cudalab.checks.parity import expected, joined
from cudalab.device.protocol import Device
from cudalab.engine.messages import Glimpse, Step
from cudalab.engine.plan import Group, Selection, Variant
from cudalab.engine.round import Round
from cudalab.engine.rows import Defined, failed, said
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.timing.clock import Clock

BEGIN, RELEASE = Step("", "start"), "releasing the arrays"


class ContextLost(BaseException):
    """A CUDA error after which every call in this process fails.

    Not an Exception: it has to pass everything that takes an error for the matter of one variant.
    """

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason = step, reason


@dataclass
class Job:
    """What all groups of a run have in common."""

    device: Device
    selection: Selection
    modes: tuple[str, ...]
    seed: int
    budget: float
    progress: Callable[[Step], None]  # told before each step, so that a crash or a hang is blamed on the right one
    wall: dict[str, float] = field(default_factory=dict)
    order: str = "shuffled"
    step: Step = BEGIN  # the last that was told
    glimpse: Callable[[Mapping[str, Glimpse]], None] = lambda found: None  # told what is known so far of a group

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `wall[name]`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.wall[name] = self.wall.get(name, 0.0) + perf_counter() - start

    def at(self, step: Step) -> None:
        self.step = step
        self.progress(step)

    def cases(self, group: Group, omit: Collection[str] = ()) -> list[Case]:
        """Rows of every selected variant of one group, without those whose label is in `omit`.

        Raises ContextLost where the device is no longer usable.
        """
        found = self.selection.variants(group, self.device.kind)
        variants = [v for v in found if v.label not in omit]
        rows = self._released(group, variants, omit)
        for part in range(1, group.parts):
            ran = {row.label for row in rows if row.status in (record.OK, record.WRONG)}
            more = self._released(group, [v for v in variants if v.label in ran], omit, part)
            rows = [_both(row, next((m for m in more if m.label == row.label), None)) for row in rows]
        return rows

    def _released(self, group: Group, variants: list[Variant], omit: Collection[str], part: int = 0) -> list[Case]:
        try:
            return self._cases(group, variants, omit, part)
        finally:
            if self.device.alive():
                self.at(Step(str(group), RELEASE))
                self.device.release()
                gc.collect()  # results that libraries returned, graphs with memory of their own

    def _cases(self, group: Group, variants: list[Variant], omit: Collection[str], part: int) -> list[Case]:
        try:
            with self.phase("inputs and reference"):
                self.at(Step(str(group), "inputs"))
                arrays = group.arrays(self.seed, part)
                self.at(Step(str(group), "reference"))
                want = expected(group.kernel, arrays)
                self.at(Step(str(group), "placing the arrays"))
                placed = self.device.place(group.kernel, group.dtype, arrays, group.offsets)
                operands = replace(placed, seed=self.seed)
        except Exception as error:  # the spec's own, or out of memory: nothing of this group can be run
            self.survived(group.kernel, error)
            reason = f"cannot make inputs and reference: {said(error, group.kernel)}"
            return [failed(group, v.label, reason) for v in variants]
        return Round(self, group, arrays, want, operands).rows(variants, record.COPY not in omit)

    def watched(self, clock: Clock, step: Step, defined: Defined, glimpses: dict[str, Glimpse] | None) -> Clock:
        """The same clock, known to be at work while it takes samples. `glimpses`: where the first of them is shown.

        No other is, since telling takes some microseconds.
        """

        def sample() -> list[float]:
            self.at(step)
            try:
                taken = clock.sample()
            except Exception as error:
                self.survived(defined, error)
                raise
            if glimpses is not None and not (seen := glimpses.get(step.label, Glimpse())).seconds:
                glimpses[step.label] = msgspec.structs.replace(seen, seconds=taken[len(taken) // 2])
                self.glimpse(glimpses)
            return taken

        return replace(clock, sample=sample)

    def survived(self, kernel: Defined, error: Exception | None = None) -> None:
        """Raise ContextLost if the device does not work any more."""
        if not self.device.alive():
            raise ContextLost(self.step, said(error, kernel) if error else "the device does not answer any more")


def _both(before: Case, part: Case | None) -> Case:
    """The row of a variant whose inputs came in parts; None: it failed before this one."""
    if part is None or part.parity is None or before.parity is None:
        return part or before
    part.parity = joined([before.parity, part.parity])
    part.status, part.reason = (record.OK, "") if part.parity.ok else (record.WRONG, part.parity.message)
    return part
