"""What tables of results show, in every format: groups, columns, cells, and the lines below the tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from cudalab.base import numbers, stats
from cudalab.base.memo import kept
from cudalab.base.text import QUESTION
from cudalab.report import hints
from cudalab.results import limit, marks, record
from cudalab.results.record import Case, Results

GPU_KINDS = tuple(kind for kind in record.KINDS if kind != "wall")
NOT_MEASURED = "-"
BUSY = "busy"  # no verdict: `busy` says why in the headline
NOT_TIMED = "not timed"  # a `.cu` on the CPU, which is only checked there
BASELINES = ("torch_eager", "torch_native", "numpy")
# Backends whose calls allocate their result, for files that do not say it (`Case.allocates`).
ALLOCATING = ("torch_eager", "torch_native", "torch_script", "torch_compile", "cupy_eager", "cupy_fuse")

FAR = 1000  # ULP; a right answer is as far off only by the absolute tolerance of its budget
# Of a reason: the budget that its row exceeds.
BUDGET = re.compile(r" differ by more than (?P<ulp>[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?) ULP(?P<absolute> \+ )?")


UNCLEAR = (
    f"{stats.UNCLEAR}: the interval is too wide to tell FASTER or SLOWER (more than {100 * stats.MIN_EFFECT:.0f} % "
    "from 1) from SAME."
)


@dataclass(frozen=True)
class Column:
    """A column of a group's table. `joined`: it is never separated from the column before it."""

    name: str
    cells: list[str]
    joined: bool = False


def heading(run: Results) -> str:
    """The first line: the machine that measured the numbers, or why there is no GPU."""
    if run.machine.device == "cpu":
        how = f"times are wall clock{_processes(run)}" if kinds(run) else "nothing was timed"
        how += _set(run)
        return f"No GPU: {run.no_gpu}. On the CPU ({run.machine.name}): {how}"
    l2, driver = run.machine.details.get("l2_bytes"), run.machine.details.get("driver", "unknown")
    cache = f"L2 {l2 / 2**20:.0f} MiB, " if isinstance(l2, int) else ""
    return f"{run.machine.name}, {cache}driver {driver}, {run.created[:10]}{_processes(run)}{_set(run)}"


def _processes(run: Results) -> str:
    """How many processes took each group, if the run says it: intervals of one know nothing of the others."""
    count = run.options.get("processes")
    return f", {count} process{'es' if count != 1 else ''}" if isinstance(count, int) and run.timed else ""


def _set(run: Results) -> str:
    """The values that `--set` gave to tunables, if any."""
    values = run.options.get("parameters")
    return f", with {values.replace(',', ' ')}" if isinstance(values, str) and values else ""


def missing(run: Results) -> str:
    """A warning for an interrupted run, else an empty text."""
    return "" if run.complete else "INTERRUPTED: some cases are missing; continue with --resume FILE"


def warnings(run: Results) -> list[str]:
    """What a reader must know before the numbers: an interrupted run, a busy machine."""
    return [text for text in (missing(run), marks.busy(run)) if text]


def title(cases: list[Case]) -> str:
    """The line above one group's table."""
    case = cases[0]
    shape = " x ".join(map(str, case.shape))
    size = "" if case.size == shape.replace(" ", "") else f"{case.size} "
    text = f"{case.kernel}  {size}({shape})  {case.dtype}  {numbers.amount(case.nbytes)}B moved"
    state = next((c.condition for c in cases if c.condition), {})
    sm, memory, power = (state.get(k) for k in ("sm_hz", "memory_hz", "power_w"))
    if isinstance(sm, float) and isinstance(memory, float) and isinstance(power, float):
        text += f"  {sm / 1e6:.0f}/{memory / 1e6:.0f} MHz, {power:.0f} W"
    return text + (f", slowed by {state['throttled']}" if state.get("throttled") else "")


@kept
def kinds(run: Results) -> tuple[str, ...]:
    """The kinds of time that the run has, in the order of the columns."""
    wanted = ("wall",) if run.machine.device == "cpu" else GPU_KINDS
    return tuple(k for k in wanted if any(k in c.times for c in run.cases))


