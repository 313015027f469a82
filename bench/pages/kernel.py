"""The page of a kernel on a card: every size and dtype beside every rival, the roofline, its entries, its errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from cudalab import backends
from cudalab.base import numbers
from cudalab.report import columns
from cudalab.report.html import roofline
from cudalab.results import limit, marks, record, rivals
from cudalab.results.record import Case, Results
from cudalab.spec import cuda_source, find
from cudalab.spec.comments import blank_comments
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel
from pages import committed, peers
from pages.committed import Card, legend, table
from pages.peers import KINDS, VERDICTS, Row

SAYS = {
    "cold": "One run with an empty L2 cache.",
    "hot": "Runs back to back: arrays that fit in L2 are there.",
    "graph": "A run in a CUDA Graph of many, hot.",
    "graph_cold": "A run in a CUDA Graph of many, each on arrays that are not in L2.",
    "api": "Host time of one call from Python, with the allocation of its result.",
}
CHARTS = {  # of a picture bench/results/CARD/KERNEL_CHART.svg: what it shows
    "roofline": "operations per second against operations per byte, cold",
    "speedup": "how many times as fast as eager PyTorch, cold",
    "bandwidth": "bytes per second against size, cold: a launch weighs less in large arrays",
    "accuracy": "share of results that are correctly rounded",
    "error": "largest error in ULP against x",
}
SHARES = (
    "Cold. *% copy*: the time of a copy of as many bytes in percent of the row's. *% memory*: bytes per second in "
    "percent of the memory's rate on the data sheet. *% limit*: the least time that physics allows in percent of the "
    "row's."
)
BOLD = (
    "Times are medians in µs. **Bold**: the rival that was fastest in the first process, with which ours is compared."
)
LADDER = "What each entry gains over the one before it, cold, at the largest size. **Bold**: the one compared above."
ULP = "Against float64, over all sizes. Near 0 a ULP is tiny: there the absolute part of a budget allows large errors."
GAIN = ("times as fast as the entry before", "verdict")
# A line that may stand between an entry and the comment above it: empty, a macro, a declaration such as a `constexpr`.
BETWEEN = re.compile(r"\s*|#define .*|[^\s/{}][^{}]*[;>]\s*(//.*)?")
SENTENCE = re.compile(r".*?(?:\.(?=\s+[^a-z]|\s*$)|$)")


def page(card: Card, run: Results) -> str:
    """The whole page; of a file without times of rivals, without the tables of times."""
    kernel = find.kernel(run.cases[0].kernel)
    found = {kind: rows for kind in KINDS if (rows := peers.rows(run, kind))}
    parts = [f"# {kernel.name} on the {run.machine.name}", *about(card, run, kernel), "## Against the fastest rival"]
    parts += compared(run, found) if found else ["No rival was timed."]
    parts += ["## Roofline", limits(run), picture(card, kernel, "roofline")]
    parts += ["## From plain to fast", *ladder(run, kernel)]
    parts += ["## Errors and budgets", errors(run), checks(card, kernel)]
    plots = [picture(card, kernel, chart) for chart in CHARTS if chart != "roofline"]
    parts += ["## Plots", *plots] if any(plots) else []
    return legend("\n\n".join(filter(None, parts)))


def about(card: Card, run: Results, kernel: Kernel) -> list[str]:
    """What the kernel does, what bounds it, and where the numbers come from."""
    case = max((c for c in run.cases if c.backend in rivals.OURS), key=lambda c: c.nbytes)
    moved, bus = f"{numbers.amount(case.nbytes)}B", roofline.memory_bus(run.machine)
    if limit.computes(case, run.machine):
        bound = f"operations: {numbers.amount(case.flops)}FLOP on {moved}, {case.flops / case.nbytes:,.0f} a byte"
    else:
        bound = f"memory: it reads and writes {moved}"
        bound += f", {numbers.three(1e6 * case.nbytes / bus.rate)} µs at {numbers.amount(bus.rate)}B/s" if bus else ""
    used = {"driver": run.machine.details.get("driver", "-"), **run.machine.versions}
    versions = [f"{n} {used[n]}" for n in ("driver", "torch", "triton", "cupy", "pycuda") if n in used]
    sizes = {c.size: " x ".join(f"{n:,}" for n in c.shape) for c in run.cases}
    return [
        f"`{kernel.name}`: {escaped(kernel.summary)}.",
        f"At `{case.size}` in {case.dtype} it is bound by {bound}. Small sizes are bound by the start of a kernel.",
        f"Sizes: {', '.join(f'{name} is {shape}' for name, shape in sizes.items())}.",
        f"[Source](../../{kernel.cu.resolve().relative_to(committed.ROOT)}) · [results]({results(card, kernel.name)})"
        f"{card.marks(run)} of {', '.join([run.created[:10], *versions])} · [all kernels](../{card.name}.md)",
    ]


def results(card: Card, name: str, up: str = "../..") -> str:
    """The address of a file of results, from a page that is `up` from the root."""
    return f"{up}/bench/results/{card.name}/{name}.json"


def compared(run: Results, found: dict[str, list[Row]]) -> list[str]:
    """The verdicts, a table for each kind of time, and what their marks say."""
    ran = (c.label for c in run.cases if c.backend not in rivals.NO_RIVALS and c.status != record.SKIPPED)
    names = list(dict.fromkeys(ran))
    tables = [part for kind, rows in found.items() for part in times(kind, rows, names)]
    return [summary(found), missing(run, found.get("cold", [])), *tables, marked(found.values())]


def summary(found: dict[str, list[Row]]) -> str:
    """Rows by verdict and the geometric mean, for each kind of time."""
    lines = []
    for kind, rows in found.items():
        verdicts, mean = peers.counts(rows).split(" / "), peers.mean(rows)
        counted = verdicts if len(verdicts) > 1 else [columns.NOT_MEASURED] * len(VERDICTS)
        lines.append([in_words(kind), str(len(rows)), *counted, numbers.with_ends(mean) if mean else "-"])
    return table(["time", "rows", *VERDICTS, "times as fast, geometric mean"], lines)


def missing(run: Results, compared: list[Row]) -> str:
    """The sizes and dtypes without a comparison of cold times."""
    there = {row.ours.group for row in compared}
    left = [cases for group, cases in run.groups().items() if group not in there]
    said = [f"{cases[0].size} {cases[0].dtype}" for cases in left]
    return f"Not compared cold, since ours or every rival has no time: {', '.join(said)}." if said else ""


def times(kind: str, rows: list[Row], names: list[str]) -> list[str]:
    """The table of a kind of time: ours beside every rival, those first that win most rows; losses first."""
    wins, lines = Counter(row.peer.label for row in rows), []
    names = sorted(names, key=lambda name: -wins[name])
    for row in rows:
        line = {"size": row.ours.size, "dtype": row.ours.dtype, "verdict": row.verdict}
        line["times as fast"] = f"{numbers.ratio(row.ratio)} ({numbers.ends(row.ratio.low, row.ratio.high)})"
        line["ours"] = f"{short(row.ours)} {row.time(row.ours)}"
        cases = {case.label: case for case in row.cases}
        lines.append(line | {in_words(name): cell(row, cases.get(name)) for name in names})
    return [f"### {in_words(kind).capitalize()}", SAYS[kind], of_columns(lines)]


def cell(row: Row, case: Case | None) -> str:
    """A rival's time, in bold if it is the fastest; what is wrong with it if it has none."""
    if case is None or not case.times.get(row.kind):
        return without_time(case) if case else columns.NOT_MEASURED
    return f"**{row.time(case)}**" if case is row.peer else row.time(case)


