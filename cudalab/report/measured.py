"""What real cards measured of the kernels of a run: the results that the lab's repository holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cudalab.base.errors import CudalabError
from cudalab.device.machine import ROOT
from cudalab.results import file, record
from cudalab.results.record import Case, Results
from cudalab.spec import find
from cudalab.tools.inspect import cards

FOLDER = ROOT / "bench" / "results"  # one folder for each card; an installed package has none


@dataclass(frozen=True)
class Measured:
    """A run of one kernel on a card. `earlier`: its `.cu` was another version than that of the run here."""

    run: Results
    path: Path
    earlier: bool

    @property
    def card(self) -> str:
        """The card's name in short, such as H200."""
        known = cards.of_machine(self.run.machine.name)
        return known.name if known else self.run.machine.name.removeprefix("NVIDIA ")

    @property
    def shown(self) -> str:
        """The file's name to type: from the current folder if it is below that."""
        near = os.path.relpath(self.path)
        return str(self.path) if near.startswith(os.pardir) else near

    def entry(self, case: Case) -> tuple[Case, list[Case]] | None:
        """The timed row of the entry of `case` at the same shape and dtype, with its group; None if there is none."""
        for cases in self.run.groups().values():
            same = [c for c in cases if (c.kernel, c.dtype, c.shape) == (case.kernel, case.dtype, case.shape)]
            for row in same:
                if row.backend in record.ENTRIES and row.variant == case.variant and row.times.get(self.run.main_kind):
                    return row, same
        return None


def newest_runs(run: Results, kernel: str) -> list[Measured]:
    """The newest run on each card of a kernel of `run` that timed an entry of it at one of its sizes; by card.

    They are of the same `.cu`. A kernel of the lab that was changed since has those of its earlier version; a user's
    kernel that only shares its name has none, nor has one with launch parameters of `--set`.
    """
    if run.options.get("parameters"):
        return []
    source = f"{kernel}.cu"
    entries = [case for case in run.cases if case.kernel == kernel and case.backend in record.ENTRIES]
    newest: dict[str, Measured] = {}
    for path, found in _runs(kernel):
        earlier = found.sources.get(source) != run.sources.get(source)
        one = Measured(found, path, earlier)
        known = newest.get(one.card)
        if earlier and _by_path(run):
            continue
        if (known is None or known.run.created < found.created) and any(map(one.entry, entries)):
            newest[one.card] = one
    return [newest[card] for card in sorted(newest)]


def _runs(kernel: str) -> Iterator[tuple[Path, Results]]:
    """The benches of this kernel on a GPU that the folders of the cards hold."""
    if os.sep in kernel:  # no name of a file
        return
    for path in sorted(card / f"{kernel}.json" for card in FOLDER.glob("*") if card.is_dir()):
        try:
            found = file.load(path)
        except (CudalabError, OSError, ValueError):  # none, or one that cannot be read: the run here does without
            continue
        if found.machine.device == "cuda" and found.kind == "bench" and any(c.kernel == kernel for c in found.cases):
            yield path, found


def _by_path(run: Results) -> bool:
    """Whether a kernel of the run was named by its path: it may be a user's with the name of one of the lab's."""
    return any(find.is_path(str(name)) for name in run.options.get("kernels") or ())
