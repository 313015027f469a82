"""Check, then time: no number without a passed check, and every variant leaves a row."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from cudalab import interop, machine, measure, plan, results, source
from cudalab.backends import Bound, Operands
from cudalab.check import compare, expected
from cudalab.devices import Clock, Device, open_device
from cudalab.errors import CudalabError, InputError, Unavailable
from cudalab.plan import Group, Selection, Variant
from cudalab.results import Case, Parity, Results
from cudalab.spec import Arrays

BUDGET = 1.0  # seconds of sampling for each variant
Progress = Callable[[str], None]


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
    progress: Progress = lambda text: None,
) -> Results:
    """Check and time kernels on every backend that runs here.

    `names` are kernels of the lab or paths of specs (none: all of the lab's); `sizes` follows `cudalab.sizes`;
    `dtypes` is a comma-separated list ("": each kernel's first; "all"); `only` and `skip` are comma-separated
    globs on `backend` or `backend:variant`; `modes` of launch and graph; `device` is auto, cpu, cuda or cuda:N;
    `budget` is seconds of sampling for each variant. Raises CudalabError for bad input, before measuring.
    """
    options = {k: v for k, v in locals().items() if k not in ("names", "progress")}
    chosen, groups = Selection.parse(only, skip), plan.groups(names, sizes, dtypes)
    wanted_modes = plan.chosen_modes(modes)
    if not budget > 0:
        raise InputError(f"budget is {budget:g} s; give a positive number of seconds")
    return _run(names, options, chosen, groups, wanted_modes, device, seed, budget, progress)


def check(
    *names: str,
    sizes: str = "",
    dtypes: str = "all",
    only: str = "",
    skip: str = "",
    device: str = "auto",
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Results:
    """Check kernels without timing: at awkward shapes, at the smallest size, on every value of 16-bit types.

    Awkward shapes are for the variants that compute their own indices. With `sizes`, those alone are checked.
    The other arguments are those of `bench`; the cases of the results have a parity and no times.
    """
    options = {k: v for k, v in locals().items() if k not in ("names", "progress")}
    chosen = Selection.parse(only, skip)
    groups = plan.groups(names, sizes, dtypes) if sizes else plan.checks(names, dtypes)
    return _run(names, options, chosen, groups, (), device, seed, BUDGET, progress)


def _run(
    names: tuple[str, ...], options: dict[str, Any], chosen: Selection, groups: list[Group],
    modes: tuple[str, ...], device: str, seed: int, budget: float, progress: Progress,
) -> Results:  # fmt: skip
    opened, note = open_device(device)
    run = Results(
        format=results.FORMAT,
        version=results.VERSION,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        options={"kernels": list(names), **options},
        machine=machine.describe(opened),
        no_gpu=note,
        sources={p.name: source.digest(p) for g in groups for p in (g.kernel.cu, Path(g.kernel.file))},
    )
    job = Job(opened, chosen, modes, seed, budget, progress, run.wall)
    try:
        with job.phase("total"):
            run.calibration = opened.calibrate(modes) if modes else {}
            for group in groups:
                run.cases += job.cases(group)
    finally:
        opened.close()
    if not run.cases:
        raise InputError("no variant is left to run; check --only and --skip against `cudalab list`")
    return run


@dataclass
class Job:
    """What all groups of a run have in common."""

    device: Device
    selection: Selection
    modes: tuple[str, ...]
    seed: int
    budget: float
    progress: Progress
    wall: dict[str, float] = field(default_factory=dict)
    order: str = "shuffled"

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `wall[name]`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.wall[name] = self.wall.get(name, 0.0) + perf_counter() - start

    def cases(self, group: Group) -> list[Case]:
        """Rows of every selected variant of one group."""
        self.progress(f"{group}: inputs and reference")
        try:
            with self.phase("inputs and reference"):
                arrays = group.arrays(self.seed)
                want = expected(group.kernel, arrays)
                operands = self.device.place(group.kernel, group.dtype, arrays)
            return _Round(self, group, arrays, want, operands).rows()
        finally:
            self.device.release()
            gc.collect()  # results that libraries returned, graphs with memory of their own


class _Round:
    """One group at work."""

    def __init__(self, job: Job, group: Group, arrays: Arrays, want: np.ndarray, operands: Operands) -> None:
        self.job, self.group, self.arrays, self.want, self.operands = job, group, arrays, want, operands
        self.bounds: dict[str, Bound] = {}  # what is right, and worth a time
        self.cases: dict[str, Case] = {}
        self.judged: dict[Hashable, Parity] = {}  # by the output's fingerprint and the budget

    def rows(self) -> list[Case]:
        with self.job.phase("compile and check"):
            for variant in self.job.selection.variants(self.group, self.job.device.kind):
                self.job.progress(f"{self.group}: {variant.label}")
                self.cases[variant.label] = self._first_run(variant)
        if not self.job.modes:
            return list(self.cases.values())
        with self.job.phase("timing"):
            clocks = self._clocks()
            self._time(clocks)
        with self.job.phase("check after timing"):
            for label in self.bounds:
                self.job.progress(f"{self.group}: checking {label} again")
                for work in {id(c.work): c.work for c in clocks.get(label, {}).values()}.values():
                    self._verify(self.cases[label], work)
        return list(self.cases.values())

    def _row(self, backend: str, variant: str = "") -> Case:
        g = self.group
        return Case(g.kernel.name, g.size, g.shape, g.dtype.name, backend, variant)

    def _first_run(self, variant: Variant) -> Case:
        """The variant's row after its first run: right, WRONG, skipped or an error."""
        case = self._row(variant.backend_name, variant.name)
        case.nbytes = sum(a.nbytes for a in self.operands.inputs.values()) + self.operands.output.nbytes
        try:
            if reason := variant.backend.missing(self.job.device.kind):
                raise Unavailable(reason)
            start = perf_counter()
            bound = variant.backend.bind(self.group.kernel, variant.name, self.group.dtype, self.operands)
            case.costs = {"bind": perf_counter() - start, "first run": self.job.device.warm_up(bound)}
        except Unavailable as error:
            case.status, case.reason = results.SKIPPED, str(error)
        except Exception as error:  # any library's; it costs this row and no other
            case.status, case.reason = results.ERROR, said(error)
        else:
            case.composed = variant.backend.composed
            self._verify(case, bound)
            if case.status == results.OK and variant.backend.timed:
                self.bounds[variant.label] = bound
        return case

    def _verify(self, case: Case, work: Bound) -> None:
        """Poison the output, run once, compare. What is wrong keeps no time."""
        if case.status != results.OK:
            return
        try:
            parity = self._compare(case, work)
        except Exception as error:
            case.status, case.reason, case.times = results.ERROR, said(error), {}
            return
        if not parity.ok:
            case.status, case.reason, case.times = results.WRONG, parity.message, {}
        case.parity = parity

    def _compare(self, case: Case, work: Bound) -> Parity:
        device, dtype = self.job.device, self.group.dtype
        device.poison(work.output())
        work.run()
        result = interop.as_plain(work.output())
        bits = device.fingerprint(result)
        seen = (bits, result.shape, result.dtype, case.composed)
        if touched := device.tampered(self.operands):
            return Parity(ok=False, n=self.want.size, message=touched)
        if bits is not None and seen in self.judged:
            return self.judged[seen]  # the same bits have been compared, element by element
        got = device.fetch(result)
        parity = compare(got, self.want, dtype, self.group.kernel.budget(dtype, case.composed))
        if self.group.kernel.pointwise and parity.worst:
            given = (f"{name} = {a.reshape(-1)[parity.worst_at]}" for name, a in self.arrays.items())
            parity.worst += f" for {', '.join(given)}"
        self.judged[seen] = parity
        return parity

    def _clocks(self) -> dict[str, dict[str, Clock]]:
        """Clocks of everything that is to be timed, and of a plain copy of as many bytes."""
        nbytes = next((self.cases[label].nbytes for label in self.bounds), 0)
        bounds = dict(self.bounds)
        if nbytes and (copy := self.job.device.copy(nbytes)):
            bounds["copy"] = copy
            self.cases["copy"] = self._row("copy")
            self.cases["copy"].nbytes, self.cases["copy"].status = nbytes, results.CEILING
        clocks = {}
        for label, bound in bounds.items():
            self.job.progress(f"{self.group}: preparing {label}")
            try:
                case = self.cases[label]
                clocks[label] = self.job.device.clocks(bound, self.job.modes, case.notes)
                if "graph" in clocks[label]:
                    case.costs["graph build"] = clocks[label]["graph"].build_seconds
            except Exception as error:
                self.cases[label].status, self.cases[label].reason = results.ERROR, said(error)
        return clocks

    def _time(self, clocks: dict[str, dict[str, Clock]]) -> None:
        self.job.progress(f"{self.group}: timing {len(clocks)} variants")
        every = measure.take(clocks, self.job.seed, self.job.budget, self.job.order)
        if "copy" in self.cases:
            self.cases["copy"].condition = self.job.device.condition()
        for label, taken in every.items():
            case = self.cases[label]
            if taken.error:
                case.status, case.reason = results.ERROR, taken.error
            else:
                case.times = taken.rounds


def said(error: Exception) -> str:
    """An error as a row shows it: our own as they are, others with their type."""
    return str(error) if isinstance(error, CudalabError) else f"{type(error).__name__}: {error}"
