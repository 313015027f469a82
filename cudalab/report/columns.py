"""What tables of results show, in every format: groups, columns, cells, and the lines below the tables."""

from __future__ import annotations

import re
from math import ceil

from cudalab.base import numbers, stats
from cudalab.results import record
from cudalab.results.record import Case, Results

GPU_KINDS = tuple(kind for kind in record.KINDS if kind != "wall")
WIDE = 110  # characters; a table this wide has room for intervals and verdicts
NOT_MEASURED = "-"
BASELINES = ("torch_eager", "torch_native", "numpy")

FLOOR = 10  # a time below this many empty event pairs is mostly launch and timer
CEILING = 1.01  # a bandwidth this many times the copy's does not come from memory alone
NOISY = 0.1  # relative width of a median's interval above which the row is marked
# Marks on a time, and their explanation below the table.
MARKS = {
    "~": f"below {FLOOR} x the time of an empty event pair: much of it is launch and timer, not the kernel",
    "^": "faster than a copy of as many bytes: more read than written, or part of it in cache",
    "!": "the GPU ran below its highest clock",
    "?": f"the samples fall into two groups, or the median is known to no better than {NOISY:.0%}, "
    f"or the speed-up to no better than a factor of {stats.VAGUE:g}",
}


def heading(run: Results) -> str:
    """The first line: the machine that measured the numbers, or why there is no GPU."""
    if run.machine.device == "cpu":
        how = "times are wall clock" if run.timed else "nothing is timed"
        return f"No GPU: {run.no_gpu}. On the CPU ({run.machine.name}): {how}"
    l2, driver = run.machine.details.get("l2_bytes"), run.machine.details.get("driver", "unknown")
    cache = f"L2 {l2 / 2**20:.0f} MiB, " if isinstance(l2, int) else ""
    return f"{run.machine.name}, {cache}driver {driver}, {run.created[:10]}"


def missing(run: Results) -> str:
    """A warning for an interrupted run, else an empty text."""
    return "" if run.complete else "INTERRUPTED: some of what was asked for is missing; go on with --resume FILE"


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


def kinds(run: Results) -> tuple[str, ...]:
    """The kinds of time that the run has, in the order of the columns."""
    wanted = ("wall",) if run.machine.device == "cpu" else GPU_KINDS
    return tuple(k for k in wanted if any(k in c.times for c in run.cases))


