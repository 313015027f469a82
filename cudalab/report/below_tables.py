"""The lines below tables of results, in every format: reasons, notes, what was skipped, how to read the columns."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import sqrt

from cudalab.base import numbers, scatter, stats
from cudalab.base.text import QUESTION
from cudalab.report import columns, gpus, hints
from cudalab.results import marks, record
from cudalab.results.record import Case, Results

ALLOWED = "allowed ULP"  # a column; not in files of versions before 7
RELATIVE = "rel. error"  # a column of checks
OF_CHECKS = {"rounded": "rounded: how many are correctly rounded", "shapes": "shapes: how many inputs were tried"}
ON_GPU = {
    "cold": "L2 flushed, one run", "hot": "runs back to back", "graph": "a replayed run, hot",
    "graph_cold": "one on arrays that are not in the cache", "burst": "runs back to back, after a rest",
    "sustained": "the same under load, once clock and power are steady",
}  # fmt: skip
UNSEEN = "the same under load, for seconds: clock and power were not both seen to be steady"  # of `sustained`
ON_HOST = {
    "call": "call (out): host time of a launch into an existing array; not to be compared with api.",
    "api": "api: host time of a call as a user makes it, with the allocation of its result.",
}
LOADS = {
    "energy": "energy: mJ a call of the whole card, by NVML's counter, of runs back to back, with the 95 % interval; "
    "nothing is subtracted",
    "sustained": "sustained and burst: a note below the table says where they differ by more than 2 %.",
}
DERIVED = ("GB/s", "TFLOP/s", "% copy", "% limit", "x eager")  # columns that are from the main time
BY_ATOL = "by atol"  # in the place of an allowed error beyond FAR
FAR = 1000  # ULP; a right answer is as far off only by the absolute tolerance of its budget
# Of a reason: the budget that its row exceeds.
BUDGET = re.compile(r" differ by more than (?P<ulp>[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?) ULP(?P<absolute> \+ )?")
UNCLEAR = (
    f"{stats.UNCLEAR}: the interval is too wide to tell FASTER or SLOWER (more than {100 * stats.MIN_EFFECT:.0f} % "
    "from 1) from SAME."
)


def remarks(cases: list[Case], placed: bool = False) -> list[tuple[str, str, str]]:
    """(status, labels, text) for the lines below a table: reasons of wrong and failed rows, and notes.

    `placed`: put kernel, dtype and size before the labels, for tables of several groups; of a variant's reasons that
    say the same of other values, as at other sizes, one is shown (`_telling`). A hint that ends several texts stands
    once.
    """
    found: dict[tuple[str, ...], tuple[str, list[Case]]] = {}
    for case in cases:
        if case.status in record.BROKEN:
            alike = same_reason(case) if placed else (case.reason,)
            found.setdefault((case.status, *alike), (case.reason, []))[1].append(case)
        for note in case.notes:
            found.setdefault(("note", note), (note, []))[1].append(case)
    folded: dict[tuple[str, str, str], list[Case]] = {}  # variants that give one reason at one place
    for (status, *_), (text, about) in found.items():
        if placed and status == record.WRONG:
            shown = _telling(about)
            about = [shown, *(case for case in about if case is not shown)]
            text = shown.reason
        folded.setdefault((status, text, _place(about[:1]) if placed else ""), []).extend(about)
    said = [
        (status, (_place(about, cases if status == "note" else ()) if placed else "") + _labels(about), text)
        for (status, text, _), about in folded.items()
    ]
    return hints_once(said) + _sustained(cases)


def _sustained(cases: list[Case]) -> list[tuple[str, str, str]]:
    """Notes, as (status, label, text), for each row whose time under load differs from that of a burst, or may."""
    found = []
    for case in cases:
        known = scatter.family(case.label)
        burst, kept = case.timing("burst", known), case.timing("sustained", known)
        if not burst or not kept or (ratio := stats.speedup(kept, burst)).verdict() == stats.SAME:
            continue
        clear = ratio.verdict() in (stats.FASTER, stats.SLOWER)
        text = f"sustained runs take {numbers.with_ends(ratio)} times as long as a burst" + (
            "" if clear else f", {stats.UNCLEAR}"
        )
        hertz = [case.quantities.get(f"{kind}_sm_hz", 0.0) / 1e6 for kind in ("sustained", "burst")]
        text += f"; SM clock {hertz[0]:,.0f} MHz, in the burst {hertz[1]:,.0f}" if all(hertz) else ""
        why = case.condition.get(record.UNDER_LOAD)
        found.append(("note", case.label, text + (f"; {why}" if why else "")))
    return found


def _telling(cases: list[Case]) -> Case:
    """The first of these wrong cases, unless another is off by more than ten times as much.

    Where NaN among the inputs is not all that is wrong, what becomes of it tells nothing.
    """
    cases = [case for case in cases if not case.size.endswith(", nan")] or cases
    first, worst = cases[0], max(cases, key=lambda case: case.parity.largest if case.parity else 0.0)
    return worst if worst.parity and first.parity and worst.parity.largest > 10 * first.parity.largest else first


def worst(cases: Iterable[Case]) -> Case | None:
    """The case whose error the table of a check shows: of those that are wrong, else of all that were compared."""
    compared = [case for case in cases if case.parity and (case.parity.ok or case.parity.wrong)]
    wrong = [case for case in compared if case.parity and not case.parity.ok]  # an allowed error may be larger
    return max(wrong or compared, key=lambda case: case.parity.largest if case.parity else 0.0, default=None)


def hints_once(said: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """(status, labels, text), where a hint that ends several texts stands in the first of them; notes stay."""
    found, hints = [], set()
    for status, labels, text in said:
        hint = QUESTION.search(text) if status != "note" else None
        found.append((status, labels, text[: hint.start()] if hint and hint[0] in hints else text))
        hints.add(hint[0] if hint else "")
    return found


def same_reason(case: Case) -> tuple[str, ...]:
    """Equal for the cases of a variant whose reasons differ only in numbers and in the values that they quote."""
    hint = QUESTION.search(case.reason)
    alike = re.sub(r"[0-9][0-9.,e+-]*", "#", case.reason.partition(": ")[0]).replace("ULP + #", "ULP")
    alike += hint[0] if hint else ""
    return case.kernel, case.dtype, case.label, alike


def _labels(cases: list[Case]) -> str:
    return ", ".join(dict.fromkeys(case.label for case in cases))


def _place(cases: list[Case], every: Collection[Case] = ()) -> str:
    """Kernel, dtype and size of the first of these; without the size where they are at all sizes of `every`."""
    here = [c for c in every if (c.kernel, c.dtype) in {(of.kernel, of.dtype) for of in cases}]
    whole = len({c.group for c in here}) > 1 and {c.group for c in here} == {c.group for c in cases}
    first, *others = dict.fromkeys(f"{c.kernel} {c.dtype}{'' if whole else f' at {c.size}'}" for c in cases)
    return f"{first}{f' and {len(others)} more' if others else ''}, "


def skipped(run: Results) -> list[tuple[str, str]]:
    """(names, reason) of what could not run here: backends; variants where others of their backend ran.

    Variants too where those of a backend were skipped for several reasons.
    """
    found: dict[str, dict[str, None]] = {}
    split = {case.backend for case in run.cases if case.status != record.SKIPPED}
    reasons: dict[str, str] = {}
    for case in run.cases:
        if reasons.setdefault(case.backend, case.reason) != case.reason:
            split.add(case.backend)
    for case in run.cases:
        if case.status == record.SKIPPED:
            in_full = run.of_study or case.backend in split
            found.setdefault(case.reason, {})[case.label if in_full else case.backend] = None
    return [(", ".join(labels), reason) for reason, labels in found.items()]


def errors(run: Results, shown: Sequence[Case], names: Collection[str] | None = None) -> list[str]:
    """What budgets may be wider, how to read errors, and which large ones are right.

    `shown` are the rows of the table, `names` its columns; None: all.
    """
    names = _columns(run) if names is None else names
    lines = [*hints.budgets(run), *hints.proposals(run), *hints.multiples(run)]
    if "max ULP" in names and any(c.parity for c in shown):
        lines.append("max ULP: largest error against float64, in units in the last place of the dtype.")
    said = [text for name, text in OF_CHECKS.items() if name in names] if run.kind == "check" else []
    lines += [f"{'; '.join(said)}."] if said else []
    return lines + _of_errors(run, shown, names)


def footer(run: Results, names: Collection[str] | None = None) -> list[str]:
    """How to read the columns, and the times of empty measurements. `names`: the columns that are shown; None: all."""
    names = _columns(run) if names is None else names
    lines = errors(run, run.cases, names)
    if any(c.backend == "host" and c.status != record.SKIPPED for c in run.cases):
        lines.append("host rows: the .cu, compiled for the CPU and compared with float64; checked, never timed.")
    lines += _of_times(run, names)
    if run.calibration:
        floor_ = (f"{name} {1e6 * stats.median([t]):.2f}" for name, t in run.calibration.items())
        lines.append(f"floor (\u00b5s): {', '.join(floor_)}")
    borne = "".join(
        marks.signs(run, case, cases, kind) for cases in run.groups().values() for case in cases for kind in case.times
    )
    ratios = (run.speedup(c, run.main_kind) for c in run.cases if run.main_kind and c is not run.baseline(c))
    if any(ratio and columns.told(ratio) == stats.UNCLEAR for ratio in ratios):
        lines.append(UNCLEAR)
    return lines + marks.explained(borne, disturbed=bool(marks.busy(run))) + gpus.lines(run)


def _columns(run: Results) -> set[str]:
    """The names of all columns of the run's tables."""
    if not run.timed:
        return {"max ULP", ALLOWED, RELATIVE, *OF_CHECKS}
    return {column.name for cases in run.groups().values() for column in columns.drawn(run, cases)}


