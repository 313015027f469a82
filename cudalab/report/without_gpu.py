"""The screen of a bench without a GPU: is the `.cu` right, what bounds it on a card, what did a card measure?

The times of a CPU say little of a kernel: they stand in one line, and `--all` prints their tables in place of this.
"""

from __future__ import annotations

import io
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import msgspec
from rich.console import Console

from cudalab.base import numbers
from cudalab.report import answer, below_tables, columns, gpus, measured, table
from cudalab.report.columns import HOST, NOT_MEASURED, Column
from cudalab.report.measured import Measured
from cudalab.results import marks, record
from cudalab.results.record import Case, Results
from cudalab.tools.inspect.diagnosis import BOUND

NOT_COMPILED = " does not compile:"  # of the reason of a prediction
LAUNCH = "~"  # of `marks.MARKS`
OLDER = "only the command `cudalab bench` predicts, and files of older versions hold no prediction"
DROPPED = ("x eager", "% limit")  # columns that a narrow terminal leaves out, in this order


def render(run: Results, width: int | None, color: bool) -> str:
    """The run, at most `width` columns wide."""
    out = io.StringIO()
    console = table.screen(out, width, color)
    console.print(table.plain(_heading(run), "bold"))
    if text := columns.missing(run):
        console.print(table.plain(text, "bold yellow"))
    cards = {kernel: measured.newest_runs(run, kernel) for kernel in dict.fromkeys(case.kernel for case in run.cases)}
    marked = False
    for cases in _groups(run):
        drawn = _columns([case for case in cases if case.backend == HOST], cards[cases[0].kernel])
        marked = marked or any(LAUNCH in cell for column in drawn for cell in column.cells)
        console.print()
        _group(console, run, cases, drawn)
    console.print()
    for labels, reason in _skipped(run):
        console.print(table.remark("skipped", labels, reason))
    for line in _not_predicted(run):
        console.print(table.plain(line, "yellow", keep="\n"))
    table.put_gpus(console, run)
    for line in _footer(run, cards, marked):
        console.print(table.plain(line, "dim"))
    return table.finished(out, width)


def _heading(run: Results) -> str:
    return f"No GPU: {run.no_gpu}. Checked on the CPU{columns.with_set(run)}"


