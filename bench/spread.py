"""How far worker processes differ from each other, from committed runs: python bench/spread.py [FILE...]

Prints, for each class of time, the expected deviation s0 of a ratio with its degrees of freedom d0, and how often
intervals hold what was not used for them. Writes bench/results/h200/engine/spread.json; the numbers of
`cudalab.base.scatter` are its `s0` (a test compares them). FILEs are runs of three processes or more; without any: the
kernels' results in bench/results/h200, and the runs in its folders pairs and against.

Every two variants of a group give one ratio for each process: the midmean over rounds, as the lab computes it, of cold
and of hot times.

1. Likely: the variance s^2 of a ratio between the first three processes of a run, at least the noise within them, is
   s0^2 times an F variable with 2 and d0 degrees of freedom (Smyth, 2004). The most likely s0 by class of the shorter
   time, with the d0 of the lab (`estimate.KNOWN`); `d0` is the most likely one where both are free. Later processes do
   not count here: a run has them only where the first ones differ.
2. Scale: with the likely s0 the lab's intervals hold too much, since they allow for more than s0: the clock's step, the
   noise, and the run's own s^2. So the s0 of a family are multiplied by that of SCALES with which 95 % of its intervals
   hold and those of three processes are narrowest, as a geometric mean. With a smaller scale they are wider: more
   runs differ by more than `estimate.BEYOND` times s0, and have Student's.
3. Coverage: each run in turn is left out of 1 and 2. Its intervals are tried in three ways: of two of the first
   three processes for the third, of the first three for the mean of the later ones, of all for the mean of the run's
   repeats (another run of the same `.cu` on the same day, since short times of another host hold another empty pair of
   events; not of `max_autotune`, which chooses anew on each machine). A mean over m processes has an error too, so an
   interval of n processes is widened by sqrt(1 + n / m).

For times of the host nothing is fitted (`scatter.HOST`). `host` has their coverage, by what the two variants are, by
time and by run.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import hypot, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

from cudalab.base import scatter
from cudalab.base.estimate import BEYOND, KNOWN, Estimate, midmean, over_processes, student
from cudalab.results import file
from cudalab.results.record import HOST_KINDS, Results

H200 = Path(__file__).parent / "results" / "h200"
WRITTEN = H200 / "engine" / "spread.json"
KINDS = ("cold", "hot")
WIDEST = ("tuned", "compiled", "kernel")  # the family of a ratio is that of its sides which comes first
LEAST = 3  # processes of a run
ENOUGH = 12  # ratios of a class
HOLDS = 0.95
SCALES = np.arange(0.5, 1.51, 0.05)
S0 = np.geomspace(1e-4, 0.1, 400)
D0 = np.array([0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 16, 99])
TESTS = ("processes", "later", "repeats")
TRIED = 100  # intervals of a class of host times
LIBRARIES = ("cupy_elementwise", "cupy_fuse", "cupy_eager", "liger", "quack", "triton")

Name = tuple[str, ...]
Class = tuple[str, int]  # the key of `scatter.RATIO`, and the place of the class of time


@dataclass(frozen=True)
class Found:
    """The ratio of two variants in the processes of one run, `name` being the same in repeats."""

    run: int
    name: Name
    sides: tuple[Class, Class]
    group: Class
    values: list[Estimate]  # logarithms, one a process
    bound: float  # of the clock's step
    repeats: bool  # whether other runs may be compared
    deviation: float = 0.0  # that is expected beside the noise, of times of the host

    @property
    def first(self) -> list[Estimate]:
        return self.values[:LEAST]


@dataclass(frozen=True)
class Test:
    """An interval of so many processes with the variance s2, and how far what it should hold is from its middle."""

    of: Found
    kind: str
    n: int
    s2: float
    apart: float
    wider: float
    seen: list[Estimate]

    @property
    def of_host_holds(self) -> bool:
        """Whether the interval holds if it is one of times of the host."""
        interval = over_processes([v.value for v in self.seen], self.seen, self.of.deviation, noisy=True)
        return self.apart <= interval.reach * self.wider + self.of.bound

    @classmethod
    def made(cls, of: Found, kind: str, seen: list[Estimate], known: list[Estimate]) -> Test:
        middle, truth = (float(np.mean([v.value for v in some])) for some in (seen, known))
        return cls(of, kind, len(seen), variance(seen), abs(middle - truth), sqrt(1 + len(seen) / len(known)), seen)


def variance(values: list[Estimate]) -> float:
    """Between processes, and at least within them, as the lab counts it."""
    between = float(np.var([v.value for v in values], ddof=1))
    return max(between, float(np.mean([v.variance for v in values])), 1e-12)


def whose(label: str) -> str:
    """What the host does in a variant, by its label."""
    backend = label.partition(":")[0]
    return "library" if backend in LIBRARIES else backend if backend.startswith("torch_") else "own"


def ratios(run: Results, number: int, kinds: Iterable[str] = KINDS) -> Iterator[Found]:
    """All ratios of two variants of one group, as far as both have rounds in three processes."""
    for kind, (group, cases) in ((kind, one) for kind in kinds for one in run.groups().items()):
        source = run.sources.get(f"{group[0]}.cu", "")
        timed = [(case, taken) for case in cases if (taken := case.timing(kind))]
        for (one, a), (other, b) in combinations(timed, 2):
            both = [(x, y) for x, y in zip(a.levels, b.levels, strict=False) if len(x) == len(y) > 1]
            if len(both) >= LEAST:
                families = scatter.family(one.label), scatter.family(other.label)
                sides = tuple((f, scatter.place(t.median)) for f, t in zip(families, (a, b), strict=True))
                of_host = f"{kind}: {', '.join(sorted({whose(one.label), whose(other.label)}))}"
                family = of_host if kind in HOST_KINDS else min(families, key=WIDEST.index)
                group_of = family, min(place for _, place in sides)
                yield Found(
                    number, (source, run.created[:10], kind, *group, one.label, other.label), sides, group_of,
                    [midmean(x - y) for x, y in both], a.rounding + b.rounding, "tuned" not in families,
                    hypot(*(scatter.expected(t.median, scatter.HOST) for t in (a, b))),
                )  # fmt: skip


def tests(found: list[Found]) -> list[Test]:
    same: dict[Name, list[Found]] = defaultdict(list)
    for one in found:
        same[one.name].append(one)
    made = []
    for one in found:
        made += [Test.made(one, "processes", [v for v in one.first if v is not left], [left]) for left in one.first]
        if later := one.values[LEAST:]:
            made.append(Test.made(one, "later", one.first, later))
        known = [value for other in same[one.name] if other.run != one.run for value in other.values]
        if known and one.repeats:
            made.append(Test.made(one, "repeats", one.values, known))
    return made


def likely(found: list[Found], freedoms: Iterable[float]) -> tuple[float, float]:
    """The most likely s0, and the most likely d0 of these."""
    s2, d = np.array([[variance(f.first)] for f in found]), LEAST - 1
    best = (-np.inf, 0.0, 0.0)
    for d0 in freedoms:
        each = gammaln((d + d0) / 2) - gammaln(d / 2) - gammaln(d0 / 2) + d / 2 * np.log(x := d / d0 * s2 / S0**2)
        total = (each - (d + d0) / 2 * np.log1p(x)).sum(axis=0)
        best = max(best, (float(total.max()), float(S0[total.argmax()]), float(d0)))
    return best[1:]


def by_class(found: Iterable[Found]) -> dict[Class, list[Found]]:
    classes: dict[Class, list[Found]] = defaultdict(list)
    for one in found:
        classes[one.group].append(one)
    return {key: some for key, some in sorted(classes.items()) if len(some) >= ENOUGH}


def expected(of: list[Found], s0: Mapping[Class, float]) -> np.ndarray:
    """The deviation to expect of each ratio."""
    return np.sqrt((np.array([[s0.get(side, np.nan) for side in one.sides] for one in of]) ** 2).mean(axis=1))


def reach(n: np.ndarray, s2: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Half of each interval without the clock's step; as `over_processes` has it, for all of them at once."""
    quantile = {int(m): (student(KNOWN + m - 1), student(m - 1)) for m in np.unique(n)}
    moderated, alone = np.array([quantile[int(m)] for m in n]).T
    found = moderated * np.sqrt((KNOWN * deviation**2 + (n - 1) * s2) / (KNOWN + n - 1) / n)
    return np.where(s2 > (BEYOND * deviation) ** 2, np.maximum(found, alone * np.sqrt(s2 / n)), found)


