"""Compares two runs: what became faster or slower by more than two runs of unchanged code differ.

docs/compare.md says how a verdict is made, and from which data the thresholds come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import exp, hypot, inf, log, log1p

from msgspec.structs import replace

from cudalab.base import globs, stats
from cudalab.base.errors import InputError, short, unknown
from cudalab.base.estimate import Estimate
from cudalab.base.memo import unchanging
from cudalab.base.stats import FASTER, MIN_EFFECT, SAME, SLOWER, UNCLEAR, Ratio, Timing
from cudalab.results import comparable, marks, record
from cudalab.results.comparable import Difference
from cudalab.results.record import KINDS, Case, Results

MOVED = "MOVED"  # the verdict on a copy that became faster or slower: the machine changed, not a kernel
VERDICTS = (SLOWER, UNCLEAR, SAME, FASTER)
ALL = "all"

NOTHING_SLOWER, REGRESSION, WRONG_ANSWER, NOT_COMPARABLE = 0, 1, 3, 4  # exit codes; 2 is bad input


# What changes between two runs of unchanged code beside what differs between processes: the card and the day. Standard
# deviations of the logarithm of a time; docs/compare.md says from which runs they come.
NEAR = 0.4  # rows that reach this share of the copy's speed move about as the memory does
RUN, RUN_FAR = 0.002, 0.015  # rows near the copy, and all others: times of arithmetic differ between cards
RUN_ENERGY = 0.02  # of an energy: an assumption, until runs on several cards and days show more
STATES = {"torch_compile": 0.12}  # a backend whose times fall into one of several states when a process starts
HOST_EFFECT = 1.0  # times that depend on the host: a factor of 1.75 was seen between two machines of one kind

BUSY_THEN = "give no ratio; a difference counts only if the fastest samples show it too"  # of two runs
LEAST_ROUNDS = 5  # fewer do not show how rounds scatter; a file of medians has one

Key = tuple[str, str, tuple[int, ...], str, str]


@dataclass(frozen=True)
class Pair:
    """One case that both runs timed. `ratio`: how many times faster the new one is, with its 95 % interval."""

    old: Case
    new: Case
    kind: str
    ratio: Ratio
    effect: float  # smaller differences are not found: 0.04 is a factor of 1.04 either way
    verdict: str
    disagree: bool = False  # the processes of a run differ: see `stats.Timing.disagree`
    marks: tuple[str, str] = ("", "")  # on the old and on the new time: see `cudalab.results.marks`

    @property
    def control(self) -> bool:
        """Whether this is a copy, which no change to a kernel can make slower."""
        return self.old.status == record.CEILING


@dataclass(frozen=True)
class Comparison:
    """How the cases of an old run compare with those of a new one."""

    kinds: tuple[str, ...]
    min_effect: float
    differences: list[Difference]  # what forbids a comparison
    forced: bool
    remarks: list[str]  # differences that do not forbid it
    busy: list[str] = field(default_factory=list)  # a warning for each run during which the machine was busy
    pairs: list[Pair] = field(default_factory=list)
    checked: list[tuple[Case, Case]] = field(default_factory=list)  # cases that both runs compared with float64
    left_out: dict[str, list[Case]] = field(default_factory=dict)  # cases by why they are not compared
    wrong: dict[str, list[Case]] = field(default_factory=dict)  # cases of the new run by what is wrong with them
    libraries: dict[str, list[Case]] = field(default_factory=dict)  # those that do not count: see `Results.failed`
    was_wrong: dict[str, list[Case]] = field(default_factory=dict)  # those that were wrong in the old run alone
    mended: list[Case] = field(default_factory=list)  # of these, those that are right in the new run
    where: str = "run"  # what the old and the new cases are of: ".cu" for those of one run (`results/against.py`)
    identical: bool = False  # whether these are the same text
    seconds: float = 0.0  # differences of less do not count, at times of which they are less than `min_effect`

    @property
    def counts(self) -> dict[str, int]:
        """Cases by verdict; copies are not counted."""
        verdicts = [pair.verdict for pair in self.pairs if not pair.control]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}

    @property
    def untimed(self) -> list[Case]:
        """Cases that are right in both runs and timed in neither, such as a `.cu` on a CPU."""
        right = [now for was, now in self.checked if was.status == now.status == record.OK]
        return [now for now in right if not now.times] if self.pairs else []

    @property
    def drift(self) -> list[Pair]:
        """The copies that became faster or slower."""
        return [pair for pair in self.pairs if pair.verdict == MOVED]

    @property
    def refusal(self) -> str:
        """Why the runs cannot be compared, or an empty text."""
        if self.differences and not self.forced:
            return "not comparable: the runs differ in something that changes times"
        if self.where != "run" and self.checked:
            return ""
        judged = any(not pair.control for pair in self.pairs)  # a copy says nothing about a kernel
        if not (judged or self.wrong or self.mended or (self.checked and not self.kinds)):
            return f"not comparable: no case was {'timed' if self.kinds else 'checked'} in both"
        return ""

    @property
    def exit_code(self) -> int:
        if self.refusal:
            return NOT_COMPARABLE
        if self.wrong:
            return WRONG_ANSWER
        return REGRESSION if self.counts[SLOWER] else NOTHING_SLOWER


@unchanging
def compare(old: Results, new: Results, kinds: str = "", min_effect: float = MIN_EFFECT, force: bool = False,
            kernels: Collection[str] = (), only: str = "", skip: str = "") -> Comparison:  # fmt: skip
    """Pair the cases of two runs and judge each kind of time.

    `kinds` is a comma-separated list, "all", or "" for the main kind of the new run; `min_effect` the smallest
    difference worth a verdict; `only` and `skip` are comma-separated globs on labels; `kernels` names kernels (none:
    all). If the runs differ in what times depend on, nothing is compared unless `force`.
    Raises InputError or NotFound for a kind, a kernel or a glob that fits nothing.
    """
    old, new = (_chosen(run, kernels, only, skip, (old, new)) for run in (old, new))
    wanted = _kinds(kinds, old, new)
    differing = comparable.differences(old, new, wanted)
    found = Comparison(wanted, min_effect, differing, force, comparable.remarks(old, new, wanted), _busy(old, new))
    if differing and not force:
        return found
    for kind in wanted:
        found.pairs.extend(_judged(pairs_of(old, new), kind, old, new, min_effect))
    fill(found, old, new)
    return found


def pairs_of(old: Results, new: Results) -> list[tuple[Case, Case]]:
    """The cases that both have."""
    before, after = _by_key(old), _by_key(new)
    return [(before[key], after[key]) for key in before if key in after]


def fill(found: Comparison, old: Results, new: Results) -> None:
    """Add to a comparison what the cases show beside times: what is wrong, and what is not compared."""
    before, after, run = _by_key(old), _by_key(new), found.where
    found.checked.extend((was, now) for was, now in pairs_of(old, new) if was.parity and now.parity)
    _leave_out(found, before, after)
    failed = {_key(case) for case in new.failed}
    for case in new.broken:
        counts = found.wrong if _key(case) in failed else found.libraries
        counts.setdefault(f"{case.status} in the new {run}: {case.reason}", []).append(case)
    broken = {_key(case) for case in new.broken}
    for case in old.broken:
        if _key(case) not in broken:  # it says nothing of the new run
            now = after.get(_key(case))
            right = now is not None and now.status == record.OK
            state = "right in" if right else f"{now.status} in" if now else "absent from"
            reason = f"{case.status} in the old {run}, {state} the new {run}: {case.reason}"
            found.was_wrong.setdefault(reason, []).append(case)
            found.mended.extend([case] if right else [])


def share(text: str, what: str) -> float:
    """2% or 0.02 as a number. Raises InputError if it is not a number, negative, or not below 1."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = inf
    if not 0 <= value < 1 or rest:
        raise InputError(f"{what} is {short(text)}; give a share such as 2% or 0.02")
    return value


