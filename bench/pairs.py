"""What `cudalab compare` says of runs of unchanged code: python bench/pairs.py [--kind cold] [--force] FILE...

Takes all ordered pairs of the files whose `.cu` are the same, and prints

- false alarms: pairs with a row that is SLOWER, though nothing changed, and those rows;
- planted: in how many pairs a slow-down of 3 % of one kernel is found. The times of all rows that the backend `pycuda`
  has of that kernel are made 3 % longer in the new run; it is found if one of them is SLOWER and the exit code is 1.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import permutations

from msgspec.structs import replace

from cudalab.base.stats import SLOWER
from cudalab.results import file
from cudalab.results.compare import REGRESSION, Comparison, compare
from cudalab.results.record import Case, Results

PLANTED = 0.03
OWN = "pycuda"  # the backend of the lab's own kernels


def same_code(old: Results, new: Results) -> bool:
    """Whether no `.cu` that both runs measured has changed."""
    both = [name for name in old.sources.keys() & new.sources.keys() if name.endswith(".cu")]
    return bool(both) and all(old.sources[name] == new.sources[name] for name in both)


def slowed(run: Results, kernel: str, by: float = PLANTED) -> Results:
    """`run` with longer times of the lab's own rows of a kernel."""

    def longer(case: Case) -> Case:
        if (case.kernel, case.backend) != (kernel, OWN):
            return case
        times = {kind: [[(1 + by) * s for s in r] for r in rounds] for kind, rounds in case.times.items()}
        return replace(case, times=times)

    return replace(run, cases=[longer(case) for case in run.cases])


def own_kernels(run: Results) -> list[str]:
    return list(dict.fromkeys(case.kernel for case in run.cases if case.backend == OWN and case.times))


def found(comparison: Comparison) -> bool:
    """Whether the comparison finds a slow-down in one of the lab's own rows."""
    slower = (pair for pair in comparison.pairs if pair.verdict == SLOWER and pair.old.backend == OWN)
    return comparison.exit_code == REGRESSION and any(slower)


def alarms(comparison: Comparison) -> Iterator[str]:
    """The rows that are SLOWER, one line each."""
    for pair in comparison.pairs:
        if pair.verdict == SLOWER:
            low, value, high = pair.ratio.low, pair.ratio.value, pair.ratio.high
            yield f"{' '.join(pair.old.group)} {pair.old.label} {pair.kind}: {value:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--kind", default="cold")
    parser.add_argument("--force", action="store_true", help="compare runs whose machines or versions differ too")
    given = parser.parse_args()
    runs = {path: file.load(path) for path in given.files}
    pairs = [pair for pair in permutations(runs, 2) if same_code(*(runs[path] for path in pair))]
    false, refused, tried, hits = 0, 0, Counter[str](), Counter[str]()
    for old, new in pairs:
        comparison = compare(runs[old], runs[new], given.kind, force=given.force)
        if comparison.refusal:
            refused += 1
            print(f"{old} -> {new}: {comparison.refusal}: {'; '.join(map(str, comparison.differences))}")
            continue
        rows = list(alarms(comparison))
        false += bool(rows)
        for row in rows:
            print(f"{old} -> {new}: {row}")
        for kernel in own_kernels(runs[new]):
            tried[kernel] += 1
            planted = slowed(runs[new], kernel)
            hits[kernel] += found(compare(runs[old], planted, given.kind, kernels=[kernel], force=given.force))
    compared = len(pairs) - refused
    print(f"\n{len(runs)} runs, {compared} ordered pairs of unchanged code, {refused} refused")
    print("| | pairs | share |\n| --- | --: | --: |")
    print(f"| false alarms | {false} of {compared} | {100 * false / max(compared, 1):.1f} % |")
    for kernel, n in (*tried.items(), ("all kernels", tried.total())):
        hit = hits.total() if kernel == "all kernels" else hits[kernel]
        print(f"| {kernel}: {100 * PLANTED:g} % found | {hit} of {n} | {100 * hit / max(n, 1):.1f} % |")


if __name__ == "__main__":
    main()
