"""The gate: what `cudalab check` does on the host, for a `.cu` that may crash or never end.

Every mutant is compiled and run in a process of its own, forked from a server that has imported everything already;
the lab's own worker would start Python anew for each. That process runs the lab's plan, job and sanitizer.
"""

from __future__ import annotations

import gc
import itertools
import math
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Literal

from cudalab import host
from cudalab.base.errors import CudalabError, SpecError
from cudalab.checks import hard_inputs
from cudalab.device.open import open_device
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.spec import cuda_source
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Kernel
from cudalab.tools.sanitize import Sanitizer

Outcome = Literal["wrong", "overrun", "failed", "sanitizer", "crashed", "timed out", "survived", "invalid"]
KILLS: tuple[Outcome, ...] = ("wrong", "overrun", "failed", "sanitizer", "crashed", "timed out")

SAMPLE = 1 << 20  # float32 values, all exponents among them; survivors meet sixteen times as many, as in the check
SILENCE = 300.0  # seconds of wall time: a mutant that waits for ever uses no processor time
LEAST, TIMES = 2.0, 4.0  # limits of a group of cases: seconds of processor time, and multiples of the kernel's own time
PRELOADED = [
    "scipy.special", "ml_dtypes", "cudalab.backends.host", "cudalab.engine.kernel_round", "cudalab.engine.plan",
    "cudalab.spec.find", "cudalab.tools.sanitize", __name__, "__main__",
]  # fmt: skip
SAME = "the compiler makes the same machine code of it"


@dataclass(frozen=True)
class Verdict:
    """The outcome for a mutant, the reason in words, and the processor time of each group of cases in seconds.

    wrong: an output differs from the reference. overrun: it wrote beside its output, or into an input. failed: the
    host says why, such as a misaligned access or a barrier that is never complete. sanitizer: right so far, but
    `--sanitize` finds a fault. crashed: a signal ended its process. timed out: it took several times as long as the
    kernel itself for one of the groups. invalid: it does not compile, which says nothing.
    """

    outcome: Outcome
    reason: str = ""
    costs: tuple[float, ...] = ()


def judge_all(kernel: Kernel, versions: Iterable[tuple[str, str | None, str]], jobs: int) -> Iterator[Verdict]:
    """Verdicts on versions of the kernel, each as (text, twin, file) for `judge`, in their order; `jobs` at a time.

    Raises SpecError if the kernel itself does not pass: nothing could then be learnt from its mutants.
    """
    text = kernel.cu.read_text(encoding="utf-8")
    itself = judge(kernel, text, (SILENCE,), text)
    if itself.outcome != "survived":
        raise SpecError(
            f"{kernel.cu} does not pass itself ({itself.outcome}: {itself.reason}); see: "
            f"cudalab check {kernel.file} --only host --device cpu"
        )
    limits = [LEAST + TIMES * cost for cost in itself.costs]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda each: judge(kernel, each[0], limits, *each[1:]), versions)


def judge(kernel: Kernel, text: str, limits: Sequence[float], twin: str | None = None, file: str = "") -> Verdict:
    """Verdict on the kernel with `text` as its `file`: a header's path in the kernel's folder, or "" for the `.cu`.

    `limits` are seconds of processor time for each group of cases, in their order; the last one holds for all further
    groups. `twin` is the original, padded so that all code has the same lines and columns. A mutant without one is
    known to survive: it only goes through the cases of the check, and not through the sanitizer, which takes longer
    than all the rest.
    """
    with tempfile.TemporaryDirectory(prefix="cudalab-mutant-", ignore_cleanup_errors=True) as folder:
        spec = _copy(kernel, Path(folder))
        place = spec.parent / file if file else spec.with_suffix(".cu")
        place.write_text(text, encoding="utf-8")
        ours, theirs = _server().Pipe(duplex=False)
        child = _server().Process(target=_child, args=(spec, place, theirs, limits, twin), daemon=True)
        child.start()
        theirs.close()
        with ours:
            ended = ours.poll(SILENCE)  # it has answered, or closed its end by dying
            try:
                verdict = ours.recv() if ended else Verdict("timed out", f"no end within {SILENCE:g} s")
            except EOFError:
                child.join()
                verdict = _death(child.exitcode or 0)
        child.kill()
        child.join()
        return verdict


def _copy(kernel: Kernel, folder: Path) -> Path:
    """The spec, its `.cu`, and what belongs to them and lies beside or below, in `folder`; the copy of the spec."""
    home = kernel.cu.parent
    others = list(cuda_source.local_headers(kernel.cu.read_text(encoding="utf-8"), kernel.cu))
    others += kernel.form_files.values()
    for path in (Path(kernel.file), kernel.cu, *(other for other in others if other.is_relative_to(home))):
        place = folder / path.relative_to(home)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder / Path(kernel.file).name


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _death(code: int) -> Verdict:
    """Verdict on a process that ended before it could answer."""
    if code in (-signal.SIGPROF, -signal.SIGXCPU):
        return Verdict("timed out", "several times the processor time that the kernel itself takes")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
    return Verdict("crashed", name)


