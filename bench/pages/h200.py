"""The results of the H200 in README.md, docs/h200.md and docs/pytorch.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from cudalab import backends
from cudalab.base import numbers
from cudalab.report import check_table, columns
from cudalab.report.html import roofline
from cudalab.results import marks
from cudalab.results.record import Case, Results
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES
from pages import committed, peers
from pages.committed import legend, table
from pages.peers import KINDS, VERDICTS, Row

PLOTTED = {  # the rows that a plot's alternative text names
    "our gelu_full": "pycuda:gelu_full", "our gelu_vec": "pycuda:gelu_vec",
    "F.gelu": "torch_native", "Triton": "triton", "torch.compile": "torch_compile",
    "eager PyTorch": "torch_eager", "a copy": "copy",
}  # fmt: skip
WHICH = ["kernel", "size", "dtype", "ours", "fastest peer"]
NUMBERS = ["ours, µs", "peer, µs", "speed-up", "95 % interval", "verdict"]
LEFT = len(WHICH)
BAR, BLOCK = 50, "\u2588"  # characters of the longest bar


def gelu() -> str:
    """GELU against the fastest peer of each row, cold, with the errors of both."""
    run = committed.of(committed.FOLDER / "gelu.json")
    found = peers.rows(run, "cold")
    lines = [[*which(row)[1:], *measured(row), error(row.ours), error(row.peer)] for row in found]
    head = [*WHICH[1:], *NUMBERS, "ours: max ULP, rounded", "peer: max ULP, rounded"]
    return "\n\n".join([table(head, lines, LEFT - 1), about(run) + marked(found)])


def summary() -> str:
    """A line for each kernel: rows by verdict for each kind of time, and the geometric mean of the cold ones.

    Kernels without results come last.
    """
    found = {name: {kind: peers.rows(run, kind) for kind in KINDS} for name, run in committed.kernels().items()}
    ordered = sorted(found, key=lambda name: mean_of(found[name]["cold"]))
    lines = []
    for name in ordered:
        run, mean = committed.kernels()[name], peers.mean(found[name]["cold"])
        counts = [peers.counts(found[name][kind]) for kind in KINDS]
        lines.append([name + committed.marks(run), *counts, numbers.with_ends(mean) if mean else columns.NOT_MEASURED])
    lines += [
        [name, *[columns.NOT_MEASURED] * len(KINDS), committed.NOT_YET] for name in find.kernels() if name not in found
    ]
    every = {kind: [row for rows in found.values() for row in rows[kind]] for kind in KINDS}
    total = peers.mean(every["cold"])
    lines.append(["**all**", *map(peers.counts, every.values()), numbers.with_ends(total) if total else ""])
    return legend(table(["kernel", *map(in_words, KINDS), "cold, geometric mean"], lines))


def bars() -> str:
    """A bar for each kernel that was measured: its geometric mean of cold ratios, the worst first."""
    found = {name: peers.mean(peers.rows(run, "cold")) for name, run in committed.kernels().items()}
    older = {name: "*" if committed.marks(run) else "" for name, run in committed.kernels().items()}
    means = sorted((mean.value, name + older[name]) for name, mean in found.items() if mean)
    wide, longest = max(len(name) for _, name in means), max(value for value, _ in means)
    lines = [f"{name:{wide}}  {value:.2f}  {BLOCK * round(BAR * value / longest)}" for value, name in means]
    said = ["", "\\* measured before today's form of the kernel or the lab."] if any(older.values()) else []
    return "\n".join(["```text", *lines, "```", *said])


def means() -> str:
    """The geometric means of each kernel, for each kind of time."""
    found = {
        name: {kind: peers.mean(peers.rows(run, kind)) for kind in KINDS} for name, run in committed.kernels().items()
    }
    ordered = sorted(found, key=lambda name: mean.value if (mean := found[name]["cold"]) else 0.0)
    lines = [
        [
            name + committed.marks(committed.kernels()[name]),
            *(numbers.with_ends(m) if m else columns.NOT_MEASURED for m in found[name].values()),
        ]
        for name in ordered
    ]
    return legend(table(["kernel", *map(in_words, KINDS)], lines))


def mean_of(rows: Iterable[Row]) -> float:
    mean = peers.mean(rows)
    return mean.value if mean else 0.0


def by_kind(kind: str) -> Callable[[], str]:
    """Every row of a kind of time, where a peer leads most first."""

    def made() -> str:
        found = peers.worst_first(row for run in committed.kernels().values() for row in peers.rows(run, kind))
        cold = kind == "cold"
        lines = [[*which(row), *measured(row), *(copies(row) if cold else [])] for row in found]
        counted = ", ".join(f"{n} {v}" for n, v in zip(peers.counts(found).split(" / "), VERDICTS, strict=False))
        unequal = sum(not row.equal for row in found)
        said = f"{len(found)} rows: {counted}" + (f", {unequal} {peers.UNEQUAL}" if unequal else "") + "."
        head = [*WHICH, *NUMBERS, *(["ours, % copy", "peer, % copy"] if cold else [])]
        return legend("\n\n".join([said, table(head, lines, LEFT), *filter(None, [marked(found).strip()])]))

    return made


def which(row: Row) -> list[str]:
    """The cells below WHICH."""
    case = row.ours
    return [case.kernel + committed.marks(row.run), case.size, case.dtype, f"`{case.variant}`", f"`{row.peer.label}`"]


def measured(row: Row) -> list[str]:
    """The cells below NUMBERS."""
    interval = numbers.ends(row.ratio.low, row.ratio.high)
    return [row.time(row.ours), row.time(row.peer), numbers.ratio(row.ratio), interval, row.verdict]


def copies(row: Row) -> list[str]:
    """The copy's time in percent of ours and of the peer's."""
    return [columns.share(row.run, case, marks.ceiling(row.cases)) for case in (row.ours, row.peer)]


def in_words(kind: str) -> str:
    return kind.replace("_", " ")


def marked(found: Iterable[Row]) -> str:
    """What the marks on the times of some rows say."""
    borne = "".join(marks.signs(r.run, c, r.cases, r.kind) for r in found for c in (r.ours, r.peer))
    return "".join(f" `{mark}` {text}." for mark, text in marks.MARKS.items() if mark in borne)


def error(case: Case) -> str:
    """The largest error in ULP, and the share of results that is correctly rounded."""
    return f"{columns.verdict(case)}, {numbers.of_all(case.parity.rounded)}" if case.parity else columns.NOT_MEASURED


def errors() -> str:
    """For each kernel and dtype: errors and budgets of ours and of each peer that is the fastest of some row."""
    lines = []
    for name, run in committed.kernels().items():
        rows = [row for kind in KINDS for row in peers.rows(run, kind)]
        for dtype in dict.fromkeys(row.ours.dtype for row in rows):
            of_dtype = [row for row in rows if row.ours.dtype == dtype]
            labels = [dict.fromkeys(c.label for c in side) for side in zip(*((r.ours, r.peer) for r in of_dtype))]
            for i, label in enumerate([*labels[0], *labels[1]]):
                cases = [c for c in run.cases if (c.dtype, c.label) == (dtype, label) and c.parity]
                first = [name + committed.marks(run), dtype] if i == 0 else ["", ""]
                lines.append([*first, f"`{label}`", *summed_up(cases), budget(cases[0])])
    return legend(table(["kernel", "dtype", "variant", "max ULP", "rounded", "budget, ULP"], lines, 3))


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


def files() -> str:
    """Commit, date, machine, processes and the cost of two events of each file."""
    lines = []
    for name, run in committed.kernels().items():
        processes = max((len(p) for case in run.cases for p in case.processes.values()), default=1)
        lines.append([
            f"[{name}](../bench/results/h200/{name}.json){committed.marks(run)}", run.created[:16].replace("T", " "),
            run.machine.name, str(run.machine.details.get("driver", "-")),
            f"`{run.commit[:12]}{'+' * run.commit.endswith('+')}`" if run.commit else "-", str(processes),
            event_pair(run),
        ])  # fmt: skip
    commits = {run.commit for run in committed.kernels().values()}
    said = "Commit `-`: the file does not say it." if "" in commits else ""
    said += " Commit `+`: with changes to it." if any(commit.endswith("+") for commit in commits) else ""
    if len(commits) > 1:
        said += f" The files come from {len(commits)} commits."
    head = ["results", "measured, UTC", "machine", "driver", "commit", "processes", "empty event pair, µs"]
    return "\n\n".join(filter(None, [legend(table(head, lines, 5)), said.strip()]))


def event_pair(run: Results) -> str:
    """What two events with nothing between them take on the file's machine, in µs."""
    taken = run.calibration.get("empty event pair")
    return f"{1e6 * median(taken):.1f}" if taken else "-"