def _of_errors(run: Results, shown: Sequence[Case], names: Collection[str]) -> list[str]:
    """What is said of errors and of those that budgets allow."""
    bad = {(c.kernel, c.dtype, c.label) for c in run.cases if c.status in record.BROKEN}
    right = [c for c in shown if c.parity and c.status == record.OK and (*c.group[::2], c.label) not in bad]
    lines = _far_off(right) if run.timed else _large(right) if RELATIVE in names else []
    if any(c.parity and c.parity.largest > FAR and c.parity.rel_l2 <= _tolerable(c) for c in right):
        lines.append(
            f"max ULP above {FAR:,}: the element is near 0, where a ULP is tiny; `atol` of the budget allows the error."
        )
    least: dict[tuple[str, str, str], float] = {}
    for case in run.cases if ALLOWED in names else ():
        if case.parity and (ulp := case.parity.allowed):
            row = case.kernel, case.dtype, case.label
            least[row] = min(least.get(row, ulp), ulp)
    allowed = {(c.kernel, c.dtype, c.label): c.parity.allowed or 0 for c in _of_check(run) if c.parity}
    if any(2 * least[row] < allowed.get(row, 0) <= FAR for row in least):
        lines.append(f"{ALLOWED}: the budget, its `atol`, and what the rounding of special inputs alone does there.")
    if ALLOWED in names and any(ulp > FAR for ulp in allowed.values()):
        lines.append(
            f"{BY_ATOL}: the element is near 0, where a ULP is tiny; more than {FAR:,} ULP are allowed by `atol` of "
            "the budget, or by what the rounding of special inputs alone does."
        )
    beyond = (BUDGET.search(c.reason) for c in run.cases if c.status == record.WRONG)
    if any(budget and budget["absolute"] for budget in beyond):
        lines.append(
            "ULP + a number: the number is an absolute error that is allowed in addition: `atol` of the budget and, "
            "in a check, what the rounding of the inputs alone does to the result."
        )
    return lines


