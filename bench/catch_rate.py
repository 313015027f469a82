"""How many planted bugs does a check catch, and is it ever wrong about a right kernel?

    python bench/catch_rate.py [KERNEL]... [--seeds N] [--jobs N]

KERNELs are kernels of tests/data that have a `.bugs` file, such as kernels/adamw (tests/support/planted.py says what it
is), and kernels of the lab; none: all. Prints the bugs that are missed, the share that is caught by class, and what a
check says against the right kernels in all dtypes under each seed. Exit code: 1 if it says anything, or misses a bug
whose `.bugs` does not say why; else 0.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from cudalab.spec import find

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import planted

CORES = len(os.sched_getaffinity(0))
SEEDS = 5


def missed(kernel: str) -> list[planted.Bug]:
    with TemporaryDirectory() as folder:
        return planted.look(kernel, Path(folder), planted.bugs(kernel)).missed


def alarms(kernel: str, seed: int) -> dict[str, str]:
    """What a check finds in a kernel that is right, by entry; with --huge where its indices have 64 bits."""
    if kernel not in planted.FILES:
        found = planted.check(kernel, "all", seed, huge=True)
    else:
        huge = any(bug.only == "--huge" for bug in planted.bugs(kernel))
        found = planted.check(planted.FILES[kernel].with_suffix(".py"), "all", seed, huge)
    return {entry: fault for entry, fault in found.items() if fault}


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("--seeds", default=SEEDS, show_default=True, type=click.IntRange(0), help="Seeds for the right kernels.")
@click.option("--jobs", default=CORES, show_default=True, type=click.IntRange(1), help="Checks at once.")
def main(kernels: tuple[str, ...], seeds: int, jobs: int) -> None:
    """KERNELs are names such as kernels/adamw, or of the lab's kernels; none: all."""
    known = [*planted.FILES, *find.kernels()]
    if unknown := [name for name in kernels if name not in known]:
        raise click.UsageError(f"no kernel {', '.join(unknown)}; known: {', '.join(known)}")
    chosen = kernels or known
    os.environ["OMP_NUM_THREADS"] = "1"
    console = Console(width=140, highlight=False, markup=False, soft_wrap=True)
    found: list[planted.Bug] = []
    false = 0
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        looks = {pool.submit(missed, name): name for name in chosen if name in planted.FILES}
        rights = {pool.submit(alarms, name, seed): (name, seed) for seed in range(1, seeds + 1) for name in chosen}
        for done in as_completed([*looks, *rights]):
            if done in looks:
                found += done.result()
                continue
            name, seed = rights[done]
            false += bool(done.result())
            for entry, fault in done.result().items():
                console.print(f"FALSE ALARM: {name}, seed {seed}: {entry}: {fault}")
    for bug in found:
        why = bug.missed or ("--sanitize finds it" if bug.only == "--sanitize" else "UNEXPLAINED")
        console.print(f"missed: {bug}: {why}")
    every = [bug for name in looks.values() for bug in planted.bugs(name)]
    console.print(table(every, found), soft_wrap=False)
    console.print(f"{false} false alarms in {len(rights)} checks of {len(chosen)} right kernels")
    sys.exit(1 if false or any(not bug.missed and bug.only != "--sanitize" for bug in found) else 0)


def table(every: list[planted.Bug], missed: list[planted.Bug]) -> Table:
    """Bugs by class, and their sum."""
    drawn = Table("class", "bugs", "caught", "share", box=None)
    for column in drawn.columns[1:]:
        column.justify = "right"
    planned, lost = (Counter(bug.kind for bug in some) for some in (every, missed))
    for kind, number in [*sorted(planned.items()), ("total", len(every))]:
        caught = number - (len(missed) if kind == "total" else lost[kind])
        drawn.add_row(kind, str(number), str(caught), f"{caught / number:.0%}")
    return drawn


if __name__ == "__main__":
    main()
