"""Profile a kernel's variants in a child process; a variant that ends the child costs its own row only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

import msgspec

from cudalab.base import errors, scratch
from cudalab.base.child import Child, Ended, last
from cudalab.base.errors import CudalabError, InputError, Unavailable, need_seconds
from cudalab.device.arrays import torch_missing
from cudalab.engine import plan
from cudalab.engine.groups import Group, Work
from cudalab.engine.selection import Selection
from cudalab.tools.profile import events, found, ncu
from cudalab.tools.profile.child import Answer, Request
from cudalab.tools.profile.found import Profile, Row

RUNS = 10
TIMEOUT = 300.0  # seconds for all variants: torch.compile takes long
MAIN = "cudalab.tools.profile.child.main"


def profile(
    name: str,
    *,
    size: str = "",
    dtype: str = "",
    only: str = "",
    skip: str = "",
    device: str = "auto",
    seed: int = 0,
    runs: int = RUNS,
    counters: bool = True,
    timeout: float = TIMEOUT,
    output: str = "",
) -> Profile:
    """What one call of each variant of a kernel makes the machine do, counted over `runs` calls.

    `name`, `only`, `skip` and `device` are as in `cudalab.bench`. `size` is one of the kernel's sizes, `dtype` one of
    its dtypes ("": the spec's first). `counters`: add ncu's on a GPU, if it is installed. `output` is a file for a
    Chrome trace of one call of each. `timeout` is seconds for all variants, and once more for the counters.
    Raises CudalabError for bad input, or without PyTorch, whose profiler counts.
    """
    group, selection = _chosen(name, size, dtype, only, skip)
    if runs < 1:
        raise InputError(f"runs is {runs}; give at least 1")
    need_seconds("timeout", timeout, ", or inf")
    if reason := torch_missing("cpu"):
        raise Unavailable(f"kernels and operators are counted by PyTorch's profiler: {reason}")
    trace = str(events.free(output)) if output else ""
    work = Work.on(group, (), False)
    request = Request(work, device, selection.only, selection.skip, seed, runs, trace)
    report = Profile(group.name, group.size, group.shape, group.dtype.name)
    _record(report, request, timeout)
    if trace and not Path(trace).is_file():
        report.notes.append(f"no trace was written to {output}")
    if report.device == "cuda" and counters:
        try:
            _count(report, request, timeout)
        except Unavailable as error:
            report.notes.append(str(error))
    order = [variant.label for variant in selection.variants(group, report.device)]
    report.rows.sort(key=lambda row: order.index(row.label))
    return report


def _chosen(name: str, size: str, dtype: str, only: str, skip: str) -> tuple[Group, Selection]:
    selection = Selection.of(only, skip)
    kernel = next(iter(plan.kernels_by_name((name,)).values()))
    groups = plan.groups((name,), size or next(iter(kernel.sizes)), dtype)
    if len(groups) != 1:
        raise InputError(f"{len(groups)} sizes and dtypes are given; give one, such as --size small --dtype float32")
    selection.check(groups)
    return groups[0], selection


def _record(report: Profile, request: Request, timeout: float) -> None:
    """Add the rows of all variants. One that ends the child gets an error row, and the rest a new child."""
    while True:
        answers, end = _watched((), request, timeout, {})
        rows, at_work = [answer.row for answer in answers if answer.row], ""
        for answer in answers:
            if answer.error:
                raise getattr(errors, answer.kind, CudalabError)(answer.error)
            if answer.device:
                report.device, report.name = answer.device, answer.name
            at_work = "" if answer.row else answer.begun or at_work
        if end and at_work:
            rows.append(Row(at_work, found.ERROR, end))
        report.rows += rows
        if not end:
            return
        if not rows:
            raise CudalabError(f"no variant was profiled: {end}")
        request.work.omit = tuple(row.label for row in report.rows)


def _count(report: Profile, request: Request, timeout: float) -> None:
    """Add ncu's counters to the rows. Raises Unavailable if ncu is missing, has no permission, or fails."""
    good = [row for row in report.rows if row.status == found.OK]
    if reason := ncu.missing():
        raise Unavailable(reason)
    bad = tuple(row.label for row in report.rows if row.status != found.OK)
    work = msgspec.structs.replace(request.work, omit=bad)
    asked = msgspec.structs.replace(request, work=work, trace="", counters=True)
    with scratch.folder() as folder:
        log = folder / "log"
        # ncu waits for each kernel to end: one that holds the queue until the host releases it never would.
        answers, end = _watched(ncu.command(log), asked, timeout, {"CUDALAB_BLOCKING": "0"})
        text = log.read_text(errors="replace") if log.is_file() else ""
    if end and not text:
        raise Unavailable(f"no counters: the run under ncu failed: {end}")
    kernels = ncu.read(text)
    for label, part in ncu.by_variant(kernels, [answer.row.label for answer in answers if answer.row]).items():
        next(row for row in good if row.label == label).counters = part


def _watched(
    prefix: Sequence[str], request: Request, timeout: float, environment: Mapping[str, str]
) -> tuple[list[Answer], str]:
    """The child's answers, and how it ended if it failed."""
    answers: list[Answer] = []
    deadline = monotonic() + timeout
    with Child[Answer](MAIN, answers=Answer, prefix=prefix, env={**os.environ, **environment}) as child:
        child.send(request)
        try:
            while True:
                answers.append(child.receive(deadline - monotonic()))
        except Ended as ended:
            if ended.hung:
                return answers, f"it did not end within {timeout:g} s"
            words = last(ended.said)
            end = f"the process {ended.how}" + (f"; its last output: {words}" if words else "")
            return answers, "" if answers and answers[-1].done else end
