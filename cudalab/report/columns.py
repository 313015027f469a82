"""What tables of results show, in every format: groups, columns and cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from cudalab.base import numbers, stats
from cudalab.base.memo import kept
from cudalab.results import limit, marks, record
from cudalab.results.record import Case, Results

GPU_KINDS = tuple(kind for kind in record.KINDS if kind != "wall")
NOT_MEASURED = "-"
BUSY = "busy"  # no verdict: `busy` says why in the headline
NOT_TIMED = "not timed"  # a `.cu` on the CPU, which is only checked there
HOST = "host"  # the backend that runs the `.cu` on the CPU
BASELINES = ("torch_eager", "torch_native", "numpy")
# Backends whose calls allocate their result, for files that do not say it (`Case.allocates`).
ALLOCATING = ("torch_eager", "torch_native", "torch_script", "torch_compile", "cupy_eager", "cupy_fuse")


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
        how += with_set(run)
        return f"No GPU: {run.no_gpu}. On the CPU ({run.machine.name}): {how}"
    l2, driver = run.machine.details.get("l2_bytes"), run.machine.details.get("driver", "unknown")
    cache = f"L2 {l2 / 2**20:.0f} MiB, " if isinstance(l2, int) else ""
    return f"{run.machine.name}, {cache}driver {driver}, {run.created[:10]}{_processes(run)}{with_set(run)}"


def _processes(run: Results) -> str:
    """How many processes took each group, if the run says it: intervals of one know nothing of the others."""
    count, most = run.options.get("processes"), run.options.get("up_to")
    if not isinstance(count, int) or not run.timed:
        return ""
    return f", {count} to {most} processes" if most else f", {count} process{'es' if count != 1 else ''}"


def with_set(run: Results) -> str:
    """The values that `--set` gave to tunables, if any."""
    values = run.options.get("parameters")
    return f", with {values.replace(',', ' ')}" if isinstance(values, str) and values else ""


def without_gpu(run: Results) -> bool:
    """Whether a run is a bench of entries on the CPU, which times none of them: it has a screen of its own."""
    return run.machine.device == "cpu" and run.kind == "bench" and any(case.backend == HOST for case in run.cases)


def missing(run: Results) -> str:
    """A warning for a run that `check -x` or an interruption ended, else an empty text."""
    if run.complete:
        return ""
    last = [case for case in run.cases if case.group == run.cases[-1].group]
    if run.kind == "check" and any(case.status in record.BROKEN for case in last if case.backend in record.ENTRIES):
        return (
            "STOPPED where an entry is wrong or fails: to check the rest, leave out -x; a run with -o FILE continues "
            "with --resume FILE"
        )
    return "INTERRUPTED: some cases are missing; continue with --resume FILE"


def warnings(run: Results) -> list[str]:
    """What a reader must know before the numbers: an interrupted run, a busy machine."""
    return [text for text in (missing(run), marks.busy(run)) if text]


def title(cases: list[Case]) -> str:
    """Return the line above one group's table."""
    case = cases[0]
    shape = " x ".join(map(str, case.shape))
    size = "" if case.size == shape.replace(" ", "") else f"{case.size} "
    text = f"{case.kernel}  {size}({shape})  {case.dtype}  {numbers.amount(case.nbytes)}B moved"
    state = next((c.condition for c in cases if c.condition.keys() - {record.UNDER_LOAD}), {})
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
    for kind in kinds(run):
        if kind != main:
            found.append(Column(f"{_head(kind)} {unit_of(kind)[0]}", _marked(run, shown, cases, kind)))
        if kind in BESIDE:
            found += BESIDE[kind](shown)
    found += [
        Column(f"{tool} \u00b5s", [numbers.significant(1e6 * c.cross[tool], 4) if c.cross.get(tool) else NOT_MEASURED
                                  for c in shown])
        for tool in others(cases)
    ]  # fmt: skip
    return with_values(found)


def _of_energy(shown: list[Case]) -> list[Column]:
    """The interval of the energy, and the power in its windows."""
    timings = [case.timing(record.ENERGY) for case in shown]
    ends = [numbers.ends(*(1e3 * end for end in t.interval)) if t else NOT_MEASURED for t in timings]
    return [
        Column("energy interval", ends, joined=True),
        Column("energy W", _counted(shown, "energy_w", 1.0), joined=True),
    ]


def _of_sustained(shown: list[Case]) -> list[Column]:
    """The clocks of the SMs in a burst and under load."""
    return [
        Column(f"{kind} MHz", _counted(shown, f"{kind}_sm_hz", 1e6), joined=True) for kind in ("burst", "sustained")
    ]


BESIDE = {record.ENERGY: _of_energy, "sustained": _of_sustained}  # columns that follow those of a kind


def _counted(shown: list[Case], name: str, scale: float) -> list[str]:
    return [f"{case.quantities[name] / scale:,.0f}" if name in case.quantities else NOT_MEASURED for case in shown]


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
        in_unit(case, kind) + marks.signs(run, case, cases, kind) for case in shown
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
    """Return the least time that physics allows, in percent of the case's main time."""
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
    """Return the largest error in ULP of a right answer, else the status."""
    if case.status not in (record.OK, record.CEILING):
        return case.status
    if case.parity is None:
        return NOT_MEASURED
    return numbers.ulp(case.parity.max_ulp)


def microseconds(case: Case, kind: str) -> str:
    """A median in microseconds, rounded by `numbers.supported`."""
    return _scaled(case, kind, 1e6)


def unit_of(kind: str) -> tuple[str, float]:
    """The unit in which tables of kernels print a kind of time, or the energy, and how many of it make a second, or a
    joule.
    """
    return ("mJ", 1e3) if kind == record.ENERGY else ("\u00b5s", 1e6)


def in_unit(case: Case, kind: str) -> str:
    """A median in the unit of its kind, rounded by `numbers.supported`."""
    return _scaled(case, kind, unit_of(kind)[1])


def _scaled(case: Case, kind: str, times: float) -> str:
    timing = case.timing(kind)
    return numbers.supported(timing.median * times, timing.width) if timing else NOT_MEASURED


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
    """Return the unit of a group's times and its seconds: microseconds; of a study what suits its shortest time. Of
    the energy: mJ.
    """
    if kind == record.ENERGY:
        return "mJ", 1e-3
    shortest = min((s for c in cases if (s := c.median(kind))), default=1.0)
    return numbers.time_unit(shortest if run.of_study else 0.0)


def references(run: Results) -> tuple[str, ...]:
    """Backends or labels that speed-ups may refer to: the first of them that was timed is taken."""
    return (run.reference,) if run.of_study else BASELINES
