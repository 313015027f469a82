"""Runs of studies with chosen times, and their findings without the digits of intervals."""

from __future__ import annotations

import re

from cudalab.results import record
from cudalab.results.record import Case, Machine, Results
from cudalab.study import Study, found

RATIO = re.compile(r"([\d.,]+) times \([\d.,]+ to [\d.,]+, (FASTER|SAME|SLOWER|UNCLEAR)\)")


def timed(name: str, label: str, size: str, quantities=None, **times) -> Case:
    """A row with ten equal rounds of each kind of time, or with these rounds of one sample each."""
    rounds = {
        kind: [[s] for s in (value if isinstance(value, list) else [value] * 10)] for kind, value in times.items()
    }
    return Case(name, size, (), "float32", label, times=rounds, quantities=quantities or {})


def run_of(name: str | Study, cases: list[Case], device: str = "cuda", **options) -> Results:
    study = found.study(name) if isinstance(name, str) else name
    options = {"study": study.name, "kinds": ",".join(study.kinds), "baseline": study.baseline, **options}
    return Results(record.FORMAT, record.VERSION, "", options, Machine(device, "a machine"), cases=cases)


def told(run: Results) -> str:
    """The study's finding; each ratio becomes its value to three digits and its verdict: "1.25 FASTER"."""
    said = found.study_of(run).finding(run)
    return RATIO.sub(lambda ratio: f"{float(ratio[1].replace(',', '')):.3g} {ratio[2]}", said)
