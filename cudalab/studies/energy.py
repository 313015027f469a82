"""Is the fastest GELU also the one that needs the least energy?

A form that moves fewer bytes takes less time, but it may draw more power meanwhile. So each form of GELU runs for
seconds, and the card's own counter says what a call costs. What the card draws without work is part of each number: a
slow form pays for it longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cudalab.base import numbers, stats
from cudalab.call import kernel as kernels
from cudalab.results import record
from cudalab.results.record import Case, Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import NO_KERNEL, Lab
from cudalab.study.load import Load

Form = Callable[[Any], Any]
GELU = kernels.by_name("gelu")
ENERGY = {stats.FASTER: "LESS", stats.SLOWER: "MORE", stats.SAME: stats.SAME, stats.UNCLEAR: stats.UNCLEAR}


def eager(lab: Lab) -> Form:
    assert GELU.torch is not None
    return GELU.torch


def native(lab: Lab) -> Form:
    form: Form = lab.torch().nn.functional.gelu
    return form


def entry(name: str) -> Callable[[Lab], Form]:
    """One entry of gelu.cu, whatever the size."""
    return lambda lab: replace(GELU, called=lambda x: name)


def called(form: Callable[[Lab], Form]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        torch = lab.torch()
        x = lab.once("x", lambda: torch.randn(lab["shape"], device=lab.where))
        function, last = form(lab), [None]

        def run() -> None:
            last[0] = function(x)

        load, notes = Load(lab, run), list[str]()
        clocks = {"busy": lambda: load.sample(lab["load_s"])}
        if energy := load.energy(notes):
            clocks[record.ENERGY] = energy.sample

        def afterwards() -> dict[str, float]:
            return load.condition() | dict(energy.quantities() if energy else {})

        return Work(run, lambda: last[0], clocks, afterwards=afterwards, notes=notes)

    return make


def finding(run: Results) -> str:
    """How many times the time and the energy of the fastest form the others need, at each size."""
    parts = []
    for size in says.sizes(run):
        rows = [c for c in run.cases if c.size == size and c.times.get(record.ENERGY)]
        if len(rows) < 2:
            continue
        best = min(rows, key=lambda case: case.median("busy") or 0.0)
        said = [_beside(run, case, best) for case in rows if case is not best]
        joules = 1e3 * (best.median(record.ENERGY) or 0.0)
        parts.append(f"at {size} {best.label}, the fastest, takes {numbers.three(joules)} mJ a call; {', '.join(said)}")
    return "; ".join(parts) or "no energy was measured: it needs a GPU with NVML's energy counter"


def _beside(run: Results, case: Case, best: Case) -> str:
    """How many times as long a form takes as the fastest one, and how many times its energy, each with its verdict."""
    energy, longer = run.ratio(best, case, record.ENERGY), says.longer(run.ratio(best, case, "busy"))
    factor = numbers.with_ends(says.inverse(energy))
    return f"{case.label} {longer} as long with {ENERGY[energy.verdict()]} energy: x {factor}"


study = Study(
    file=__file__,
    summary="GELU's forms by time and by energy: five kernels, one of PyTorch's, and each entry of the lab's",
    sizes={
        "xlarge": {"shape": (1024, 3, 224, 224), "load_s": 0.25},
        "large": {"shape": (32, 3, 224, 224), "load_s": 0.25},
        "tiny": {"shape": (128, 64), "load_s": 0.005},
    },
    defaults={"cuda": ("xlarge",), "cpu": ("tiny",)},
    variants=(
        Variant("eager", called(eager)),
        Variant("F.gelu", called(native)),
        *(Variant(name, called(entry(name)), ("cuda",), NO_KERNEL) for name in GELU.entries),
    ),
    baseline="eager",
    kinds=("busy", record.ENERGY),
    rounds=3,  # of 3 s for each variant
    finding=finding,
    kernels=("gelu",),
    about="busy: time of a run after that much load of the same kind (load s), without a gap; on a GPU between "
    "events.\n"
    "energy: mJ a run of the whole card, by NVML's counter, in windows of 2 s; nothing is subtracted. energy W: power "
    "in the windows, idle W: without work.\n"
    "On a CPU, or without NVML's counter, no energy is measured.",
)
