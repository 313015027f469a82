"""The `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks and is never timed.

If there is an nvcc, it compiles the `.cu` too: g++ takes what no GPU does, such as a call of a function of the host.
What the CPU cannot run is skipped. nvcc also tells a mistake in the `.cu` from what the CPU executor lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cudalab import host
from cudalab.base.errors import CompileError, CompilerFailed, CrashError, CudalabError, NotOnCpu, SpecError
from cudalab.device import nvcc
from cudalab.device.guard import GUARD
from cudalab.device.operands import Bound, Operands, writing
from cudalab.host import Module
from cudalab.spec import compile_options, cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, labelled
from cudalab.spec.launch import Launch

if TYPE_CHECKING:
    from cudalab.host.isolated import Isolated

devices = ("cpu",)
timed = False
budget = "budgets"
UNDEFINED = "CUDA leaves that undefined"  # waiting.h: in remarks about more than what GPUs since Volta accept
RACED = 1 << 17  # bytes of all arrays up to which races are looked for
RACED_IF_WRONG = 1 << 20  # and up to which they are looked for where the result is wrong
own_indexing = True
NEEDLESS = ("extended-lambda", "expt-relaxed-constexpr")  # what these allow, g++ takes without an option


class _Planned(NamedTuple):
    """The launches of an entry on some operands, and the values of the `__constant__` variables."""

    launches: tuple[Launch, ...]
    constants: Mapping[str, np.ndarray]


class _Source(NamedTuple):
    """What is compiled: `entries` are the functions that have no plain name, `standard` is the option for it."""

    text: str
    cu: Path
    macros: tuple[tuple[str, str], ...]
    entries: tuple[str, ...]
    standard: str


def missing(device: str) -> str | None:
    return host.compiler_missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def remarks(kernel: Kernel) -> list[str]:
    """What a reader of a row must know about how it was compiled."""
    lacking = [flag for flag in kernel.further_flags if flag.lstrip("-") not in NEEDLESS]
    return [f"compiled without {' '.join(lacking)}: g++ has no such option"] if lacking else []


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    from cudalab.host import processes  # `cudalab list` needs none

    processes.begin((kernel.file, variant, dtype.name))
    # A race may give the right result in one order of the threads; CUDA promises no order.
    others: dict[str, host.Order] = {"forward": "forward", "reverse": "reverse", "shuffled": operands.seed}
    planned = _planned(kernel, variant, operands)
    entries = tuple(dict.fromkeys(launch.entry for launch in planned.launches))
    source = _source(kernel, dtype, entries)
    # Begins now, so that all compile at once.
    watched = _races(*source) if _nbytes(kernel, operands) <= RACED else None
    by_nvcc = _by_nvcc(kernel, dtype, entries, source)
    module = _compiled(kernel, dtype, source)
    loaded = {entries: module}
    unseen = _unseen(kernel, by_nvcc.result())
    also = {
        f"with blocks and threads in {name} order": _bound(
            kernel, variant, dtype, operands, order, loaded, planned=planned
        )
        for name, order in others.items()
    }
    if len(configurations := kernel.configurations()) > 1:  # a GPU may use another than the default
        chosen = kernel.with_parameters(configurations[-1])
        also[f"as {labelled(variant, chosen.parameters)}"] = _bound(chosen, variant, dtype, operands, "alternating")

    def racing(races: Isolated | None) -> dict[str, Bound]:
        if races is None:
            return {}
        # A lock that is not one shows if threads interrupt each other.
        orders: dict[str, host.Order] = {"": "alternating", ", shuffled": operands.seed}
        return {
            f"under the race detector{said}": _bound(
                kernel, variant, dtype, operands, order, watched=races, planned=planned
            )
            for said, order in orders.items()
        }

    small = _nbytes(kernel, operands) <= RACED_IF_WRONG
    also |= racing(watched.result()) if watched else {}
    return replace(
        _bound(kernel, variant, dtype, operands, "alternating", loaded, planned=planned),
        also=also,
        suspects=lambda: racing(watched_module(kernel, dtype, entries)) if small and not watched else {},
        remarks=lambda: _new(module, {**unseen, **{name: module.remarks.get(name, "") for name in entries}}),
        undefined=lambda: any(UNDEFINED in module.remarks.get(name, "") for name in entries),
    )


def _new(module: Module | Isolated, remarks: Mapping[str, str]) -> list[str]:
    """The remarks about a module that were not told yet, by what each is about."""
    found = [about for about, said in remarks.items() if said and (module, about) not in _told]
    _told.update((module, about) for about in found)
    return [remarks[about] for about in found]


_told: set[tuple[Module | Isolated, str]] = set()


def _unseen(kernel: Kernel, said: nvcc.Verdict) -> dict[str, str]:
    """What to remark where nvcc lacks a header that is among the lab's; CompileError where it refuses the `.cu`."""
    if not said.error:
        return {}
    if lacking := _LACKING.search(said.error):
        return {"nvcc": f"nvcc did not compile it: its toolkit lacks {lacking[1] or lacking[2]}"}
    raise CompileError(f"{kernel.cu.name} runs on the CPU, but nvcc does not compile it for a GPU:\n{said.error}")