def variants() -> str:
    """float32 GELU on every backend, by the times that mean the same for all of them."""
    run = committed.of(committed.FOLDER / "gelu.json")
    cases = {(c.size, c.label): c for c in run.cases if c.dtype == "float32" and c.times}
    groups = {size: [c for (of, _), c in cases.items() if of == size] for size, _ in cases}

    def cell(size: str, label: str, kind: str) -> str:
        case = cases[size, label]
        text = columns.microseconds(case, kind)
        return text if text == columns.NOT_MEASURED else text + marks.signs(run, case, groups[size], kind)

    labels = sorted({label for _, label in cases}, key=lambda label: cases["xlarge", label].median("cold") or 0.0)
    lines = []
    for label in labels:
        largest = cases["xlarge", label]
        ratio = run.speedup(largest, "cold")
        own = largest is run.baseline(largest)
        lines.append([
            "*copy*" if label == "copy" else f"`{label}`",
            cell("small", label, "api"), cell("small", label, "graph"),
            *(cell(size, label, "cold") for size in ("small", "large", "xlarge")),
            columns.share(run, largest, marks.ceiling(groups["xlarge"])),
            "1" if own else numbers.with_ends(ratio) if ratio else columns.NOT_MEASURED,
            columns.NOT_MEASURED if own or not ratio else ratio.verdict(),
        ])  # fmt: skip
    head = ["variant", "small, api", "small, graph", "small, cold", "large, cold", "xlarge, cold", "xlarge, % copy",
            "xlarge, x eager", "verdict"]  # fmt: skip
    borne = "".join(cell(size, label, kind) for size, label in cases for kind in ("api", "graph", "cold"))
    said = "".join(f" `{mark}` {text}." for mark, text in marks.MARKS.items() if mark in borne)
    return table(head, lines) + "\n\n" + about(run) + said