def table(run: Results, cases: list[Case], wide: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of one group; `wide` adds the cold graph, the speed-up's interval and its verdict."""
    shown = [k for k in kinds(run) if wide or k != "graph_cold"]
    gpu = run.machine.device == "cuda"
    headers = ["variant", "max ULP", *(f"{k.replace('_', ' ')} \u00b5s" for k in shown)]
    headers += [*(f"{name} \u00b5s" for name in others(cases)), "GB/s"]
    headers += [*(["% copy"] if gpu else []), "x eager", *(["95 % interval", "verdict"] if wide else [])]
    return headers, [_cells(run, case, cases, shown, gpu, wide) for case in rows(cases)]


def _cells(run: Results, case: Case, cases: list[Case], shown: list[str], gpu: bool, wide: bool) -> list[str]:
    kind = run.main_kind
    copy = ceiling(cases)
    ours, best = case.median(kind), copy.median(kind) if copy else None
    share = f"{100 * best / ours:.0f}" if ours and best else NOT_MEASURED
    rate, ratio = case.bandwidth(kind), run.speedup(case, kind)
    interval = [numbers.interval(ratio.low, ratio.high), ratio.verdict()] if ratio else [NOT_MEASURED] * 2
    return [
        name(case),
        verdict(case),
        *(microseconds(case, k) + (marks(run, case, cases) if k == kind else "") for k in shown),
        *(numbers.significant(1e6 * case.cross[k], 4) if case.cross.get(k) else NOT_MEASURED for k in others(cases)),
        numbers.three(rate / 1e9) if rate else NOT_MEASURED,
        *([share] if gpu else []),
        numbers.factor(ratio.value) if ratio else NOT_MEASURED,
        *(interval if wide else []),
    ]


def name(case: Case) -> str:
    """The name of a case's row."""
    return "copy (ceiling)" if case.status == record.CEILING else case.label


def others(cases: list[Case]) -> list[str]:
    """The times that other tools measured for this group, by name; see cudalab.engine.cross_check."""
    return list(dict.fromkeys(name for case in cases for name in case.cross if not name.endswith("wall")))


def ceiling(cases: list[Case]) -> Case | None:
    return next((c for c in cases if c.status == record.CEILING), None)


def marks(run: Results, case: Case, cases: list[Case]) -> str:
    """The MARKS on the main time of a case."""
    kind, copy = run.main_kind, ceiling(cases)
    time = case.median(kind)
    if not time:
        return ""
    floor_ = run.calibration.get("empty event pair")
    found = "~" if floor_ and kind == "cold" and time < FLOOR * stats.median([floor_]) else ""
    best = copy.median(kind) if copy else None
    found += "^" if best and case is not copy and time * CEILING < best and "~" not in found else ""
    found += "!" if copy and copy.condition.get("throttled") else ""
    samples = case.times[kind]
    ratio = run.speedup(case, kind)
    rough = stats.relative_width(samples) > NOISY or stats.bimodal(samples) or (ratio is not None and ratio.vague)
    return found + ("?" if rough else "")


COST_HEADERS = ["variant", "bind ms", "first run ms", "graph build ms", "graph pays back after"]


def costs(cases: list[Case]) -> list[list[str]]:
    """What each variant of a group costs once: rows in the order of COST_HEADERS."""
    return [
        [c.label, *(_milliseconds(c, k) for k in ("bind", "first run", "graph build")), _break_even(c)]
        for c in rows(cases)
        if c.costs and c.status == record.OK
    ]


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
    rounds = case.times.get(kind)
    if not rounds:
        return NOT_MEASURED
    return numbers.supported(stats.median(rounds) * 1e6, stats.relative_width(rounds))


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


def unit(run: Results, cases: list[Case], kind: str) -> tuple[str, float]:
    """The unit of a group's times and its seconds: microseconds; of a study the one that suits its shortest time."""
    shortest = min((s for c in cases if (s := c.median(kind))), default=1.0)
    return numbers.time_unit(shortest if run.of_study else 0.0)


def references(run: Results) -> tuple[str, ...]:
    """Backends or labels that speed-ups may refer to: the first of them that was timed is taken."""
    return (run.reference,) if run.of_study else BASELINES


def remarks(cases: list[Case], placed: bool = False) -> list[tuple[str, str, str]]:
    """(status, labels, text) for the lines below a table: reasons of wrong and failed rows, and notes.

    `placed`: put kernel, dtype and size before the labels, for tables of several groups.
    """
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        if case.status in (record.WRONG, record.ERROR):
            found.setdefault((case.status, case.reason), []).append(case)
        for note in case.notes:
            found.setdefault(("note", note), []).append(case)
    return [(s, (_place(about) if placed else "") + _labels(about), text) for (s, text), about in found.items()]


def _labels(cases: list[Case]) -> str:
    return ", ".join(dict.fromkeys(case.label for case in cases))


def _place(cases: list[Case]) -> str:
    first, *others = dict.fromkeys(f"{c.kernel} {c.dtype} at {c.size}" for c in cases)
    return f"{first}{f' and {len(others)} more' if others else ''}, "


def skipped(run: Results) -> list[tuple[str, str]]:
    """(names, reason) of what could not run here: backends, of a study variants."""
    found: dict[str, dict[str, None]] = {}
    for case in run.cases:
        if case.status == record.SKIPPED:
            found.setdefault(case.reason, {})[case.label if run.of_study else case.backend] = None
    return [(", ".join(labels), reason) for reason, labels in found.items()]


def footer(run: Results) -> list[str]:
    """How to read the columns, and the times of empty measurements."""
    lines = ["max ULP: largest error against float64, in units in the last place of the dtype."]
    if run.machine.device == "cpu":
        lines.append("host rows: the .cu, compiled for the CPU and compared with float64; checked, never timed.")
        if "api" in str(run.options.get("modes", "")).split(","):
            lines.append("api: not measured, since the wall time of a call on the CPU is the host's.")
    elif run.main_kind:
        lines.append("cold: L2 flushed, one run; hot: runs back to back; graph: a replayed run, hot; call: host time.")
        if "api" in kinds(run):
            lines.append("api: host time of a call as a user makes it, with the allocation of its result.")
        of = "x eager is" if run.main_kind == "api" else "GB/s, % copy and x eager are"
        lines.append(f"{of} from the {run.main_kind.replace('_', ' ')} time.")
    if run.calibration:
        floor_ = (f"{name} {1e6 * stats.median([t]):.2f}" for name, t in run.calibration.items())
        lines.append(f"floor (\u00b5s): {', '.join(floor_)}")
    borne = "".join(marks(run, case, cases) for cases in run.groups().values() for case in cases)
    return lines + [f"{mark} {text}." for mark, text in MARKS.items() if mark in borne]


CHECK_HEADERS = ["kernel", "dtype", "variant", "verdict", "max ULP", "rounded", "rel L2", "shapes"]


def check_rows(run: Results) -> list[tuple[list[str], list[Case]]]:
    """For a run that only checked: for each variant, cells in the order of CHECK_HEADERS and the cases behind them."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in run.cases:
        if case.status != record.SKIPPED:
            found.setdefault((case.kernel, case.dtype, case.label), []).append(case)
    return [([*key, *_sum_up(cases)], cases) for key, cases in found.items()]


def _sum_up(cases: list[Case]) -> list[str]:
    parities = [c.parity for c in cases if c.parity and (c.parity.ok or c.parity.wrong)]
    bad = next((c.status for c in cases if c.status != record.OK), "right")
    if not parities:
        return [bad, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, str(len(cases))]
    n = sum(p.n for p in parities)
    rounded = sum(p.rounded * p.n for p in parities) / n if n else 1.0
    largest = numbers.ulp(max(p.largest for p in parities))
    return [bad, largest, f"{100 * rounded:.4g} %", f"{max(p.rel_l2 for p in parities):.1e}", str(len(cases))]


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
