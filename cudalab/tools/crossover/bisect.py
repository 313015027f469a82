"""From which size on is one variant faster than another? A bisection over verdicts.

At each size both variants are checked and timed in the same rounds of each worker process, and the ratio of those
rounds gets a verdict as in every table. The answer is an interval: up to its lower end one variant is surely faster,
from its upper end on the other is. In between neither is surely faster, or the interval is as narrow as the resolution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, log, log2, prod, sqrt

from cudalab import backends
from cudalab.base import globs
from cudalab.base.bounded import guarded
from cudalab.base.errors import CudalabError, InputError, Unavailable, need_seconds, short, unknown
from cudalab.base.stats import FASTER, SLOWER, Ratio
from cudalab.engine import plan
from cudalab.engine.early import Stopped
from cudalab.engine.groups import Group
from cudalab.engine.options import BUDGET, File, claimed, seed_of, setup_of
from cudalab.engine.progress import Report, ignore
from cudalab.engine.selection import Selection
from cudalab.engine.session import Session
from cudalab.engine.supervisor import TIMEOUT
from cudalab.results import record
from cudalab.results.record import TIMES, Case, Results
from cudalab.spec import sizes
from cudalab.spec.kernel import Kernel, Shape

RESOLUTION = 0.05  # by which the upper end of the interval may exceed the lower
PARTS = 8  # of a gap; see `between`
MOST_PROBES = 64


@dataclass(frozen=True)
class Probe:
    """Both variants at one size. `ratio`: how many times faster the second is; `verdict` is about the second too."""

    size: str
    elements: int
    ratio: Ratio
    verdict: str


@dataclass
class Crossover:
    """The result for two variants; `probes` are in ascending order of size."""

    first: str
    second: str
    kind: str
    run: Results
    probes: list[Probe] = field(default_factory=list)

    @property
    def wrong(self) -> list[Case]:
        """Rows that end the search: a wrong answer, or an error."""
        return self.run.broken

    @property
    def changes(self) -> list[tuple[Probe, Probe]]:
        """The interval of the change: the last size at which one is surely faster, the first at which the other is."""
        sure = [probe for probe in self.probes if probe.verdict in (FASTER, SLOWER)]
        return [(low, high) for low, high in pairwise(sure) if low.verdict != high.verdict]

    def ahead(self, probe: Probe) -> str:
        """Label of the variant that is surely faster, or ""."""
        return {FASTER: self.second, SLOWER: self.first}.get(probe.verdict, "")


@guarded()
def crossover(
    first: str,
    second: str,
    kernel: str = "",
    lowest: str = "2^10",
    highest: str = "2^24",
    dtype: str = "",
    kind: str = "",
    resolution: float = RESOLUTION,
    device: str = "auto",
    seed: int | None = None,
    budget: float = BUDGET,
    processes: int = 0,
    timeout: float = TIMEOUT,
    progress: Report = ignore,
    output: File = "",
) -> Crossover:
    """Find the size between `lowest` and `highest` from which the other one of two variants is faster.

    `first` and `second` are labels such as pycuda:gelu_vec; `kernel` may be left out where both fit one kernel alone;
    sizes follow `cudalab.spec.sizes` and differ in one dimension; `kind` of time "" is the main one, cold or wall. The
    search ends when the interval's upper end exceeds the lower by no more than `resolution`, or at a wrong answer.
    The rest is as in `bench`. The results are written to `output` after each size.
    Raises CudalabError for bad input, before measuring where it can be seen then; Stopped after Ctrl-C.
    """
    if not 0 < resolution < 1:
        raise InputError(f"resolution is {resolution}; give a positive number below 1")
    need_seconds("budget", budget)
    claimed(processes, False, budget)
    need_seconds("timeout", timeout, ", or inf")
    if kind and kind not in TIMES:
        raise unknown("kind of time", kind, TIMES)
    name, spec, labels = _variants(first, second, kernel)
    kinds = {g.dtype.name: g.dtype for g in plan.groups([spec.file], next(iter(spec.sizes)), dtype)}
    if len(kinds) > 1:
        raise InputError(f"--dtype {dtype} is {', '.join(kinds)}; only one is timed: give one of them")
    (chosen,) = kinds.values()
    shapes = sorted(_shape(text, spec, option) for text, option in ((lowest, "--from"), (highest, "--to")))
    axis = _axis(*shapes)

    def group(n: int) -> Group:
        shape = (*shapes[0][:axis], n, *shapes[0][axis + 1 :])
        return Group(spec, "x".join(map(str, shape)), shape, chosen, alias=name)

    ends = shapes[0][axis], shapes[1][axis]
    modes = plan.modes_for(kind)
    options = {
        "kernels": list(globs.split(kernel)) or [name], "crossover": list(labels), "sizes": f"{lowest},{highest}",
        "dtypes": chosen.name,
        "only": ",".join(labels), "skip": "", "modes": ",".join(modes), "device": device, "seed": seed_of(seed),
        "budget": budget, "order": "shuffled", "processes": processes, "timeout": timeout,
    }  # fmt: skip
    setup = setup_of(options, modes, [group(ends[0])])
    with Session("bench", options, setup, Selection(labels), timeout, progress, output) as session:
        allowed = spec.allowed(shapes[0], axis)
        return _Search(labels, kind, group, ends, resolution, session, allowed).found()


def between(low: int, high: int, allowed: Sequence[int] | None = None) -> int | None:
    """A whole number near the geometric mean of two, one of those `allowed`; None if there is none in between.

    It is a multiple of a power of two that is as large as an eighth of it and of the gap allows: an odd size costs a
    kernel that reads 16 bytes at a time its fast path, and says nothing about its neighbours.
    """
    if high - low < 2:
        return None
    middle = sqrt(low * high)
    step = 2 ** max(floor(log2(min(high - low, middle) / PARTS)), 0)
    found = min(max(round(middle / step) * step, low + 1), high - 1)
    if allowed is None:
        return found
    at = bisect_left(allowed, found)
    near = [n for n in allowed[max(at - 1, 0) : at + 1] if low < n < high]
    return min(near, key=lambda n: abs(n - found), default=None)


@dataclass
class _Search:
    """One search at work. Sizes are counted along the dimension that grows."""

    labels: tuple[str, str]
    kind: str
    group: Callable[[int], Group]
    ends: tuple[int, int]
    resolution: float
    session: Session
    allowed: Sequence[int] | None  # the lengths that the spec's dims= leaves; None: any
    probes: dict[int, Probe] = field(default_factory=dict)

    def found(self) -> Crossover:
        session, run = self.session, self.session.results
        elsewhere = {case.label for case in session.elsewhere(self.group(self.ends[0]))}
        for label in self.labels:
            if label in elsewhere:
                gpu = f"needs a GPU, and {run.no_gpu}"
                raise Unavailable(f"{label} {gpu if run.machine.device == 'cpu' else 'is for the CPU: --device cpu'}")
        answer = Crossover(*self.labels, self.kind, run)
        run.complete = False
        try:
            self._bisect(answer)
            run.complete = True
        except KeyboardInterrupt:
            place = session.kept()
            kept = f"; {place} has what was measured" if place else ""
            raise Stopped(f"stopped after {len(self.probes)} sizes{kept}") from None
        finally:
            run.cases.sort(key=lambda case: prod(case.shape))
            answer.probes = [self.probes[n] for n in sorted(self.probes)]
            session.keep()
        return answer

    def _bisect(self, answer: Crossover) -> None:
        """Narrow the interval; where neither is surely faster, find both ends of that region."""
        if not all(self._probe(n, answer) for n in self.ends):
            return
        open_: list[tuple[int, int]] = [self.ends]
        while open_ and len(self.probes) < MOST_PROBES:
            low, high = open_.pop()
            if not self._worth(low, high) or (middle := between(low, high, self.allowed)) is None:
                continue
            if not self._probe(middle, answer):
                return
            open_ += [(low, middle), (middle, high)]

    def _worth(self, low: int, high: int) -> bool:
        """Whether an end of the interval lies between two sizes that are still too far apart.

        The first two must have sure verdicts. Later one of the two may be unsure: then the interval holds an end of the
        region where neither is surely faster.
        """
        verdicts = {self.probes[low].verdict, self.probes[high].verdict}
        sure = verdicts & {FASTER, SLOWER}
        needed = 2 if (low, high) == self.ends else 1
        return len(verdicts) == 2 and len(sure) >= needed and high / low - 1 > self.resolution

    def _probe(self, n: int, answer: Crossover) -> bool:
        """Check and time both variants at this size. False if one of them is wrong or fails."""
        low, high = self.ends
        guess = 2 + ceil(log2(max(log(high / low) / log(1 + self.resolution), 1)))  # of the number of sizes
        self.session.expected = max(guess, len(self.probes) + 2)
        group, run = self.group(n), answer.run
        cases = self.session.add(group)
        if answer.wrong:
            return False
        answer.kind = kind = self.kind or run.main_kind
        one, other = (_timed(cases, label, kind) for label in self.labels)
        value = run.ratio(one, other, kind)
        self.probes[n] = Probe(group.size, prod(group.shape), value, value.verdict())
        return True


def _timed(cases: list[Case], label: str, kind: str) -> Case:
    """The row of one variant. Raises Unavailable if it was skipped, InputError if it has no such time."""
    case = next(case for case in cases if case.label == label)
    if case.status == record.SKIPPED:
        raise Unavailable(f"{label} cannot run here: {case.reason}")
    if not case.times.get(kind):
        there = ", ".join(case.times) or "none, it is only checked"
        raise InputError(f"{label} has no {kind or 'such'} times here; it has: {there}")
    return case


def _variants(first: str, second: str, kernel: str) -> tuple[str, Kernel, tuple[str, str]]:
    """The kernel's name, the kernel, and the labels of both variants."""
    kernels = plan.kernels_by_name(globs.split(kernel))
    fitting: dict[str, tuple[str, str]] = {}
    problems: list[CudalabError] = []
    for name, spec in kernels.items():
        try:
            fitting[name] = _label(first, spec), _label(second, spec)
        except CudalabError as error:
            problems.append(error)
    if not fitting:
        if len(kernels) > 1:
            raise InputError(f"none of {', '.join(kernels)} has both {short(first)} and {short(second)}")
        raise problems[0]
    if len(fitting) > 1:
        raise InputError(f"{', '.join(fitting)} have both {first} and {second}; choose one with --kernel")
    ((name, labels),) = fitting.items()
    for label in labels:
        if not backends.by_name()[label.partition(":")[0]].timed:
            raise InputError(f"{label} is checked, never timed; give another variant")
    if labels[0] == labels[1]:
        raise InputError(f"{first} and {second} are the same variant; give two")
    return name, kernels[name], labels


