"""A search by Kernel Tuner, in the worker: which configurations are tried, and how long each takes by its clock.

Kernel Tuner's PyCUDA backend compiles and launches what the lab does, so grid, block and arguments are those of the
spec. Each configuration is first checked as `cudalab check` does it: one that is wrong is never timed.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec
import numpy as np

from cudalab.base import threads
from cudalab.base.errors import CompileError, CudalabError
from cudalab.device import cuda, launch
from cudalab.device.operands import Operands
from cudalab.engine import check_plan, kernel_round
from cudalab.engine.groups import Group, Work
from cudalab.engine.job import Job
from cudalab.engine.messages import Sent, Step, Task
from cudalab.engine.rows import failed, row, said
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.spec import cuda_source
from cudalab.spec.kernel import labelled

BACKEND = "pycuda"
SECONDS = "kernel tuner"  # of a row's costs: the median by Kernel Tuner's clock
EVERY = "brute_force"  # the strategy that tries all configurations
ITERATIONS = 32  # launches of each configuration, of whose times the median is taken
# Kernel Tuner skips a configuration whose error has this text (kernel_tuner/core.py, `skippable_exceptions`); it has no
# exception class for that, and every other error ends its search.
LEAVE_OUT = "too many resources requested for launch"

Launcher = Callable[[], None]


class Search(msgspec.Struct):
    """How Kernel Tuner times configurations of an entry."""

    entry: str
    strategy: str
    most: int  # configurations to try; 0: as many as the strategy does
    seed: int
    checked: bool = False  # they are known to be right


class Order(msgspec.Struct):
    """The worker's task: a search among the forms of `work`, on its arrays."""

    work: Work
    search: Search


@dataclass(frozen=True, kw_only=True)
class Batch(Group):
    """Configurations, `forms`, that Kernel Tuner times one after the other on one GPU. Their rows have SECONDS."""

    search: Search
    timed: bool = False  # by the lab's own clock

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """Implements `Rows.task`."""
        return Task.of("cudalab.tools.tune.kernel_tuner:search", Order(Work.on(self, omit), self.search), self.files)

    def sent(self) -> Sent:
        """Implements `Rows.sent`."""
        return Sent.of("cudalab.tools.tune.kernel_tuner:received", Order(Work.on(self), self.search))


def batch(group: Group, search: Search) -> Batch:
    """The forms of a group as a batch."""
    return Batch(
        **{**{field.name: getattr(group, field.name) for field in fields(Group)}, "timed": False}, search=search
    )


def received(payload: msgspec.Raw) -> Batch:
    """The batch of `Batch.sent`."""
    order = msgspec.json.decode(payload, type=Order)
    return batch(order.work.group(), order.search)


class Tried(msgspec.Struct):
    """The result of a search for one configuration: a median, or why there is none."""

    parameters: dict[str, int]
    seconds: float = 0.0
    reason: str = ""


def label(entry: str, parameters: Mapping[str, int]) -> str:
    """Of one configuration, as a row has it: pycuda:gelu_vec[VEC_THREADS=64 VEC_PACKS=2]."""
    return f"{BACKEND}:{labelled(entry, parameters)}"


def checks(group: Group) -> list[Group]:
    """Where a configuration must be right before it is timed: awkward shapes, alignments, the smallest size.

    Hard values are left out: launch parameters do not change what a kernel computes from a value.
    """
    return [g for g in check_plan.checks([group.kernel.file], group.dtype.name) if not g.values]


def search(job: Job, payload: msgspec.Raw) -> list[Case]:
    """The handler of an `Order`: rows of the configurations that were tried.

    Raises CudalabError if Kernel Tuner gives up, ContextLost (a BaseException) if a configuration costs the device.
    """
    order = msgspec.json.decode(payload, type=Order)
    group = order.work.group()
    group = replace(group, forms=tuple(form for form in group.forms if label(*form) not in order.work.omit))
    if order.search.strategy == EVERY and not order.search.checked:
        compile_ahead(group, job)
    arrays = group.arrays(job.seed)
    operands = job.device.place(group.kernel, group.dtype, arrays)
    tuning = _Tuning(order.search, group, replace(job, modes=()), operands)
    try:
        found = _kernel_tuner(order.search, tuning)
    except CudalabError:
        raise
    except Exception as error:
        job.survived(group.kernel, error)
        raise CudalabError(f"Kernel Tuner gave up: {said(error, group.kernel)}") from error
    finally:
        if job.device.alive():
            job.device.release()
    times = {tuning.key(r): r["times"] for r in found if "__error__" not in r}
    rows: list[Case] = []
    for key, parameters in {tuning.key(r): tuning.parameters(r) for r in found}.items():
        reason, name = tuning.reasons.get(key, ""), label(order.search.entry, parameters)
        rows.append(failed(group, name, reason) if reason else row(group, name))
        if key in times:
            rows[-1].costs[SECONDS] = 1e-3 * float(np.median(times[key]))
    return rows