def table(run: Results, cases: list[Case]) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of one group."""
    found = drawn(run, cases)
    return [column.name for column in found], [list(cells) for cells in zip(*(c.cells for c in found), strict=True)]


def drawn(run: Results, cases: list[Case]) -> list[Column]:
    """The columns of one group: the main time and what is derived from it, then the other times.

    A column without a single value is left out.
    """
    main, shown = run.main_kind, rows(cases)
    found = [
        Column("variant", [name(case) for case in shown]),
        Column("max ULP", [verdict(case) for case in shown], joined=True),
        *([Column(f"{_head(main)} \u00b5s", _marked(run, shown, cases, main), joined=True)] if main else []),
    ]
    computing = marks.computes(run, cases)
    if run.machine.device == "cuda":
        found += [] if computing else [
            Column("% copy", [share(run, case, marks.ceiling(cases)) for case in shown], joined=True),
        ]  # fmt: skip
        found += [
            Column("% limit", [of_limit(run, case) for case in shown], joined=True),
        ]
    ratios = [None if computing and c is marks.ceiling(cases) else run.speedup(c, main) for c in shown]
    found += compared("x eager", ratios, [c is run.baseline(c) for c in shown])
    if computing:
        found.append(Column("TFLOP/s", [throughput(case, main) for case in shown]))
    else:
        found.append(Column("GB/s", [bandwidth(case, main) for case in shown]))
    found += [Column(f"{_head(kind)} \u00b5s", _marked(run, shown, cases, kind)) for kind in kinds(run) if kind != main]
    found += [
        Column(f"{tool} \u00b5s", [numbers.significant(1e6 * c.cross[tool], 4) if c.cross.get(tool) else NOT_MEASURED
                                  for c in shown])
        for tool in others(cases)
    ]  # fmt: skip
    return with_values(found)


def with_values(found: list[Column]) -> list[Column]:
    """The columns of a table without those that have no value; the first has the names."""
    return [c for c in found if c is found[0] or {*c.cells} != {NOT_MEASURED}]


def compared(name: str, ratios: Sequence[stats.Ratio | None], own: Sequence[bool]) -> list[Column]:
    """Ratios to a baseline, their intervals and verdicts; none where there is no baseline.

    `own`: which row is the baseline, that is, exactly 1.
    """
    if not any(ratios):
        return []
    others = [None if is_own else ratio for ratio, is_own in zip(ratios, own, strict=True)]
    values = [(numbers.ratio(o) if o else "1") if r else NOT_MEASURED for r, o in zip(ratios, others, strict=True)]
    return [
        Column(name, values, joined=True),
        Column("95 % interval", [numbers.interval(o) if o else NOT_MEASURED for o in others], joined=True),
        Column("verdict", [told(o) if o else NOT_MEASURED for o in others], joined=True),
    ]


def told(ratio: stats.Ratio) -> str:
    """The verdict of a ratio; that of times which a busy machine has disturbed is none."""
    return BUSY if ratio.disturbed else ratio.verdict()


def _head(kind: str) -> str:
    return "call (out)" if kind == "call" else kind.replace("_", " ")


def _marked(run: Results, shown: list[Case], cases: list[Case], kind: str) -> list[str]:
    """Times of a kind with their marks. A call that allocates is left out: only *api* times compare with it."""
    return [
        NOT_MEASURED if kind == "call" and allocates(case) else
        NOT_TIMED if case.backend == "host" and case.status == record.OK and not case.times else
        microseconds(case, kind) + marks.of(run, case, cases, kind) for case in shown
    ]  # fmt: skip


def allocates(case: Case) -> bool:
    """Whether each timed run allocates its result."""
    return case.backend in ALLOCATING if case.allocates is None else case.allocates


def share(run: Results, case: Case, copy: Case | None) -> str:
    """The copy's time in percent of the case's, by rounds; main times."""
    kind = run.main_kind
    if case is copy and case.times.get(kind):
        return "100"
    both = copy and copy.times.get(kind) and case.times.get(kind)
    return numbers.percent(run.ratio(copy, case, kind)) if copy and both else NOT_MEASURED


def of_limit(run: Results, case: Case) -> str:
    """The least time that physics allows, in percent of the case's main time."""
    kind, timing = run.main_kind, case.timing(run.main_kind)
    found = limit.share(case, kind, run.machine, run.calibration)
    return numbers.supported(100 * found, timing.width, numbers.DERIVED) if found and timing else NOT_MEASURED


def bandwidth(case: Case, kind: str) -> str:
    """GB/s with the digits that the time's interval supports."""
    rate, timing = case.bandwidth(kind), case.timing(kind)
    return numbers.supported(rate / 1e9, timing.width, numbers.DERIVED) if rate and timing else NOT_MEASURED