def _child(spec: Path, place: Path, answer: Connection, limits: Sequence[float], twin: str | None) -> None:
    """Judge one mutant, in the process that it may bring down."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(SILENCE), int(SILENCE)))  # for the compiler too, which inherits it
    gc.freeze()  # the lab collects garbage after each group; this skips what the server has imported
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # discard what a mutant prints
        os.dup2(nothing, stream)
    os.environ["CUDALAB_CACHE"] = str(spec.parent / "cache")  # gone with the mutant
    answer.send(check(spec, place, limits, twin))


class _Killed(Exception):
    """One of the cases is not right."""

    def __init__(self, outcome: Outcome, group: Group, case: Case) -> None:
        super().__init__(outcome)
        self.verdict = Verdict(outcome, f"{group}, {case.variant}: {case.reason}")


def check(spec: Path, place: Path, limits: Sequence[float], twin: str | None) -> Verdict:
    """Verdict on the kernel of `spec`, from the cases of `cudalab check`, up to the first that is not right.

    `place` is the file with the fault, the `.cu` or a header.

    The cases run dtype by dtype, small inputs first. Before them run the cases of one dtype without the kernel's tuned
    forms, which take another compilation: these are enough to kill most mutants.
    """
    try:
        groups = checks([str(spec)], "all", sample=SAMPLE)
        groups.sort(key=lambda g: (g.kernel.dtypes.index(g.dtype.name), math.prod(g.shape)))
        device, _ = open_device("cpu")
        job = Job(device, Selection(only=("host",)), (), seed=0, budget=0.0, progress=lambda step: None)
        kernel, costs = groups[0].kernel, []
        for group, limit in zip(groups, _repeated(limits)) if kernel.tunables else ():
            if group.dtype == groups[0].dtype and not group.values:
                default = tuple((entry, kernel.parameters) for entry in kernel.entries)
                _run(job, replace(group, forms=default), limit)
        with nullcontext() if twin is None else Sanitizer("cpu", "cpu", 0, SILENCE) as sanitizer:
            for _, of_dtype in itertools.groupby(zip(groups, _repeated(limits)), lambda pair: pair[0].dtype):
                done = [(group, *_run(job, group, limit)) for group, limit in of_dtype]
                costs += [cost for _, _, cost in done]
                for group, cases, _ in done if sanitizer else ():
                    sanitizer.add(cases, group)
                    if case := _bad(cases):
                        raise _Killed("sanitizer", group, case)
        if twin is None or same_code(kernel, place, twin):
            return Verdict("survived", SAME if twin else "", tuple(costs))
        for group in checks([str(spec)], "all"):
            if group.values == hard_inputs.SAMPLE:
                _run(job, group, SILENCE)
        return Verdict("survived", costs=tuple(costs))
    except _Killed as killed:
        return killed.verdict
    except CudalabError as error:  # the spec does not fit its `.cu` any more
        return Verdict("invalid", str(error))


def _repeated(limits: Sequence[float]) -> Iterator[float]:
    """The limits, then the last one without end."""
    return itertools.chain(limits, itertools.repeat(limits[-1]))


def _run(job: Job, group: Group, limit: float) -> tuple[list[Case], float]:
    """Rows of a group and the processor time that they took; after `limit` seconds the system ends the process."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    cases = cases_of(job, group)
    signal.setitimer(signal.ITIMER_PROF, 0)
    if case := _bad(cases):
        raise _Killed(_outcome(case), group, case)
    return cases, time.process_time() - start


def same_code(kernel: Kernel, place: Path, twin: str) -> bool:
    """Whether the compiler makes the same code with `twin` as the text of `place`, for all dtypes and forms.

    `twin` is written to `place` itself, since the compiler puts a header's path into its output.
    """
    found = kernel.configurations()
    chosen = (kernel.with_parameters(parameters) for parameters in (found[0], found[-1]))
    forms = [each.macros(dtype(name)) for each in chosen for name in kernel.dtypes]

    def made(text: str, defines: Mapping[str, str]) -> bytes:
        place.write_text(text, encoding="utf-8")
        code = cuda_source.read(kernel.cu)
        return host.build(code, name=kernel.cu.name, defines=defines, include=kernel.cu.parent).read_bytes()

    text = place.read_text(encoding="utf-8")
    try:
        return all(made(text, each) == made(twin, each) for each in forms)
    finally:
        place.write_text(text, encoding="utf-8")


def _bad(cases: list[Case]) -> Case | None:
    return next((case for case in cases if case.status != record.OK), None)


def _outcome(case: Case) -> Outcome:
    if case.status == record.WRONG:
        return "wrong" if case.parity and case.parity.wrong else "overrun"
    return "failed" if "bind" in case.costs else "invalid"  # variants that were never bound do not compile
