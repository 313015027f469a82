"""Why the result of a variant is wrong, as far as more runs of it show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cudalab.base.errors import OverrunError, RaceError
from cudalab.checks.contents import Evidence
from cudalab.device.guard import Content
from cudalab.device.operands import Bound, Written, every, pieces
from cudalab.device.protocol import Device
from cudalab.spec.kernel import Kernel

RACE = "race detector"  # in the names of the ways that look for races
OUTSIDE = "first access outside: "  # the write beside the result may be a later one


class Fault(NamedTuple):
    """What the race detector says of a variant, and whether that is an access outside of an array, not a race."""

    says: str
    outside: bool


@dataclass(frozen=True)
class Causes:
    """Runs a wrong variant again.

    `fills`: what its outputs may hold before a run; `make_new(work, fill)` puts one there; `right(work)` runs and
    judges; `mend()` restores arrays that a run may not write. A race ends a run, and __device__ variables stay as they
    are then, so it is looked for until one is found.
    """

    device: Device
    kernel: Kernel
    fills: Sequence[Content]
    make_new: Callable[[Bound, Content], None]
    right: Callable[[Bound], bool]
    mend: Callable[[], None]
    raced: MutableMapping[str, Fault]  # by the variant's label

    def find(self, label: str, work: Bound, said: str, ways: Mapping[str, Bound]) -> tuple[str, bool]:
        """The cause, "" for none that shows, and whether it names a line, which leaves nothing to guess.

        `said`: what is wrong with the result; "" for a write beside it alone. `ways`: others to run the variant, some
        of which look for races. A race does not explain a write beside the result.
        """
        if label not in self.raced and (fault := self._race(ways)):
            self.raced[label] = fault
        fault = self.raced.get(label)
        if said:
            found = self._undefined(work) or (fault.says if fault else "")
        else:
            found = f"{OUTSIDE}{fault.says}" if fault and fault.outside else ""
        return (found, True) if found else (said and self._held_before(work, said), False)

    def _undefined(self, work: Bound) -> str:
        """A value that CUDA leaves undefined and that the result depends on; "" if none is known."""

        def bits(run: Callable[[], object]) -> list[bytes]:
            self.make_new(work, self.fills[0])
            run()
            return [array.tobytes() for array in self._results(work).values()]

        probes = work.probes()
        usual = bits(work.run) if probes else []
        if not probes or bits(work.run) != usual:  # atomic sums round differently in each run
            return ""
        return next((said for said, run in probes.items() if bits(run) != usual), "")

    def _race(self, ways: Mapping[str, Bound]) -> Fault | None:
        """Return a race, or an access outside of an array."""
        for how, way in ways.items():
            if RACE not in how:
                continue
            self.make_new(way, self.fills[0])
            try:
                way.run()
            except (RaceError, OverrunError) as error:
                return Fault(str(error), isinstance(error, OverrunError))
            finally:
                self.mend()
        return None

    def _held_before(self, work: Bound, said: str) -> str:
        """What of the contents before a run matters; "" if they do not."""
        seen, rights = Evidence(), list[bool]()
        for content in self.fills:
            self.make_new(work, content)
            before = self._results(work)
            rights.append(self.right(work))
            seen.add(before, self._results(work), rights[-1])
        blamed = [name for name in self.kernel.outs if said.startswith(f"{name}: ")] or list(self.kernel.outs)
        if never := seen.never_written(blamed):
            return never
        first, *others = self.fills
        if any(rights) and not all(rights):
            first, others = self.fills[rights.index(True)], [self.fills[rights.index(False)]]

        def bits(content: Content, other: Content | None = None, name: str = "") -> list[bytes]:
            self.make_new(work, content)
            if other is not None:
                self.device.poison(self._poisoned(work)[name], other)
            work.run()
            return [array.tobytes() for key, array in self._results(work).items() if key in blamed]

        usual = bits(first)
        if bits(first) != usual:  # atomic sums round differently in each run
            return ""
        names = (name for name in self._poisoned(work) if any(bits(first, other, name) != usual for other in others))
        read = next(names, "")
        return seen.read_first(read, output=read in self.kernel.outs) if read else ""

    def _poisoned(self, work: Bound) -> dict[str, object]:
        """The outputs and workspaces of which the spec does not say what they begin with, by name."""
        output = work.output()
        names = output.names if isinstance(output, Written) else tuple(self.kernel.outs)
        return {name: array for name, (array, begins) in zip(names, every(output), strict=True) if begins is None}

    def _results(self, work: Bound) -> dict[str, np.ndarray]:
        """What the outputs hold, by name."""
        return {n: self.device.fetch(piece) for n, piece in zip(self.kernel.outs, pieces(work.output()), strict=True)}
