"""The gate: what `cudalab check` does on the host, for a `.cu` that may crash or never end.

Every mutant is compiled and run in a process of its own, forked from a server that has imported everything already;
the lab's own worker would start Python anew for each. What is done there is the lab's plan, job and sanitizer.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Literal

from cudalab import plan, results, source
from cudalab.devices import open_device
from cudalab.errors import CudalabError, SpecError
from cudalab.job import Job
from cudalab.plan import Group, Selection
from cudalab.results import Case
from cudalab.sanitize import Sanitizer
from cudalab.spec import Kernel

Outcome = Literal["wrong", "overrun", "failed", "sanitizer", "crashed", "timed out", "survived", "invalid"]
KILLS: tuple[Outcome, ...] = ("wrong", "overrun", "failed", "sanitizer", "crashed", "timed out")

SAMPLE = 1 << 20  # float32 values, all exponents among them; the user's check takes sixteen times as many
SILENCE = 300.0  # seconds of wall time: a mutant that waits for ever uses no processor time
LEAST, TIMES = 3.0, 3.0  # seconds of processor time: at least this, and so many times what the kernel itself takes
PRELOADED = ["scipy.special", "ml_dtypes", "cudalab.backends.host", "cudalab.job", "cudalab.plan", "cudalab.registry"]
HEADERS = ("*.h", "*.cuh")  # what a `.cu` may include from its own folder


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, the reason in words, and the processor time of its check in seconds.

    wrong: an output differs from the reference. overrun: it wrote beside its output, or into an input. failed: the
    host says why, such as a misaligned access or a barrier that is never complete. sanitizer: right so far, but
    `--sanitize` finds a fault. crashed: a signal ended its process. timed out: it took several times as long as the
    kernel itself. invalid: it does not compile, which says nothing.
    """

    outcome: Outcome
    reason: str = ""
    cost: float = 0.0


def judge_all(kernel: Kernel, texts: Iterable[tuple[str, bool]], jobs: int) -> Iterator[Verdict]:
    """Verdicts on versions of the kernel's `.cu`, in their order; `jobs` are at work at once.

    With each text comes whether it goes through the sanitizer if it is right so far.

    Raises SpecError if the kernel itself does not pass: nothing could then be learnt from its mutants.
    """
    itself = judge(kernel, source.read(kernel.cu), SILENCE)
    if itself.outcome != "survived":
        raise SpecError(
            f"{kernel.cu} does not pass itself ({itself.outcome}: {itself.reason}); see: "
            f"cudalab check {kernel.file} --only host --device cpu"
        )
    seconds = LEAST + TIMES * itself.cost
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda each: judge(kernel, each[0], seconds, sanitize=each[1]), texts)


def judge(kernel: Kernel, text: str, seconds: float, sanitize: bool = True) -> Verdict:
    """Verdict on `text` in the place of the kernel's `.cu`; it may use `seconds` of processor time.

    Without `sanitize` some survive that would be killed.
    """
    with tempfile.TemporaryDirectory(prefix="cudalab-mutant-", ignore_cleanup_errors=True) as folder:
        spec = _copy(kernel, text, Path(folder))
        ours, theirs = _server().Pipe(duplex=False)
        child = _server().Process(target=_child, args=(spec, theirs, seconds, sanitize), daemon=True)
        child.start()
        theirs.close()
        with ours:
            ended = ours.poll(SILENCE)  # it has answered, or closed its end by dying
            try:
                verdict = ours.recv() if ended else Verdict("timed out", f"no end within {SILENCE:g} s")
            except EOFError:
                child.join()
                verdict = _death(child.exitcode or 0, seconds)
        child.kill()
        child.join()
        return verdict


def _copy(kernel: Kernel, text: str, folder: Path) -> Path:
    """The spec and `text` as its `.cu` in `folder`, with the headers of the kernel's own folder."""
    for pattern in HEADERS:
        for header in kernel.cu.parent.glob(pattern):
            shutil.copy(header, folder)
    spec = folder / Path(kernel.file).name
    shutil.copy(kernel.file, spec)
    spec.with_suffix(".cu").write_text(text)
    return spec


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _death(code: int, seconds: float) -> Verdict:
    """Of a process that ended before it could answer."""
    if code == -signal.SIGXCPU:
        return Verdict("timed out", f"more than {seconds:.0f} s of processor time")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
    return Verdict("crashed", name)


def _child(spec: Path, answer: Connection, seconds: float, sanitize: bool) -> None:
    """Judge one mutant, in the process that it may bring down."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))  # SIGXCPU, later SIGKILL
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what a mutant prints is of no interest
        os.dup2(nothing, stream)
    os.environ["CUDALAB_CACHE"] = str(spec.parent / "cache")  # gone with the mutant
    answer.send(check(spec, sanitize))


def check(spec: Path, sanitize: bool) -> Verdict:
    """Verdict on the kernel of `spec`, from the cases of `cudalab check`, up to the first that is not right.

    Dtype by dtype, small inputs first: most mutants need no more than those.
    """
    try:
        groups = plan.checks([str(spec)], "all", sample=SAMPLE)
        groups.sort(key=lambda g: (g.kernel.dtypes.index(g.dtype.name), math.prod(g.shape)))
        device, _ = open_device("cpu")
        job = Job(device, Selection(only=("host",)), (), seed=0, budget=0.0, progress=lambda step: None)
        done: list[tuple[Group, list[Case]]] = []
        for group in groups:
            done.append((group, job.cases(group)))
            if case := _bad(done[-1][1]):
                return Verdict(_outcome(case), f"{group}, {case.variant}: {case.reason}")
        cost = time.process_time()
        if not sanitize:
            return Verdict("survived", cost=cost)
        with Sanitizer("cpu", "cpu", 0, SILENCE) as sanitizer:
            for group, cases in done:
                sanitizer.add(cases, group)
                if case := _bad(cases):
                    return Verdict("sanitizer", f"{group}, {case.variant}: {case.reason}")
    except CudalabError as error:  # the spec does not fit its `.cu` any more
        return Verdict("invalid", str(error))
    return Verdict("survived", cost=cost)


def _bad(cases: list[Case]) -> Case | None:
    return next((case for case in cases if case.status != results.OK), None)


def _outcome(case: Case) -> Outcome:
    if case.status == results.WRONG:
        return "wrong" if case.parity and case.parity.wrong else "overrun"
    return "failed" if "bind" in case.costs else "invalid"  # what was never bound does not compile
