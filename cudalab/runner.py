"""A run, as the parent sees it: plan, have a worker do one group after the other, keep what is finished.

No library that can crash is loaded here; see `cudalab.supervisor` for what happens if the worker dies, and
`cudalab.job` for what it does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from time import perf_counter
from typing import Any

from cudalab import cache, crosscheck, measure, plan, results, resume, sanitize, source
from cudalab.errors import InputError, Unavailable, unknown
from cudalab.job import skipped
from cudalab.messages import Ready, Setup
from cudalab.plan import Group, Selection
from cudalab.results import Case, Results
from cudalab.supervisor import TIMEOUT, Supervisor

BUDGET = 1.0  # seconds of sampling for each variant
Progress = Callable[[str], None]
File = str | os.PathLike[str]


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
    progress: Progress = lambda text: None,
    output: File = "",
    resume: File = "",
) -> Results:
    """Check and time kernels on every backend that runs here.

    `names` are kernels of the lab or paths of specs (none: all of the lab's); `sizes` follows `cudalab.sizes`;
    `dtypes` is a comma-separated list ("": each kernel's first; "all"); `only` and `skip` are comma-separated
    globs on `backend` or `backend:variant`; `modes` of launch and graph; `device` is auto, cpu, cuda or cuda:N;
    `budget` is seconds of sampling for each variant; `order` of the rounds is shuffled or blocked;
    `fresh_caches` lets every library compile anew; `cross_check` "nvbench" has NVBench time the same launches too.

    A variant that crashes, or that gives no sign of life for `timeout` seconds, loses its row and no other. `output`
    is a file that is written after each group. With `resume`, such a file, what is missing there is measured, and
    all of it is written back to it (or to `output`).
    Raises CudalabError for bad input, before measuring.
    """
    names, options = _asked(locals())
    only, skip, modes, device = (options[k] for k in ("only", "skip", "modes", "device"))
    chosen, groups = Selection.parse(only, skip), plan.groups(names, options["sizes"], options["dtypes"])
    wanted = plan.chosen_modes(modes)
    chosen.check(groups)
    if not isinstance(budget, (int, float)) or not budget > 0:
        raise InputError(f"budget is {budget} s; give a positive number of seconds")
    if order not in measure.ORDERS:
        raise unknown("order", order, measure.ORDERS)
    if cross_check:
        crosscheck.chosen(cross_check)
    setup = Setup(device, only, skip, wanted, seed, budget, order, sources(groups))
    with cache.fresh() if fresh_caches else nullcontext():
        return _Run(options, setup, chosen, groups, timeout, progress, output or resume, resume).results()


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
    progress: Progress = lambda text: None,
    output: File = "",
    resume: File = "",
) -> Results:
    """Check kernels without timing: on hard values, at the smallest size, at awkward shapes and off the alignment.

    Of functions of one array in 16 bits every value is tried, in float32 a sample of 2**24 that misses no exponent, or
    with `exhaustive` all 2**32. Awkward shapes and alignments are for the variants that compute their own indices.
    With `sizes`, those alone are checked. With `sanitize` every entry is also launched under the sanitizers of
    `cudalab.sanitize`. The other arguments are those of `bench`; the cases of the results have a parity and no times.
    """
    names, options = _asked(locals())
    only, skip, device, sizes, dtypes = (options[k] for k in ("only", "skip", "device", "sizes", "dtypes"))
    chosen = Selection.parse(only, skip)
    if sizes and exhaustive:
        raise InputError("exhaustive is about values; leave out the sizes")
    groups = plan.groups(names, sizes, dtypes) if sizes else plan.checks(names, dtypes, exhaustive)
    chosen.check(groups)
    setup = Setup(device, only, skip, (), seed, BUDGET, "shuffled", sources(groups))
    return _Run(options, setup, chosen, groups, timeout, progress, output or resume, resume).results()


LISTS = ("sizes", "dtypes", "only", "skip", "modes")


def _asked(arguments: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Kernels and options as text, whether they came as text or as Python's lists and numbers."""
    options = {k: v for k, v in arguments.items() if k not in ("names", "progress", "output", "resume")}
    options |= {k: plan.joined(options[k]) for k in LISTS if k in options}
    if isinstance(options["device"], int):
        options["device"] = f"cuda:{options['device']}"
    if not isinstance(options["seed"], int) or options["seed"] < 0:
        raise InputError(f"seed is {options['seed']!r}; give a whole number that is not negative")
    names = tuple(os.fspath(name) for name in arguments["names"])
    return names, {"kernels": list(names), **options}


def sources(groups: list[Group]) -> dict[str, str]:
    return {name: source.digest(path) for group in groups for name, path in group.files.items()}


@dataclass
class _Run:
    """One call of `bench` or `check`."""

    options: dict[str, Any]
    setup: Setup
    selection: Selection
    groups: list[Group]
    timeout: float
    progress: Progress
    output: File
    resumed: File

    def results(self) -> Results:
        if not isinstance(self.timeout, (int, float)) or not self.timeout > 0:
            raise InputError(f"timeout is {self.timeout} s; give a positive number of seconds, or inf")
        begun = resume.begun(self.resumed, self.options, self.setup.sources) if self.resumed else None
        left = resume.left(begun, self.groups) if begun else self.groups
        if begun and not left:
            begun.complete = True
            self._save(begun)
            return begun
        self.setup.calibrate = not begun  # one calibration a file
        start = perf_counter()
        with Supervisor(self.setup, self.selection, self.timeout, lambda step: self.progress(str(step))) as workers:
            if begun:
                resume.same_machine(self.resumed, begun.machine, workers.ready.machine)
            if not any(workers.labels(group) for group in self.groups):
                elsewhere = {case.reason for group in self.groups for case in self._elsewhere(group, workers.ready)}
                raise Unavailable(f"nothing that was chosen can run here: {'; '.join(elsewhere)}")
            if self.options.get("cross_check") and workers.ready.machine.device != "cuda":
                raise Unavailable(f"a cross-check needs a GPU, and {workers.ready.no_gpu}")
            with self._sanitizer(workers.ready) as sanitizer:
                run = begun or self._new(workers.ready)
                self._fill(run, left, workers, start, sanitizer)
        return run

    def _sanitizer(self, ready: Ready) -> AbstractContextManager[sanitize.Sanitizer | None]:
        if not self.options.get("sanitize"):
            return nullcontext()
        return sanitize.Sanitizer(ready.machine.device, self.setup.device, self.setup.seed, self.timeout)

    def _cross_check(self, group: Group, cases: list[Case]) -> None:
        if self.options.get("cross_check"):
            self.progress(f"{group}: timing with NVBench")
            crosscheck.add(cases, group, self.setup.seed, self.setup.device)

    def _elsewhere(self, group: Group, ready: Ready) -> list[Case]:
        """Rows of the chosen variants that are for another kind of device."""
        here = ready.machine.device
        reason = f"needs a GPU, and {ready.no_gpu}" if here == "cpu" else "is for the CPU; see it with --device cpu"
        others = (v for v in self.selection.variants(group) if here not in v.backend.devices)
        return [skipped(group, v.label, reason) for v in others]

    def _new(self, ready: Ready) -> Results:
        return Results(
            format=results.FORMAT,
            version=results.VERSION,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            options=self.options,
            machine=ready.machine,
            no_gpu=ready.no_gpu,
            sources=self.setup.sources,
            calibration=ready.calibration,
        )

    def _fill(self, run: Results, left: list[Group], workers: Supervisor, start: float,
              sanitizer: sanitize.Sanitizer | None) -> None:  # fmt: skip
        """Add the rows of the groups that are left, and write the file after each."""
        before = dict(run.wall)
        run.complete = False
        try:
            for group in left:
                cases = workers.cases(group)
                self._cross_check(group, cases)
                if sanitizer:
                    self.progress(f"{group}: under the sanitizers")
                    sanitizer.add(cases, group)
                run.cases += [*cases, *self._elsewhere(group, workers.ready)]
                run.complete = group is left[-1]
                spent = {**workers.wall, "total": perf_counter() - start}
                run.wall = {name: before.get(name, 0.0) + spent.get(name, 0.0) for name in before | spent}
                self._save(run)
        except KeyboardInterrupt:
            self._save(run)  # it may have come in the middle of that
            done = len(self.groups) - len(resume.left(run, self.groups))
            raise Stopped(f"stopped after {done} of {len(self.groups)} groups") from None
        except Unavailable as error:
            kept = f"; {self.output} has what was finished, go on with --resume" if self.output and run.cases else ""
            raise Unavailable(f"{error}{kept}") from None

    def _save(self, run: Results) -> None:
        if not self.output or not run.cases:
            return
        try:
            run.save(self.output)
        except OSError as error:
            if run.complete:  # before that, it is tried again after the next group
                warnings.warn(f"cannot write {self.output}: {error.strerror}", stacklevel=2)