def _label(text: str, kernel: Kernel) -> str:
    """A variant's label in full; a backend's name alone will do where it makes one variant of the kernel."""
    made = {name: backend.variants(kernel) for name, backend in backends.by_name().items()}
    labels = {name: [f"{name}:{v}" if v else name for v in variants] for name, variants in made.items()}
    if text in labels and len(labels[text]) == 1:
        return labels[text][0]
    if labels.get(text):
        raise InputError(f"{text} is {', '.join(labels[text])} for {kernel.name}; name one of them")
    every = [label for some in labels.values() for label in some]
    if text not in every:
        raise unknown(f"variant of {kernel.name}", text, every)
    return text


def _shape(text: str, kernel: Kernel, option: str) -> Shape:
    found = list(sizes.parse(text, kernel.sizes).values())
    if len(found) != 1:
        raise InputError(f"{option} {short(text)} is {len(found)} sizes; give one, such as 2^20 or 65536x1024")
    ((shape, lengths, _),) = found
    if lengths:
        said = ",".join(f"{name}={n}" for name, n in lengths)
        raise InputError(f"{option} has {said}; a crossover keeps the spec's value: leave it out, or change the spec")
    kernel.accepts(shape)
    return shape


def _axis(low: Shape, high: Shape) -> int:
    """Return the one dimension in which two shapes differ."""
    differing = [i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b]
    if len(low) != len(high) or len(differing) != 1:
        said = " and ".join("x".join(map(str, shape)) for shape in (low, high))
        raise InputError(f"--from and --to are {said}; they must differ in one dimension, like 16x1024 and 65536x1024")
    return differing[0]