def throughput(case: Case, kind: str) -> str:
    """TFLOP/s, by the operations that the spec counts, with the digits that the time's interval supports."""
    timing = case.timing(kind) if kind != "api" else None
    if not timing or not case.flops:
        return NOT_MEASURED
    rate = case.flops / timing.median / 1e12
    return numbers.supported(rate, timing.width, numbers.DERIVED) if rate >= 1e-3 else f"{rate:.1e}"


def name(case: Case) -> str:
    """The name of a case's row."""
    return "copy (ceiling)" if case.status == record.CEILING else case.label


def others(cases: list[Case]) -> list[str]:
    """The times that other tools measured for this group, by name; see cudalab.engine.cross_check."""
    return list(dict.fromkeys(name for case in cases for name in case.cross if not name.endswith("wall")))


def costs(cases: list[Case]) -> list[Column]:
    """What each variant of a group costs once; no columns where nothing is recorded."""
    shown = [c for c in rows(cases) if c.costs and c.status == record.OK]
    once = [Column(f"{k} ms", [_milliseconds(c, k) for c in shown]) for k in ("bind", "first run", "graph build")]
    names, pays = [c.label for c in shown], [_break_even(c) for c in shown]
    found = with_values([Column("variant", names), *once, Column("graph pays back after", pays)])
    return found if len(found) > 1 else []


def _milliseconds(case: Case, cost: str) -> str:
    return numbers.three(1e3 * case.costs[cost]) if cost in case.costs else NOT_MEASURED


def _break_even(case: Case) -> str:
    """Calls after which graph capture has paid off: a call takes the longer of its host and its GPU time."""
    call, hot, graph = (case.median(k) for k in ("call", "hot", "graph"))
    if not (call and hot and graph and "graph build" in case.costs):
        return NOT_MEASURED
    saved = max(call, hot) - graph
    return f"{ceil(case.costs['graph build'] / saved):,} calls" if saved > 0.01 * graph else "never"


def verdict(case: Case) -> str:
    """The largest error in ULP of a right answer, else the status."""
    if case.status not in (record.OK, record.CEILING):
        return case.status
    if case.parity is None:
        return NOT_MEASURED
    return numbers.ulp(case.parity.max_ulp)


def microseconds(case: Case, kind: str) -> str:
    """A median in microseconds, rounded by `numbers.supported`."""
    timing = case.timing(kind)
    return numbers.supported(timing.median * 1e6, timing.width) if timing else NOT_MEASURED


def rows(cases: list[Case]) -> list[Case]:
    """The cases of a table: timed ones, fastest first, then the ceiling, then the others; no skipped ones."""

    def order(case: Case) -> tuple[int, float]:
        time = next((time for kind in ("cold", "wall", "graph", "api") if (time := case.median(kind))), None)
        rank = 1 if case.status == record.CEILING else 0 if time else 2
        return rank, time or 0.0

    return sorted((c for c in cases if c.status != record.SKIPPED), key=order)


def ordered(run: Results, cases: list[Case]) -> list[Case]:
    """`rows`; a study's in its own order, from the usual way to the new one."""
    return [c for c in cases if c.status != record.SKIPPED] if run.of_study else rows(cases)


@kept
def unit(run: Results, cases: list[Case], kind: str) -> tuple[str, float]:
    """The unit of a group's times and its seconds: microseconds; of a study the one that suits its shortest time."""
    shortest = min((s for c in cases if (s := c.median(kind))), default=1.0)
    return numbers.time_unit(shortest if run.of_study else 0.0)


def references(run: Results) -> tuple[str, ...]:
    """Backends or labels that speed-ups may refer to: the first of them that was timed is taken."""
    return (run.reference,) if run.of_study else BASELINES


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
        (status, (_place(about) if placed else "") + _labels(about), text)
        for (status, text, _), about in folded.items()
    ]
    return hints_once(said)


def _telling(cases: list[Case]) -> Case:
    """The first of these wrong cases, unless another is off by more than ten times as much."""
    first, worst = cases[0], max(cases, key=lambda case: case.parity.largest if case.parity else 0.0)
    return worst if worst.parity and first.parity and worst.parity.largest > 10 * first.parity.largest else first


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


def _place(cases: list[Case]) -> str:
    first, *others = dict.fromkeys(f"{c.kernel} {c.dtype} at {c.size}" for c in cases)
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


