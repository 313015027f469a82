"""With which launch parameters an entry is compiled to be inspected, and the compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from cudalab.base import threads
from cudalab.base.errors import SpecError
from cudalab.results.record import Case
from cudalab.spec import tuned as stored
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, assigned
from cudalab.tools.inspect import tools

Compiler = Callable[[Kernel, DType, str], tools.Compiled]


def form(kernel: Kernel, entry: str, kind: DType, arch: str, row: Case | None = None) -> tuple[Kernel, str]:
    """A kernel as it is compiled for an architecture, and what to know about its launch parameters.

    They are those that a row of the results was measured with, else those tuned for the architecture, else the default.
    """
    number = arch.removeprefix("sm_").rstrip("abcf")
    try:
        if row and row.parameters:
            return _differing(kernel, kernel.with_parameters(row.parameters), "as in the results")
    except SpecError as error:
        return kernel, str(error)
    tuned, notes = stored.chosen(kernel, entry, kind, Card(f"{number[:-1]}.{number[-1]}", ""))
    return _differing(kernel, tuned, f"as tuned for {arch}") if not notes else (kernel, notes[0])


def _differing(kernel: Kernel, tuned: Kernel, why: str) -> tuple[Kernel, str]:
    if tuned.parameters == kernel.parameters:
        return kernel, ""
    return tuned, f"compiled and launched with {assigned(tuned.parameters)}, {why}"


def once(jobs: Sequence[tuple[Kernel, DType, str]], compiled: Compiler) -> Iterator[tools.Compiled]:
    """The code of each job, in their order; those that differ in the entry alone share one compilation."""
    keys = [(kind, arch, tuple(kernel.parameters.items())) for kernel, kind, arch in jobs]
    wanted = dict(zip(keys, jobs, strict=True))
    with ThreadPoolExecutor(min(len(wanted), threads.cores())) as pool:
        made = dict(zip(wanted, pool.map(lambda job: compiled(*job), wanted.values()), strict=True))
    return (made[key] for key in keys)
