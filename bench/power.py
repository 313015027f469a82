"""What `bench --against` finds on this machine's GPU: python bench/power.py FOLDER [--seconds 540]

A kernel y = 2 x + 1 has entries that are the same in the old and in the new `.cu` (`even`, `even_scalar`), and two that
are slower in the new one: every Nth block also does the work of the one half a grid further, with the same answer.
N is chosen on this GPU, by two runs, so that `one_percent` is 1 % slower at xlarge and `three_percent` 3 % at large.

Then runs of `cudalab bench --against` follow until the time is over, each in fresh processes with a seed of its own. In
every run each pair of a planted entry should be SLOWER, and no pair of an even one SLOWER or FASTER. The table has the
true slow-down too: the mean over all runs, which is known better than that of one.

FOLDER gets the kernel, every run as NAME.json, and found.json. A second call continues with the kernel that is there;
--seconds 0 only prints the table of the runs that are there. "alone" is what the interval alone would say, as with
`--min-effect 0`; "counts" is the smallest difference that a run of as many processes could find.

    python bench/power.py --simulate

needs no GPU: it draws the processes of a run with deviations as unchanged code shows them, and prints the table of
docs/compare.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from math import exp, log
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np

import cudalab
from cudalab.base.stats import FASTER, SLOWER
from cudalab.results import against
from cudalab.results.compare import Comparison, Pair
from cudalab.results.record import FORMAT, OLD, VERSION, Case, Machine, Results

SIZES = {"large": 32 * 3 * 224 * 224, "xlarge": 1024 * 3 * 224 * 224}  # elements of float32, as of gelu
PLANTED = {"one_percent": (0.01, "xlarge"), "three_percent": (0.03, "large")}  # slow-down, and the size where it is so
FIRST = 16  # the N of the first run
KIND = "cold"  # of time by which N is chosen
SPEC = f'''"""y = 2 x + 1, with entries that bench/power.py makes slower."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def packed(x, y):
    return Launch((blocks(x.size, 1024),), (256,), (x, y, np.int32(x.size)))


def scalar(x, y):
    return Launch((blocks(x.size, 256),), (256,), (x, y, np.int32(x.size)))


