"""The page of a kernel on a card: every size and dtype beside every rival, the roofline, its entries, its errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import prod

from cudalab.base import numbers
from cudalab.report import columns
from cudalab.report.html import roofline
from cudalab.results import limit, marks, record, rivals
from cudalab.results.record import Case, Results
from cudalab.spec import cuda_source, find
from cudalab.spec.comments import blank_comments
from cudalab.spec.kernel import Kernel
from pages import committed, errors, peers
from pages.committed import Card, legend, table
from pages.peers import KINDS, VERDICTS, Group, Row

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
LADDER = (
    "Our entries at the largest size, cold, each beside the fastest of those above it. An entry may be for other "
    "sizes. **Bold**: the one compared above."
)
ALL_SIZES = "All sizes, cold, µs:"
GAIN = ("times as fast as the fastest above", "verdict")
# A line that may stand between an entry and the comment above it: empty, a macro, a declaration such as a `constexpr`.
BETWEEN = re.compile(r"\s*|#define .*|[^\s/{}][^{}]*[;>]\s*(//.*)?")
ONE_CALL = re.compile(r"[^{;]*\{\s*(\w+)(?:<[^;{}]*>)?\([^;{}]*\);\s*\}")  # the rest of a function, behind its name
SENTENCE = re.compile(r".*?(?:\.(?=\s+[^a-z]|\s*$)|$)")


def page(card: Card, run: Results) -> str:
    """The whole page; of a file without times of rivals, without the tables of times."""
    kernel = find.kernel(run.cases[0].kernel)
    parts = [f"# {kernel.name} on the {run.machine.name}", *about(card, run, kernel), "## Against the fastest rival"]
    parts += compared(run)
    parts += ["## Roofline", limits(run), picture(card, kernel, "roofline")]
    parts += ["## From plain to fast", *ladder(run, kernel)]
    parts += ["## Errors and budgets", errors.listed(run), checks(card, kernel)]
    plots = [picture(card, kernel, chart) for chart in CHARTS if chart != "roofline"]
    parts += ["## Plots", *plots] if any(plots) else []
    return legend("\n\n".join(filter(None, parts)))


def about(card: Card, run: Results, kernel: Kernel) -> list[str]:
    """What the kernel does, what bounds it, and where the numbers come from."""
    case = max((c for c in run.cases if c.backend in rivals.OURS), key=elements)
    moved, bus = f"{numbers.amount(case.nbytes)}B", roofline.memory_bus(run.machine)
    if limit.computes(case, run.machine):
        bound = f"operations: {numbers.amount(case.flops)}FLOP on {moved}, {case.flops / case.nbytes:,.0f} a byte"
    else:
        bound = f"memory: it reads and writes {moved}"
        bound += f", {numbers.three(1e6 * case.nbytes / bus.rate)} µs at {numbers.amount(bus.rate)}B/s" if bus else ""
    used = {"driver": run.machine.details.get("driver", columns.NOT_MEASURED), **run.machine.versions}
    versions = [f"{n} {used[n]}" for n in ("driver", "torch", "triton", "cupy", "pycuda") if n in used]
    sizes = {c.size: " x ".join(f"{n:,}" for n in c.shape) for c in run.cases}
    return [
        f"`{kernel.name}`: {escaped(kernel.summary)}.",
        f"At `{case.size}` in {case.dtype} it is bound by {bound}.{of_launch(run, case.dtype)}",
        f"Sizes: {', '.join(f'{name} is {shape}' for name, shape in sizes.items())}.",
        f"[Source](../../{kernel.cu.resolve().relative_to(committed.ROOT)}) · [results]({results(card, kernel.name)})"
        f"{card.marks(run)} of {', '.join([run.created[:10], *versions])} · [all kernels](../{card.name}.md)",
    ]


def elements(case: Case) -> int:
    """By how many elements a size is large: of two with as many the first is taken, whatever else they read."""
    return prod(case.shape)


def of_launch(run: Results, dtype: str) -> str:
    """The sizes at which the launch is much of our cold time, as a sentence; "" if there are none."""
    found = [
        f"`{case.size}`"
        for cases in run.groups().values()
        if (case := rivals.ours(run, cases, "cold"))
        and case.dtype == dtype
        and "~" in marks.signs(run, case, cases, "cold")
    ]
    named = " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
    return f" At {named} much of the time is launch and timer." if found else ""


def results(card: Card, name: str, up: str = "../..") -> str:
    """The address of a file of results, from a page that is `up` from the root."""
    return f"{up}/bench/results/{card.name}/{name}.json"


def compared(run: Results) -> list[str]:
    """The verdicts, a table for each kind of time that a rival has, and what their marks say."""
    found = {kind: peers.rows(run, kind) for kind in KINDS}
    alone = {kind: peers.uncompared(run, kind) for kind in KINDS}
    there = [kind for kind in KINDS if found[kind] or alone[kind]]
    if not there:
        return ["No rival was timed."]
    ran = (c.label for c in run.cases if c.backend not in rivals.NO_RIVALS and c.status != record.SKIPPED)
    names = list(dict.fromkeys(ran))
    tables = [part for kind in there for part in times(kind, found[kind], alone[kind], names)]
    borne = marked(group for kind in there for group in (*found[kind], *alone[kind]))
    return [summary({kind: found[kind] for kind in there}), *tables, borne]


def summary(found: dict[str, list[Row]]) -> str:
    """Rows by verdict and the geometric mean, for each kind of time."""
    lines = []
    for kind, rows in found.items():
        verdicts, mean = peers.counts(rows).split(" / "), peers.mean(rows)
        counted = verdicts if len(verdicts) > 1 else [columns.NOT_MEASURED] * len(VERDICTS)
        lines.append([in_words(kind), str(len(rows)), *counted, peers.said(mean)])
    return table(["time", "rows", *VERDICTS, "times as fast, geometric mean"], lines)


def times(kind: str, rows: list[Row], alone: list[Group], names: list[str]) -> list[str]:
    """The table of a kind of time: ours beside every rival, those first that win most rows; losses first.

    What is not compared comes last.
    """
    wins, lines = Counter(row.peer.label for row in rows), []
    names = sorted(names, key=lambda name: -wins[name])
    for group in (*rows, *alone):
        line = {"size": group.cases[0].size, "dtype": group.cases[0].dtype}
        line |= verdict(group) if isinstance(group, Row) else unknown(group)
        cases = {case.label: case for case in group.cases}
        lines.append(line | {in_words(name): cell(group, cases.get(name)) for name in names})
    return [f"### {in_words(kind).capitalize()}", SAYS[kind], of_columns(lines)]


def verdict(row: Row) -> dict[str, str]:
    """The comparison and our time."""
    ratio = f"{numbers.ratio(row.ratio)} ({numbers.ends(row.ratio.low, row.ratio.high)})"
    return {"verdict": row.verdict, "times as fast": ratio, "ours": f"{short(row.ours)} {row.time(row.ours)}"}


def unknown(group: Group) -> dict[str, str]:
    """Why there is no comparison, and our time if we have one."""
    if ours := rivals.ours(group.run, group.cases, group.kind):
        return {"verdict": "no rival has a time", "ours": f"{short(ours)} {group.time(ours)}"}
    broken = [without_time(case) for case in group.cases if case.backend in rivals.OURS and not case.old]
    said = next((status for status in broken if status != columns.NOT_MEASURED), columns.NOT_MEASURED)
    return {"verdict": "ours has no time", "ours": said}


def cell(group: Group, case: Case | None) -> str:
    """A rival's time, in bold if it is the one of the comparison; what is wrong with it if it has none."""
    if case is None or not case.times.get(group.kind):
        return without_time(case) if case else columns.NOT_MEASURED
    return f"**{group.time(case)}**" if isinstance(group, Row) and case is group.peer else group.time(case)


