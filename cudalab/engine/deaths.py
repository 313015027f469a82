"""How workers have died at variants, and which of these a later group does not try again.

The rules are those of `cudalab.engine.supervisor`. The supervisors of a run share one record.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cudalab.base import child
from cudalab.engine.selection import Rows, Way
from cudalab.results.record import COPY

HANGS = 2  # hangs before a variant is skipped; the first hang may be due to the size
Place = tuple[str, str, str]  # file, dtype and label of a variant


class Death(msgspec.Struct, frozen=True):
    """Why a group was not finished: the variant that was at work ("": none), and the reason for its row."""

    label: str
    reason: str
    crashed: bool = False
    hung: bool = False
    after: bool = False  # every variant had its turn
    loaded: bool = False  # the variant was measured under load, which comes after all other times


class Deaths:
    """The deaths of a run."""

    def __init__(self) -> None:
        self._hung: dict[Place, list[str]] = {}  # the groups where a variant hung
        self._loaded: dict[Place, dict[str, Death]] = {}  # deaths under load, by group

    def skipped(self, group: Rows[Way], labels: Iterable[str]) -> dict[str, Death]:
        """Variants that hung in HANGS groups before: they are skipped. "" stands for what comes before all variants."""
        found = {}
        for label in (*labels, COPY, ""):
            places = self._hung.get(_place(group, label), [])
            if len(places) >= HANGS:
                what = "it" if label else "what comes before the variants, such as the reference,"
                found[label] = Death(label, f"not tried: {what} did not finish at {' and at '.join(places)}")
        return found

    def unloaded(self, group: Rows[Way]) -> dict[str, str]:
        """Variants of a group that are not measured under load, and why."""
        found = dict[str, str]()
        for (file, dtype, label), deaths in self._loaded.items():
            if (file, dtype) != (group.file, group.dtype.name):
                continue
            hung = [place for place, death in deaths.items() if death.hung]
            if death := deaths.get(str(group)):
                found[label] = death.reason
            elif len(hung) >= HANGS:
                found[label] = f"not tried: it did not finish under load at {' and at '.join(hung)}"
        return found

    def note(self, group: Rows[Way], death: Death) -> Death:
        """Remember a death before or in a variant's turn; returns it."""
        killed = f"{child.KILLED}SIGKILL" in death.reason  # for want of memory, which another size may not need
        early = not (death.label or death.after or killed)
        places = self._hung.setdefault(_place(group, death.label), [])
        if (death.hung or early) and str(group) not in places:
            places.append(str(group))
        return death

    def note_loaded(self, group: Rows[Way], death: Death) -> None:
        """Remember the death of a variant that was measured under load."""
        self._loaded.setdefault(_place(group, death.label), {})[str(group)] = death


def _place(group: Rows[Way], label: str) -> Place:
    return group.file, group.dtype.name, label
