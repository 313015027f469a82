"""The `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks and is never timed.

What the CPU cannot run is compiled by nvcc, if there is one, and skipped. nvcc also tells a mistake in the `.cu` from
what the CPU executor lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

from cudalab import host
from cudalab.base.errors import CompileError, CudalabError, NotOnCpu, SpecError
from cudalab.device import nvcc
from cudalab.device.guard import GUARD
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, labelled

devices = ("cpu",)
timed = False
budget = "budgets"
RACED = 1 << 17  # bytes of all arrays up to which races are looked for
own_indexing = True


def missing(device: str) -> str | None:
    return host.compiler_missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def remarks(kernel: Kernel) -> list[str]:
    """What a reader of a row must know about how it was compiled."""
    return [f"compiled without {' '.join(kernel.flags)}: g++ has no such option"] if kernel.flags else []


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    # A race may give the right result in one order of the threads; CUDA promises no order.
    others: dict[str, host.Order] = {"forward": "forward", "reverse": "reverse", "shuffled": operands.seed}
    also = {
        f"with blocks and threads in {name} order": _bound(kernel, variant, dtype, operands, order)
        for name, order in others.items()
    }
    if len(configurations := kernel.configurations()) > 1:  # a GPU may use another than the default
        chosen = kernel.with_parameters(configurations[-1])
        also[f"as {labelled(variant, chosen.parameters)}"] = _bound(chosen, variant, dtype, operands, "alternating")
    entries = dict.fromkeys(launch.entry for launch in kernel.launches(variant, operands.named(kernel)))
    watched = _watched(kernel, dtype, operands, tuple(entries))  # begins now, so that both compile at once
    module = _compiled(kernel, dtype, tuple(entries))
    if watched and (races := watched.result()):
        also["under the race detector"] = _bound(kernel, variant, dtype, operands, "alternating", races)
    return replace(
        _bound(kernel, variant, dtype, operands, "alternating"), also=also, remarks=lambda: _new(module, entries)
    )


def _new(module: host.Module, entries: Iterable[str]) -> list[str]:
    """What was remarked of launches of entries and not yet told."""
    found = [entry for entry in entries if entry in module.remarks and (module, entry) not in _told]
    _told.update((module, entry) for entry in found)
    return [module.remarks[entry] for entry in found]


_told: set[tuple[host.Module, str]] = set()


def _bound(
    kernel: Kernel,
    variant: str,
    dtype: DType,
    operands: Operands,
    order: host.Order,
    watched: host.Module | None = None,
) -> Bound:
    def prepare(on: Operands) -> Callable[[], object]:
        launches, constants = kernel.launches(variant, on.named(kernel)), kernel.constants_of(on.named(kernel))
        together = any(launch.cooperative or launch.cluster for launch in launches)  # barriers unknown to the detector
        names = tuple(launch.entry for launch in launches)
        module = watched if watched and not together else _compiled(kernel, dtype, names)

        def run() -> None:
            for name, value in constants.items():  # other kernels may share the module
                module.set_constant(name, value)
            for launch in launches:
                grid, block = launch.dims
                try:
                    module.launch(
                        launch.entry, grid, block, launch.args, launch.shared, order, launch.cooperative, launch.cluster
                    )
                except NotOnCpu as refusal:
                    raise _judged(kernel, dtype, refusal) from None

        return run

    return writing(prepare, operands)


def alone(kernel: Kernel, entry: str, dtype: DType, operands: Operands) -> Bound:
    """An entry in one order of its threads, without the other ways to run it: for a call."""
    return _bound(kernel, entry, dtype, operands, "alternating")


def _watched(
    kernel: Kernel, dtype: DType, operands: Operands, launched: tuple[str, ...]
) -> Future[host.Module | None] | None:
    """The module that finds races, of the first dtype that is checked; None for large arrays.

    Also None where threads share nothing but their inputs. Races hardly depend on the dtype, and this compilation takes
    three times as long as the plain one.
    """
    size = sum(array.nbytes for array in operands.named(kernel).values())
    if size > RACED or _first.setdefault(kernel.file, dtype.name) != dtype.name:
        return None
    source = _source(kernel, dtype, launched)
    headers = cuda_source.local_headers(source[0], kernel.cu).values()
    if not any(_SHARING.search(text) for text in (source[0], *(h.decode(errors="replace") for h in headers))):
        return None
    return _races(*source)


def watched_module(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> host.Module | None:
    """The module that looks at each access; None where there is none. `launched`: functions that launches name."""
    return _races(*_source(kernel, dtype, launched)).result()


@cache
def _races(
    text: str, cu: Path, macros: tuple[tuple[str, str], ...], entries: tuple[str, ...]
) -> Future[host.Module | None]:
    """The `.cu` with the race detector, compiled beside the plain one."""

    def load() -> host.Module | None:
        if _UNSEEN.search(text):
            return None
        try:
            module = host.load(text, name=cu.name, defines=dict(macros), include=cu.parent, races=True, entries=entries)
            module.reach = GUARD
            return module
        except CudalabError:  # the plain one tells a mistake
            return None

    return _beside.submit(load)


# By which threads pass values to each other.
_SHARING = re.compile(r"\b(?:__shared__|atomic\w+|volatile|__threadfence\w*|__sync\w+|__shfl\w*|cooperative_groups)\b")
# What orders threads in ways that the race detector does not see.
_UNSEEN = re.compile(
    r"\bcuda::(?:barrier|pipeline|atomic|ptx|memcpy_async)|\b(?:__pipeline|__mbarrier|memcpy_async)|\bwmma\b"
)
_beside = ThreadPoolExecutor(1, "races")
_first: dict[str, str] = {}  # by spec, the dtype whose races are looked for


def _source(
    kernel: Kernel, dtype: DType, launched: tuple[str, ...]
) -> tuple[str, Path, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What is compiled: the text of the `.cu`, its path, macros, and functions that do not have a plain name."""
    text = cuda_source.read(kernel.cu)
    names = entry_names.not_plain(text, entry_names.in_all(text, kernel.entries, launched))
    return text, kernel.cu, tuple(kernel.macros(dtype).items()), names


