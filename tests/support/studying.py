"""The lab's studies in this process, on the CPU, at tiny sizes."""

from __future__ import annotations

import importlib

from findings import run_of

from cudalab.device.cpu import Cpu
from cudalab.engine.job import Job
from cudalab.engine.selection import Selection
from cudalab.results.record import Case, Results
from cudalab.study import Study, engine, found
from cudalab.study.lab import Lab


def module(name: str):
    return importlib.import_module(f"cudalab.studies.{name.replace('-', '_')}")


def workload(study: str | Study, size: str = "tiny", **settings) -> found.Workload:
    study = found.study(study) if isinstance(study, str) else study
    return found.Workload(study, size, {**study.settings, **settings})


def tiny(name: str) -> list[str]:
    """The sizes of a study that are small enough for a test."""
    return [size for size in found.study(name).sizes if size.startswith("tiny")]


def a_lab(name: str, size: str = "tiny", **settings) -> Lab:
    return Lab(Cpu(), workload(name, size, **settings), seed=0, tick=lambda phase: None)


def measured(study: str | Study, sizes=("tiny",), progress=lambda step: None, **settings) -> Results:
    """A run of a study whose samples are short."""
    job = Job(Cpu(), Selection(), ("launch",), 0, 1e-3, progress)
    works = [workload(study, size, **settings) for size in sizes]
    cases = [case for work in works for case in engine.cases(job, work)]
    return run_of(works[0].study, cases, "cpu")


def rows(run: Results, size: str = "tiny") -> dict[str, Case]:
    return {case.label: case for case in run.cases if case.size == size}