def without_time(case: Case) -> str:
    return case.status if case.status in record.BROKEN else columns.NOT_MEASURED


def short(case: Case) -> str:
    """An entry without the kernel's name before it."""
    return f"`{case.variant.removeprefix(f'{case.kernel}_')}`"


def in_words(name: str) -> str:
    return name.replace("_", " ").replace(":", ", ")


def marked(groups: Iterable[Group]) -> str:
    """What the marks on the times of some rows say, and the bold ones."""
    borne = (marks.signs(group.run, case, group.cases, group.kind) for group in groups for case in group.cases)
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


def of_columns(lines: list[dict[str, str]], left: int = 3) -> str:
    """A table of lines, each with its cells by the name of the column, without columns that have no value."""
    names = dict.fromkeys(name for line in lines for name in line)
    cells = {name: [line.get(name, columns.NOT_MEASURED) for line in lines] for name in names}
    held = {name: column for name, column in cells.items() if {*column} != {columns.NOT_MEASURED}}
    return table([*held], [list(line) for line in zip(*held.values(), strict=True)], left)


def ladder(run: Results, kernel: Kernel) -> list[str]:
    """The idea of each entry, what it gains at the size with most elements, and its times at every size, cold."""
    measured = dict.fromkeys(c.variant for c in run.cases if c.backend in rivals.OURS and not c.old)
    names = sorted(measured, key=[*kernel.entries, *measured].index)
    ideas = [f"- `{name}`{': ' if (said := idea(texts(kernel), name)) else ''}{said}" for name in names]
    lines = []
    for dtype in dict.fromkeys(case.dtype for case in run.cases):
        of_dtype = [cases for cases in run.groups().values() if cases[0].dtype == dtype]
        timed = [cases for cases in of_dtype if rivals.ours(run, cases, "cold")]
        cases = max(timed or of_dtype, key=lambda cases: elements(cases[0]))
        lines += gains(run, cases, names)
    parts = [LADDER, "\n".join(ideas), of_columns(lines)]
    if len(names) > 1 and len({case.size for case in run.cases}) > 1:
        parts += [ALL_SIZES, of_columns([at_size(run, cases, names) for cases in run.groups().values()], 2)]
    return parts


