"""Kernel Tuner at work, in the worker: which configurations are tried, and how long each takes by its clock.

Its PyCUDA backend compiles and launches exactly what the lab does, so grid, block and arguments are those of the spec.
A configuration is first checked as `cudalab check` does it: what is wrong is never timed.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from cudalab.base import threads as parallel
from cudalab.base.errors import CompileError, CudalabError
from cudalab.device import cuda
from cudalab.device.operands import Operands
from cudalab.engine import group as groups
from cudalab.engine import plan
from cudalab.engine.job import Job
from cudalab.engine.messages import Search, Step, Tried
from cudalab.engine.plan import Group
from cudalab.engine.rows import said
from cudalab.results import record
from cudalab.spec import cuda_source
from cudalab.spec.kernel import labelled

BACKEND = "pycuda"
EVERY = "brute_force"  # the strategy that tries all configurations
ITERATIONS = 32  # launches of each configuration, of whose times the median is taken
# By these words Kernel Tuner knows that a configuration cannot be launched; any other error ends its search.
LEAVE_OUT = "too many resources requested for launch"

Launcher = Callable[[], None]


def label(entry: str, parameters: Mapping[str, int]) -> str:
    """Of one configuration, as a row has it: pycuda:gelu_vec[VEC_THREADS=64 VEC_PACKS=2]."""
    return f"{BACKEND}:{labelled(entry, parameters)}"


def checks(group: Group) -> list[Group]:
    """Where a configuration must be right before it is timed: awkward shapes, alignments, the smallest size.

    Values are left out: how a kernel is launched does not change what it computes of them.
    """
    return [g for g in plan.checks([group.kernel.file], group.dtype.name) if not g.values]


def search(order: Search, group: Group, job: Job) -> list[Tried]:
    """Let Kernel Tuner try configurations on the arrays of `group`.

    Raises CudalabError if it gives up, ContextLost (a BaseException) if a configuration costs the device.
    """
    if order.strategy == EVERY and not order.checked:
        compile_ahead(order, group, job)
    arrays = group.arrays(job.seed)
    operands = job.device.place(group.kernel, group.dtype, arrays)
    tuning = _Tuning(order, group, replace(job, modes=()), operands)
    try:
        found = _kernel_tuner(order, tuning)
    except CudalabError:
        raise
    except Exception as error:
        job.survived(group.kernel, error)
        raise CudalabError(f"Kernel Tuner gave up: {said(error, group.kernel)}") from error
    finally:
        if job.device.alive():
            job.device.release()
    times = {tuning.key(r): r["times"] for r in found if "__error__" not in r}
    tried = {tuning.key(r): tuning.parameters(r) for r in found}
    return [
        Tried(parameters, 1e-3 * float(np.median(times[key])) if key in times else 0.0, tuning.reasons.get(key, ""))
        for key, parameters in tried.items()
    ]


def compile_ahead(order: Search, group: Group, job: Job) -> None:
    """Have all configurations compiled at once. When its turn comes, PyCUDA finds each on disk, or fails again."""
    kernel, target = group.kernel, cuda.card(getattr(job.device, "index", 0)).target
    text = cuda_source.read(kernel.cu)

    def compiled(parameters: dict[str, int]) -> None:
        macros = kernel.with_parameters(parameters).macros(group.dtype)
        with contextlib.suppress(CompileError):
            cuda.cubin(text, kernel.cu.name, macros, kernel.cu.parent, target)

    wanted = [p for p in kernel.configurations() if label(order.entry, p) in order.among]
    with ThreadPoolExecutor(parallel.cores()) as pool:
        for _ in pool.map(compiled, wanted):
            job.at(Step(str(group), "compiling"))  # a sign of life


class _Tuning:
    """What Kernel Tuner asks for: a launcher of each configuration."""

    def __init__(self, order: Search, group: Group, job: Job, operands: Operands) -> None:
        self.order, self.group, self.job, self.operands = order, group, job, operands
        self.checks = [] if order.checked else checks(group)
        self.reasons: dict[tuple[int, ...], str] = {}  # why a configuration is not timed; "": it is right
        self.at: tuple[int, ...] = ()  # the configuration that was asked for last

    def parameters(self, given: Mapping[str, Any]) -> dict[str, int]:
        return {name: int(given[name]) for name in self.group.kernel.tunables}

    def key(self, given: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(self.parameters(given).values())

    def allows(self, given: Mapping[str, Any]) -> bool:
        parameters = self.parameters(given)
        return self.group.kernel.allows(parameters) and label(self.order.entry, parameters) in self.order.among

    def launcher(self, given: Mapping[str, Any]) -> Launcher | None:
        """What launches a configuration on the arrays; None if it is wrong or does not compile."""
        parameters, self.at = self.parameters(given), self.key(given)
        if self.at not in self.reasons:
            self.reasons[self.at] = self._wrong(parameters)
        self.job.at(Step(str(self.group), "timing, Kernel Tuner", label(self.order.entry, parameters)))
        if self.reasons[self.at]:
            return None
        kernel = self.group.kernel.with_parameters(parameters)
        return cuda.prepare(kernel, self.order.entry, self.group.dtype, self.operands)

    def launched(self, launcher: Launcher) -> None:
        try:
            launcher()
        except Exception as error:
            self.job.survived(self.group.kernel, error)
            self.reasons[self.at] = said(error, self.group.kernel)
            raise RuntimeError(f"{LEAVE_OUT}: {error}") from error

    def _wrong(self, parameters: dict[str, int]) -> str:
        for group in self.checks:
            for row in groups.cases(self.job, replace(group, forms=((self.order.entry, parameters),))):
                if row.status != record.OK:
                    return f"{row.status} at {group.size}: {row.reason}"
        return ""


def _kernel_tuner(order: Search, tuning: _Tuning) -> list[dict[str, Any]]:
    """One record for each turn of a configuration: its parameters and its `times` in ms, or an `__error__`."""
    kernel = tuning.group.kernel
    with _quiet():
        import kernel_tuner

        def allowed(given: Any) -> bool:  # no lambda: the text of such a one would be looked for
            bare = not isinstance(given, Mapping)  # as Kernel Tuner 1.5 gives the value of an only parameter
            return tuning.allows(dict.fromkeys(kernel.tunables, given) if bare else given)

        functions = _functions()
        functions.tuning = tuning
        try:
            found, _ = kernel_tuner.tune_kernel(
                order.entry, lambda given: cuda_source.read(kernel.cu), 1, [],
                {name: list(values) for name, values in kernel.tunables.items()}, restrictions=allowed, lang="PYCUDA",
                device=tuning.operands.device, iterations=ITERATIONS, strategy=order.strategy, parallel=False,
                strategy_options={"max_fevals": order.most} if order.most else {}, seed=order.seed, quiet=True,
            )  # fmt: skip
        finally:
            functions.tuning = None  # with its arrays, for which the memory is needed again
    return list(found)


@cache
def _functions() -> Any:
    """Kernel Tuner's PyCUDA backend with the lab's way to compile and to launch, in the place of its own.

    That one links each configuration as relocatable device code, which is not the code that the lab runs; and it has a
    block size only where that is itself a tunable.
    """
    from kernel_tuner.backends import pycuda

    class Functions(pycuda.PyCudaFunctions):
        tuning: Any = None  # the `_Tuning` that is at work

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.stream = self.tuning.operands.stream

        def ready_argument_list(self, arguments: list[Any]) -> list[Any]:
            return arguments

        def compile(self, instance: Any) -> Launcher | None:
            return self.tuning.launcher(instance.params)

        def run_kernel(self, function: Launcher, arguments: Any, threads: Any, grid: Any, stream: Any = None) -> None:
            self.tuning.launched(function)

    pycuda.PyCudaFunctions = Functions  # for good: the class remembers which context it has made current
    return Functions


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Kernel Tuner prints, warns of what it does not see of the spec, and leaves the source of what fails behind."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="cudalab-tune-") as scratch, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(scratch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            os.chdir(before)