def _of_check(run: Results) -> Iterator[Case]:
    """The cases whose errors the table of a check shows, one for each variant."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in run.cases:
        found.setdefault((case.kernel, case.dtype, case.label), []).append(case)
    yield from filter(None, map(worst, found.values()))


def _seen(cases: list[Case]) -> bool:
    """Whether clock and power were read while each sustained time was taken."""
    return all({"sustained_sm_hz", "sustained_w"} <= set(c.quantities) for c in cases if c.times.get("sustained"))


def _of_times(run: Results, names: Collection[str]) -> list[str]:
    """What the kinds of time are, and what is derived from the main one."""
    lines = []
    if run.machine.device == "cpu":
        if "api" in str(run.options.get("modes", "")).split(","):
            lines.append("api: not measured; on the CPU, wall is the host time of a call.")
        lines += not_loaded(run)
    elif run.main_kind:
        there = columns.kinds(run)
        said = ON_GPU if _seen(run.cases) else ON_GPU | {"sustained": UNSEEN}
        kinds = [f"{kind.replace('_', ' ')}: {text}" for kind, text in said.items() if kind in there]
        lines += [f"{'; '.join(kinds)}."] if kinds else []
        lines += [text for kind, text in ON_HOST.items() if kind in there]
        idle = [case.quantities["idle_w"] for case in run.cases if "idle_w" in case.quantities]
        without = f"; without work the card drew {statistics.median(idle):.0f} W" if idle else ""
        lines += [f"{LOADS['energy']}{without}."] if record.ENERGY in there else []
        lines += [LOADS["sustained"]] if "sustained" in there else []
        if derived := [name for name in DERIVED if name in names]:
            of = f"{', '.join(derived[:-1])} and {derived[-1]} are" if derived[1:] else f"{derived[0]} is"
            lines.append(f"{of} from the {run.main_kind.replace('_', ' ')} time.")
    if "TFLOP/s" in names and any(marks.computes(run, cases) for cases in run.groups().values()):
        lines.append(
            "TFLOP/s: the operations that `flops` of the spec counts, per second; % limit: share of the card's peak."
        )
    return lines


def not_loaded(run: Results) -> list[str]:
    """A line for what a bench on the CPU was asked for and needs a GPU: energy, sustained times."""
    asked = [mode for mode in str(run.options.get("modes", "")).split(",") if mode in ("energy", "sustained")]
    return [f"{mode}: not measured; it needs a GPU, and {run.no_gpu}." for mode in asked]


def _tolerable(case: Case) -> float:
    """The relative error of a whole output from which its budget is named: 32 bits and more, or fewer."""
    return 1e-3 if case.dtype in ("float32", "float64", "complex64", "complex128") else 0.03


def _excused(case: Case) -> bool:
    """Whether an entry's output as a whole is far off, and not by the rounding of a narrower dtype alone."""
    parity = case.parity
    return bool(parity and case.backend in record.ENTRIES and parity.largest > 1 and parity.rel_l2 > _tolerable(case))


