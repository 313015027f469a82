"""Progress on standard error: a table on a terminal, one line per group in a log, nothing with --quiet.

The parent process draws the table, only when the run reports progress: it starts no thread and never waits for the
worker. The table disappears when the run ends.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from threading import current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from cudalab.base import numbers
from cudalab.base.text import visible
from cudalab.cli import screen, terminal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from cudalab.engine.messages import Glimpse
    from cudalab.engine.progress import Progress, Report
    from cudalab.results.record import Results

Line = tuple[str, str]  # text and style

REFRESH = 0.25  # seconds between two drawings of the table
REFRESH_TIMING = 0.5  # the same interval while samples are taken
QUIET = 2.0  # seconds between two log lines about groups that were only checked and are right
REASON = 200  # characters of a reason in a log; the tables have the whole
MARGIN = 3  # free columns at the right: an echoed ^C must not start a new line, or the table is removed incompletely
SUMMARIES = 3  # finished groups that stay visible
STYLES = {"WRONG": "red", "IMPOSSIBLE": "red", "error": "red", "skipped": "dim"}
WORDS = {
    "start": "starting", "compile": "compiling", "check": "checking", "check after timing": "checking again",
}  # fmt: skip


@contextmanager
def progress_shown(quiet: bool = False, begins: str = "") -> Iterator[Report]:
    """Give the function that a run reports progress to; redirect Python's standard output to standard error.

    `begins`: what is going to run, said once a device is open.
    """
    with _shown(quiet, begins) as report, _interrupted_by_ctrl_c(report) as checked:
        yield checked


@contextmanager
def _shown(quiet: bool, begins: str) -> Iterator[Report]:
    from cudalab.engine.progress import ignore

    if not quiet and terminal.live(sys.stderr):
        draws = terminal.draws(sys.stderr)  # before Rich replaces it
        with _area(redirect_stderr=True) as area, redirect_stdout(sys.stderr):
            try:
                yield _Table(area, draws, begins)
            finally:
                sys.stderr.flush()  # prints a last line that has no line end
    else:
        shown = screen.given()
        write = shown.progress if shown else partial(click.echo, err=True)
        with redirect_stdout(sys.stderr):
            yield ignore if quiet else Log(write, begins=begins)


@contextmanager
def _interrupted_by_ctrl_c(report: Report) -> Iterator[Report]:
    """Give a form of `report` that raises KeyboardInterrupt if Ctrl-C came and the run goes on.

    Python drops an exception that is raised in one of its own callbacks (of a weak reference, a finalizer).
    """
    pending = False

    def interrupt(*signal_and_frame: object) -> None:
        nonlocal pending
        pending = True
        raise KeyboardInterrupt

    def checked(event: Progress) -> None:
        if pending:
            raise KeyboardInterrupt
        report(event)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield report
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield checked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def status_line(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function that shows one line on standard error in place of the line before, only on a terminal."""
    if quiet or not terminal.live(sys.stderr):
        yield lambda text: None
        return
    with _area() as area:
        yield lambda text: area.update(_cropped([(visible(text)[: area.console.width - MARGIN], "")]), refresh=True)


@contextmanager
def _area(redirect_stderr: bool = False) -> Iterator[Live]:
    """Give a part of the terminal that Rich redraws and removes at the end.

    Ctrl-C waits while Rich writes: Rich removes as many lines as it rendered last, so an interrupt between rendering
    and writing would leave lines on the screen.
    """
    from rich.console import Console
    from rich.live import Live

    class Uninterrupted(Console):
        depth = 0  # Rich enters the console again while it prints
        interrupted = False
        handler: Any = None

        def _hold(self, *signal_and_frame: object) -> None:
            self.interrupted = True

        def __enter__(self) -> Console:
            if not self.depth:
                self.interrupted = False
                self.handler = signal.signal(signal.SIGINT, self._hold)
            self.depth += 1
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            try:
                super().__exit__(*error)
            finally:
                self.depth -= 1
                if not self.depth:
                    signal.signal(signal.SIGINT, self.handler)
                    if self.interrupted:
                        signal.raise_signal(signal.SIGINT)

    console = Uninterrupted(
        stderr=True, highlight=False, no_color=not terminal.colored(sys.stderr), legacy_windows=False
    )
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False,
              redirect_stderr=redirect_stderr) as area:  # fmt: skip
        console.show_cursor(True)  # a process that is killed cannot show it again
        yield area


def _cropped(lines: list[Line]) -> Text:
    from rich.text import Text

    parts = [part for line in lines for part in (line, ("\n", ""))]
    return Text.assemble(*parts[:-1], no_wrap=True, overflow="crop")


