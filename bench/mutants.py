"""Mutation score of the lab's check: what share of small faults in a kernel's `.cu` would it notice?

    python bench/mutants.py [KERNEL]... [-v] [--jobs N]

Every mutant goes through the check on the host, in a process of its own. One that survives is a fault that the lab
would pass, unless bench/mutation/equivalent.py says why no answer can tell it from the original. Exit code: 0 if it
does for every survivor, 1 if not, or if it is out of date, 2 for bad input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import click
from mutation import gate
from mutation.equivalent import EQUIVALENT
from mutation.gate import KILLS, Verdict
from mutation.rules import Mutant, mutants
from rich.console import Console
from rich.table import Table

from cudalab import plan, source
from cudalab.errors import CudalabError
from cudalab.spec import Kernel

CORES = len(os.sched_getaffinity(0))
WIDTH = 120  # of the table, which is no use with its words cut short


@dataclass
class Score:
    """What became of the mutants of one kernel."""

    kernel: str
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
    def unexplained(self) -> list[Mutant]:
        return [mutant for mutant in self.survivors if why(self.kernel, mutant) is None]

    @property
    def stale(self) -> list[str]:
        """Complaints about documented mutants of this kernel that are killed, or are not made any more."""
        alive = {(m.before, m.after) for m in self.survivors}
        made = {(m.before, m.after): (m, verdict) for m, verdict in self.verdicts}
        found = []
        for line in EQUIVALENT.get(self.kernel, {}):
            if line not in alive:
                fate = f"is killed ({made[line][1].outcome})" if line in made else "is no mutant any more"
                found.append(f"{self.kernel}: {line[0]}  ->  {line[1]}  {fate}")
        return found

    @property
    def row(self) -> list[int]:
        """The numbers of the table, in the order of HEAD."""
        explained = len(self.survivors) - len(self.unexplained)
        kills = [self.count(outcome) for outcome in KILLS]
        return [len(self.verdicts), self.killed, *kills, self.count("invalid"), explained, len(self.unexplained)]


HEAD = ("kernel", "mutants", "killed", *KILLS, "invalid", "equivalent", "unexplained")


def why(kernel: str, mutant: Mutant) -> str | None:
    """The documented reason for which a mutant may survive, or None."""
    reason: str | None = EQUIVALENT.get(kernel, {}).get((mutant.before, mutant.after))
    return reason


def judged(name: str, kernel: Kernel, jobs: int) -> Iterator[tuple[Mutant, Verdict]]:
    """Every mutant of a kernel with its verdict, in the order of their places.

    The sanitizer, which takes longer than all the rest, is for survivors without a documented reason.
    """
    found = mutants(source.read(kernel.cu))
    texts = [(m.text, why(name, m) is None) for m in found]
    yield from zip(found, gate.judge_all(kernel, texts, jobs), strict=True)


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
@click.option("--jobs", default=CORES, show_default=True, type=click.IntRange(1), help="Mutants at once.")
def main(kernels: tuple[str, ...], verbose: bool, jobs: int) -> None:
    """KERNELs are names of the lab's or paths of specs; none: those whose survivors have been explained."""
    console = Console(width=WIDTH, highlight=False, markup=False, soft_wrap=True)
    scores = []
    try:
        for name, kernel in plan.named(kernels or tuple(EQUIVALENT)).items():
            scores.append(Score(name))
            for mutant, verdict in judged(name, kernel, jobs):
                scores[-1].verdicts.append((mutant, verdict))
                reason = (why(name, mutant) or "UNEXPLAINED") if verdict.outcome == "survived" else verdict.reason
                if verbose or reason == "UNEXPLAINED":
                    console.print(f"{name}.cu:{mutant}  [{verdict.outcome}] {reason}")
    except CudalabError as error:
        raise click.UsageError(str(error)) from None
    console.print(table(scores), soft_wrap=False)
    stale = [line for score in scores for line in score.stale]
    for line in stale:
        console.print(f"out of date in bench/mutation/equivalent.py: {line}")
    sys.exit(1 if stale or any(score.unexplained for score in scores) else 0)


if __name__ == "__main__":
    main()