def _chosen(run: Results, kernels: Collection[str], only: str, skip: str, both: tuple[Results, Results]) -> Results:
    """`run` with the cases that were asked for, and all copies."""
    every = [case for r in both for case in r.cases]
    for name in kernels:
        if name not in (known := dict.fromkeys(case.kernel for case in every)):
            raise unknown("kernel", name, known)
    labels = dict.fromkeys(case.label for case in every)
    wanted, unwanted = globs.split(only), globs.split(skip)
    for pattern in (*wanted, *unwanted):
        if not any(globs.fits(label, [pattern]) for label in labels):
            raise unknown("variant", pattern, labels)

    def takes(case: Case) -> bool:
        if kernels and case.kernel not in kernels:
            return False
        if case.status == record.CEILING:
            return True
        return (not wanted or globs.fits(case.label, wanted)) and not globs.fits(case.label, unwanted)

    return replace(run, cases=[case for case in run.cases if takes(case)])


def _busy(old: Results, new: Results) -> list[str]:
    """For each run a warning, if other programs kept the machine busy."""
    warned = {name: marks.busy(run, BUSY_THEN) for name, run in (("old", old), ("new", new))}
    return [f"{name} run: {text}" for name, text in warned.items() if text]


def _kinds(text: str, old: Results, new: Results) -> tuple[str, ...]:
    present = [dict.fromkeys(kind for case in run.cases for kind in case.times) for run in (old, new)]
    known = dict.fromkeys((*KINDS, *present[0], *present[1]))  # a study may have kinds of its own
    for kind in globs.split(text):
        if kind not in (*known, ALL):
            raise unknown("kind of time", kind, (*known, ALL))
        if kind != ALL and kind not in present[0] | present[1]:
            there = ", ".join(k for k in known if k in present[0] | present[1]) or "none"
            raise InputError(f"there are no {kind} times in these runs; there are: {there}")
    if ALL in globs.split(text):
        return tuple(k for k in known if k in present[0] and k in present[1])
    return tuple(dict.fromkeys(globs.split(text))) or tuple(filter(None, [new.main_kind or old.main_kind]))


def _by_key(run: Results) -> dict[Key, Case]:
    found: dict[Key, Case] = {}
    for case in run.cases:
        found.setdefault(_key(case), case)
    return found


