"""The kernels of tests/data/kernels and their planted faults, checked in this process, which is quicker than a run."""

from __future__ import annotations

import runpy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cudalab import Kernel
from cudalab.device.cpu import Cpu
from cudalab.engine import plan
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.results.record import Case

FOLDER = Path(__file__).parents[1] / "data" / "kernels"
SAMPLE = 1 << 12  # values of "every exponent"; more of them are tried for the lab's kernels


@dataclass(frozen=True)
class Written:
    """A kernel as its author wrote it, and edits of its `.cu` that make it wrong: what is wrong then, old, new."""

    kernel: Kernel
    faults: dict[str, tuple[str, str]]


def load(name: str) -> Written:
    found: dict[str, Any] = runpy.run_path(str(FOLDER / f"{name}.py"))
    (kernel,) = (value for value in found.values() if isinstance(value, Kernel))
    return Written(replace(kernel, file=str(FOLDER / f"{name}.py")), found["FAULTS"])


def names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.py"))


def broken(name: str, fault: str, folder: Path) -> Kernel:
    """The kernel with a fault, in a folder of its own."""
    written = load(name)
    old, new = written.faults[fault]
    text = written.kernel.cu.read_text()
    assert text.count(old) >= 1, f"{name}.cu has no {old!r}"
    (folder / f"{name}.cu").write_text(text.replace(old, new))
    return replace(written.kernel, file=str(folder / f"{name}.py"))


def groups(kernel: Kernel, dtypes: str = "all") -> list[Group]:
    """What `cudalab check` looks at."""

    original = plan.named
    plan.named = lambda names: {kernel.name: kernel}  # type: ignore[assignment]
    try:
        return checks([kernel.name], dtypes, sample=SAMPLE)
    finally:
        plan.named = original


def rows(group: Group, only: tuple[str, ...] = ("host",)) -> dict[str, Case]:
    job = Job(Cpu(), Selection(only=only), (), 0, 0.01, lambda step: None)
    return {case.label: case for case in cases(job, group)}


def wrong(kernel: Kernel, dtypes: str = "all") -> str:
    """The first group in which a `host` row is WRONG or its launch fails, and the reason; "" if there is none."""
    for group in groups(kernel, dtypes):
        for case in rows(group).values():
            if case.status in ("WRONG", "error"):
                return f"{group}: {case.label}: {case.reason}"
    return ""