def without_time(case: Case) -> str:
    return case.status if case.status in record.BROKEN else columns.NOT_MEASURED


def short(case: Case) -> str:
    """An entry without the kernel's name before it."""
    return f"`{case.variant.removeprefix(f'{case.kernel}_')}`"


def in_words(name: str) -> str:
    return name.replace("_", " ").replace(":", ", ")


def marked(found: Iterable[list[Row]]) -> str:
    """What the marks on the times of some rows say, and the bold ones."""
    borne = (marks.signs(row.run, case, row.cases, row.kind) for rows in found for row in rows for case in row.cases)
    said = [f"`{line[0]}` {line[2:]}" for line in marks.explained(borne)]
    return " ".join([BOLD, *said])


def limits(run: Results) -> str:
    """What ours and the fastest rival reach of what bounds them, cold, in the order of the run."""
    lines = []
    for cases in run.groups().values():
        if case := rivals.ours(run, cases, "cold"):
            line = {"size": case.size, "dtype": case.dtype, "our entry": short(case)}
            line |= {"bytes": f"{numbers.amount(case.nbytes)}B", **reached(run, cases, case)}
            if other := rivals.rival(run, cases, "cold"):
                share = reached(run, cases, other)
                line |= {f"fastest rival, {name}": share[name] for name in ("% copy", "TFLOP/s") if name in share}
            lines.append(line)
    return f"{SHARES}\n\n{of_columns(lines)}" if lines else "No cold times."