def _key(case: Case) -> Key:
    return case.kernel, case.size, case.shape, case.dtype, case.label


def _judged(cases: list[tuple[Case, Case]], kind: str, old: Results, new: Results, min_effect: float) -> list[Pair]:
    """The cases that both runs timed, each with its verdict."""
    timed = [(was, now) for was, now in cases if was.times.get(kind) and now.times.get(kind)]
    copies = {was.group: (was, now) for was, now in timed if was.status == record.CEILING}
    found = []
    for was, now in timed:
        before, after = old.timing(was, kind), new.timing(now, kind)
        assert before and after
        copy = copies.get(was.group)
        between = _between_runs(was, kind, copy and copy[0])
        ratio = _ratio(before, after, between)
        ratio = dataclasses.replace(ratio, disturbed=old.disturbed(kind) or new.disturbed(kind))
        least = max(min_effect, HOST_EFFECT) if comparable.of_host(kind) else min_effect
        threshold = least if comparable.of_host(kind) else _threshold(before, after, between, least)
        verdict = ratio.direction(least) or ratio.verdict(least)  # a gate needs no amount
        if verdict in (FASTER, SLOWER):
            if was.status == record.CEILING:
                verdict = MOVED
            elif not all(r.direction(least) == verdict for r in _otherwise(before, after, kind, ratio, copy)):
                verdict = UNCLEAR
        elif not ratio.says_nothing and _within(ratio, threshold):
            verdict = SAME
        disagree = before.disagree or after.disagree
        both = (
            marks.signs(old, was, old.groups()[was.group], kind),
            marks.signs(new, now, new.groups()[now.group], kind),
        )
        found.append(Pair(was, now, kind, ratio, threshold, verdict, disagree, both))
    return found


def _between_runs(case: Case, kind: str, copy: Case | None) -> float:
    """The standard deviation of the logarithm of a time from run to run, beyond that between processes."""
    if kind == record.ENERGY:
        return RUN_ENERGY
    own, ceiling = case.median(kind), copy and copy.median(kind)
    states = STATES.get(case.backend, 0.0)
    if own and ceiling and ceiling >= NEAR * own:
        return hypot(RUN, states)
    steps = 3.5 * stats.LEVEL_SECONDS / (ceiling or own or inf)  # of several launches, which move together
    return hypot(RUN_FAR, steps, states)


def _threshold(was: Timing, now: Timing, between: float, min_effect: float) -> float:
    """The smallest difference that is found if the processes of both runs differ as expected."""
    reach = (was.expected - now.expected - Estimate(0.0, between**2, inf)).reach
    return (1 + min_effect) * exp(reach) - 1


def _within(ratio: Ratio, threshold: float) -> bool:
    """Whether a ratio is nearer to 1 than the threshold, and known as well as the threshold assumes."""
    limit = log1p(threshold)
    return bool(ratio.low) and abs(log(ratio.value)) <= limit and log(ratio.high / ratio.value) <= limit


def _otherwise(was: Timing, now: Timing, kind: str, ratio: Ratio, copy: tuple[Case, Case] | None) -> Iterator[Ratio]:
    """Other ratios of a pair that must have the same verdict; otherwise the machine may have caused the difference.

    Where the copy moved: the ratio relative to the copy's. For times that depend on the host: the ratio of the fastest
    samples, since other processes only add to a time.
    """
    if copy:
        before, after = (stats.median(case.times[kind]) for case in copy)
        if max(before, after) > (1 + MIN_EFFECT) * min(before, after):
            yield ratio.over(before / after)
    if comparable.of_host(kind):
        fastest = min(stats.flat(was.rounds)) / min(stats.flat(now.rounds))
        yield Ratio(fastest, fastest, fastest)


def _ratio(was: Timing, now: Timing, between_runs: float) -> Ratio:
    """Old time over new time. Where too few rounds were taken, the interval says that nothing is known."""
    found = was.estimate - now.estimate - Estimate(0.0, between_runs**2, inf)
    ratio = stats.as_ratio(found)
    return ratio if min(len(was.rounds), len(now.rounds)) >= LEAST_ROUNDS else Ratio(ratio.value, 0.0, inf)


def _leave_out(found: Comparison, before: dict[Key, Case], after: dict[Key, Case]) -> None:
    """Record why each case that only one run measured is not compared."""
    for name, here, there in (("old", before, after), ("new", after, before)):
        other = "new" if name == "old" else "old"
        for key, case in here.items():
            if case.status not in (record.OK, record.CEILING):
                continue
            if key not in there:
                found.left_out.setdefault(f"only in the {name} {found.where}", []).append(case)
            elif there[key].status == record.SKIPPED:
                reason = f"skipped in the {other} {found.where}: {there[key].reason}"
                found.left_out.setdefault(reason, []).append(case)
            elif there[key].status in (record.OK, record.CEILING):
                for kind in found.kinds:
                    if case.times.get(kind) and not there[key].times.get(kind):
                        found.left_out.setdefault(f"no {kind} time in the {other} {found.where}", []).append(case)