power = Kernel(
    file=__file__, summary="y = 2 x + 1", dtypes=("float32",), edges=((4,),),
    sizes={{name: (n,) for name, n in {SIZES!r}.items()}},
    reference=lambda x: 2 * x + 1, budgets=Budget(1),
    entries={{"even": packed, "even_scalar": scalar, **dict.fromkeys({tuple(PLANTED)!r}, packed)}},
)
'''
SOURCE = """// {what}
template <int EVERY>
__device__ void work(const float* x, float* y, int n) {{
    const int times = EVERY && blockIdx.x % (EVERY ? EVERY : 1) == 0 ? 2 : 1;
    for (int k = 0; k < times; ++k) {{
        const long long block = (blockIdx.x + k * (long long)(gridDim.x / 2)) % gridDim.x;
        const long long i = 4 * (block * blockDim.x + threadIdx.x);
        if (i + 4 <= n) {{
            float4 v = *reinterpret_cast<const float4*>(x + i);
            v.x = 2 * v.x + 1, v.y = 2 * v.y + 1, v.z = 2 * v.z + 1, v.w = 2 * v.w + 1;
            *reinterpret_cast<float4*>(y + i) = v;
        }} else {{
            for (long long j = i; j < n; ++j) y[j] = 2 * x[j] + 1;
        }}
    }}
}}

extern "C" __global__ void even(const float* x, float* y, int n) {{ work<0>(x, y, n); }}
extern "C" __global__ void one_percent(const float* x, float* y, int n) {{ work<{one_percent}>(x, y, n); }}
extern "C" __global__ void three_percent(const float* x, float* y, int n) {{ work<{three_percent}>(x, y, n); }}
extern "C" __global__ void even_scalar(const float* x, float* y, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + 1;
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("build/power"), help="where the kernel and the results go"
    )
    parser.add_argument("--simulate", action="store_true", help="draw times, and measure none")
    parser.add_argument("--seconds", type=float, default=540.0, help="within which all runs end (default: 540)")
    parser.add_argument("--sizes", default="large,xlarge", help="(default: large,xlarge)")
    parser.add_argument("--modes", default="launch,graph", help="(default: launch,graph)")
    parser.add_argument("--processes", type=int, default=0, help="of a run (default: that of bench)")
    parser.add_argument("--budget", type=float, help="seconds of sampling for each row (default: that of bench)")
    given = parser.parse_args()
    if given.simulate:
        print(simulated())
        return
    start = perf_counter()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.seconds and not (given.folder / "power.cu").exists():
        calibrate(given)
    longest = 0.0
    while given.seconds and perf_counter() - start + 1.2 * longest < given.seconds:
        begun = perf_counter()
        number = len(list(given.folder.glob("run_*.json")))
        measured(given, f"run_{number:03}")
        longest = max(longest, perf_counter() - begun)
        print(f"run {number}: {longest:.0f} s, {perf_counter() - start:.0f} s in all", flush=True)
    found = summary([against_of(path) for path in sorted(given.folder.glob("run_*.json"))])
    (given.folder / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def calibrate(given: argparse.Namespace) -> None:
    """Write the kernel, with the N of each planted entry that two runs suggest: a slow-down is as 1 / N."""
    (given.folder / "power.py").write_text(SPEC)
    (given.folder / "old.cu").write_text(SOURCE.format(what="before", **dict.fromkeys(PLANTED, 0)))
    every = dict.fromkeys(PLANTED, FIRST)
    for attempt in (1, 2):
        write(given.folder, every)
        taken = measured(given, f"calibration_{attempt}")
        for entry, (wanted, size) in PLANTED.items():
            ratios = [
                p.ratio.value for p in taken.pairs if p.new.variant == entry and (p.kind, p.new.size) == (KIND, size)
            ]
            if ratios:  # else the size is not measured
                every[entry] = max(1, round(every[entry] * (1 / ratios[0] - 1) / wanted))
                print(f"{entry}: {1 / ratios[0] - 1:.2%} slower at {size}; every {every[entry]}th block from here on")
    write(given.folder, every)


def write(folder: Path, every: dict[str, int]) -> None:
    (folder / "power.cu").write_text(SOURCE.format(what="after", **every))


def measured(given: argparse.Namespace, name: str) -> Comparison:
    """One run, which is kept."""
    path = given.folder / f"{name}.json"
    cudalab.bench(
        given.folder / "power.py", sizes=given.sizes, only="pycuda", modes=given.modes, against=given.folder / "old.cu",
        processes=given.processes, budget=given.budget, device="cuda", output=path,
    )  # fmt: skip
    return against_of(path)


def against_of(path: Path) -> Comparison:
    found = against.compared(cudalab.load(path))
    if found is None or not found.pairs:
        raise SystemExit(
            f"{path} has no pair of an old and a new entry with times; were they right? cudalab show {path}"
        )
    return found


def summary(runs: list[Comparison]) -> dict[str, Any]:
    """For each entry, size and kind of time: the verdicts, the true slow-down, and the width of the intervals."""
    pairs: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for run in runs:
        for pair in run.pairs:
            pairs[pair.new.variant, pair.new.size, pair.kind].append(pair)
    rows = [
        {
            "entry": entry, "size": size, "kind": kind, "runs": len(found),
            "slower by": exp(-fmean(log(p.ratio.value) for p in found)) - 1,
            "threshold": fmean(p.effect for p in found),
            "verdicts": dict(Counter(p.verdict for p in found)),
            "alone": dict(Counter(p.ratio.direction(0.0) for p in found)),
            "ratios": [[p.ratio.value, p.ratio.low, p.ratio.high, p.verdict] for p in found],
        }
        for (entry, size, kind), found in pairs.items()
    ]  # fmt: skip
    even = [p for found in runs for p in found.pairs if p.new.variant not in PLANTED]
    alarms = sum(p.verdict in (SLOWER, FASTER) for p in even)
    ended = sum(any(p.verdict == SLOWER and p.new.variant not in PLANTED for p in run.pairs) for run in runs)
    alone = sum(bool(p.ratio.direction(0.0)) for p in even)
    counts = {
        "even pairs": len(even),
        "false alarms": alarms,
        "false alone": alone,
        "runs": len(runs),
        "runs with a false SLOWER": ended,
    }
    return {"rows": rows, **counts}


def table(found: dict[str, Any]) -> str:
    head = (
        f"{'entry':16}{'size':10}{'kind':12}{'runs':>5}{'slower by':>11}{'counts':>8}{'found':>7}{'alone':>7}  verdicts"
    )
    lines = [head]
    for row in found["rows"]:
        planted = row["entry"] in PLANTED
        share, alone = (
            f"{row[how].get(SLOWER, 0) / row['runs']:.0%}" if planted else "-" for how in ("verdicts", "alone")
        )
        said = ", ".join(f"{n} {verdict}" for verdict, n in row["verdicts"].items())
        lines.append(
            f"{row['entry']:16}{row['size']:10}{row['kind']:12}{row['runs']:5}{row['slower by']:11.2%}"
            f"{row['threshold']:8.2%}{share:>7}{alone:>7}  {said}"
        )
    pairs, alarms = found["even pairs"], found["false alarms"]
    lines.append(
        f"even: {alarms} of {pairs} pairs are falsely FASTER or SLOWER ({alarms / pairs if pairs else 0:.2%}), by the "
        f"interval alone {found['false alone']}; "
        f"{found['runs with a false SLOWER']} of {found['runs']} runs have a false SLOWER"
    )
    return "\n".join(lines)


# Seconds, and the deviation of a paired ratio of unchanged code between processes, as 22 runs showed it.
CLASSES = ((300e-6, 0.0005), (35e-6, 0.0029), (12e-6, 0.0055), (8e-6, 0.0059), (4e-6, 0.0059))


def simulated(draws: int = 1000, processes: int = 3, rounds: int = 12) -> str:
    """The table of docs/compare.md: shares of pairs that are FASTER or SLOWER, by true slow-down."""
    rng = np.random.default_rng(0)

    def pair(seconds: float, deviation: float, slower: float) -> Pair:
        """Each round drifts by 1 %, each sample has a noise of 0.2 %."""
        level = seconds * (1 + 0.01 * rng.standard_normal((processes * rounds, 1)))
        shift = np.repeat(np.exp(deviation * rng.standard_normal((processes, 1))), rounds, axis=0)
        old, new = (
            (level * by * (1 + 0.002 * rng.standard_normal((processes * rounds, 5)))).tolist()
            for by in (1.0, (1 + slower) * shift)
        )
        cases = [
            Case("k", "s", (1,), "float32", "pycuda", name, times={KIND: taken}, processes={KIND: [rounds] * processes})
            for name, taken in ((f"e{OLD}", old), ("e", new))
        ]
        found = against.compared(Results(FORMAT, VERSION, "", {}, Machine("cuda", ""), cases=cases))
        assert found
        return found.pairs[0]

    lines = ["| time | deviation | false, interval alone | false | 1 % found | 3 % found |", "| --- |" + " --: |" * 5]
    for seconds, deviation in CLASSES:
        same = [pair(seconds, deviation, 0.0) for _ in range(draws)]
        shares = [
            fmean(bool(p.ratio.direction(0.0)) for p in same),
            fmean(p.verdict in (SLOWER, FASTER) for p in same),
            *(fmean(pair(seconds, deviation, by).verdict == SLOWER for _ in range(draws)) for by in (0.01, 0.03)),
        ]
        cells = (f"{100 * share:.1f} %" for share in shares)
        lines.append(f"| {1e6 * seconds:.0f} µs | {100 * deviation:.2f} % | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