def about(run: Results) -> str:
    """Machine, versions, sizes, date and commit of a file."""
    sizes = {c.size: "x".join(map(str, c.shape)) for c in run.cases}
    named = ("torch", "triton", "cupy", "pycuda")
    versions = ", ".join(f"{n} {v}" for n, v in run.machine.versions.items() if n in named)
    commit = f", commit {run.commit[:12]}" if run.commit else ""
    return (
        f"Medians in µs on an {run.machine.name}, driver {run.machine.details['driver']}, {versions}, "
        f"{run.created[:10]}{commit}; {', '.join(f'{n} is {s}' for n, s in sizes.items())}."
    )


def cost_of_a_call() -> str:
    """Host time of a call as a user makes it, with the allocation of its result."""
    run = committed.of(committed.FOLDER / "gelu.json")
    cases = {(c.label, c.dtype): c for c in run.cases if c.size == "small"}
    ours = {c.label for c in cases.values() if ":gelu_" in c.label and "api" in c.times}
    labels = ("torch_native", *sorted(ours), "torch_script", "triton", "torch_compile")
    dtypes = ("float32", "float16", "bfloat16")
    lines = []
    for label in labels:
        found = [cases[label, dtype] for dtype in dtypes]
        lines.append([f"`{label}`", *(columns.microseconds(c, "api") if c.times else "-" for c in found)])
    return table(["api, µs, small", *dtypes], lines)


def speedup_plot() -> str:
    """The speed-up plot that `make report` draws; its alternative text has the numbers."""
    run = committed.of(committed.FOLDER / "gelu.json")
    at = {c.label: c for c in run.cases if (c.size, c.dtype) == ("xlarge", "float32") and c.times}
    ratios = {name: run.speedup(at[label], "cold") for name, label in PLOTTED.items()}
    said = [f"{name} {'1' if name == 'eager PyTorch' else numbers.ratio(r)}" for name, r in ratios.items() if r]
    return (
        f"![Speed-up over eager PyTorch, cold, xlarge: {', '.join(said)} times](../bench/results/h200/gelu_speedup.svg)"
    )


def bandwidth_plot() -> str:
    """The plot of bandwidth against size; its alternative text has the numbers."""
    run = committed.of(committed.FOLDER / "gelu.json")
    found = {(c.size, c.label): columns.bandwidth(c, "cold") for c in run.cases if c.dtype == "float32" and c.times}
    said = [
        f"{name} {found['small', label]} GB/s at small and {found['xlarge', label]} at xlarge"
        for name, label in PLOTTED.items()
    ]
    return f"![Bandwidth against size, cold: {', '.join(said)}](../bench/results/h200/gelu_bandwidth.svg)"


def accuracy_plot() -> str:
    """The plot of correctly rounded bfloat16 results; its alternative text has the numbers."""
    run = committed.of(committed.FOLDER / "checks" / "gelu.json")
    at = check_table.CHECK_HEADERS.index("rounded")
    rows = {cells[2]: cells[at] for cells, _ in check_table.check_rows(run) if cells[1] == "bfloat16"}
    said = [f"{name} {rows[label]}" for name, label in PLOTTED.items() if label in rows]
    text = f"Share of bfloat16 results that are correctly rounded: {', '.join(said)}"
    return f"![{text}](../bench/results/h200/gelu_accuracy.svg)"


def roofline_plot() -> str:
    """The roofline of the matrix product; its alternative text has the rates and the roofs."""
    run = committed.of(committed.FOLDER / "matmul.json")
    found = roofline.figure(run, [c for c in run.cases if (c.size, c.dtype) == ("xlarge", "float32")])
    if isinstance(found, str):
        raise SystemExit(f"no roofline of matmul: {found}")
    return f"![Roofline of matmul, float32, xlarge. {found.says}](../bench/results/h200/matmul_roofline.svg)"