def reached(run: Results, cases: list[Case], case: Case) -> dict[str, str]:
    """The rate of a case, cold, and its shares of limits: of a copy and of the memory, or of units that compute."""
    timing = case.timing("cold")
    if not timing:
        return {}

    def percent(amount: int, rate: float) -> str:
        return numbers.supported(100 * amount / timing.median / rate, timing.width, numbers.DERIVED)

    if limit.computes(case, run.machine):
        units = roofline.units(run.machine, case.dtype)
        found = {"TFLOP/s": columns.throughput(case, "cold")}
        found |= {f"% {unit.of}": percent(case.flops, unit.rate) for unit in units}
    else:
        bus = roofline.memory_bus(run.machine)
        found = {"GB/s": columns.bandwidth(case, "cold"), "% copy": columns.share(run, case, marks.ceiling(cases))}
        found |= {"% memory": percent(case.nbytes, bus.rate)} if bus else {}
    return found | {"% limit": columns.of_limit(run, case)}


def of_columns(lines: list[dict[str, str]]) -> str:
    """A table of lines, each with its cells by the name of the column, without columns that have no value."""
    names = dict.fromkeys(name for line in lines for name in line)
    cells = {name: [line.get(name, columns.NOT_MEASURED) for line in lines] for name in names}
    held = {name: column for name, column in cells.items() if {*column} != {columns.NOT_MEASURED}}
    return table([*held], [list(line) for line in zip(*held.values(), strict=True)], 3)


def ladder(run: Results, kernel: Kernel) -> list[str]:
    """The idea of each entry, and what it gained over the entry before, at the largest size of each dtype, cold."""
    measured = dict.fromkeys(c.variant for c in run.cases if c.backend in rivals.OURS and not c.old)
    names = sorted(measured, key=[*kernel.entries, *measured].index)
    text = cuda_source.whole(kernel.cu)
    ideas = [f"- `{name}`{': ' if (said := idea(text, name)) else ''}{said}" for name in names]
    lines = []
    for dtype in dict.fromkeys(case.dtype for case in run.cases):
        cases = max((cs for (_, _, of), cs in run.groups().items() if of == dtype), key=lambda cs: cs[0].nbytes)
        by_name = {c.variant: c for backend in reversed(rivals.OURS) for c in cases if c.backend == backend}
        best, before = rivals.ours(run, cases, "cold"), None
        for case in (by_name[name] for name in names if name in by_name):
            name = f"**`{case.variant}`**" if case is best else f"`{case.variant}`"
            line = {
                "dtype": dtype,
                "size": case.size,
                "entry": name,
                "µs": without_time(case),
                **dict.fromkeys(GAIN, "-"),
            }
            if case.times.get("cold"):
                line["µs"] = columns.microseconds(case, "cold") + marks.signs(run, case, cases, "cold")
                if before:
                    ratio = run.ratio(before, case, "cold")
                    line |= zip(GAIN, (numbers.with_ends(ratio), ratio.verdict()), strict=True)
                line |= reached(run, cases, case)
                before = case
            lines.append(line)
    return [LADDER, "\n".join(ideas), of_columns(lines)]


