"""Compare the lab's cold times with CUPTI's records of kernels, on an H200.

    python bench/second_clock.py [FILE]

Runs `cudalab bench` of six kernels at three sizes with `--cross-check cupti`, writes FILE (by default
bench/results/h200/engine/cupti.json) and prints the table. Exit code 1 if a row has no second time, or differs by more
than 2 % and 0.3 us from the start that all rows share. Some two minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cudalab
from cudalab.base import stats
from cudalab.engine.cross_check.cupti import COLD
from cudalab.results.record import CEILING, OK, Case, Results

FILE = Path(__file__).parent / "results" / "h200" / "engine" / "cupti.json"
KERNELS = ("gelu", "softmax", "layernorm", "sum", "transpose", "add2d")
SIZES = ("small", "large", "xlarge")
VARIANTS = ("pycuda", "torch_native")
SHARE, SECONDS = 0.02, 0.3e-6  # what the clocks may differ by: either is enough
SHORT = 20e-6  # seconds: rows whose difference is the start alone
HEAD = ["cold, µs", "cudalab", "CUPTI", "difference, µs", "without the start", "beyond"]


def measure(path: Path) -> Results:
    return cudalab.bench(
        *KERNELS, sizes=SIZES, only=VARIANTS, modes=["launch"], device="cuda", budget=0.1, cross_check="cupti",
        processes=1,
        output=path,
    )  # fmt: skip


def compared(run: Results) -> list[tuple[Case, float, float]]:
    """The rows that have both times, with these in seconds."""
    cases = [case for case in run.cases if case.times.get("cold") and COLD in case.cross]
    return [(case, stats.median(case.times["cold"]), float(case.cross[COLD])) for case in cases]


def start(run: Results) -> float:
    """Seconds that a pair of events counts and CUPTI does not: starting the first kernel and ending the last.

    The median difference of the SHORT rows, 0 without any: it is the same for all kernels, so that a row that differs
    by more or less than it is a disagreement of the clocks.
    """
    apart = [ours - theirs for _, ours, theirs in compared(run) if theirs < SHORT]
    return stats.median([apart]) if apart else 0.0


def beyond(ours: float, theirs: float, starting: float) -> bool:
    """Whether the two clocks disagree by more than the start."""
    return abs(ours - starting - theirs) > max(SHARE * theirs, SECONDS)


def rows(run: Results) -> list[list[str]]:
    """The table's rows, under HEAD."""
    starting = start(run)
    return [
        [
            f"`{case.kernel}` {case.size} `{case.label}`",
            *(f"{1e6 * seconds:.2f}" for seconds in (ours, theirs)),
            f"{1e6 * (ours - theirs):+.2f}",
            f"{round(100 * ((ours - starting) / theirs - 1), 2) + 0.0:+.2f} %",
            "beyond" if beyond(ours, theirs, starting) else "",
        ]
        for case, ours, theirs in compared(run)
    ]


def faults(run: Results) -> list[str]:
    """What is not as it should be: rows without a second time, and rows whose times differ too much."""
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
