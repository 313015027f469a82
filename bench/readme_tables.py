"""Writes README's tables of H200 results from bench/results/h200/*.json; with --check, only says if they differ.

    python bench/readme_tables.py [--check]

Each table stands between `<!-- NAME -->` and `<!-- /NAME -->` in README.md; NAME is a key of TABLES.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from cudalab import results
from cudalab.report import columns
from cudalab.results import Case, Results

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "results" / "h200"


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


TABLES: dict[str, Callable[[], str]] = {"gelu on the H200": gelu, "all kernels on the H200": all_kernels}


def filled(text: str) -> str:
    """`text` with every table of TABLES made anew."""
    for name, make in TABLES.items():
        block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(f"README.md has no <!-- {name} --> ... <!-- /{name} -->")
        text = block.sub(lambda m, make=make: f"{m[1]}{make()}\n{m[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text()
    if filled(text) == text:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit("README.md's tables are not those of bench/results/h200; run: make tables")
    readme.write_text(filled(text))


if __name__ == "__main__":
    main()
