"""A/A on this machine's GPU through the whole engine: python bench/aa.py FILE.json

Each run is one of `cudalab bench`, with processes and sampling as they are by default, of kernels with twins
(`cudalab.tools.selftest.twins`): every entry stands in the run a second time. Two kinds of comparisons come from them:

- beside: an entry with its twin, in one run. The verdict is that of the run's tables.
- apart: an entry in one run with its twin in another run, so in other processes. The verdict is that of
  `cudalab compare`.

Every FASTER and SLOWER is false. Runs are added until the time is over, at least two; the file has every ratio.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from msgspec.structs import replace

import cudalab
from cudalab.base.stats import FASTER, SAME, SLOWER, Ratio
from cudalab.results.compare import compare
from cudalab.results.record import Case, Results
from cudalab.spec import find
from cudalab.tools.selftest import twins

KIND = "cold"  # of time that the tables judge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where the results go, as JSON")
    parser.add_argument("--seconds", type=float, default=120.0, help="after which no run begins (default: 120)")
    parser.add_argument("--kernels", default="gelu,add2d,sum", help="of the lab (default: gelu,add2d,sum)")
    parser.add_argument("--sizes", default="small,large", help="(default: small,large)")
    parser.add_argument("--processes", type=int, default=0, help="of a run (default: that of bench)")
    parser.add_argument("--budget", type=float, help="seconds of sampling for each row (default: that of bench)")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        specs = [twins.written(find.kernels()[name], Path(folder)) for name in given.kernels.split(",")]
        runs = measured(specs, given)
    found = {"options": {**vars(given), "file": str(given.file)}, **summary(runs)}
    given.file.write_text(json.dumps(found, indent=1) + "\n")
    for name in ("beside", "apart"):
        said = found[name]
        print(f"{name}: {said['comparisons']} comparisons, {said['same']:.1%} SAME, {said['false']:.2%} false")


def measured(specs: list[Path], given: argparse.Namespace) -> list[Results]:
    """Runs of these specs, each in fresh processes and with a seed of its own."""
    start, runs = perf_counter(), list[Results]()
    while len(runs) < 2 or perf_counter() - start < given.seconds:
        runs.append(cudalab.bench(
            *specs, sizes=given.sizes, only="pycuda", modes="launch", seed=len(runs), budget=given.budget,
            processes=given.processes,
        ))  # fmt: skip
        print(f"run {len(runs)}: {runs[-1].wall['total']:.1f} s, {perf_counter() - start:.0f} s in all", flush=True)
    return runs


def summary(runs: list[Results]) -> dict[str, Any]:
    """Both kinds of comparisons, with the seconds of each run."""
    together = [verdict for run in runs for verdict in beside(run)]
    others = [verdict for old, new in permutations(runs, 2) for verdict in apart(old, new)]
    broken = [
        f"{case.kernel} {case.size} {case.label}: {case.status}: {case.reason}" for run in runs for case in run.broken
    ]
    return {
        "machine": runs[0].machine.name,
        "driver": runs[0].machine.details.get("driver", ""),
        "created": [run.created for run in runs],
        "processes": [run.options["processes"] for run in runs],
        "wall": [run.wall for run in runs],
        "broken": broken,
        "beside": shares(together),
        "apart": shares(others),
    }


def beside(run: Results) -> list[dict[str, Any]]:
    """Each entry with its twin in the same run."""
    both = [(case, twin) for case, twin in twins.pairs(run.cases) if KIND in case.times and KIND in twin.times]
    return [judged(case, ratio := run.ratio(case, twin, KIND), ratio.verdict()) for case, twin in both]


def apart(old: Results, new: Results) -> list[dict[str, Any]]:
    """Each entry of one run with its twin of another."""
    pairs = compare(only(old, False), only(new, True), KIND, force=True).pairs  # forced: the seeds differ on purpose
    return [judged(pair.old, pair.ratio, pair.verdict) for pair in pairs if not pair.control]


def only(run: Results, again: bool) -> Results:
    """The run with the entries alone, or with the twins alone under the names of the entries."""
    cases = [case for case in run.cases if case.variant.endswith(twins.AGAIN) == again or case.backend == "copy"]
    return replace(run, cases=[replace(case, variant=case.variant.removesuffix(twins.AGAIN)) for case in cases])


def judged(case: Case, ratio: Ratio, verdict: str) -> dict[str, Any]:
    row = f"{case.kernel} {case.size} {case.dtype} {case.label}"
    return {"row": row, "size": case.size, "verdict": verdict, "ratio": [ratio.value, ratio.low, ratio.high]}


def shares(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How often which verdict came, in all and at each size."""
    counts = Counter(one["verdict"] for one in found)
    n = len(found)
    return {
        "comparisons": n,
        "verdicts": dict(counts),
        "same": counts[SAME] / n if n else 0.0,
        "false": (counts[FASTER] + counts[SLOWER]) / n if n else 0.0,
        "by size": {
            size: dict(Counter(one["verdict"] for one in found if one["size"] == size))
            for size in dict.fromkeys(one["size"] for one in found)
        },
        "largest deviation": max((max(one["ratio"][0], 1 / one["ratio"][0]) - 1 for one in found), default=0.0),
        "ratios": found,
    }


if __name__ == "__main__":
    main()
