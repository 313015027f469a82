"""Mutation score of the lab's check: what share of small faults in a kernel's `.cu` would it notice?

    python bench/mutants.py [KERNEL]... [-v] [--sample N] [--all] [--seed S] [--jobs N]

Every mutant goes through the check on the host, in a process of its own. One that survives is a fault that the lab
would pass, unless bench/mutation/equivalent says why no answer can tell it from the original. Exit code: 0 if every
survivor has a reason there, 1 if one has none or a reason is out of date, 2 for bad input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import click
from mutation import gate
from mutation.equivalent import EQUIVALENT
from mutation.gate import KILLS, SAME, Verdict
from mutation.rules import Mutant, mutants_of
from mutation.sample import sample
from rich.console import Console
from rich.table import Table

from cudalab.base.errors import CudalabError
from cudalab.engine import plan
from cudalab.spec.kernel import Kernel

CORES = len(os.sched_getaffinity(0))
SAMPLE = 120  # mutants of a kernel, if not told otherwise
WIDTH = 140  # characters of the table: its text must not be cut


@dataclass
class Score:
    """The verdicts on all mutants of one kernel, or on a sample."""

    kernel: str
    made: list[Mutant]
    verdicts: list[tuple[Mutant, Verdict]] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        return sum(verdict.outcome == outcome for _, verdict in self.verdicts)

    @property
    def killed(self) -> int:
        return sum(map(self.count, KILLS))

    @property
    def survivors(self) -> list[Mutant]:
        return [mutant for mutant, verdict in self.verdicts if verdict.outcome == "survived"]

    @property
    def same(self) -> list[Mutant]:
        """Survivors that compile to the same machine code as the original."""
        return [mutant for mutant, verdict in self.verdicts if verdict.reason == SAME]

    @property
    def unexplained(self) -> list[Mutant]:
        return [m for m, v in self.verdicts if v.outcome == "survived" and not explained(self.kernel, m, v)]

    @property
    def stale(self) -> list[str]:
        """Complaints about documented mutants of this kernel that are killed, or are not made any more."""
        tried = {m.key: verdict.outcome for m, verdict in self.verdicts}
        made = {m.key for m in self.made}
        found = []
        for line in EQUIVALENT.get(self.kernel, {}):
            if line not in made:
                found.append(f"{self.kernel}: {line[1]}  ->  {line[2]}  is no mutant any more")
            elif tried.get(line, "survived") != "survived":
                found.append(f"{self.kernel}: {line[1]}  ->  {line[2]}  is killed ({tried[line]})")
        return found

    @property
    def row(self) -> list[int]:
        """The numbers of the table, in the order of HEAD."""
        documented = len(self.survivors) - len(self.same) - len(self.unexplained)
        kills = [self.count(outcome) for outcome in KILLS]
        outcomes = [*kills, self.count("invalid"), len(self.same), documented, len(self.unexplained)]
        return [len(self.made), len(self.verdicts), self.killed, *outcomes]


HEAD = ("kernel", "mutants", "tried", "killed", *KILLS, "invalid", "same code", "equivalent", "unexplained")


def why(kernel: str, mutant: Mutant) -> str | None:
    """The documented reason for which a mutant may survive, or None."""
    return EQUIVALENT.get(kernel, {}).get(mutant.key)


def explained(kernel: str, mutant: Mutant, verdict: Verdict) -> str:
    """Why a mutant survives, "" if no reason is known."""
    return verdict.reason or why(kernel, mutant) or ""


def judged(name: str, kernel: Kernel, found: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, Verdict]]:
    """Mutants of a kernel with their verdicts, in their order.

    The sanitizer takes longest, so it runs only on survivors without a documented reason.
    """
    versions = [(m.text, m.twin if why(name, m) is None else None, m.file) for m in found]
    yield from zip(found, gate.judge_all(kernel, versions, jobs), strict=True)


def table(scores: list[Score]) -> Table:
    """One row a kernel, and their sum."""
    drawn = Table(*HEAD, box=None)
    for column in drawn.columns[1:]:
        column.justify = "right"
    for score in scores:
        drawn.add_row(score.kernel, *map(str, score.row))
    if len(scores) > 1:
        drawn.add_row("total", *(str(sum(column)) for column in zip(*(s.row for s in scores), strict=True)))
    return drawn


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("-v", "--verbose", is_flag=True, help="Every mutant with its verdict, not survivors alone.")
@click.option("--sample", "count", default=SAMPLE, show_default=True, type=click.IntRange(1), metavar="N",
              help="So many mutants of a kernel that has more, spread over its rules and lines.")  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Every mutant: hours, for all kernels.")
@click.option("--seed", default=0, show_default=True, help="Another seed is another sample.")
@click.option("--jobs", default=CORES, show_default=True, type=click.IntRange(1), help="Mutants at once.")
def main(kernels: tuple[str, ...], verbose: bool, count: int, every: bool, seed: int, jobs: int) -> None:
    """KERNELs are names of the lab's or paths of specs; none: all of the lab's."""
    console = Console(width=WIDTH, highlight=False, markup=False, soft_wrap=True)
    scores = []
    try:
        for name, kernel in plan.kernels_by_name(kernels).items():
            made = mutants_of(kernel.cu)
            scores.append(Score(name, made))
            chosen = made if every else sample(made, count, f"{name} {seed}")
            for mutant, verdict in judged(name, kernel, chosen, jobs):
                scores[-1].verdicts.append((mutant, verdict))
                reason = explained(name, mutant, verdict) or "UNEXPLAINED" * (verdict.outcome == "survived")
                if verbose or reason == "UNEXPLAINED":
                    place = f"{name}: " if mutant.file else f"{name}.cu:"
                    console.print(f"{place}{mutant}  [{verdict.outcome}] {reason}")
    except CudalabError as error:
        raise click.UsageError(str(error)) from None
    console.print(table(scores), soft_wrap=False)
    stale = [line for score in scores for line in score.stale]
    for line in stale:
        console.print(f"out of date in bench/mutation/equivalent: {line}")
    sys.exit(1 if stale or any(score.unexplained for score in scores) else 0)


if __name__ == "__main__":
    main()