def _groups(run: Results) -> list[list[Case]]:
    """The cases of each kernel and dtype, all sizes of it together."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in run.cases:
        found.setdefault((case.kernel, case.dtype), []).append(case)
    return list(found.values())


def _group(console: Console, run: Results, cases: list[Case], drawn: list[Column]) -> None:
    """Verdict, the table of the entries, what is wrong, and the line of CPU times."""
    bad = any(case.status in record.BROKEN for case in cases if not case.old)
    title = f"{cases[0].kernel}  {cases[0].dtype}  {_verdict(cases)}"
    console.print(table.plain(title, "bold red" if bad else "bold"))
    if drawn[0].cells:
        shown, _ = table.fitting(drawn, DROPPED, console.width)
        made = table.columns_of([column.name for column in shown], left=2)
        entries = (case for case in cases if case.backend == HOST)
        for texts, case in zip(zip(*(c.cells for c in shown), strict=True), entries, strict=True):
            made.add_row(*map(table.plain, texts), style=table.STYLES.get(case.status))
        table.put(console, made, names=(1, 0))
    for said in below_tables.remarks(cases, placed=True):
        console.print(table.remark(*said))
    if line := _cpu_times(run, cases, None if console.soft_wrap else console.width):
        console.print(table.plain(line))


def _verdict(cases: Sequence[Case]) -> str:
    """Such as "right: 3 entries, 5 libraries", and "WRONG: host:gelu_vec; right: 2 entries, 5 libraries"."""
    by_status: dict[str, dict[str, bool]] = {}  # labels, and whether each is an entry's
    for case in cases:
        if not case.old and (case.status != record.SKIPPED or case.backend == HOST):
            by_status.setdefault(case.status, {})[case.label] = case.backend == HOST
    broken = {status: by_status.pop(status) for status in record.BROKEN if status in by_status}
    said = [f"{status}: {', '.join(labels)}" for status, labels in broken.items()]
    if any(NOT_COMPILED in reason for reason in _reasons(cases, {})):
        said.append("nvcc does not compile it")
    bad = {label for labels in broken.values() for label in labels}
    for status, word in ((record.SKIPPED, "not run"), (record.OK, "right")):
        kinds = [entry for label, entry in by_status.get(status, {}).items() if label not in bad]
        if kinds:
            entries = _counted(sum(kinds), "entry", "entries")
            libraries = _counted(len(kinds) - sum(kinds), "library", "libraries")
            said.append(f"{word}: {', '.join(filter(None, (entries, libraries)))}")
    return "; ".join(said) or "nothing ran here"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def _columns(entries: list[Case], cards: Sequence[Measured]) -> list[Column]:
    """Size, entry and error; what is predicted; what each card measured. A column without a value is left out."""
    found = [
        Column("size", _sizes(entries)),
        Column("entry", [case.variant or case.label for case in entries]),
        Column("max ULP", [columns.verdict(case) for case in entries]),
    ]
    predicted = [case.predicted for case in entries]
    on = next((one.card for one in predicted if one and one.card), "")
    least = [one.least if one else None for one in predicted]
    found += [
        Column("bound by", [one.bound if one and one.bound else NOT_MEASURED for one in predicted]),
        Column(f"{on} predicted", [numbers.three(1e6 * t) if t else NOT_MEASURED for t in least]),
    ]
    for card in cards:
        found += _measured(card, [card.entry(case) for case in entries])
    return [found[0], *columns.with_values(found[1:])]


def _sizes(entries: Sequence[Case]) -> list[str]:
    """The first row of each size has its name, the second its shape; a single row has both."""
    rows = Counter(case.size for case in entries)
    left: dict[str, list[str]] = {}
    for case in entries:
        shape = "x".join(map(str, case.shape))
        both = list(dict.fromkeys((case.size, shape)))
        left.setdefault(case.size, both if rows[case.size] > 1 else [" ".join(both)])
    return [left[case.size].pop(0) if left[case.size] else "" for case in entries]


def _measured(card: Measured, rows: Sequence[tuple[Case, list[Case]] | None]) -> list[Column]:
    """What a card measured of entries: time, share of the limit, ratio to eager PyTorch."""
    run, kind = card.run, card.run.main_kind
    times = [columns.microseconds(row[0], kind) + _launch_mark(run, *row) if row else NOT_MEASURED for row in rows]
    limits = [columns.of_limit(run, row[0]) if row else NOT_MEASURED for row in rows]
    ratios = [run.speedup(row[0], kind) if row else None for row in rows]
    return [
        Column(f"{card.card} measured", times),
        Column("% limit", limits),
        Column("x eager", [numbers.ratio(ratio) if ratio else NOT_MEASURED for ratio in ratios]),
    ]


def _launch_mark(run: Results, row: Case, cases: list[Case]) -> str:
    """The mark of a time that is mostly launch and timer, if it is."""
    return LAUNCH if LAUNCH in marks.signs(run, row, cases) else ""


def _cpu_times(run: Results, cases: Sequence[Case], width: int | None) -> str:
    """One line: of each size the libraries and their times, fastest first, as many as fit. Empty without times."""
    by_size: dict[str, list[str]] = {}
    for case in answer.timed(run, cases):
        if case.backend != HOST:
            by_size.setdefault(case.size, []).append(f"{case.label} {columns.microseconds(case, run.main_kind)}")
    ordered = {size: by_size[size] for size in dict.fromkeys(case.size for case in cases) if size in by_size}
    head = f"CPU \u00b5s{', busy' if run.busy else ''}:"
    most = max(map(len, ordered.values()), default=0)
    for count in range(most, 0, -1):
        line = f"{head} {'; '.join(f'{size} {_some(times, count)}' for size, times in ordered.items())}"
        if width is None or len(line) <= width:
            return line
    size, times = next(iter(ordered.items()), ("", []))  # many sizes
    return f"{head} {size} {times[0]}; others: --all" if times else ""


def _some(times: Sequence[str], count: int) -> str:
    more = len(times) - count
    return ", ".join(times[:count]) + (f", {more} more" if more > 0 else "")


def _skipped(run: Results) -> list[tuple[str, str]]:
    """(names, reason) of what could not run here; what needs a GPU is not named."""
    here = [case for case in run.cases if not case.reason.startswith("needs a GPU")]
    return below_tables.skipped(msgspec.structs.replace(run, cases=here))


def _not_predicted(run: Results) -> list[str]:
    """Why nothing is predicted of some kernels, a line for each reason."""
    return [
        f"bound by: not predicted for {', '.join(kernels)}: {reason}"
        for reason, kernels in _reasons(run.cases, _typed(run)).items()
    ]


def _typed(run: Results) -> dict[str, str]:
    """The kernels shown, each as it was named on the command line: a user's by its path."""
    asked = {PurePath(str(name)).stem: str(name) for name in run.options.get("kernels") or ()}
    return {case.kernel: shlex.quote(asked.get(case.kernel, case.kernel)) for case in run.cases}


