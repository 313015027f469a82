"""Compare the lab's cold times with CUPTI's records of kernels, on an H200.

    python bench/second_clock.py [FILE]

Runs `cudalab bench` of six kernels at three sizes with `--cross-check cupti`, writes FILE (by default
bench/results/h200/engine/cupti.json) and prints the table. A pair of events counts starting the first kernel and ending
the last, and CUPTI does not; this start is the median difference of the two clocks on the same samples. Exit code 1 if
a row has no second time, or if its clocks differ from the start by more than 2 % and 0.3 us. Some three minutes.

The other columns tell what else differs between the table's time and CUPTI's: the process (cudalab's worker, and the
process of the cross-check before it records), and recording (the same process, while CUPTI records).
"""

from __future__ import annotations

import sys
from pathlib import Path

import cudalab
from cudalab.base import stats
from cudalab.engine.cross_check.cupti import BEFORE, COLD, EVENTS
from cudalab.results.record import CEILING, OK, Case, Results

FILE = Path(__file__).parent / "results" / "h200" / "engine" / "cupti.json"
KERNELS = ("gelu", "softmax", "layernorm", "sum", "transpose", "add2d")
SIZES = ("small", "large", "xlarge")
VARIANTS = ("pycuda", "torch_native")
SHARE, SECONDS = 0.02, 0.3e-6  # what the clocks may differ by: either is enough
HEAD = ["cold, µs", "cudalab", "before", "recording", "CUPTI", "start", "beyond"]


def measure(path: Path) -> Results:
    return cudalab.bench(
        *KERNELS, sizes=SIZES, only=VARIANTS, modes=["launch"], device="cuda", budget=0.1, cross_check="cupti",
        processes=1,
        output=path,
    )  # fmt: skip


def compared(run: Results) -> list[tuple[Case, float, float]]:
    """The rows that have both clocks' times of the same samples, with these in seconds: by events and by CUPTI."""
    cases = [case for case in run.cases if {COLD, EVENTS} <= case.cross.keys()]
    return [(case, float(case.cross[EVENTS]), float(case.cross[COLD])) for case in cases]


def start(run: Results) -> float:
    """Seconds that a pair of events counts and CUPTI does not; 0 without a row."""
    apart = [ours - theirs for _, ours, theirs in compared(run)]
    return stats.median([apart]) if apart else 0.0


def beyond(ours: float, theirs: float, starting: float) -> bool:
    """Whether the two clocks disagree by more than the start."""
    return abs(ours - starting - theirs) > max(SHARE * theirs, SECONDS)


def rows(run: Results) -> list[list[str]]:
    """The table's rows, under HEAD."""
    starting = start(run)
    found = []
    for case, ours, theirs in compared(run):
        seconds = (stats.median(case.times["cold"]), float(case.cross[BEFORE]), ours, theirs, ours - theirs)
        name = f"`{case.kernel}` {case.size} `{case.label}`"
        found.append([name, *(f"{1e6 * s:.2f}" for s in seconds), "beyond" if beyond(ours, theirs, starting) else ""])
    return found


def faults(run: Results) -> list[str]:
    """What is not as it should be: rows without a second time, and rows whose clocks differ too much."""
    timed = [case for case in run.cases if case.status in (OK, CEILING) and case.times]
    lacking = [case for case in timed if COLD not in case.cross]
    found = [f"{case.kernel} {case.size} {case.label}: {'; '.join(case.notes)}" for case in lacking]
    starting = start(run)
    return found + [
        f"{case.kernel} {case.size} {case.label}: {1e6 * ours:.2f} us by events, {1e6 * theirs:.2f} us by CUPTI"
        for case, ours, theirs in compared(run)
        if beyond(ours, theirs, starting)
    ]


def main(arguments: list[str]) -> int:
    run = measure(Path(arguments[0]) if arguments else FILE)
    table = [HEAD, *rows(run)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    found = faults(run)
    print(f"the start: {1e6 * start(run):.2f} us")
    print("\n".join(found) or "all within 2 % or 0.3 us of the start")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
