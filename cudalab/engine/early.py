"""How a run ends before its last group: by Ctrl-C, or since its time is over."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from cudalab.base.errors import Unavailable

NAMED = 4  # groups that a run which is out of time names


class Stopped(KeyboardInterrupt):
    """Ctrl-C; the message says how many groups were finished.

    `elsewhere` is the file that has them where the run's own could not be written.
    """

    def __init__(self, text: str, elsewhere: str = "") -> None:
        super().__init__(text)
        self.elsewhere = elsewhere


class OutOfTime(Exception):
    """The run has taken the seconds that it may take."""


def say_out_of_time(left: Sequence[object], groups: int, seconds: float | None, output: str | os.PathLike[str]) -> None:
    """Warn which of so many groups are left, and say how to go on. Raises Unavailable where none was finished."""
    if len(left) == groups:
        raise Unavailable(
            f"nothing was finished within {seconds:g} s; give more seconds, fewer sizes, dtypes or variants, or a "
            "quick run"
        )
    names = ", ".join(map(str, left[:NAMED])) + (f" and {len(left) - NAMED} more" if left[NAMED:] else "")
    saved = f"continue with: --resume {output}" if output else "to continue later, save results with -o"
    finished = f"finished {groups - len(left)} of {groups} groups"
    warnings.warn(f"out of time after {seconds:g} s: {finished}; missing: {names}; {saved}", stacklevel=2)
