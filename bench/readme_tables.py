"""Writes the tables of H200 results in README.md and bench/METHOD.md from bench/results/h200; --check only compares.

    python bench/readme_tables.py [--check]

Each table stands between `<!-- NAME -->` and `<!-- /NAME -->` in its document; NAME is a key of TABLES.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from cudalab import results, stats
from cudalab.report import columns
from cudalab.results import Case, Results

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "results" / "h200"
ENGINE = FOLDER / "engine"


def gelu() -> str:
    """float32 GELU on every backend: host's share at the small size, the GPU's at the large ones."""
    run = results.load(FOLDER / "gelu.json")
    cases = {(c.size, c.label): c for c in run.cases if c.dtype == "float32" and c.times}
    labels = sorted({label for _, label in cases}, key=lambda label: (cold(cases["xlarge", label]), label))
    rows = [
        [
            "*plain copy*" if label == "copy" else f"`{label}`",
            time(cases["small", label], "call"),
            time(cases["small", label], "graph"),
            time(cases["large", label], "graph"),
            time(cases["large", label], "cold"),
            time(cases["xlarge", label], "cold"),
            share(run, cases["xlarge", label]),
            speedup(run, cases["xlarge", label]),
        ]
        for label in labels
    ]
    head = ["variant", "call", "small, graph", "large, graph", "large, cold", "xlarge, cold", "of copy", "x eager"]
    return table(head, rows) + "\n\n" + footnote(run)


def all_kernels() -> str:
    """Our fastest entry against the best of the others, cold, at the largest size."""
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        run = results.load(path)
        for (kernel, size, dtype), cases in run.groups().items():
            if size != "xlarge":
                continue
            timed = [c for c in cases if c.times and c.status == results.OK]
            ours = min((c for c in timed if c.backend == "pycuda"), key=cold)
            other = min((c for c in timed if not c.variant and c.backend != "pycuda_elementwise"), key=cold)
            rows.append([
                kernel, dtype, f"`{ours.label}`", time(ours, "cold"), share(run, ours), speedup(run, ours),
                f"`{other.label}`", time(other, "cold"), share(run, other),
            ])  # fmt: skip
    head = ["kernel", "dtype", "our fastest", "µs", "of copy", "x eager", "fastest other", "µs", "of copy"]
    return table(head, rows)


def cold(case: Case) -> float:
    return case.median("cold") or float("inf")


def time(case: Case, kind: str) -> str:
    return columns.microseconds(case, kind)


def share(run: Results, case: Case) -> str:
    copy = next(c for c in run.cases if c.group == case.group and c.status == results.CEILING)
    return f"{100 * cold(copy) / cold(case):.1f} %"


def speedup(run: Results, case: Case) -> str:
    value = run.speedup(case, "cold")
    return columns.times(value.value) if value else "-"


def footnote(run: Results) -> str:
    sizes = {c.size: "x".join(map(str, c.shape)) for c in run.cases}
    versions = ", ".join(
        f"{n} {v}" for n, v in run.machine.versions.items() if n in ("torch", "triton", "cupy", "pycuda")
    )
    return (
        f"Medians in µs on an {run.machine.name}, driver {run.machine.details['driver']}, {versions}; "
        f"{', '.join(f'{n} is {s}' for n, s in sizes.items())}. "
        "*call* is host time for one call at the small size; *of copy* and *x eager* are for xlarge, cold. "
        "What the columns mean is in [bench/METHOD.md](bench/METHOD.md)."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def same_with_itself() -> str:
    """The 100 comparisons of a kernel with itself."""
    engine = json.loads((ENGINE / "engine.json").read_text())
    rows = []
    for size in ("small", "large"):
        found = engine[f"A/A {size}"]
        counts = [str(found["verdicts"].get(v, 0)) for v in (stats.SAME, stats.UNCLEAR, stats.FASTER, stats.SLOWER)]
        rows.append([size, *counts, percent(found["largest deviation"]), percent(found["widest interval"])])
    return table(
        ["`gelu_vec` against itself, cold", "SAME", "UNCLEAR", "FASTER", "SLOWER", "largest", "widest interval"], rows
    )


def against_nvbench() -> str:
    """Cold medians of the lab and of NVBench, and what they took."""
    run = results.load(ENGINE / "nvbench.json")
    rows = []
    for case in run.cases:
        if nvbench := case.cross.get("nvbench cold"):
            ours = cold(case)
            both = [f"{1e6 * seconds:.2f}" for seconds in (ours, nvbench)]
            walls = [f"{s:.2f} s" for s in (case.costs["timing"], case.cross["nvbench wall"])]
            rows.append([f"`{case.label}` {case.size}", *both, percent(ours / nvbench - 1, "+"), *walls])
    return table(["cold, µs", "cudalab", "NVBench", "difference", "cudalab's wall time", "NVBench's"], rows)


def by_flush() -> str:
    """Cold medians by the way in which L2 is flushed."""
    found = json.loads((ENGINE / "engine.json").read_text())["flush"]
    ways = list(next(iter(found.values())))
    rows = [[f"`{name}`", *(f"{1e6 * times[way]:.2f}" for way in ways)] for name, times in found.items()]
    return table(["cold, µs", *ways], rows)


def by_size() -> str:
    """What a case costs, by its size."""
    found = json.loads((ENGINE / "engine.json").read_text())["cost"]
    rows = [
        [r["size"], f"{r['array MB']:.0f}", f"{r['seconds a case']:.2f}", f"{r['peak host memory MB']:,.0f}"]
        for r in found
    ]
    return table(["elements", "array MB", "seconds a case", "peak host memory, MB"], rows)


def two_runs() -> str:
    """Speed-ups over eager of two whole runs, the second later by at least ten minutes."""
    one, two = results.load(ENGINE / "gelu_earlier.json"), results.load(FOLDER / "gelu.json")
    rows = []
    for case in one.cases:
        other = next((c for c in two.cases if (c.group, c.label) == (case.group, case.label)), None)
        if case.dtype == "float32" and case.size in ("large", "xlarge") and other and case.backend != "torch_eager":
            before, after = one.speedup(case, "cold"), two.speedup(other, "cold")
            if before and after:
                change = percent(after.value / before.value - 1, "+")
                rows.append([f"`{case.label}` {case.size}", f"{before.value:.3f}", f"{after.value:.3f}", change])
    head = ["x eager, cold, float32", f"run of {one.created[11:16]}", f"run of {two.created[11:16]} UTC", "change"]
    return table(head, rows)


def percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f} %"


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"gelu on the H200": gelu, "all kernels on the H200": all_kernels},
    "bench/METHOD.md": {
        "A/A on the H200": same_with_itself,
        "NVBench on the H200": against_nvbench,
        "flush on the H200": by_flush,
        "cost on the H200": by_size,
        "two runs on the H200": two_runs,
    },
}


def filled(document: str, text: str) -> str:
    """`text` of a document with every one of its tables made anew."""
    for name, make in TABLES[document].items():
        block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(f"{document} has no <!-- {name} --> ... <!-- /{name} -->")
        text = block.sub(lambda m, make=make: f"{m[1]}{make()}\n{m[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    for document in TABLES:
        path = ROOT / document
        text = path.read_text()
        if filled(document, text) == text:
            continue
        if "--check" in sys.argv[1:]:
            raise SystemExit(f"{document}'s tables are not those of bench/results/h200; run: make tables")
        path.write_text(filled(document, text))


if __name__ == "__main__":
    main()