def _compiled(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> host.Module:
    module = _module(*_source(kernel, dtype, launched))
    if isinstance(module, (NotOnCpu, CompileError)):
        raise _judged(kernel, dtype, module)
    if isinstance(module, SpecError):
        raise module
    return module


@cache
def _module(
    text: str, cu: Path, macros: tuple[tuple[str, str], ...], entries: tuple[str, ...]
) -> host.Module | NotOnCpu | CompileError | SpecError:
    """The compiled `.cu`, or why there is none."""
    try:
        return host.load(text, name=cu.name, defines=dict(macros), include=cu.parent, entries=entries)
    except (NotOnCpu, CompileError, SpecError) as error:
        return error


def _judged(kernel: Kernel, dtype: DType, refusal: NotOnCpu | CompileError) -> NotOnCpu | CompileError:
    """What to say of a `.cu` that the CPU executor refuses, after nvcc was asked."""
    named, said = isinstance(refusal, NotOnCpu), nvcc.verdict(kernel, dtype)
    if said.error:
        return CompileError(f"{kernel.cu.name} does not compile:\n{said.error}")
    if said.architecture:
        reason = str(refusal) if named else f"the CPU executor cannot take this: {first_error(str(refusal))}"
        return NotOnCpu(f"{reason} (compiled by nvcc for {said.architecture}, not run)", said.seconds)
    if named:
        return NotOnCpu(f"{refusal} (and not compiled: {said.missing})")
    either = "Either the .cu has a mistake, or it uses what the CPU executor lacks"
    return CompileError(f"{refusal}\n{either}. nvcc would tell: {said.missing}")


def first_error(text: str) -> str:
    """The first line of a compiler's message that is an error."""
    lines = text.splitlines()
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")