def entries(cases: list[Case]) -> dict[str, Case]:
    """Our cases of a group by entry: of two backends that run the same entry the one with cold times."""
    ours = [case for backend in reversed(rivals.OURS) for case in cases if case.backend == backend and not case.old]
    return {case.variant: case for case in sorted(ours, key=lambda case: bool(case.times.get("cold")))}


def gains(run: Results, cases: list[Case], names: list[str]) -> list[dict[str, str]]:
    """A line for each entry of a group: its cold time, beside that of the fastest entry above it."""
    there, fastest, lines = entries(cases), None, []
    for case in (there[name] for name in names if name in there):
        line = {
            "dtype": case.dtype,
            "size": case.size,
            "entry": f"`{case.variant}`",
            "µs": entry_time(run, cases, case),
        }
        line |= dict.fromkeys(GAIN, columns.NOT_MEASURED)
        if case.times.get("cold"):
            if fastest:
                ratio = run.ratio(fastest, case, "cold")
                line |= zip(GAIN, (numbers.with_ends(ratio), ratio.verdict()), strict=True)
            line |= reached(run, cases, case)
            fastest = peers.fastest([fastest, case] if fastest else [case], "cold")
        lines.append(line)
    return lines


def at_size(run: Results, cases: list[Case], names: list[str]) -> dict[str, str]:
    """The cold time of every entry in a group, the one that is compared in bold."""
    there = entries(cases)
    return {"size": cases[0].size, "dtype": cases[0].dtype} | {
        short(case): entry_time(run, cases, case) for case in (there[name] for name in names if name in there)
    }


def entry_time(run: Results, cases: list[Case], case: Case) -> str:
    """The cold time of an entry with its marks, in bold if it is compared; what is wrong with it if it has none."""
    if not case.times.get("cold"):
        return without_time(case)
    time = columns.microseconds(case, "cold") + marks.signs(run, case, cases, "cold")
    return f"**{time}**" if case is rivals.ours(run, cases, "cold") else time


def texts(kernel: Kernel) -> list[str]:
    """The texts of a kernel's `.cu` and of the headers that it includes."""
    return [cuda_source.whole(kernel.cu), *cuda_source.headers(kernel.cu)]


def idea(texts: Iterable[str], entry: str) -> str:
    """The first sentence of the comment above an entry in the texts of a `.cu` and its headers; "" if there is none.

    An entry without a comment whose body is one call has the idea of the function that it calls.
    """
    codes = [(text, blank_comments(text)) for text in texts]
    found = [(text, code, one) for text, code in codes for one in cuda_source.global_functions(code) if one[1] == entry]
    if not found:
        return ""
    text, code, function = found[0]
    call = ONE_CALL.match(code, function.end())
    called = re.compile(rf"(?m)^.*\b__device__\b.*\b{call[1]}\(" if call else r"(?!)")
    places = [(text, function.start()), *((text, one.start()) for text, code in codes for one in called.finditer(code))]
    return next(filter(None, (sentence_above(text, at) for text, at in places)), "")


def sentence_above(text: str, at: int) -> str:
    """The first sentence of the comment above a place in a text; "" if there is none."""
    above = text[:at].split("\n")[:-1]
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


def checks(card: Card, kernel: Kernel) -> str:
    """Links to the checks of the kernel that are beside its results."""
    files = (kernel.name, f"{kernel.name}_exhaustive", f"sanitize_{kernel.name}")
    there = [name for name in files if (card.folder / "checks" / f"{name}.json").exists()]
    links = ", ".join(f"[{in_words(name)}]({results(card, f'checks/{name}')})" for name in there)
    return f"Checks on the card: {links}." if links else ""


def picture(card: Card, kernel: Kernel, chart: str) -> str:
    """The plot that `make report` drew, if there is one."""
    file = f"{kernel.name}_{chart}.svg"
    said = f"{kernel.name}: {CHARTS[chart]}"
    return f"![{said}](../../bench/results/{card.name}/{file})" if (card.folder / file).exists() else ""
