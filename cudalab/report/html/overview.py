"""The first picture of the page: every kernel against its fastest rival, losses first; one for each card.

Up to FEW comparisons have a row each. Of more, each kernel has three: the geometric mean, the worst and the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cudalab.base import numbers
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR, Ratio, over_all
from cudalab.report.html.figures import Figure, number, ours, plain
from cudalab.report.html.ratios import Entry, Group, ratios
from cudalab.report.html.subjects import Run, Subject, gathered
from cudalab.results import record, rivals
from cudalab.results.record import Case, Results

FEW = 20  # comparisons that have a row each
ALL = 3  # comparisons of a kernel that have a row each in any case
VERDICTS = (SLOWER, UNCLEAR, SAME, FASTER)


@dataclass(frozen=True)
class Row:
    """A kernel, size and dtype of a file: the comparison, or why there is none."""

    subject: Subject
    file: str  # where several files have the kernel
    run: Results
    cases: list[Case]
    found: rivals.Comparison | None

    @property
    def place(self) -> str:
        first = self.cases[0]
        return f"{plain(first.size, 40)}, {plain(first.dtype, 20)}"

    @property
    def kernel(self) -> str:
        return plain(self.cases[0].kernel) + (f" \u00b7 {self.file}" if self.file else "")

    @property
    def without(self) -> str:
        """Why there is no ratio; "" if there is one."""
        if self.found:
            return ""
        mine = [case for case in self.cases if ours(case) and not case.old]
        bad = next((case.status for case in mine if case.status in record.BROKEN), "")
        if bad:
            return bad
        if not rivals.ours(self.run, self.cases, self.run.main_kind):
            return "ours not timed"
        return "no rival timed"

    @property
    def rank(self) -> tuple[int, float]:
        """What went wrong is first, then losses, the slowest first; what has nothing to compare with is last."""
        if self.found is None:
            return (0 if self.without in record.BROKEN else 3), 0.0
        ratio = self.found.ratio
        return (1 if ratio.verdict() == SLOWER else 2), 1.0 if ratio.says_nothing else ratio.value


def rival_figures(runs: Sequence[Results]) -> tuple[list[Figure], list[str]]:
    """`figures` of runs alone, without links to the parts of a page."""
    named = [Run(f"file {i}", run) for i, run in enumerate(runs, 1)]
    return figures(named, gathered(named))


def figures(runs: Sequence[Run], subjects: Sequence[Subject]) -> tuple[list[Figure], list[str]]:
    """(one picture for each card that has a comparison, sentences about those that have none)."""
    held = [run for run in runs if run.results.timed and not run.results.of_study]
    kinds: dict[tuple[str, str], str] = {}  # by card, of the first run with times: one without has only what went wrong
    for run in held:
        if run.results.main_kind:
            kinds.setdefault(_card(run), run.results.main_kind)
    cards: dict[tuple[tuple[str, str], str], list[Row]] = {}
    for run in held:
        kind = run.results.main_kind or kinds.get(_card(run), "")
        cards.setdefault((_card(run), kind), []).extend(_rows(run, subjects))
    drawn, without = [], []
    for ((device, name), kind), rows in cards.items():
        if any(row.found for row in rows):
            drawn.append(_figure(sorted(rows, key=lambda row: row.rank), kind, name if len(cards) > 1 else ""))
        elif rows:
            why = "a .cu is checked on a CPU, and not timed" if device == "cpu" else _most(row.without for row in rows)
            without.append(f"No ratio of ours to a rival on {name}: {why}.")
    return drawn, without


def _card(run: Run) -> tuple[str, str]:
    return run.results.machine.device, plain(run.results.machine.name, 60)


def _rows(run: Run, subjects: Sequence[Subject]) -> list[Row]:
    kind = run.results.main_kind
    found = []
    for subject in subjects:
        several = len({id(group.run) for group in subject.groups if _card(group.run) == _card(run)}) > 1
        for group in subject.groups:
            if group.run is run and not subject.study:
                one = rivals.compared(run.results, group.cases, kind)
                found.append(Row(subject, run.label if several else "", run.results, group.cases, one))
    return found


def _figure(rows: Sequence[Row], kind: str, card: str) -> Figure:
    few = len(rows) <= FEW
    groups = [Group(row.rank, [_single(row)]) for row in rows] if few else _by_kernel(rows)
    verdicts = Counter(row.found.ratio.verdict() for row in rows if row.found)
    bad = Counter(row.without for row in rows if not row.found)
    counted = [f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict]]
    counted += [f"{n} {why}" for why, n in bad.items()]
    what = (
        "Each kernel, size and dtype"
        if few
        else "Of each kernel: the geometric mean over sizes and dtypes, the worst and the best of them, with the "
        f"rival's name; small strokes are the others. Up to {ALL} sizes and dtypes are all shown"
    )
    order = "Losses first" if few else "Kernels with losses first, by the worst"
    says = (
        f"{what}. {order}, with 95 % intervals; dashed where an interval holds 1. {len(rows)} comparisons: "
        f"{', '.join(counted)}."
    )
    one = len({row.cases[0].kernel for row in rows}) == 1
    title = f"{'Ours' if one else 'All kernels'} against the fastest rival, {number(kind)}"
    title += f" \u00b7 {card}" if card else ""
    return Figure("rivals", title, says, ratios(sorted(groups, key=lambda group: group.rank), number(kind)))


def _by_kernel(rows: Sequence[Row]) -> list[Group]:
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        kernels.setdefault(row.kernel, []).append(row)
    return [_summed_up(held) if len(held) > ALL else Group(held[0].rank, list(map(_single, held)))
            for held in kernels.values()]  # fmt: skip


def _summed_up(rows: Sequence[Row]) -> Group:
    """The mean, the worst and the best of a kernel's sorted rows; before them what has no ratio."""
    compared = [row for row in rows if row.found]
    ratios = [row.found.ratio for row in compared if row.found]
    first = rows[0]
    why = Counter(row.without for row in rows if not row.found)
    entries = [Entry("", None, f"{n} of {len(rows)} {text}", bad=text in record.BROKEN) for text, n in why.items()]
    if not ratios:
        named = [Entry(first.kernel, None, entries[0].right, entries[0].bad, link=first.subject.anchor, head=True)]
        return Group(first.rank, [*named, *entries[1:]])
    mean = over_all(ratios)
    each = [ratio.value for ratio in ratios if not ratio.says_nothing]
    verdicts = Counter(ratio.verdict() for ratio in ratios)
    counted = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    said = f"{numbers.with_ends(mean)}, {mean.verdict()}; {counted}"
    head = Entry(first.kernel, mean, f"{numbers.ratio(mean)} {mean.verdict()}", hint=f"{first.kernel}: {said}",
                 link=first.subject.anchor, head=True, strokes=tuple(each))  # fmt: skip
    ends = [("worst", compared[0]), ("best", compared[-1])]
    return Group(first.rank, [head, *entries, *(_end(word, row) for word, row in ends)])


def _end(word: str, row: Row) -> Entry:
    assert row.found
    return Entry(f"{word}: {row.place}", row.found.ratio, _said(row.found), hint=_hint(row))


def _single(row: Row) -> Entry:
    name = f"{row.kernel}, {row.place}"
    if row.found is None:
        return Entry(name, None, row.without, row.without in record.BROKEN, link=row.subject.anchor)
    return Entry(name, row.found.ratio, _said(row.found), hint=_hint(row), link=row.subject.anchor)


def _said(found: rivals.Comparison) -> str:
    return f"{numbers.ratio(found.ratio)} {found.ratio.verdict()}, {plain(found.rival.label, 60)}"


def _hint(row: Row) -> str:
    assert row.found
    one: Ratio = row.found.ratio
    names = f"{plain(row.found.ours.label, 60)} against {plain(row.found.rival.label, 60)}"
    return f"{row.kernel}, {row.place}: {numbers.with_ends(one)}, {one.verdict()}; {names}"


def _most(texts: Iterable[str]) -> str:
    return Counter(texts).most_common(1)[0][0]