def _planned(kernel: Kernel, variant: str, operands: Operands) -> _Planned:
    named = operands.by_name(kernel)
    return _Planned(kernel.launches(variant, named), kernel.constants_of(named))


def _bound(
    kernel: Kernel,
    variant: str,
    dtype: DType,
    operands: Operands,
    order: host.Order,
    loaded: Mapping[tuple[str, ...], Module | Isolated] = MappingProxyType({}),
    watched: Isolated | None = None,
    apart: bool = True,
    planned: _Planned | None = None,
) -> Bound:
    """An entry in one order of its threads, in the module `watched` or in the plain one; `apart`: not in this process.

    `loaded` are plain modules, by the functions that launches name; `planned` is what runs on `operands`. Where the
    process that executes it ends, the module that looks at each access runs it again and finds the line.
    """
    reads: dict[int, str] = {}  # of undefined values in the last run
    probe = 0

    def prepare(on: Operands) -> Callable[[], object]:
        launches, constants = planned if planned and on is operands else _planned(kernel, variant, on)
        names = tuple(dict.fromkeys(launch.entry for launch in launches))
        module = watched or loaded.get(names) or _compiled(kernel, dtype, _source(kernel, dtype, names), apart)

        def run() -> None:
            try:
                launch(module)
            except CrashError:
                if not watched and (looks := watched_module(kernel, dtype, names)):
                    launch(looks)
                raise

        def launch(module: Module | Isolated) -> None:
            reads.clear()
            for name, value in constants.items():  # other kernels may share the module
                module.set_constant(name, value)
            for one in launches:
                grid, block = one.dims
                try:
                    module.launch(
                        one.entry, grid, block, one.args, one.shared, order, one.cooperative, one.cluster, probe,
                        on.limit,
                    )  # fmt: skip
                except NotOnCpu as refusal:
                    raise _judged(kernel, dtype, refusal) from None
                reads.update(module.undefined_reads)

        return run

    bound = writing(prepare, operands)

    def probed(line: int) -> None:
        nonlocal probe
        probe = line
        try:
            bound.run()
        finally:
            probe = 0

    return replace(bound, probes=lambda: {said: partial(probed, line) for line, said in reads.items()})


def alone(kernel: Kernel, entry: str, dtype: DType, operands: Operands) -> Bound:
    """An entry in one order of its threads, in this process, without the other ways to run it: for a call."""
    return _bound(kernel, entry, dtype, operands, "alternating", apart=False)


def _nbytes(kernel: Kernel, operands: Operands) -> int:
    """The bytes of all arrays."""
    return sum(array.nbytes for array in operands.by_name(kernel).values())


