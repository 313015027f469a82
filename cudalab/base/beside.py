"""Threads of Python that a variant has started and that work while others are timed: they take cores from these."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import perf_counter

TASKS = Path("/proc/self/task")
SHARE = 0.2  # of the time of another variant's turns that a thread may work
LEAST = 0.02  # seconds of such turns from which that is judged
SAID = (
    "a thread that the spec has started ({}) works while other variants are timed, which are slower for it; let each "
    "call end the work that it begins"
)


class Watch:
    """Counts by thread and variant. A thread belongs to the variant in whose turn it was first seen, if any.

    `shared`: whether the threads of one variant may well work for another one. Linux alone tells what threads do.
    """

    def __init__(self, shared: Callable[[str], bool]) -> None:
        self._shared = shared
        self._owners: dict[Thread, str] = {}
        self._before: dict[Thread, float] = {}
        self._used: dict[str, dict[Thread, float]] = defaultdict(lambda: defaultdict(float))  # by variant
        self._spans: dict[str, float] = defaultdict(float)  # by variant, seconds of its turns
        self._at = perf_counter()
        self.turn("", timed=False)

    def turn(self, label: str, timed: bool = True) -> None:
        """Count what threads have done since the last call: the turn of this variant. Not `timed`: while it is made."""
        now = perf_counter()
        for one in threading.enumerate():
            if one is not threading.current_thread():
                wanted = _wanted(one)
                if self._owners.setdefault(one, label) != label and timed:
                    self._used[label][one] += wanted - self._before.get(one, wanted)
                self._before[one] = wanted
        self._spans[label] += now - self._at if timed else 0.0
        self._at = perf_counter()

    def found(self) -> str:
        """What to say of a thread that works in the turns of others; "" if none does."""
        for one, owner in self._owners.items():
            hindered = [
                label
                for label, span in self._spans.items()
                if not self._shared(label) and span > LEAST and self._used[label][one] > SHARE * span
            ]
            if len(hindered) > (not owner):  # one that is as old as the spec may work for one of them
                return SAID.format(one.name)
        return ""


def _wanted(thread: Thread) -> float:
    """Seconds in which a thread used the CPU or waited for it; 0 where it has ended, or the system does not tell."""
    try:
        ran, waited, *_ = (TASKS / str(thread.native_id) / "schedstat").read_text().split()
        return 1e-9 * (int(ran) + int(waited))
    except (OSError, ValueError):
        return 0.0
