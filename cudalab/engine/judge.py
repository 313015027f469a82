"""Compares results of one group with its reference: each content and each set of bits once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cudalab.base.errors import message_of
from cudalab.checks import allowance, characters, hard_inputs, nans, parity, subnormals
from cudalab.checks.expected import Expected
from cudalab.device.arrays import as_plain
from cudalab.device.operands import pieces
from cudalab.device.protocol import Device
from cudalab.engine.groups import MANY, SAME, Group
from cudalab.engine.inputs import Inputs
from cudalab.engine.job import Job
from cudalab.results.record import Parity
from cudalab.spec.inputs import CHARACTERS, NAN, SUBNORMAL
from cudalab.spec.kernel import Budget, Kernel

SMALL = 1 << 16  # bytes of an output that is always compared in full
# Of the results of one clock whose bits are new, the i-th is compared with the probability FULL / i. So a variant that
# is wrong in a fifth of them, whichever, is not found with a probability below (4 / 5) ** FULL, which is 0.9 %.
FULL = 21
BUDGETS = "budgets", "peers", "composed"  # the fields of a spec
FLUSHES = "it takes subnormal numbers for 0{}; apart from that its results are right"
RESTLESS = "its bits differ from run to run: {} of {} timed results were compared with the reference; all were right"


@dataclass
class _Seen:
    """The timed results of one clock."""

    results: int = 0
    new: int = 0  # those whose bits were not compared before
    left_out: int = 0
    contents: set[int] = field(default_factory=set)  # of those


class Judge:
    """The comparisons of a group. `rng` draws which timed results are compared, where not all are."""

    def __init__(self, job: Job, group: Group, contents: Inputs, rng: np.random.Generator) -> None:
        self._group, self._kernel, self._dtype = group, group.kernel, group.dtype
        self._contents, self._rng, self._seed = contents, rng, job.seed
        self._device: Device = job.device
        self._budgets: dict[str, dict[str, Budget]] = {}  # by label and output
        self._names: dict[str, str] = {}  # by label, a text that only equal budgets have
        self._allowed: dict[str, dict[str, Budget]] = {}  # by whose they are and output
        self._compared = job.known if contents.names else dict[str, Parity]()  # see `_key`
        self._flushes: dict[str, str] = {}  # by label, why a variant may take subnormal numbers for 0
        self._doubts: dict[str, list[str]] = {}  # by the key of a comparison
        self._last: dict[str, str] = {}  # by label, the key of its last comparison
        self._timed: dict[str, dict[object, _Seen]] = defaultdict(lambda: defaultdict(_Seen))  # by label and clock

    def allow(self, label: str, whose: str, flushes: str = "") -> None:
        """Set how far results of a variant may be from the reference: by budgets, peers or composed of the spec.

        Special inputs may be far from what the budgets are made for, and so may a few of very many rows. `flushes`: why
        it takes subnormal numbers for 0, if it always does.
        """
        if flushes or (self._group.values == SUBNORMAL and whose != subnormals.OWN):
            self._flushes[label] = flushes and f" ({flushes})"
        if whose not in self._allowed:
            self._allowed[whose] = self._found_budgets(whose)
        found = self._budgets[label] = self._allowed[whose]
        usual = self._kernel.all_budgets(self._dtype, whose)
        alike = (other for other in BUDGETS if self._kernel.all_budgets(self._dtype, other) == usual)
        functions = f"{self._kernel.name}.{next(alike)}"  # which do not tell their identity to another process
        allowed = (
            f"{one.ulp!r} {functions if callable(one.atol) else repr(one.atol)} {one.least!r}" for one in found.values()
        )
        self._names[label] = " ".join([*allowed, *(["flushes"] if label in self._flushes else [])])

    def _found_budgets(self, whose: str) -> dict[str, Budget]:
        found = self._kernel.all_budgets(self._dtype, whose)
        if self._group.values not in (*CHARACTERS, MANY, SAME):
            return found
        arrays, want = self._contents.arrays[0], self._contents.want(0)
        found = allowance.widened(self._kernel, self._dtype, arrays, want, found, self._seed)
        if self._group.values == SUBNORMAL:
            return subnormals.widened(self._kernel, self._dtype, arrays, found, whose)
        return found

    def compare(self, output: Any, label: str, contents: int = 0, digest: int | None = None) -> Parity:
        """Compare an output with the reference for these contents. Bits are compared once.

        `digest`: the output's fingerprint, where it is known.
        """
        results, budgets = [as_plain(piece) for piece in pieces(output)], self._budgets[label]
        digest = self._device.fingerprint(output) if digest is None else digest
        seen = self._last[label] = self._key(contents, digest, results, label)
        if seen in self._compared:
            return self._compared[seen]
        got = [self._device.fetch(result) for result in results]
        arrays, want = self._contents.arrays[contents], self._contents.want(contents)
        which = self._group.values
        if which in characters.UNDECIDED and len(got) == len(self._kernel.outs):
            got, self._doubts[seen] = characters.settled(self._kernel, self._dtype, which, budgets, got, want, arrays)
        found = parity.compare_all(self._kernel, self._dtype, budgets, got, want, arrays)
        if found.wrong and label in self._flushes:
            taken = subnormals.settled(self._kernel, self._dtype, budgets, got, want, arrays)
            found = parity.compare_all(self._kernel, self._dtype, budgets, taken, want, arrays)
            self._doubts.setdefault(seen, []).append(FLUSHES.format(self._flushes[label]))
        if which == NAN and found.message:
            found.message += f"; {nans.ADVICE}"
        if found.message and not found.message.endswith("?)"):
            found.message += characters.BEGINS.get(which, "")
        x = next(iter(arrays.values()))
        every = self._group.values == hard_inputs.EVERY and x.dtype.itemsize == 2
        if every and len(got) == 1 and self._dtype.floating and (found.ok or found.wrong):
            name = next(iter(self._kernel.outs))
            found.curve = parity.error_curve(x, got[0], want.compute(name, {}), self._dtype)
        self._compared[seen] = found
        return found

    def right_for(self, kernel: Kernel, output: Any, label: str) -> bool:
        """Whether an output on the first contents is right for the kernel with other values of its scalars."""
        got, arrays = [self._device.fetch(as_plain(piece)) for piece in pieces(output)], self._contents.arrays[0]
        want, budgets = Expected(kernel, arrays), self._budgets[label]
        return parity.compare_all(kernel, self._dtype, budgets, got, want, arrays).ok

    def undefined(self) -> str:
        """Why the reference gives no result for the first contents; "" where it gives one."""
        try:
            self._contents.want(0)
        except Exception as error:  # the spec's own
            return message_of(error)
        return ""

    def of_timed(self, output: Any, label: str, contents: int, digest: int, clock: object) -> Parity | None:
        """Judge what a timed run of one of a variant's clocks left; None where it is left out.

        A variant whose bits differ from run to run would be compared on the CPU after every run. So only some of these
        results are, see FULL; the first on each contents always is, and small results always are.
        """
        results, seen = [as_plain(piece) for piece in pieces(output)], self._timed[label][clock]
        seen.results += 1
        if self._key(contents, digest, results, label) not in self._compared:
            seen.new += 1
            first = contents not in seen.contents
            seen.contents.add(contents)
            large = sum(result.nbytes for result in results) > SMALL
            if large and not first and self._rng.random() >= FULL / seen.new:
                seen.left_out += 1
                return None
        return self.compare(output, label, contents, digest)

    def doubts(self, label: str) -> list[str]:
        """What is doubtful about a variant's last results, which count as right."""
        return self._doubts.get(self._last.get(label, ""), [])

    def left_out(self, label: str) -> list[str]:
        """What to note of a variant of which not every timed result was compared."""
        every = self._timed[label].values()
        left_out, results = sum(seen.left_out for seen in every), sum(seen.results for seen in every)
        return [RESTLESS.format(results - left_out, results)] if left_out else []

    def _key(self, contents: int, digest: int, results: Sequence[Any], label: str) -> str:
        """Names a comparison: the contents of the inputs and of the output, and the budgets."""
        name = self._contents.names[contents] if self._contents.names else contents
        like = " ".join(f"{result.shape} {result.dtype}" for result in results)
        return f"{name} {digest:x} {like} {self._names[label]}"