def held(tried: list[Test], s0: Mapping[Class, float]) -> np.ndarray:
    """Whether each interval holds."""
    n, s2, apart, wider = (np.array([getattr(t, name) for t in tried]) for name in ("n", "s2", "apart", "wider"))
    of = [test.of for test in tried]
    return np.asarray(apart <= reach(n, s2, expected(of, s0)) * wider + [one.bound for one in of])


def fit(found: list[Found], tried: list[Test]) -> tuple[dict[str, float], dict[Class, float]]:
    """The scale of each family, and s0 by class."""
    s0 = {key: likely(some, [KNOWN])[0] for key, some in by_class(found).items()}
    scales = {}
    for family in {key[0] for key in s0}:
        of, tests_of = [f for f in found if f.group[0] == family], [t for t in tried if t.of.group[0] == family]
        n, s2 = np.full(len(of), LEAST), np.array([variance(one.first) for one in of])
        widths = {}
        for scale in SCALES:
            scaled = {key: scale * one for key, one in s0.items()}
            width = float(np.nanmean(np.log(reach(n, s2, expected(of, scaled)))))
            widths[held(tests_of, scaled).mean() < HOLDS, width] = float(scale)
        scales[family] = widths[min(widths)]
    return scales, {key: scales[key[0]] * one for key, one in s0.items()}