def _large(cases: Sequence[Case]) -> list[str]:
    """The largest relative error of each right entry of a check, with how large the results are where it is."""
    found: dict[tuple[str, str, str], tuple[float, str]] = {}
    for case in cases:
        key, parity = (case.kernel, case.dtype, case.label), case.parity
        if parity and parity.norm and _excused(case):
            size = numbers.compact(parity.norm / sqrt(parity.n))
            line = f"at {case.size}, where the results are about {size} (root mean square); the budget allows it."
            found[key] = max((parity.rel_l2, line), found.get(key, (0.0, "")))
    return [f"rel. error {error:.1e} of {' '.join(key)}: {line}" for key, (error, line) in found.items()]


def _far_off(cases: Sequence[Case]) -> list[str]:
    """Rows of entries that are right only because their budget allows a large error."""
    found: dict[tuple[str, str, str], Case] = {}
    for case in cases:
        if _excused(case):
            found.setdefault((case.kernel, case.dtype, case.label), case)
    lines = []
    for (kernel, dtype, label), case in found.items():
        assert case.parity
        error, share = f"{case.parity.rel_l2:.2g}", f"{100 * case.parity.rounded:.3g}"
        what = f"relative error {error}, {share} % correctly rounded"
        lines.append(f"{kernel} {dtype} {label}: {what}; only its wide budget makes it right.")
    return lines
