"""How far worker processes differ from each other, from committed runs: python bench/spread.py [FILE...]

Prints, for each class of time, the expected deviation s0 of a ratio with its degrees of freedom d0, and how often the
interval of a run that was not used for the fit holds the truth. Writes bench/results/h200/engine/spread.json; the
numbers of `cudalab.base.scatter` are its `s0` (a test compares them). FILEs are runs of three processes or more;
without any: those in bench/results/h200/pairs, and the run in bench/results/h200/against.

Every two variants of a group give one ratio for each process: the midmean over rounds, as the lab computes it. Cold
times only. Runs of one `.cu` are repeats. `max_autotune` chooses its code anew on each machine, and is left out.

1. Likely: the variance s^2 of a ratio between the processes of a run, at least the noise within them, is s0^2 times an
   F variable with d and d0 degrees of freedom (Smyth, 2004). The most likely s0 by class of the shorter time, with the
   d0 of the lab (`estimate.KNOWN`); `d0` is the most likely one where both are free.
2. Scale: with the likely s0 the lab's intervals hold too much, since they allow for more than s0: the clock's step, the
   noise, and the run's own s^2. So each s0 is multiplied by the smallest of SCALES with which 95 % of them hold the
   mean of their repeats, in all classes together. A class without repeats keeps the likely s0; one with few
   ratios has no number.
3. Coverage: each run in turn is left out of 1 and 2. Its intervals should hold the mean over the m processes of its
   repeats. That mean has an error too, so an interval of n processes is widened by sqrt(1 + n / m).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

from cudalab.base import scatter
from cudalab.base.estimate import KNOWN, Estimate, midmean, over_processes
from cudalab.results import file
from cudalab.results.record import Results

H200 = Path(__file__).parent / "results" / "h200"
WRITTEN = H200 / "engine" / "spread.json"
KIND = "cold"
CHOOSES = "max_autotune"  # the variant of torch.compile whose code depends on the machine
LEAST = 3  # processes of a run
ENOUGH = 12  # ratios of a class
HOLDS = 0.95
SCALES = np.arange(0.5, 1.01, 0.05)
S0 = np.geomspace(1e-4, 0.1, 400)
D0 = np.array([0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 16, 99])

Name = tuple[str, ...]
Class = tuple[str, int]  # keys of `scatter.RATIO`: the family, and the place of the class of time


@dataclass(frozen=True)
class Found:
    """The ratio of two variants in the processes of one run, `name` being the same in repeats."""

    run: int
    name: Name
    group: Class
    values: list[Estimate]  # logarithms, one a process
    bound: float  # of the clock's step

    @property
    def variance(self) -> float:
        between = float(np.var([v.value for v in self.values], ddof=1))
        return max(between, float(np.mean([v.variance for v in self.values])), 1e-12)

    def holds(self, known: list[float], s0: float) -> bool:
        """Whether the interval, for this expected deviation, holds the mean of the values of the repeats."""
        found = over_processes([v.value for v in self.values], self.values, s0)
        reach = found.reach * sqrt(1 + len(self.values) / len(known)) + self.bound
        return bool(abs(found.value - np.mean(known)) <= reach)


def ratios(run: Results, number: int) -> Iterator[Found]:
    """All ratios of two variants of one group, as far as both have rounds in every process."""
    for group, cases in run.groups().items():
        source = run.sources.get(f"{group[0]}.cu", "")
        timed = [(case, taken) for case in cases if CHOOSES not in case.label and (taken := case.timing(KIND))]
        for (one, a), (other, b) in combinations(timed, 2):
            sides = list(zip(a.levels, b.levels, strict=True))
            if len(sides) >= LEAST and all(len(x) == len(y) > 1 for x, y in sides):
                families = {scatter.family(case.backend) for case in (one, other)}
                yield Found(
                    number, (source, *group, one.label, other.label),
                    (min(families), scatter.place(min(a.median, b.median))),
                    [midmean(x - y) for x, y in sides], a.rounding + b.rounding,
                )  # fmt: skip


def likely(found: list[Found], freedoms: Iterable[float]) -> tuple[float, float]:
    """The most likely s0, and the most likely d0 of these."""
    s2, d = np.array([[f.variance] for f in found]), np.array([[len(f.values) - 1.0] for f in found])
    best = (-np.inf, 0.0, 0.0)
    for d0 in freedoms:
        x = d / d0 * s2 / S0**2
        each = gammaln((d + d0) / 2) - gammaln(d / 2) - gammaln(d0 / 2) + d / 2 * np.log(x)
        total = (each - (d + d0) / 2 * np.log1p(x)).sum(axis=0)
        best = max(best, (float(total.max()), float(S0[total.argmax()]), float(d0)))
    return best[1:]


def by_class(found: Iterable[Found]) -> dict[Class, list[Found]]:
    classes: dict[Class, list[Found]] = defaultdict(list)
    for one in found:
        classes[one.group].append(one)
    return {key: some for key, some in sorted(classes.items()) if len(some) >= ENOUGH}


def held(found: list[Found], of: list[Found], s0: Mapping[Class, float]) -> dict[Class, list[bool]]:
    """For each of `found` that has repeats among `of`, in another run, whether its interval holds their mean."""
    values: dict[tuple[int, Name], list[float]] = defaultdict(list)
    runs = {one.run for one in of}
    for one in of:
        values[one.run, one.name] += [v.value for v in one.values]
    said: dict[Class, list[bool]] = defaultdict(list)
    for one in found:
        known = [value for run in runs - {one.run} for value in values.get((run, one.name), ())]
        if known and one.group in s0:
            said[one.group].append(one.holds(known, s0[one.group]))
    return said


def fit(found: list[Found]) -> tuple[float, dict[Class, float]]:
    """The scale, and s0 by class."""
    first = {key: likely(some, [KNOWN])[0] for key, some in by_class(found).items()}
    for scale in SCALES:
        said = held(found, found, {key: float(scale * s0) for key, s0 in first.items()})
        if np.mean([one for some in said.values() for one in some] or [True]) >= HOLDS:
            break
    return float(scale), {key: float(scale * s0) if key in said else s0 for key, s0 in first.items()}


def left_out(found: list[Found]) -> dict[Class, list[bool]]:
    """Whether intervals hold the mean of their repeats, each of a run that the fit has not seen."""
    said: dict[Class, list[bool]] = defaultdict(list)
    for run in sorted({one.run for one in found}):
        others = [one for one in found if one.run != run]
        here = [one for one in found if one.run == run]
        for key, some in held(here, others, fit(others)[1]).items() if others else ():
            said[key] += some
    return said


def summary(runs: Mapping[str, Results]) -> dict[str, Any]:
    """What was found in these runs, by their names."""
    found = [one for number, run in enumerate(runs.values()) for one in ratios(run, number)]
    scale, s0 = fit(found)
    covered = left_out(found)
    rows = []
    for key, some in by_class(found).items():
        first, freedom = likely(some, D0)
        rows.append({
            "family": key[0], "time": scatter.NAMES[key[1]], "runs": len({one.run for one in some}),
            "ratios": len(some), "likely s0": first, "likely d0": freedom, "s0": s0[key], "d0": KNOWN,
            "tried": len(covered.get(key, ())), "held": sum(covered.get(key, ())),
        })  # fmt: skip
    return {"runs": list(runs), "scale": scale, "classes": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, default=WRITTEN, help=f"(default: {WRITTEN.name} beside the runs)")
    given = parser.parse_args()
    files = given.files or sorted([*(H200 / "pairs").glob("*.json*"), *(H200 / "against").glob("run_*.json*")])
    found = summary({path.name: file.load(path) for path in files})
    given.output.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(files)} runs, scale {found['scale']:.2f}\n")
    print("| | runs | ratios | likely s0 | likely d0 | s0 | intervals of runs left out that hold |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for row in found["classes"]:
        held = f"{row['held']} of {row['tried']}: {row['held'] / row['tried']:.1%}" if row["tried"] else "no repeats"
        cells = [f"{row['family']}, {row['time']}", row["runs"], row["ratios"], f"{row['likely s0']:.2%}"]
        print(f"| {' | '.join(map(str, cells))} | {row['likely d0']:g} | {row['s0']:.2%} | {held} |")


if __name__ == "__main__":
    main()
