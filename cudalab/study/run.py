"""`cudalab study` in the parent process: an engine session whose groups are a study's workloads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError, need_seconds, unknown
from cudalab.base.globs import fits, split
from cudalab.engine.options import BUDGET, File, as_text, claimed, setup_of
from cudalab.engine.progress import Report, ignore
from cudalab.engine.selection import Selection
from cudalab.engine.session import Session, Told, Words
from cudalab.engine.supervisor import TIMEOUT
from cudalab.results.record import Results
from cudalab.spec import find
from cudalab.study import found
from cudalab.tools.gpus import asked

MANY_ROUNDS = 10  # a study that asks for fewer is slow, and one process measures it unless more are asked for


def command_for(name: str) -> Callable[..., Results]:
    """`study` of one name, as a command without arguments. Raises NotFound for a wrong name."""
    found.study(name)
    return partial(study, name)


def study(
    name: File,
    *,
    sizes: Words = "",
    settings: Mapping[str, Any] | None = None,
    only: Words = "",
    skip: Words = "",
    device: str | int = "auto",
    seed: int | None = None,
    budget: float = BUDGET,
    processes: int = 0,
    quick: bool = False,
    timeout: float = TIMEOUT,
    seconds: float | None = None,
    progress: Report = ignore,
    output: File = "",
    resume: File = "",
    ready: Told = lambda machine: None,
    gpus: str = "",
    ray: str = "",
) -> Results:
    """Run a study, by its name or by the path of its file: compare what its variants compute, then time them.

    `sizes` is a comma-separated list of the study's, or a sequence ("": those meant for the device; "all"), `settings`
    are what --set takes, by name, `only` and `skip` globs on the variants' labels. `processes` 0 is one process for a
    study whose least number of rounds is below MANY_ROUNDS, since a run of its work takes seconds. The other arguments
    and the errors are those of `cudalab.bench`; on several GPUs, each size is measured on one.
    """
    name = os.fspath(name)
    chosen = found.study(name)
    processes, budget = claimed(processes, quick, budget)
    if chosen.rounds < MANY_ROUNDS and not resume:
        processes = processes or 1
    given = {key: str(value) for key, value in (settings or {}).items()}
    options = as_text({
        "study": name, "sizes": sizes, "settings": found.chosen(chosen, given), "only": only, "skip": skip,
        "modes": "launch", "device": device, "seed": seed, "budget": budget, "order": "shuffled",
        "processes": processes, "timeout": timeout, "baseline": chosen.baseline, "kinds": ",".join(chosen.kinds),
    }, resume)  # fmt: skip
    need_seconds("budget", budget)
    selection = Selection(*(split(options[word]) for word in ("only", "skip")))
    path = str(Path(name).resolve()) if find.is_path(name) else ""  # a worker may have another folder

    def planned(kind: str) -> list[found.Workload]:
        if not kind and not options["sizes"]:  # which are the device's
            return []
        workloads = found.workloads(chosen, options["sizes"], options["settings"], kind, path)
        _check(selection, workloads)
        return workloads

    # Raise what is wrong on any device before a worker starts.
    _check(selection, found.workloads(chosen, options["sizes"] or "all", options["settings"], "cpu"))
    setup = setup_of(options, ("launch",), [found.Workload(chosen, "")])
    session = asked(gpus, ray).get("session", Session) if gpus or ray else Session
    run = session("study", options, setup, selection, timeout, progress, output or resume, seconds=seconds)
    return run.measure(planned, resume, ready)


def _check(selection: Selection, workloads: list[found.Workload]) -> None:
    """Raise NotFound for a glob that fits no variant of these, InputError if they leave none."""
    labels = list(dict.fromkeys(v.label for workload in workloads for v in workload.variants()))
    for pattern in (*selection.only, *selection.skip):
        if not any(fits(label, [pattern]) for label in labels):
            raise unknown(f"variant of {workloads[0].name}", pattern, labels)
    if not any(True for workload in workloads for _ in selection.variants(workload)):
        raise InputError(f"no variant is left to run of {', '.join(labels)}; check --only and --skip")