def compile_ahead(group: Group, job: Job) -> None:
    """Compile all configurations in parallel. When its turn comes, PyCUDA finds each on disk, or fails again."""
    kernel, target = group.kernel, cuda.card(getattr(job.device, "index", 0)).target

    def compiled(parameters: dict[str, int]) -> None:
        with contextlib.suppress(CompileError):
            cuda.cubin(kernel.with_parameters(parameters), group.dtype, target)

    with ThreadPoolExecutor(threads.cores()) as pool:
        for _ in pool.map(compiled, [dict(parameters) for _, parameters in group.forms]):
            job.at(Step(str(group), "compiling"))  # a sign of life, so that this is not taken for a hang


class _Tuning:
    """What Kernel Tuner asks for: a launcher of each configuration."""

    def __init__(self, search: Search, group: Group, job: Job, operands: Operands) -> None:
        self.search, self.group, self.job, self.operands = search, group, job, operands
        self.allowed = {self.key(parameters) for _, parameters in group.forms}
        self.checks = [] if search.checked else checks(group)
        self.reasons: dict[tuple[int, ...], str] = {}  # why a configuration is not timed; "": it is right
        self.at: tuple[int, ...] = ()  # the configuration that was asked for last

    def parameters(self, given: Mapping[str, Any]) -> dict[str, int]:
        return {name: int(given[name]) for name in self.group.kernel.tunables}

    def key(self, given: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(self.parameters(given).values())

    def allows(self, given: Mapping[str, Any]) -> bool:
        return self.key(given) in self.allowed

    def launcher(self, given: Mapping[str, Any]) -> Launcher | None:
        """What launches a configuration on the arrays; None if it is wrong or does not compile."""
        parameters, self.at = self.parameters(given), self.key(given)
        if self.at not in self.reasons:
            self.reasons[self.at] = self._wrong(parameters)
        self.job.at(Step(str(self.group), "timing, Kernel Tuner", label(self.search.entry, parameters)))
        if self.reasons[self.at]:
            return None
        kernel = self.group.kernel.with_parameters(parameters)
        return launch.on_stream(kernel, self.search.entry, self.group.dtype, self.operands)

    def launched(self, launcher: Launcher) -> None:
        try:
            launcher()
        except Exception as error:
            self.job.survived(self.group.kernel, error)
            self.reasons[self.at] = said(error, self.group.kernel)
            raise RuntimeError(f"{LEAVE_OUT}: {error}") from error

    def _wrong(self, parameters: dict[str, int]) -> str:
        for group in self.checks:
            for case in kernel_round.cases(self.job, replace(group, forms=((self.search.entry, parameters),))):
                if case.status != record.OK:
                    return f"{case.status} at {group.size}: {case.reason}"
        return ""


def _kernel_tuner(search: Search, tuning: _Tuning) -> list[dict[str, Any]]:
    """One record for each turn of a configuration: its parameters and its `times` in ms, or an `__error__`."""
    kernel = tuning.group.kernel
    with _quiet():
        import kernel_tuner

        def allowed(given: Any) -> bool:  # no lambda: Kernel Tuner parses the source text of a lambda
            bare = not isinstance(given, Mapping)  # as Kernel Tuner 1.5 gives the value of an only parameter
            return tuning.allows(dict.fromkeys(kernel.tunables, given) if bare else given)

        with _launching_as(tuning):
            found, _ = kernel_tuner.tune_kernel(
                search.entry, lambda given: cuda_source.read(kernel.cu), 1, [],
                {name: list(values) for name, values in kernel.tunables.items()}, restrictions=allowed, lang="PYCUDA",
                device=tuning.operands.device, iterations=ITERATIONS, strategy=search.strategy, parallel=False,
                strategy_options={"max_fevals": search.most} if search.most else {}, seed=search.seed, quiet=True,
            )  # fmt: skip
    return list(found)


@contextlib.contextmanager
def _launching_as(tuning: _Tuning) -> Iterator[None]:
    """Inside, Kernel Tuner's PyCUDA backend compiles and launches as the lab does.

    Its own way to compile links each configuration as relocatable device code, which is not the code that the lab
    runs; and it knows a block size only where that is itself a tunable. Kernel Tuner takes no backend from outside, so
    methods of its class are replaced and put back at the end. The class itself stays, since it remembers which
    context it has made current.
    """
    from kernel_tuner.backends.pycuda import PyCudaFunctions

    own_init = PyCudaFunctions.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        own_init(self, *args, **options)
        self.stream = tuning.operands.stream

    def ready_argument_list(self: Any, arguments: list[Any]) -> list[Any]:
        return arguments

    def compile(self: Any, instance: Any) -> Launcher | None:
        return tuning.launcher(instance.params)

    def run_kernel(self: Any, func: Launcher, arguments: Any, threads: Any, grid: Any, stream: Any = None) -> None:
        tuning.launched(func)

    ours = {
        "__init__": init, "ready_argument_list": ready_argument_list, "compile": compile, "run_kernel": run_kernel,
    }  # fmt: skip
    own = {name: getattr(PyCudaFunctions, name) for name in ours}
    try:
        for name, method in ours.items():
            setattr(PyCudaFunctions, name, method)
        yield
    finally:
        for name, method in own.items():
            setattr(PyCudaFunctions, name, method)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Kernel Tuner prints, warns of parameters that it does not find in the source, and leaves files of what fails."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="cudalab-tune-") as scratch, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(scratch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            os.chdir(before)
