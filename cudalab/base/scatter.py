"""How far GPU times of one process differ from those of another: what is expected before a run shows it.

`bench/spread.py` fits the numbers to committed runs; a test compares them with what it wrote.
"""

from __future__ import annotations

from math import inf, sqrt

NAMES = ("below 6 \u00b5s", "6 to 25 \u00b5s", "25 to 120 \u00b5s", "above 120 \u00b5s")
LIMITS = (6e-6, 25e-6, 120e-6, inf)  # seconds, of the classes of these names

COMPILER = "torch_compile"  # the backend whose code differs most between processes
# The standard deviation of a ratio of two times, by class; None: too few runs, so that the wide number below is kept.
RATIO: dict[str, tuple[float | None, ...]] = {
    "kernel": (0.0089, 0.0040, 0.0024, 0.0010),
    "compiled": (0.0086, 0.0032, None, None),
}
WIDE, WIDE_SECONDS = 0.0035, 6e-9  # of any time beside another of its process: a share, and seconds


def family(backend: str) -> str:
    """The key of RATIO for a backend. A user's callable may be what torch.compile made."""
    return "compiled" if backend in (COMPILER, "rival") else "kernel"


def place(seconds: float) -> int:
    """The class of a time, as its place in NAMES."""
    return next(i for i, limit in enumerate(LIMITS) if seconds < limit)


def expected(seconds: float, known: str = "") -> float:
    """The relative standard deviation between processes of a time beside others, as a share.

    `known`: a key of RATIO; "": nothing is known of such times, as of those of the host. What torch.compile makes has
    rare states that a few runs need not show, so its number is never below the wide one.
    """
    ratio = RATIO[known][place(seconds)] if known else None
    wide = WIDE + WIDE_SECONDS / seconds
    if ratio is None:
        return wide
    return max(ratio / sqrt(2), wide) if known == "compiled" else ratio / sqrt(2)