def footer(run: Results) -> list[str]:
    """How to read the columns, and the times of empty measurements."""
    lines = [
        *hints.budgets(run),
        *hints.proposals(run),
        "max ULP: largest error against float64, in units in the last place of the dtype.",
    ]
    wrong = {(c.kernel, c.dtype, c.label) for c in run.cases if c.status in record.BROKEN}
    right = [c for c in run.cases if c.parity and c.status == record.OK and (*c.group[::2], c.label) not in wrong]
    lines += _far_off(right) if run.timed else []  # the table of a check has these errors
    if any(c.parity and c.parity.largest > FAR and c.parity.rel_l2 <= _tolerable(c) for c in right):
        lines.append(
            f"max ULP above {FAR:,}: the element is near 0, where a ULP is tiny; `atol` of the budget allows the error."
        )
    if not run.timed and any(c.parity and (c.parity.allowed or 0) > FAR for c in run.cases):
        lines.append(
            "allowed ULP: `ulp` of the budget and, there, its `atol` or what the rounding of special inputs alone does."
        )
    beyond = (BUDGET.search(c.reason) for c in run.cases if c.status == record.WRONG)
    if any(budget and budget["absolute"] for budget in beyond):
        lines.append(
            "ULP + a number: the number is an absolute error that is allowed in addition: `atol` of the budget and, "
            "in a check, what the rounding of the inputs alone does to the result."
        )
    if any(c.backend == "host" and c.status != record.SKIPPED for c in run.cases):
        lines.append("host rows: the .cu, compiled for the CPU and compared with float64; checked, never timed.")
    if run.machine.device == "cpu":
        wanted = str(run.options.get("modes", "")).split(",")
        if "api" in wanted:
            lines.append("api: not measured; on the CPU, wall is the host time of a call.")
    elif run.main_kind:
        lines.append("cold: L2 flushed, one run; hot: runs back to back; graph: a replayed run, hot.")
        if "call" in kinds(run):
            lines.append("call (out): host time of a launch into an existing array; not to be compared with api.")
        if "api" in kinds(run):
            lines.append("api: host time of a call as a user makes it, with the allocation of its result.")
        of = "x eager is" if run.main_kind == "api" else "GB/s, % copy, % limit and x eager are"
        lines.append(f"{of} from the {run.main_kind.replace('_', ' ')} time.")
    if run.main_kind and any(marks.computes(run, cases) for cases in run.groups().values()):
        lines.append(
            "TFLOP/s: the operations that `flops` of the spec counts, per second; % limit: share of the card's peak."
        )
    if run.calibration:
        floor_ = (f"{name} {1e6 * stats.median([t]):.2f}" for name, t in run.calibration.items())
        lines.append(f"floor (\u00b5s): {', '.join(floor_)}")
    borne = "".join(
        marks.of(run, case, cases, kind) for cases in run.groups().values() for case in cases for kind in case.times
    )
    ratios = (run.speedup(c, run.main_kind) for c in run.cases if run.main_kind and c is not run.baseline(c))
    if any(ratio and told(ratio) == stats.UNCLEAR for ratio in ratios):
        lines.append(UNCLEAR)
    return lines + marks.explained(borne, disturbed=bool(marks.busy(run)))


def _tolerable(case: Case) -> float:
    """The relative error of a whole output from which its budget is named: 32 bits and more, or fewer."""
    return 1e-3 if case.dtype in ("float32", "float64", "complex64", "complex128") else 0.03


def _far_off(cases: Sequence[Case]) -> list[str]:
    """Rows of entries that are right only because their budget allows a large error."""
    found: dict[tuple[str, str, str], Case] = {}
    for case in cases:
        if case.parity and case.backend in record.ENTRIES and case.parity.rel_l2 > _tolerable(case):
            found.setdefault((case.kernel, case.dtype, case.label), case)
    lines = []
    for (kernel, dtype, label), case in found.items():
        assert case.parity
        error, share = f"{case.parity.rel_l2:.2g}", f"{100 * case.parity.rounded:.3g}"
        what = f"relative error {error}, {share} % correctly rounded"
        lines.append(f"{kernel} {dtype} {label}: {what}; only its wide budget makes it right.")
    return lines


ALLOWED = "allowed ULP"  # not in files of versions before 7
CHECK_HEADERS = ["kernel", "dtype", "variant", "verdict", "max ULP", ALLOWED, "rounded", "rel. error", "shapes"]


