"""A run, as the parent sees it: plan, have a worker do one group after the other, keep what is finished.

No library that can crash is loaded here; see `cudalab.engine.supervisor` for what happens if the worker dies, and
`cudalab.engine.job` for what it does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from time import perf_counter
from typing import Any

import msgspec

from cudalab.base import cache, globs
from cudalab.base.errors import InputError, Unavailable, need_seconds, unknown
from cudalab.engine import cross_check as crosscheck
from cudalab.engine import plan, resume
from cudalab.engine.messages import Ready, Setup, Step
from cudalab.engine.plan import Group, Selection
from cudalab.engine.progress import FINISHED, Pace, Progress, Report, guess, ignore
from cudalab.engine.rows import skipped
from cudalab.engine.supervisor import TIMEOUT, Supervisor
from cudalab.results import record
from cudalab.results.file import save
from cudalab.results.record import Case, Machine, Results
from cudalab.spec import cuda_source
from cudalab.study.found import Workload
from cudalab.timing import rounds
from cudalab.tools import sanitize

BUDGET = 1.0  # seconds of sampling for each variant
File = str | os.PathLike[str]
Work = Group | Workload


class Stopped(KeyboardInterrupt):
    """Ctrl-C; the message says how many groups were finished."""


def bench(
    *names: str,
    sizes: str = "small,large",
    dtypes: str = "",
    only: str = "",
    skip: str = "",
    modes: str = "launch,graph",
    device: str = "auto",
    seed: int = 0,
    budget: float = BUDGET,
    order: str = "shuffled",
    fresh_caches: bool = False,
    cross_check: str = "",
    timeout: float = TIMEOUT,
    progress: Report = ignore,
    output: File = "",
    resume: File = "",
    ready: Callable[[Machine], object] = lambda machine: None,
) -> Results:
    """Check and time kernels on every backend that runs here.

    `names` are kernels of the lab or paths of specs (none: all of the lab's); `sizes` follows `cudalab.spec.sizes`;
    `dtypes` is a comma-separated list ("": each kernel's first; "all"); `only` and `skip` are comma-separated
    globs on `backend` or `backend:variant`; `modes` of launch, graph and api; `device` is auto, cpu, cuda or cuda:N;
    `budget` is seconds of sampling for each variant; `order` of the rounds is shuffled or blocked;
    `fresh_caches` lets every library compile anew; `cross_check` "nvbench" has NVBench time the same launches too.

    A variant that crashes, or that gives no sign of life for `timeout` seconds, loses its row and no other. `output`
    is a file that is written after each group. With `resume`, such a file, what is missing there is measured, and
    all of it is written back to it (or to `output`). `progress` is told how far the run is, see
    `cudalab.engine.progress`; `ready` is told on what it runs before anything is measured, and what it
    raises ends the run.
    Raises CudalabError for bad input, before measuring.
    """
    names, options = _asked(locals())
    only, skip, modes, device = (options[k] for k in ("only", "skip", "modes", "device"))
    chosen, groups = Selection.parse(only, skip), plan.groups(names, options["sizes"], options["dtypes"])
    wanted = plan.chosen_modes(modes)
    chosen.check(groups)
    need_seconds("budget", budget)
    if order not in rounds.ORDERS:
        raise unknown("order", order, rounds.ORDERS)
    if cross_check:
        crosscheck.chosen(cross_check)
    setup = Setup(device, only, skip, wanted, seed, budget, order, sources(groups))
    with cache.fresh() if fresh_caches else nullcontext():
        return run(options, setup, chosen, lambda _: groups, timeout, progress, output or resume, resume, ready)


def check(
    *names: str,
    sizes: str = "",
    dtypes: str = "all",
    only: str = "",
    skip: str = "",
    device: str = "auto",
    seed: int = 0,
    exhaustive: bool = False,
    sanitize: bool = False,
    timeout: float = TIMEOUT,
    progress: Report = ignore,
    output: File = "",
    resume: File = "",
) -> Results:
    """Check kernels without timing: on hard values, at the smallest size, at awkward shapes and off the alignment.

    Of functions of one array in 16 bits every value is tried, in float32 a sample of 2**24 that misses no exponent, or
    with `exhaustive` all 2**32. Awkward shapes and alignments are for the variants that compute their own indices.
    With `sizes`, those alone are checked. With `sanitize` every entry is also launched under the sanitizers of
    `cudalab.tools.sanitize`. The other arguments are those of `bench`; the cases of the results have a parity
    and no times.
    """
    names, options = _asked(locals())
    only, skip, device, sizes, dtypes = (options[k] for k in ("only", "skip", "device", "sizes", "dtypes"))
    chosen = Selection.parse(only, skip)
    if sizes and exhaustive:
        raise InputError("exhaustive is about values; leave out the sizes")
    groups = plan.groups(names, sizes, dtypes) if sizes else plan.checks(names, dtypes, exhaustive)
    chosen.check(groups)
    setup = Setup(device, only, skip, (), seed, BUDGET, "shuffled", sources(groups))
    return run(options, setup, chosen, lambda _: groups, timeout, progress, output or resume, resume)


def run(
    options: dict[str, Any],
    setup: Setup,
    selection: Selection,
    planned: Callable[[str], Sequence[Work]],
    timeout: float,
    progress: Report,
    output: File,
    resumed: File,
    ready: Callable[[Machine], object] = lambda machine: None,
) -> Results:
    """Do what is `planned` for the kind of device that there is, one piece after the other; the rest as of `bench`.

    `planned` is asked with "" before that is known.
    """
    need_seconds("timeout", timeout, ", or inf")
    begun = resume.begun(resumed, options, setup.sources) if resumed else None
    if begun and not resume.left(begun, planned(begun.machine.device)):
        begun.complete = True
        keep(begun, output)
        return begun
    return _Run(options, setup, selection, planned, timeout, progress, output, resumed, ready).results(begun)


LISTS = ("sizes", "dtypes", "only", "skip", "modes")


def _asked(arguments: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Kernels and options as text, whether they came as text or as Python's lists and numbers."""
    options = {k: v for k, v in arguments.items() if k not in ("names", "progress", "output", "resume", "ready")}
    names = tuple(os.fspath(name) for name in arguments["names"])
    return names, {"kernels": list(names), **as_text(options)}


def as_text(options: dict[str, Any]) -> dict[str, Any]:
    """Options with lists and a GPU's number as the command line has them. Raises InputError for a wrong seed."""
    options |= {k: globs.joined(options[k]) for k in LISTS if k in options}
    if isinstance(options["device"], int):
        options["device"] = f"cuda:{options['device']}"
    if not isinstance(options["seed"], int) or options["seed"] < 0:
        raise InputError(f"seed is {options['seed']!r}; give a whole number that is not negative")
    return options


def sources(groups: list[Group]) -> dict[str, str]:
    return {name: cuda_source.digest(path) for group in groups for name, path in group.files.items()}


def new_results(options: dict[str, Any], setup: Setup, ready: Ready) -> Results:
    """A run without cases yet."""
    return Results(
        format=record.FORMAT,
        version=record.VERSION,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        options=options,
        machine=ready.machine,
        no_gpu=ready.no_gpu,
        sources=setup.sources,
        calibration=ready.calibration,
    )


def keep(run: Results, output: File) -> None:
    """Write what a run has so far, if it is to be kept. A run that is not complete will be written again."""
    if not output or not run.cases:
        return
    try:
        save(run, output)
    except OSError as error:
        if run.complete:
            warnings.warn(f"cannot write {output}: {error.strerror}", stacklevel=2)


@dataclass
class _Run:
    """One call of `run`."""

    options: dict[str, Any]
    setup: Setup
    selection: Selection
    planned: Callable[[str], Sequence[Work]]
    timeout: float
    progress: Report
    output: File
    resumed: File
    ready: Callable[[Machine], object]
    groups: Sequence[Work] = ()
    workers: Supervisor | None = None
    pace: Pace | None = None
    labels: Sequence[str] = ()  # of the variants of the group that is at work
    done: int = 0  # groups
    start: float = 0.0

    def results(self, begun: Results | None) -> Results:
        self.setup.calibrate = not begun  # one calibration a file
        self.start = perf_counter()
        self.groups = self.planned("")  # as far as that is known without the device: told while it is opened
        with Supervisor(self.setup, self.selection, self.timeout, self._at) as workers:
            self.workers = workers
            self.ready(workers.ready.machine)
            self.groups = self.planned(workers.ready.machine.device)
            if self.setup.modes and "launch" not in self.setup.modes and workers.ready.machine.device == "cpu":
                needs = f"--modes {','.join(self.setup.modes)} needs a GPU, and {workers.ready.no_gpu}"
                raise Unavailable(f"{needs}; on the CPU --modes launch takes the wall time of a call")
            if begun:
                resume.same_machine(self.resumed, begun.machine, workers.ready.machine)
            if not any(workers.labels(group) for group in self.groups):
                elsewhere = {case.reason for group in self.groups for case in self._elsewhere(group, workers.ready)}
                raise Unavailable(f"nothing that was chosen can run here: {'; '.join(elsewhere)}")
            if self.options.get("cross_check") and workers.ready.machine.device != "cuda":
                raise Unavailable(f"a cross-check needs a GPU, and {workers.ready.no_gpu}")
            with self._sanitizer(workers.ready) as sanitizer:
                run = begun or new_results(self.options, self.setup, workers.ready)
                left = resume.left(begun, self.groups) if begun else self.groups
                self._fill(run, left, workers, sanitizer)
        return run

    def _sanitizer(self, ready: Ready) -> AbstractContextManager[sanitize.Sanitizer | None]:
        if not self.options.get("sanitize"):
            return nullcontext()
        return sanitize.Sanitizer(ready.machine.device, self.setup.device, self.setup.seed, self.timeout)

    def _at(self, step: Step, finished: Results | None = None) -> None:
        """Tell how far the run is."""
        self.progress(Progress(
            step, self.done, len(self.groups), perf_counter() - self.start, self.pace.left() if self.pace else None,
            tuple(self.labels), self.workers.glimpses() if self.workers else {}, finished,
        ))  # fmt: skip

    def _cross_check(self, group: Work, cases: list[Case]) -> None:
        if self.options.get("cross_check"):
            assert isinstance(group, Group)
            self._at(Step(str(group), "timing with NVBench"))
            crosscheck.add(cases, group, self.setup.seed, self.setup.device)

    def _elsewhere(self, group: Work, ready: Ready) -> list[Case]:
        """Rows of the chosen variants that are for another kind of device."""
        here = ready.machine.device
        reason = f"needs a GPU, and {ready.no_gpu}" if here == "cpu" else "is for the CPU; see it with --device cpu"
        others = [v for v in self.selection.variants(group) if here not in v.devices]
        return [skipped(group, v.label, v.why or reason) for v in others]

    def _fill(
        self, run: Results, left: Sequence[Work], workers: Supervisor, sanitizer: sanitize.Sanitizer | None
    ) -> None:
        """Add the rows of the groups that are left, and write the file after each."""
        before = dict(run.wall)
        run.complete = False
        budget = self.setup.budget if run.timed else 0.0
        self.pace = Pace([guess(group, len(workers.labels(group)), budget) for group in left])
        try:
            self.done = len(self.groups) - len(left)
            for group in left:
                self.labels = workers.labels(group)
                cases = workers.cases(group)
                self._cross_check(group, cases)
                if sanitizer:
                    assert isinstance(group, Group)
                    self._at(Step(str(group), "under the sanitizers"))
                    sanitizer.add(cases, group)
                run.cases += [*cases, *self._elsewhere(group, workers.ready)]
                run.complete = group is left[-1]
                spent = {**workers.wall, "total": perf_counter() - self.start}
                run.wall = {name: before.get(name, 0.0) + spent.get(name, 0.0) for name in before | spent}
                keep(run, self.output)
                self._finished(group, msgspec.structs.replace(run, cases=cases))
        except KeyboardInterrupt:
            keep(run, self.output)  # it may have come in the middle of that
            done = len(self.groups) - len(resume.left(run, self.groups))
            raise Stopped(f"stopped after {done} of {len(self.groups)} groups") from None
        except Unavailable as error:
            kept = f"; {self.output} has what was finished, go on with --resume" if self.output and run.cases else ""
            raise Unavailable(f"{error}{kept}") from None

    def _finished(self, group: Work, rows: Results) -> None:
        assert self.pace is not None
        self.done += 1
        self.pace.next()
        self._at(Step(str(group), FINISHED), finished=rows)