def left_out(found: list[Found], tried: list[Test]) -> dict[tuple[Class, str], list[bool]]:
    """Whether intervals hold, each of a run that the fit has not seen, by class and kind of test."""
    said: dict[tuple[Class, str], list[bool]] = defaultdict(list)
    for run in sorted({one.run for one in found}):
        others, here = [t for t in tried if t.of.run != run], [t for t in tried if t.of.run == run]
        if others:
            s0 = fit([one for one in found if one.run != run], others)[1]
            for test, holds in zip(here, held(here, s0), strict=True):
                said[test.of.group, test.kind].append(bool(holds))
    return said


def of_host(runs: Mapping[str, Results]) -> dict[str, Any]:
    """How often intervals of times of the host hold, by class and kind of test."""
    names, said = list(runs), defaultdict[str, dict[str, list[bool]]](lambda: {kind: [] for kind in TESTS})
    for test in tests([one for number, run in enumerate(runs.values()) for one in ratios(run, number, HOST_KINDS)]):
        family, place = test.of.group
        kind = family.partition(":")[0]
        for name in (family, f"{kind}: {scatter.NAMES[place]}", f"{kind}: {names[test.of.run]}"):
            said[name][test.kind].append(test.of_host_holds)
    counted = {name: {kind: [sum(each), len(each)] for kind, each in by.items()} for name, by in sorted(said.items())}
    rows = [{"class": name, **by} for name, by in counted.items() if by["processes"][1] >= TRIED]
    return {"runs": names, "classes": rows}


def summary(runs: Mapping[str, Results]) -> dict[str, Any]:
    """What was found in these runs, by their names."""
    found = [one for number, run in enumerate(runs.values()) for one in ratios(run, number)]
    tried = tests(found)
    scales, s0 = fit(found, tried)
    covered = left_out(found, tried)
    rows = []
    for key, some in by_class(found).items():
        first, freedom = likely(some, D0)
        rows.append({
            "family": key[0], "time": scatter.NAMES[key[1]], "runs": len({one.run for one in some}),
            "ratios": len(some), "likely s0": first, "likely d0": freedom, "s0": s0[key], "d0": KNOWN,
            **{kind: [sum(covered[key, kind]), len(covered[key, kind])] for kind in TESTS},
        })  # fmt: skip
    return {"runs": list(runs), "scales": scales, "classes": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, default=WRITTEN, help=f"(default: {WRITTEN.name} beside the runs)")
    parser.add_argument("--host", action="store_true", help="only times of the host; the other numbers stay")
    given = parser.parse_args()
    folders = ("*.json", "pairs/*.json*", "against/run_*.json*")
    files = given.files or sorted(path for folder in folders for path in H200.glob(folder))
    runs = {path.name: file.load(path) for path in files}
    found = (json.loads(WRITTEN.read_text()) if given.host else summary(runs)) | {"host": of_host(runs)}
    given.output.write_text(json.dumps(found, indent=1) + "\n")
    scales = ", ".join(f"{name} {one:.2f}" for name, one in found["scales"].items())
    print(f"{len(found['runs'])} runs; scales: {scales}\n")
    print("| | runs | ratios | likely s0 | likely d0 | s0 | hold: all | " + " | ".join(TESTS) + " |")
    print("| --- |" + " --: |" * (6 + len(TESTS)))
    for row in found["classes"]:
        likeliest = f"{row['likely s0']:.2%} | {row['likely d0']:g} | {row['s0']:.2%}"
        print(f"| {row['family']}, {row['time']} | {row['runs']} | {row['ratios']} | {likeliest} | {shares(row)} |")
    print("\n| times of the host | hold: all | " + " | ".join(TESTS) + " |\n| --- |" + " --: |" * (1 + len(TESTS)))
    for row in found["host"]["classes"]:
        print(f"| {row['class']} | {shares(row)} |")


def shares(row: Mapping[str, Any]) -> str:
    """The cells that say how often intervals hold."""
    counts = [row[kind] for kind in TESTS]
    both = ([sum(c) for c in zip(*counts, strict=True)], *counts)
    return " | ".join(f"{h / t:.1%} of {t}" if t else "-" for h, t in both)


if __name__ == "__main__":
    main()