class Log:
    """Write a line when groups begin, one per finished group, and the reason of what is wrong where it is new."""

    def __init__(
        self, write: Callable[[str], object], clock: Callable[[], float] = monotonic, begins: str = ""
    ) -> None:
        self._write, self._clock, self._begins = write, clock, begins
        self._last = -QUIET
        self._known: set[tuple[str, ...]] = set()  # reasons that were written

    def __call__(self, event: Progress) -> None:
        if self._begins and not event.step.opens:
            self._write(visible(self._begins))
            self._begins = ""
        if event.finished is None:
            return
        now = self._clock()
        reasons = self._new_reasons(event.finished)
        unremarkable = not event.finished.timed and not reasons
        if unremarkable and now - self._last < QUIET and event.done < event.groups:
            return
        self._last = now
        left = remaining(event) if event.done < event.groups else f", took {numbers.duration(event.elapsed)}"
        self._write(f"[{event.done}/{event.groups}] {summary(event)}{left}")
        for text in reasons:
            self._write(f"  {visible(text)}")

    def _new_reasons(self, rows: Results) -> list[str]:
        """The reasons of rows that are broken in a way that was not written yet, a line each."""
        from cudalab.report.below_tables import same_reason
        from cudalab.results.record import BROKEN

        found: list[str] = []
        for case in rows.cases:
            if case.status in BROKEN and (like := same_reason(case)) not in self._known:
                self._known.add(like)
                reason = " ".join(case.reason.split())
                found.append(f"{case.status} {case.label}: {reason[:REASON]}{' ...' if len(reason) > REASON else ''}")
        return found


class _Table:
    """Draw the table of the present group, at most every REFRESH seconds."""

    def __init__(self, area: Live, draws: bool, begins: str = "") -> None:
        self.area, self.draws = area, draws
        self.summaries = [begins] if begins else []  # `begins` goes when there are others
        self.last = -REFRESH

    def __call__(self, event: Progress) -> None:
        if event.finished is not None:
            self.summaries.append(summary(event, short=True))
        now = monotonic()
        if now - self.last < (REFRESH_TIMING if event.step.phase.startswith("timing") else REFRESH):
            return
        self.last = now
        size = self.area.console.size
        lines = picture(event, self.summaries, size.width, size.height)
        shown = [(text if self.draws else text.replace("\u00b5", "u"), style) for text, style in lines]
        self.area.update(_cropped(shown), refresh=True)


def picture(event: Progress, summaries: list[str], width: int, height: int) -> list[Line]:
    """Return the lines of the table: at most `height` - 1, each at most `width` - MARGIN characters wide.

    Finished groups come first, then the present group with one line per variant. Lines without room are counted.
    """
    head = _head(event, width)
    room = max(height - 1 - len(head), 0)
    rows = _rows(event, room)
    past = summaries[-SUMMARIES:] if len(rows) + SUMMARIES <= room else summaries[len(summaries) - room + len(rows) :]
    lines = [(text, "dim") for text in past] + head + rows
    return [(visible(text)[: width - MARGIN], style) for text, style in lines[: height - 1]]


def _head(event: Progress, width: int) -> list[Line]:
    step = event.step
    starts = step.opens or not step.group
    place = f"[{min(event.done + 1, event.groups)}/{event.groups}] " if event.groups and not starts else ""
    turn = f", process {event.process} of {event.processes}" if event.processes > 1 and place else ""
    phase = WORDS.get(step.phase, step.phase)
    doing = f"starting: {step.phase}".removesuffix(": start") if starts else f"{place}{step.group}{turn}: {phase}"
    minutes, seconds = divmod(int(event.elapsed), 60)
    time = f"{minutes}:{seconds:02}{remaining(event)}"
    if len(doing) + len(time) + 3 + MARGIN < width:
        return [(f"{doing}   {time}", "bold")]
    return [(doing, "bold"), (time, "")]


def _rows(event: Progress, room: int) -> list[Line]:
    """Return one line per variant in run order; without room for all, those around the variant that runs."""
    labels = list(event.labels)
    if len(labels) <= room:
        return [_row(event, label, labels) for label in labels]
    if room < 2:
        return []
    at = labels.index(event.step.label) if event.step.label in labels and not _timing(event) else 0
    first = max(min(at - (room - 1) // 2, len(labels) - room + 1), 0)
    shown = labels[first : first + room - 1]
    return [*(_row(event, label, labels) for label in shown), (f"    and {len(labels) - len(shown)} more", "dim")]


def _row(event: Progress, label: str, labels: list[str]) -> Line:
    seen = event.glimpses.get(label)
    at_work = event.step.label == label
    text = f"{'  > ' if at_work else '    '}{label:{max(map(len, labels))}}  "
    if seen is not None:
        return text + _seen(seen), STYLES.get(seen.status, "")
    if at_work:
        return text + WORDS.get(event.step.phase, event.step.phase), ""
    return text + "waiting", "dim"


def _seen(seen: Glimpse) -> str:
    if seen.status != "ok":
        return seen.status
    ulp = numbers.ulp(seen.max_ulp)
    time = f"  first {numbers.significant(1e6 * seen.seconds, 2)} \u00b5s" if seen.seconds else ""
    return f"right, {ulp} ULP".ljust(16 if time else 0) + time


def _timing(event: Progress) -> bool:
    return event.step.phase.startswith(("timing", "check after"))


def summary(event: Progress, short: bool = False) -> str:
    """Return one line about a finished group; a short one fits a terminal."""
    from cudalab.report import answer

    assert event.finished is not None
    said = (answer.short if short else answer.sentence)(event.finished, event.finished.cases)
    return visible(f"{event.step.group}: {said}")


def remaining(event: Progress) -> str:
    """Return the time left in words, after a comma; "" where it is not known yet."""
    return "" if event.left is None else f", {numbers.duration(event.left)} left"