def check_rows(run: Results) -> list[tuple[list[str], list[Case]]]:
    """For a run that only checked: for each variant, cells in the order of CHECK_HEADERS and the cases behind them."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in run.cases:
        if case.status != record.SKIPPED:
            found.setdefault((case.kernel, case.dtype, case.label), []).append(case)
    return [([*key, *_sum_up(cases)], cases) for key, cases in found.items()]


def check_table(rows: Sequence[list[str]]) -> tuple[list[str], list[list[str]]]:
    """CHECK_HEADERS and rows of `check_rows`, without the allowed error where none has it."""
    at = CHECK_HEADERS.index(ALLOWED)
    if any(row[at] != NOT_MEASURED for row in rows):
        return CHECK_HEADERS, list(rows)
    return [name for name in CHECK_HEADERS if name != ALLOWED], [[*row[:at], *row[at + 1 :]] for row in rows]


def _sum_up(cases: list[Case]) -> list[str]:
    compared = [(c.parity, c.reason) for c in cases if c.parity and (c.parity.ok or c.parity.wrong)]
    bad = next((c.status for c in cases if c.status != record.OK), "right")
    if not compared:
        return [bad, *[NOT_MEASURED] * 4, str(len(cases))]
    parities = [parity for parity, _ in compared]
    n = sum(p.n for p in parities)
    rounded = sum(p.rounded * p.n for p in parities) / n if n else 1.0
    wrong = [found for found in compared if not found[0].ok]  # else an error that is allowed may hide theirs
    worst, reason = max(wrong or compared, key=lambda found: found[0].largest)
    budget = BUDGET.search(reason)
    largest = numbers.ulp(worst.largest, float(budget["ulp"]) if budget else 0.5)
    allowed = NOT_MEASURED if worst.allowed is None else numbers.compact(worst.allowed)
    return [bad, largest, allowed, numbers.of_all(rounded), f"{max(p.rel_l2 for p in parities):.1e}", str(len(cases))]


NOTABLE = 4  # ULP; a few roundings make a smaller error
WORST = re.compile(r"\[.*\] (?P<values>got .*, want .*) for (?P<inputs>.*)", re.DOTALL)  # of check.parity


def largest_errors(run: Results) -> list[tuple[str, str]]:
    """(variants, element) of each largest error that is NOTABLE in a right answer, by kernel and dtype."""
    found: dict[tuple[str, str, str], list[str]] = {}
    every: dict[tuple[str, str], list[str]] = {}
    for (kernel, dtype, label, status, *_), cases in check_rows(run):
        every.setdefault((kernel, dtype), []).append(label)
        worst = max((c for c in cases if c.parity), key=lambda c: c.parity.largest if c.parity else 0.0, default=None)
        if worst and worst.parity and status == "right" and worst.parity.largest > NOTABLE:
            found.setdefault((kernel, dtype, _element(worst)), []).append(label)
    return [
        (f"{kernel} {dtype} {_in_short(labels, every[kernel, dtype])}", element)
        for (kernel, dtype, element), labels in found.items()
    ]


def of_checks(run: Results) -> list[tuple[str, str, str]]:
    """The lines below the table of a run that only checked, kernel by kernel: largest errors, then `remarks`."""
    said = [("largest error", labels, element) for labels, element in largest_errors(run)]
    said += remarks(run.cases, placed=True)
    kernels = sorted({case.kernel for case in run.cases}, key=len, reverse=True)  # "softmax 2" before "softmax"
    order = [case.kernel for case in run.cases]

    def place(line: tuple[str, str, str]) -> int:
        return next((order.index(kernel) for kernel in kernels if line[1].startswith(f"{kernel} ")), len(order))

    return sorted(said, key=place)


def _element(case: Case) -> str:
    """The input, got and wanted; the size and the index where the inputs are not recorded."""
    assert case.parity is not None
    known = WORST.fullmatch(case.parity.worst)
    if known is None:
        return f"{case.size} {case.parity.worst}"
    return f"{_float32s(known['inputs']) if case.dtype == 'float32' else known['inputs']}: {known['values']}"


def _float32s(inputs: str) -> str:
    """Numbers rounded to nine digits, enough to distinguish all float32 values."""
    return re.sub(r"-?\d+\.\d{8,}(e[-+]\d+)?", lambda number: f"{float(number[0]):.9g}", inputs)


def _in_short(labels: list[str], every: list[str]) -> str:
    """`labels` in short: a backend's name for all of its variants, "all" for all of `every`."""
    if len(labels) == len(every) > 1:
        return "all"

    def backend(label: str) -> str:
        name = label.partition(":")[0]
        own = {other for other in every if other.partition(":")[0] == name}
        return name if own <= set(labels) else label

    return ", ".join(dict.fromkeys(map(backend, labels)))
