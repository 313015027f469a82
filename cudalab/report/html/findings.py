"""The answers at the top of the page: one sentence for each kernel and dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from cudalab.base import numbers
from cudalab.report import columns
from cudalab.report.html.figures import NUMBER, ours, plain
from cudalab.results import marks, record, rivals
from cudalab.results.record import Case, Results


@dataclass(frozen=True)
class Answer:
    """A sentence, the details behind it, and its mood: good, bad or neutral."""

    subject: str
    sentence: str
    detail: str
    mood: str


def question(runs: Iterable[Results]) -> str:
    """Return the question that the page answers."""
    held = list(runs)
    kernels = list(dict.fromkeys(plain(case.kernel, 40) for run in held for case in run.cases))
    studies = {plain(case.kernel, 40) for run in held if run.of_study for case in run.cases}
    names = ", ".join(kernels[:4]) + (f" and {len(kernels) - 4} more" if len(kernels) > 4 else "")
    where = ", ".join(dict.fromkeys(plain(run.machine.name, 60) for run in held))
    if studies and len(studies) == len(kernels):
        return f"{f'{len(studies)} studies' if len(studies) > 1 else kernels[0]} on {where}: what is the result?"
    asked = "right, and how fast" if any(run.timed for run in held) else "right"
    return f"{names or 'Nothing'} on {where}: {asked}?"


def timed(
    run: Results, cases: list[Case], shares: Mapping[str, str], elsewhere: Mapping[str, Sequence[Case]] = {},
    file: str = "",
) -> Answer:  # fmt: skip
    """For one group: our fastest right entry against its peers and the copy. `shares`: per cent of the copy, by label.

    Failures `elsewhere`, at other sizes or in the check of the file that is the key, are listed too. `file` names the
    run where several have the kernel.
    """
    subject = _subject(run, cases[0], file)
    others = {name: [case for case in held if ours(case)] for name, held in elsewhere.items()}
    bad = failures([*filter(ours, cases), *others.pop("", [])])
    bad += "".join(failures(held, name) for name, held in others.items())
    kind = run.main_kind
    case = rivals.ours(run, cases, kind)
    if case is None:
        return _untimed(run, cases, subject, bad)
    time = f"ours {_time(run, case, cases)}"
    base = rivals.rival(run, cases, kind)
    parts, mood = [time], "neutral"
    if base:
        ratio, label = run.ratio(base, case, kind, chosen=True), plain(base.label, 60)
        verdict = ratio.verdict()
        ends = numbers.interval(ratio)
        rough = f"too imprecise to compare with {label}" + (f" ({ends} times as fast)" if ends != "?" else "")
        parts.append(rough if ratio.says_nothing else f"{numbers.ratio(ratio)}\u00d7 {label} ({ends}, {verdict})")
        mood = {"FASTER": "good", "SLOWER": "bad"}.get(verdict, "neutral")
    share = shares.get(case.label, columns.NOT_MEASURED)
    if share != columns.NOT_MEASURED:
        parts.append(f"{share} % of copy")
    return Answer(subject, ", ".join(parts) + bad, _detail(run, cases, case, kind), "bad" if bad else mood)


def _detail(run: Results, cases: list[Case], case: Case, kind: str) -> str:
    shape = " x ".join(map(str, case.shape))
    size = plain(case.size, 40)
    said = [
        f"{plain(case.label, 60)}, {NUMBER[kind]}, {shape if size == shape.replace(' ', '') else f'{size} ({shape})'}"
    ]
    eager = run.speedup(case, kind)
    if eager and not eager.says_nothing:
        said.append(f"{numbers.ratio(eager)}\u00d7 torch_eager ({numbers.interval(eager)})")
    if best := rivals.rival(run, cases, kind):
        said.append(f"fastest rival: {plain(best.label, 60)}, {_time(run, best, cases)}")
    said.append(f"largest error {columns.verdict(case)} ULP")
    return "; ".join(said)


def _time(run: Results, case: Case, cases: list[Case]) -> str:
    """Return the main time with its marks and unit."""
    return f"{columns.microseconds(case, run.main_kind)}{marks.signs(run, case, cases)} \u00b5s"


def _untimed(run: Results, cases: list[Case], subject: str, bad: str) -> Answer:
    """For a group without a time of ours: what was checked, and the fastest of the others."""
    kind = run.main_kind
    right = [c for c in cases if ours(c) and c.status == record.OK and c.parity]
    checked = ", ".join(f"{plain(c.label, 60)} right, {columns.verdict(c)} ULP" for c in right)
    nothing = "none of our entries is right" if bad else "none of our entries ran"
    why = "checked on the CPU, where a .cu is not timed" if run.machine.device == "cpu" else "not timed"
    sentence = f"ours {why}{': ' + checked if checked else ''}" if right else nothing
    others = [c for c in cases if c.times.get(kind) and c.status == record.OK]
    best = min(others, key=lambda c: c.median(kind) or inf, default=None)
    detail = f"fastest of the others: {plain(best.label, 60)}, {_time(run, best, cases)}" if best else ""
    return Answer(subject, sentence + bad, detail, "bad" if bad else "neutral")


def _subject(run: Results, first: Case, file: str) -> str:
    parts = (plain(first.kernel, 40), plain(first.dtype, 20), plain(run.machine.name, 60))
    return ", ".join(parts) + (f" \u00b7 {file}" if file else "")


def checked(run: Results, cases: list[Case], file: str = "") -> Answer:
    """For a kernel and dtype that was checked and not timed; `file` as in `timed`."""
    subject = _subject(run, cases[0], file)
    ran = [c for c in cases if c.status != record.SKIPPED]
    labels, bad = {c.label for c in ran}, failures(ran)
    values = max((c.parity.n for c in ran if c.parity), default=0)
    right = sum(c.status == record.OK for c in ran)
    if not ran:
        return Answer(subject, "nothing was checked", "every variant was skipped, for the reasons below", "neutral")
    variants = f"{len(labels)} variant{'s' if len(labels) > 1 else ''}"
    sentence = f"{right:,} of {len(ran):,} checks of {variants} right, of up to {values:,} values each"
    mine = [c for c in ran if ours(c) and c.parity and c.status == record.OK]
    worst = max(mine, key=lambda c: c.parity.largest if c.parity else 0.0, default=None)
    found = f"{columns.verdict(worst)} ULP, by {plain(worst.label, 60)}" if worst else ""
    detail = f"largest error of our right answers: {found}" if worst else ""
    return Answer(subject, sentence + bad, detail, "bad" if bad else "good")


def failures(cases: Iterable[Case], file: str = "") -> str:
    """Such as `; WRONG: a, b; IMPOSSIBLE: c; error: d`, or an empty text; `file`: where it is said to be."""
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        if case.status in record.BROKEN:
            found.setdefault(case.status, {})[plain(case.label, 60)] = None
    where = f" in {file}" if file else ""
    return "".join(f"; {status}{where}: {', '.join(labels)}" for status, labels in found.items())
