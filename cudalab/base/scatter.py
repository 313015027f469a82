"""How far GPU times of one process differ from those of another: what is expected before a run shows it.

`bench/spread.py` fits the numbers to committed runs; a test compares them with what it wrote.
"""

from __future__ import annotations

from math import inf, sqrt

NAMES = ("below 6 \u00b5s", "6 to 25 \u00b5s", "25 to 120 \u00b5s", "above 120 \u00b5s")
LIMITS = (6e-6, 25e-6, 120e-6, inf)  # seconds, of the classes of these names

# The standard deviation of a ratio of two times, by family of variants and class. Those of `tuned` choose their code by
# the times that they take themselves, and processes may choose differently.
RATIO: dict[str, tuple[float, ...]] = {
    "kernel": (0.0107, 0.0058, 0.0033, 0.0012),
    "compiled": (0.0132, 0.0061, 0.0035, 0.0019),
    "tuned": (0.0196, 0.0119, 0.0060, 0.0021),
}
WIDE, WIDE_SECONDS = 0.0035, 6e-9  # of a time of which nothing is known: a share, and seconds
# Few samples of the host's time are taken, so processes differ mostly by the noise within them. How large it is depends
# on the run, not on the variant: for these times it is added to what is expected, see `estimate.over_processes`.
HOST = "host"


def family(label: str) -> str:
    """The key of RATIO for a variant. A user's callable may be what torch.compile made."""
    backend, _, mode = label.partition(":")
    if backend == "torch_compile" and mode:
        return "tuned"
    return "compiled" if backend in ("torch_compile", "rival") else "kernel"


def place(seconds: float) -> int:
    """The class of a time, as its place in NAMES."""
    return next(i for i, limit in enumerate(LIMITS) if seconds < limit)


def expected(seconds: float, known: str = "") -> float:
    """The relative standard deviation between processes of a time beside others, as a share.

    `known`: a key of RATIO; "" or HOST: nothing is known of it, of HOST except that the noise is added.
    """
    return RATIO[known][place(seconds)] / sqrt(2) if known in RATIO else WIDE + WIDE_SECONDS / seconds