def watched_module(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> Isolated | None:
    """The module that looks at each access; None where there is none. `launched`: functions that launches name."""
    return _races(*_source(kernel, dtype, launched)).result()


@cache
def _races(
    text: str, cu: Path, macros: tuple[tuple[str, str], ...], entries: tuple[str, ...], standard: str
) -> Future[Isolated | None]:
    """Return the `.cu` with the race detector, compiled beside the plain one."""

    def load() -> Isolated | None:
        from cudalab.host.isolated import Isolated

        try:
            built = host.compile_source(
                text,
                name=cu.name,
                defines=dict(macros),
                include=cu.parent,
                races=True,
                entries=entries,
                standard=standard,
            )
            return Isolated(built, workers=1, reach=GUARD)
        except CudalabError:  # the plain one tells a mistake
            return None

    return _beside.submit(load)


_LACKING = re.compile(r"fatal error: (\S+): No such file|cannot open source file \"(\S+)\"")
# Headers of libraries that no toolkit has: a machine without them, such as CI, says nothing about the `.cu`.
_OTHERS = re.compile(r"(?:cutlass|cute|raft|torch|ATen|c10|flashinfer|kittens)/|kittens\.")
_beside = ThreadPoolExecutor(2, "beside")


def _by_nvcc(kernel: Kernel, dtype: DType, launched: tuple[str, ...], source: _Source) -> Future[nvcc.Verdict]:
    """What nvcc says, asked beside the plain compilation; kept for each text and options."""
    key = (*source, kernel.flags)
    if key not in _verdicts:
        _verdicts[key] = _beside.submit(nvcc.verdict, kernel, dtype, launched)
    return _verdicts[key]


_verdicts: dict[object, Future[nvcc.Verdict]] = {}


def _source(kernel: Kernel, dtype: DType, launched: tuple[str, ...]) -> _Source:
    """What is compiled for launches that name these functions."""
    text = cuda_source.read(kernel.cu)
    names = entry_names.not_plain(text, entry_names.in_all(text, kernel.entries, launched))
    return _Source(text, kernel.cu, tuple(kernel.macros(dtype).items()), names, kernel.standard)


def _compiled(kernel: Kernel, dtype: DType, source: _Source, apart: bool = True) -> Module | Isolated:
    """The compiled `.cu`, to be executed in another process, or in this one."""
    module = _module(*source, apart)
    if isinstance(module, SpecError):
        raise module
    if isinstance(module, (NotOnCpu, CompileError)):
        raise _judged(kernel, dtype, module)
    return module


@cache
def _module(
    text: str, cu: Path, macros: tuple[tuple[str, str], ...], entries: tuple[str, ...], standard: str, apart: bool
) -> Module | Isolated | NotOnCpu | CompileError | SpecError:
    """The compiled `.cu`, or why there is none."""
    from cudalab.host.isolated import Isolated

    try:
        built = host.compile_source(
            text, name=cu.name, defines=dict(macros), include=cu.parent, entries=entries, standard=standard
        )
        return Isolated(built) if apart else Module(built)
    except CompilerFailed:  # nothing is known of the .cu: it is tried again
        raise
    except (NotOnCpu, CompileError, SpecError) as error:
        return error


def _judged(kernel: Kernel, dtype: DType, refusal: NotOnCpu | CompileError) -> NotOnCpu | CompileError:
    """What to say of a `.cu` that the CPU executor refuses, after nvcc was asked."""
    named, said = isinstance(refusal, NotOnCpu), nvcc.verdict(kernel, dtype)
    if said.error:
        lacking = _LACKING.search(said.error)
        header = (lacking[1] or lacking[2]) if lacking else ""
        if named and _OTHERS.match(header):
            remedy = "install its library, and export NVCC_APPEND_FLAGS=-I/path/to/its/include"
            return NotOnCpu(f"{refusal} (and not compiled by nvcc, which does not find <{header}>; {remedy})")
        also = f"{refusal}\n" if named else ""
        return CompileError(f"{also}{kernel.cu.name} does not compile:\n{said.error}")
    if said.architecture:
        reason = str(refusal) if named else f"the CPU executor rejects it: {first_error(str(refusal))}"
        return NotOnCpu(f"{reason} (compiled by nvcc for {said.architecture}, not run)", said.seconds)
    if named:
        return NotOnCpu(f"{refusal} (and not compiled by nvcc: {said.missing})")
    either = "Either the .cu has a mistake, or it uses a feature that the CPU executor lacks"
    code = cuda_source.blank_comments(cuda_source.read(kernel.cu))
    advice = compile_options.advice(str(refusal), code, kernel.flags)
    return CompileError(f"{refusal}\n{either}. nvcc could tell which: {said.missing}{advice}")


def first_error(text: str) -> str:
    """The first line of a compiler's message that is an error."""
    lines = text.splitlines()
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")