def idea(text: str, entry: str) -> str:
    """The first sentence of the comment above an entry in the text of a `.cu`; "" if there is none."""
    functions = cuda_source.global_functions(blank_comments(text))
    above = text[: next((found.start() for found in functions if found[1] == entry), 0)].split("\n")[:-1]
    while above and BETWEEN.fullmatch(above[-1]):
        above.pop()
    said: list[str] = []
    while above and above[-1].startswith("//"):
        said.insert(0, above.pop().lstrip("/ "))
    first = SENTENCE.match(" ".join(said))
    return escaped(first[0]) if first else ""


def escaped(text: str) -> str:
    """A text as Markdown that shows it as it is; what is between backticks does so already."""
    parts = enumerate(text.split("`"))
    return "`".join(p if i % 2 else re.sub(r"([*\[])", r"\\\1", p).replace("<", "&lt;") for i, p in parts)


def errors(run: Results) -> str:
    """For each dtype the errors over all sizes, and the budgets, of ours and then of each rival."""
    found: dict[str, dict[str, list[Case]]] = {}
    for case in run.cases:
        if case.parity and (case.backend in rivals.OURS or case.backend not in rivals.NO_RIVALS):
            found.setdefault(case.dtype, {}).setdefault(case.label, []).append(case)
    lines = [
        [dtype, f"`{label}`", *summed_up(cases), budget(cases[0])]
        for dtype, by_label in found.items()
        for label, cases in sorted(by_label.items(), key=lambda one: one[1][0].backend not in rivals.OURS)
    ]  # fmt: skip
    head = ["dtype", "variant", "max ULP", "correctly rounded", "budget, ULP"]
    return f"{ULP}\n\n{table(head, lines, 2)}"


def checks(card: Card, kernel: Kernel) -> str:
    """Links to the checks of the kernel that are beside its results."""
    files = (kernel.name, f"{kernel.name}_exhaustive", f"sanitize_{kernel.name}")
    there = [name for name in files if (card.folder / "checks" / f"{name}.json").exists()]
    links = ", ".join(f"[{in_words(name)}]({results(card, f'checks/{name}')})" for name in there)
    return f"Checks on the card: {links}." if links else ""


def summed_up(cases: list[Case]) -> list[str]:
    """The largest error over all sizes, and the share of all their results that is correctly rounded."""
    parities = [case.parity for case in cases if case.parity]
    n = sum(p.n for p in parities)
    rounded = sum(p.rounded * p.n for p in parities) / n if n else 1.0
    return [numbers.ulp(max(p.largest for p in parities)), numbers.of_all(rounded)]


def budget(case: Case) -> str:
    """The budget by which a variant was judged, and whose it is."""
    backend = backends.by_name().get(case.backend)
    whose = "composed" if case.composed else backend.budget if backend else "peers"
    held = find.kernel(case.kernel).budget(DTYPES[case.dtype], whose)
    atol = "a share of its terms" if callable(held.atol) else f"{held.atol:g} absolute"
    within = f" or {atol}" if held.atol else ""
    return f"{numbers.compact(held.ulp)}{within} ({whose})"


def picture(card: Card, kernel: Kernel, chart: str) -> str:
    """The plot that `make report` drew, if there is one."""
    file = f"{kernel.name}_{chart}.svg"
    said = f"{kernel.name}: {CHARTS[chart]}"
    return f"![{said}](../../bench/results/{card.name}/{file})" if (card.folder / file).exists() else ""
