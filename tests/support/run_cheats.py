"""Try every cheat of tests/support/cheating.py on this machine, and print what becomes of each.

    python tests/support/run_cheats.py [--device cuda] [--budget 0.1] [NAME ...]

With a GPU: kernels in one run, forms in another, those that replace functions in a run each; about four minutes. On
the CPU: the forms, and the checks. Exit code 1 if a cheat ended otherwise than expected, such as FASTER.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cheating import ABSENT, CHEATS, CHECK, CPU, GPU, LOADED, NOT_TRIED, TIMES, Cheat, Outcome, checked, runs, timed

from cudalab.device import cuda


def outcomes(cheats: Sequence[Cheat], device: str, budget: float) -> Iterator[tuple[Cheat, str, Outcome]]:
    """Each cheat with where it was judged and what became of it."""
    for cheat in cheats:
        if CHECK in cheat.where:
            yield cheat, CHECK, checked(cheat)
    where, size = (GPU, "timed") if device == "cuda" else (CPU, "small")
    here = [cheat for cheat in cheats if where in cheat.where or LOADED in cheat.where]
    for together in runs(here):
        found = timed(together, device, size, budget)
        for cheat in together:
            yield cheat, LOADED if LOADED in cheat.where else where, found[cheat.name]


def line(cheat: Cheat, where: str, outcome: Outcome) -> str:
    ratios = [f"{outcome.ratios[kind]:.3f}" if kind in outcome.ratios else "" for kind in TIMES]
    numbers = ",".join(map(str, cheat.numbers))
    said = " ".join(outcome.said.split())[-110:]
    bad = "" if outcome.verdict in (*cheat.expected, ABSENT) or cheat.limit else " !"
    cells = (f"{cheat.name:22}", f"{numbers:>5}", f"{where:10}", f"{outcome.verdict + bad:10}")
    return " ".join((*cells, *(f"{ratio:>7}" for ratio in ratios), said))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cheats; all of them by default")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu" if cuda.missing() else "cuda")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of sampling for each row")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - {cheat.name for cheat in CHEATS}:
        parser.error(f"no cheat named {', '.join(sorted(unknown))}")
    chosen = [cheat for cheat in CHEATS if not options.names or cheat.name in options.names]
    start, failed = perf_counter(), 0
    print("its medians as a share of the honest row's; ! is not as expected")
    print(f"{'cheat':22} {'of':>5} {'judged by':10} {'outcome':10}", *(f"{kind:>7}"[:10] for kind in TIMES))
    for cheat, where, outcome in outcomes(chosen, options.device, options.budget):
        print(line(cheat, where, outcome), flush=True)
        failed += not cheat.limit and outcome.verdict not in (*cheat.expected, ABSENT)
    for number, why in NOT_TRIED.items():
        print(f"{number}: not tried: {why}")
    print(f"{failed} not as expected; {perf_counter() - start:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
