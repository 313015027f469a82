"""How long must a GPU work before its times are those that it keeps?

A GPU that rests lowers its clock, a cold one can go above what it keeps when hot, and one that draws all the power it
may lowers the clock again. So the same kernel takes different times right after a rest, after 10 ms of work (which is
what a short benchmark sees) and after seconds. CPUs do the same, with turbo modes and heat. Results that do not state
the span of load mislead.
"""

from __future__ import annotations

from collections.abc import Callable

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.load import Load

SPANS = {"idle": 0.0, "10 ms": 0.01, "0.1 s": 0.1, "1 s": 1.0, "3 s": 3.0, "10 s": 10.0}  # of load before the samples
ROWS = 64  # of the product that are compared
SHORT, USUAL = 0.1, 3.0  # seconds: the longest spans that the tiny size takes, and that all but `long` take


def after(seconds: float) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        """A matrix product of the same random numbers in all variants; zeros would need less power."""
        torch = lab.torch()
        n, dtype = lab["n"], getattr(torch, lab["dtype"])
        a, b = lab.once("factors", lambda: [torch.randn(n, n, device=lab.where).to(dtype) for _ in "ab"])
        out = torch.empty_like(a)

        def run() -> None:
            torch.matmul(a, b, out=out)

        load = Load(lab, run)
        clocks = {"busy": lambda: load.sample(seconds, lab["rest_s"])}
        return Work(run, lambda: out[:ROWS], clocks, afterwards=load.condition)

    return make


def finding(run: Results) -> str:
    """Compare the longest load with a rest."""
    parts = []
    for size in says.sizes(run):
        last = [c for c in run.cases if c.size == size and c.times][-1]
        ratio = says.speedup(run, last)
        if ratio is None:
            continue
        said = (
            f"a matrix product at {size} is {says.in_words(ratio)} as fast after {last.label} of load as after a rest"
        )
        hertz = [says.counted(run, size, label, "sm_hz") for label in (last.label, "idle")]
        if all(hertz):
            said += ", the clock at " + " instead of ".join(f"{h / 1e6:,.0f}" for h in hertz if h) + " MHz"
        parts.append(said)
    return "; ".join(parts)


LONG = ("large", "small", "long")
study = Study(
    file=__file__,
    summary="one kernel's time after a rest and after 10 ms to 3 s of load, with clock, power and temperature",
    sizes={
        "large": {"n": 8192, "dtype": "bfloat16", "rest_s": 0.5},
        "long": {"n": 8192, "dtype": "bfloat16", "rest_s": 0.5},
        "small": {"n": 512, "dtype": "float32", "rest_s": 0.5},
        "tiny": {"n": 64, "dtype": "float32", "rest_s": 0.01},
    },
    defaults={"cuda": ("large",), "cpu": ("small",)},
    variants=tuple(
        Variant(label, after(seconds), sizes=() if seconds <= SHORT else LONG if seconds <= USUAL else LONG[-1:])
        for label, seconds in SPANS.items()
    ),
    baseline="idle",
    kinds=("busy",),
    rounds=7,  # of 7 s each
    finding=finding,
    about="long: also after 10 s of load; a round takes 18 s.\n"
    "busy: time of a run in the 8 ms after the load, without a gap; on a GPU between events.\n"
    "Each sample begins with a rest, so that no variant runs under the load of the one before it. The card "
    "stays warm.\n"
    "Clock, power and temperature: medians of NVML's readings during the samples. On a CPU they are not read, "
    "and other\n"
    "programs affect the times.",
)
