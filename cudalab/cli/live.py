"""Progress on standard error: a table that fills in on a terminal, a line a group in a log, nothing if --quiet.

The table is drawn by the parent, which has nothing else to do, and only when the run tells it something: there is no
thread, and the worker is neither woken nor waited for. It is gone when the run ends.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from cudalab.base import numbers
from cudalab.base.text import visible
from cudalab.cli import terminal

if TYPE_CHECKING:
    from types import FrameType

    from rich.live import Live
    from rich.text import Text

    from cudalab.engine.messages import Glimpse
    from cudalab.engine.progress import Progress, Report
    from cudalab.results.record import Results

Line = tuple[str, str]  # text, and its style

REFRESH = 0.25  # seconds between two pictures
REFRESH_TIMING = 0.5  # while samples are taken
QUIET = 2.0  # seconds between two lines in a log about groups that were only checked, and are right
MARGIN = 3  # columns at the right: where Ctrl-C is echoed; if that began a line, the picture would be off by one
SUMMARIES = 3  # finished groups that stay in sight
STYLES = {"WRONG": "red", "error": "red", "skipped": "dim"}
WORDS = {"compile": "compiling", "check": "checking", "check after timing": "checking again"}


@contextmanager
def shown(quiet: bool = False) -> Iterator[Report]:
    """Give the function that a run tells its progress to. What Python code prints meanwhile goes to standard error."""
    from cudalab.engine.progress import ignore

    if not quiet and terminal.live(sys.stderr):
        with _table() as show, redirect_stdout(sys.stderr):
            yield show
    else:
        with redirect_stdout(sys.stderr):
            yield ignore if quiet else Log(lambda text: click.echo(text, err=True))


@contextmanager
def line(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function that shows one line on standard error in place of the last, on a terminal alone."""
    if quiet or not terminal.live(sys.stderr):
        yield lambda text: None
        return

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{visible(text)[: shutil.get_terminal_size().columns - MARGIN]}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


class Log:
    """One line for each finished group, so that a log shows life."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = monotonic) -> None:
        self._write, self._clock = write, clock
        self._last = -QUIET

    def __call__(self, event: Progress) -> None:
        if event.finished is None:
            return
        now = self._clock()
        dull = not event.finished.timed and not _bad(event.finished)
        if dull and now - self._last < QUIET and event.done < event.groups:
            return
        self._last = now
        left = f", {remaining(event)}" if event.done < event.groups else f", took {numbers.duration(event.elapsed)}"
        self._write(f"[{event.done}/{event.groups}] {summary(event)}{left}")


@contextmanager
def _table() -> Iterator[Report]:
    from rich.console import Console
    from rich.live import Live

    draws = terminal.draws(sys.stderr)  # asked before Rich puts itself in front of it
    console = Console(stderr=True, highlight=False, no_color=not terminal.colored(sys.stderr), legacy_windows=False)
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as area:
        console.show_cursor(True)  # it is never missed, whatever ends the process
        try:
            with redirect_stderr(cast("TextIO", _Above(sys.stderr))):
                yield _Table(area, draws)
        finally:
            sys.stderr.flush()  # a last line without an end, which would be lost


@contextmanager
def _whole() -> Iterator[None]:
    """Ctrl-C waits until the end: half a picture could not be wiped away, as nobody would know its height.

    The handler is exchanged: a signal that only this thread blocked would be taken by another.
    """
    held: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])


class _Above:
    """Standard error while the table is on: what is written appears above it, and the table is drawn again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _whole():
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Table:
    """Keeps the picture up to date."""

    def __init__(self, area: Live, draws: bool) -> None:
        self.area, self.draws = area, draws
        self.summaries: list[str] = []
        self.last = -REFRESH

    def __call__(self, event: Progress) -> None:
        if event.finished is not None:
            self.summaries.append(summary(event))
        now = monotonic()
        if now - self.last < (REFRESH_TIMING if event.step.phase.startswith("timing") else REFRESH):
            return
        self.last = now
        size = self.area.console.size
        with _whole():
            self.area.update(self._text(picture(event, self.summaries, size.width, size.height)), refresh=True)

    def _text(self, lines: list[Line]) -> Text:
        from rich.text import Text

        shown = [(text if self.draws else text.replace("\u00b5", "u"), style) for text, style in lines]
        parts = [part for line in shown for part in (line, ("\n", ""))]
        return Text.assemble(*parts[:-1], no_wrap=True, overflow="crop")


def picture(event: Progress, summaries: list[str], width: int, height: int) -> list[Line]:
    """The lines of the table: at most `height` - 1 of them, at most `width` - MARGIN wide.

    Finished groups stand above the present one, of which there is a line a variant. What has no room is counted.
    """
    head = _head(event, width)
    room = max(height - 1 - len(head), 0)
    rows = _rows(event, room)
    past = summaries[-SUMMARIES:] if len(rows) + SUMMARIES <= room else summaries[len(summaries) - room + len(rows) :]
    lines = [(text, "dim") for text in past] + head + rows
    return [(visible(text)[: width - MARGIN], style) for text, style in lines[: height - 1]]


def _head(event: Progress, width: int) -> list[Line]:
    step = event.step
    place = f"[{min(event.done + 1, event.groups)}/{event.groups}] " if event.groups and step.group != "worker" else ""
    doing = f"{place}{step.group}: {step.phase if step.label else WORDS.get(step.phase, step.phase)}"
    minutes, seconds = divmod(int(event.elapsed), 60)
    time = f"{minutes}:{seconds:02}, {remaining(event)}"
    if len(doing) + len(time) + 3 + MARGIN < width:
        return [(f"{doing}   {time}", "bold")]
    return [(doing, "bold"), (time, "")]


def _rows(event: Progress, room: int) -> list[Line]:
    """One line a variant, as many as there is room for: those around the one at work, in the order of their turns."""
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


def summary(event: Progress) -> str:
    """One line about a finished group: its fastest variant, or how many are right, and what is not."""
    from cudalab.report import columns

    rows = event.finished
    assert rows is not None
    said = [f"{len(labels)} {status} ({', '.join(labels)})" for status, labels in _bad(rows).items()]
    kind = rows.main_kind
    timed = [c for c in rows.cases if c.status == "ok" and c.times.get(kind)]
    if timed:
        best = min(timed, key=lambda c: c.median(kind) or 0.0)
        ratio = rows.speedup(best, kind)
        than = f", {numbers.factor(ratio.value)} x {rows.reference_name}" if ratio else ""
        said.insert(0, f"fastest {best.label} {columns.microseconds(best, kind)} \u00b5s{than}")
    else:
        right = sum(c.status == "ok" for c in rows.cases)
        said.insert(0, f"{right} right" if right or said else "nothing that runs here")
    return visible(f"{event.step.group}: {', '.join(said)}")


def _bad(rows: Results) -> dict[str, list[str]]:
    """Labels by status, of what is wrong or failed."""
    found: dict[str, list[str]] = {}
    for case in rows.cases:
        if case.status in ("WRONG", "error"):
            found.setdefault(case.status, []).append(case.label)
    return found


def remaining(event: Progress) -> str:
    """The time left in words."""
    return "? left" if event.left is None else f"{numbers.duration(event.left)} left"