def _reasons(cases: Sequence[Case], typed: dict[str, str]) -> dict[str, list[str]]:
    """The kernels of entries without a prediction by its reason. What failed on the CPU has a reason of its own."""
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        known = case.predicted is not None and case.predicted.least is not None
        if case.backend == HOST and case.status != record.ERROR and not case.old and not known:
            reason = case.predicted.reason if case.predicted else OLDER
            found.setdefault(reason or f"see `cudalab inspect {typed.get(case.kernel, '')}`", {})[case.kernel] = None
    return {reason: list(kernels) for reason, kernels in found.items()}


def _footer(run: Results, cards: dict[str, list[Measured]], marked: bool) -> list[str]:
    """How to read the columns, where the numbers come from, and where there is more. `marked`: a time has LAUNCH."""
    entries = [case for case in run.cases if case.backend == HOST]
    lines = below_tables.errors(run, entries)
    predicted = [case.predicted for case in entries if case.predicted and case.predicted.least]
    if predicted:
        name = _typed(run)[next(case.kernel for case in entries if case.predicted and case.predicted.least)]
        on, bounds = predicted[0].card, dict.fromkeys(one.bound for one in predicted)
        lines.append(f"predicted: least \u00b5s on an {on}, by machine code; more: cudalab inspect {name}")
        words = [f"{name}: {BOUND.get(name, name)}" for name in bounds if name != "memory"]
        lines += [f"bound by {'; '.join(words)}"] if words else []
    lines += _sources(run, cards) + below_tables.not_loaded(run)
    times = ["CPU \u00b5s: wall clock, fastest first; as tables: --all"] if any(c.times for c in run.cases) else []
    last = [*times, *([f"{LAUNCH} mostly launch and timer"] if marked else [])]
    return lines + (["; ".join(last)] if last else []) + gpus.lines(run)


def _sources(run: Results, cards: dict[str, list[Measured]]) -> list[str]:
    """Of what cards and days the measured times are, and how to read them; which kernels have none."""
    found: dict[tuple[str, str, str, bool], list[str]] = {}
    for kernel, runs in cards.items():
        for one in runs:
            place = one.shown if len(cards) == 1 else os.path.dirname(one.shown)
            found.setdefault((one.run.machine.name, one.run.created[:10], place, one.earlier), []).append(kernel)
    lines = []
    for (machine, day, place, earlier), kernels in found.items():
        which = ", an earlier .cu of " if earlier else ", " if len(found) > 1 else ""
        of = which and which + ", ".join(kernels)
        lines.append(f"measured: {machine}, {day}{of}: cudalab show {shlex.quote(place)}")
    if found:
        lines.append("% limit: of what memory or units allow; x eager: times as fast as torch_eager")
    if without := [kernel for kernel, runs in cards.items() if not runs]:
        if run.options.get("parameters"):
            lines.append("measured: times of other launch parameters than those of --set are not shown")
        else:
            names = _typed(run)
            command = f"cudalab bench {' '.join(names[kernel] for kernel in without)}"
            lines.append(f"measured: nothing of {', '.join(without)} here; `{command}` on a GPU measures it")
    return lines
