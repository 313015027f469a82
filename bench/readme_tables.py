"""Writes the generated parts of the documents, from bench/results/h200 and from the commands' help.

    python bench/readme_tables.py [--check]

--check compares and writes nothing. Each part stands between `<!-- NAME -->` and `<!-- /NAME -->` in its document;
NAME is a key of TABLES. The parts of docs/inspect.md are compiled, with nvcc 13.0 and nvdisasm: without them that
page stays as it is.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from click.testing import CliRunner

from cudalab import registry, results, source, stats
from cudalab.cli import main as main_command
from cudalab.inspection import inspect, tools
from cudalab.report import columns, inspection, study
from cudalab.results import Case, Results
from cudalab.study import found

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "results" / "h200"
ENGINE = FOLDER / "engine"
MARK = "\u2020"
NVCC = "13.0"  # another release makes other machine code, and so other numbers in docs/inspect.md
COMPILED = "docs/inspect.md"
PLOTTED = {  # the rows that a plot's alternative text names
    "our gelu_full": "pycuda:gelu_full", "our gelu_vec": "pycuda:gelu_vec",
    "F.gelu": "torch_native", "Triton": "triton", "torch.compile": "torch_compile",
    "eager PyTorch": "torch_eager", "a copy": "copy",
}  # fmt: skip


def gelu() -> str:
    """float32 GELU on every backend: host time at the small size, GPU times at all three."""
    run = results.load(FOLDER / "gelu.json")
    cases = {(c.size, c.label): c for c in run.cases if c.dtype == "float32" and c.times}
    labels = sorted({label for _, label in cases}, key=lambda label: (cold(cases["xlarge", label]), label))
    rows = [
        [
            "*copy*" if label == "copy" else f"`{label}`",
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


def sixteen_bits() -> str:
    """Speed-ups over the erff forms in 16 bits, where instructions bound those."""
    run = results.load(FOLDER / "gelu.json")
    said = []
    for dtype in ("float16", "bfloat16"):
        at = {c.label: c for c in run.cases if (c.size, c.dtype) == ("xlarge", dtype) and c.times}
        ours, others = at["pycuda:gelu_vec"], ("torch_native", "torch_compile")
        native, compiled = (cold(at[label]) / cold(ours) for label in others)
        said.append(
            f"{dtype} at xlarge takes our `gelu_vec` {time(ours, 'cold')} µs, {share(run, ours)} of a copy's speed: "
            f"{native:.2f} times that of F.gelu, {compiled:.2f} times that of torch.compile"
        )
    return "; ".join(said) + "."


def cost_of_a_call() -> str:
    """Host time of a call as a user makes it."""
    run = results.load(FOLDER / "gelu.json")
    cases = {(c.label, c.dtype): c for c in run.cases if c.size == "small"}
    ours = {c.label for c in cases.values() if ":gelu_" in c.label and "api" in c.times}
    labels = ("torch_native", *sorted(ours), "torch_script", "triton", "torch_compile")
    dtypes = ("float32", "float16", "bfloat16")
    rows = []
    for label in labels:
        found = [cases[label, dtype] for dtype in dtypes]
        rows.append([f"`{label}`", *(time(c, "api") if c.times else "-" for c in found)])
    return table(["api, µs, small", *dtypes], rows)


def speedup_plot() -> str:
    """The speed-up plot, with its numbers as alternative text."""
    run = results.load(FOLDER / "gelu.json")
    at = {c.label: c for c in run.cases if (c.size, c.dtype) == ("xlarge", "float32") and c.times}
    said = [f"{name} {speedup(run, at[label])}" for name, label in PLOTTED.items()]
    return f"![Speed-up over eager PyTorch, cold, xlarge: {', '.join(said)} times](bench/results/h200/gelu_speedup.svg)"


def bandwidth_plot() -> str:
    """The bandwidth plot, with its numbers as alternative text."""
    run = results.load(FOLDER / "gelu.json")
    found = {(c.size, c.label): c.bandwidth("cold") for c in run.cases if c.dtype == "float32" and c.times}
    said = [
        f"{name} {columns.three((found['small', label] or 0) / 1e9)} GB/s at small and "
        f"{columns.three((found['xlarge', label] or 0) / 1e9)} at xlarge"
        for name, label in PLOTTED.items()
    ]
    return f"![Bandwidth against size, cold: {', '.join(said)}](../bench/results/h200/gelu_bandwidth.svg)"


def accuracy_plot() -> str:
    """The plot of correctly rounded bfloat16 results, with its numbers as alternative text."""
    run = results.load(FOLDER / "checks" / "gelu.json")
    rows = {cells[2]: cells for cells, _ in columns.check_rows(run) if cells[1] == "bfloat16"}
    said = [f"{name} {rows[label][5]}" for name, label in PLOTTED.items() if label in rows]
    text = f"Share of bfloat16 results that are correctly rounded: {', '.join(said)}"
    return f"![{text}](../bench/results/h200/gelu_accuracy.svg)"


def all_kernels() -> str:
    """Our fastest entry and the fastest peer of each kernel and dtype, cold, at xlarge."""
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        run = results.load(path)
        for (kernel, size, dtype), cases in run.groups().items():
            if size != "xlarge":
                continue
            timed = [c for c in cases if c.times and c.status == results.OK]
            ours = min((c for c in timed if c.backend == "pycuda"), key=cold)
            other = min((c for c in timed if not c.variant and c.backend != "pycuda_elementwise"), key=cold)
            name = kernel + MARK * changed(run)
            rows.append([
                name, dtype, f"`{ours.label}`", time(ours, "cold"), share(run, ours), speedup(run, ours),
                f"`{other.label}`", time(other, "cold"), share(run, other),
            ])  # fmt: skip
    head = ["kernel", "dtype", "our fastest", "µs", "of copy", "x eager", "fastest other", "µs", "of copy"]
    said = f"{MARK} measured before the kernel took its present form."
    return "\n\n".join([table(head, rows), *([said] if any(MARK in row[0] for row in rows) else [])])


def changed(run: Results) -> bool:
    """True if the kernel's `.cu` has changed since it was measured."""
    kernel = registry.kernel(run.cases[0].kernel)
    return run.sources[kernel.cu.name] != source.digest(kernel.cu)


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
        "The raw samples are in [bench/results/h200](bench/results/h200/gelu.json)."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def same_with_itself() -> str:
    """100 comparisons of a kernel with itself."""
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
    """Cold medians of the lab and of NVBench, and the wall time of each measurement."""
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
    """Cold medians by flush method."""
    found = json.loads((ENGINE / "engine.json").read_text())["flush"]
    ways = list(next(iter(found.values())))
    rows = [[f"`{name}`", *(f"{1e6 * times[way]:.2f}" for way in ways)] for name, times in found.items()]
    return table(["cold, µs", *ways], rows)


def by_size() -> str:
    """Seconds and host memory of a case, by size."""
    found = json.loads((ENGINE / "engine.json").read_text())["cost"]
    rows = [
        [r["size"], f"{r['array MB']:.0f}", f"{r['seconds a case']:.2f}", f"{r['peak host memory MB']:,.0f}"]
        for r in found
    ]
    return table(["elements", "array MB", "seconds a case", "peak host memory, MB"], rows)


def two_runs() -> str:
    """Speed-ups over eager PyTorch in two whole runs, more than ten minutes apart."""
    one, two = packed(ENGINE / "gelu_earlier.json.gz"), packed(ENGINE / "gelu_later.json.gz")
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


def packed(path: Path) -> Results:
    """The results in a .json.gz file."""
    with tempfile.TemporaryDirectory() as folder:
        (unpacked := Path(folder, path.stem)).write_bytes(gzip.decompress(path.read_bytes()))
        return results.load(unpacked)


def percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f} %"


def timed() -> str:
    """float32 GELU at xlarge, in a terminal with room for all columns."""
    return typed(columns.WIDE, "gelu.json", "--dtypes", "float32", "--sizes", "xlarge")


def bars() -> str:
    """The bars of float16 GELU at small, without the table above them."""
    fence, *text = typed(80, "gelu.json", "--dtypes", "float16", "--sizes", "small", "--plots").split("\n\n")
    drawn = next(part for part in text if "\u2588" in part)
    return f"{fence.splitlines()[0]}\n{fence.splitlines()[1]}\n...\n{drawn}\n...\n```"


def checked() -> str:
    """A check of float16 GELU."""
    return typed(80, "checks/gelu.json", "--dtypes", "float16")


def typed(width: int, file: str, *options: str) -> str:
    """A console block: `cudalab show` of a committed file, and its output at this width."""
    output = printed("show", str(FOLDER / file), *options, width=width)
    return f"```console\n$ cudalab show bench/results/h200/{file} {' '.join(options)}\n{output}\n```"


def predictions() -> str:
    """Times that `cudalab inspect` predicts for our fastest entries at xlarge, beside the measured ones.

    Left out: kernels with long loops, which take half a minute to follow, and kernels that changed since.
    """
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        run = results.load(path)
        if path.stem in ("bias_gelu", "layernorm", "sum") or changed(run):
            continue
        ours = [c for c in run.cases if c.backend == "pycuda" and c.size == "xlarge" and c.times]
        for dtype in dict.fromkeys(case.dtype for case in ours):
            fastest = min((case for case in ours if case.dtype == dtype), key=cold).variant
            (one,) = inspect(path.stem, dtype, fastest, file=path)
            assert one.bounds is not None
            rows.append([
                f"`{one.entry}`", one.dtype, f"{one.instructions:.3g}", one.bounds.name,
                columns.significant(1e6 * one.bounds.predicted, 4), columns.significant(1e6 * (one.measured or 0), 4),
                columns.times(one.ratio or 0),
            ])  # fmt: skip
    return table(["entry", "dtype", "instructions", "bound by", "predicted", "measured", "measured / predicted"], rows)


def studies() -> str:
    """The question of each study, and its answer on the H200."""
    rows = []
    for name, one in found.studies().items():
        path = FOLDER / "studies" / f"{name}.json"
        said = study.finding(results.load(path)) if path.exists() else "*not measured yet*"
        rows.append([text.replace("|", "\\|") for text in (f"`{name}`", one.summary, said)])
    lines = [["study", "what it asks", "what an H200 says"], ["---"] * 3, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def inspected() -> str:
    """`cudalab inspect` of bfloat16 GELU, 80 columns wide."""
    found = inspect("gelu", "bfloat16", "gelu_vec", file=FOLDER / "gelu.json")
    words = "gelu --dtypes bfloat16 --only gelu_vec --results bench/results/h200/gelu.json"
    return f"```console\n$ cudalab inspect {words}\n{inspection.render(found, 80, False)}\n```"


@functools.cache
def compiler() -> str:
    """The release of nvcc, such as 13.0; "" if nvcc or nvdisasm is missing."""
    nvcc = tools.cuda.nvcc()
    if not nvcc or not tools.nvdisasm():
        return ""
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", said)
    return release[1] if release else ""


def commands() -> str:
    """The `--help` of each command."""
    names = click.Context(main_command).command.list_commands(click.Context(main_command))  # type: ignore[attr-defined]
    return "\n\n".join(f"## cudalab {name}\n```\n{printed(name, '--help')}\n```" for name in names)


def printed(*words: str, width: int = 80) -> str:
    """The output of a command at this width."""
    run = CliRunner().invoke(main_command, words, prog_name="cudalab", env={"COLUMNS": str(width), "NO_COLOR": "1"})
    return run.output.strip()


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "gelu on the H200": gelu,
        "speed-up on the H200": speedup_plot,
        "16 bits on the H200": sixteen_bits,
        "studies": studies,
    },
    "docs/pytorch.md": {"cost of a call": cost_of_a_call},
    "docs/h200.md": {
        "all kernels on the H200": all_kernels,
        "bandwidth on the H200": bandwidth_plot,
        "accuracy on the H200": accuracy_plot,
    },
    "docs/table.md": {"a run": timed, "bars": bars, "a check": checked},
    "docs/commands.md": {"commands": commands},
    "docs/inspect.md": {"inspected": inspected, "predictions": predictions},
    "bench/METHOD.md": {
        "A/A on the H200": same_with_itself,
        "NVBench on the H200": against_nvbench,
        "flush on the H200": by_flush,
        "cost on the H200": by_size,
        "two runs on the H200": two_runs,
    },
}


def filled(document: str, text: str) -> str:
    """`text` of a document with its generated parts made anew."""
    for name, make in TABLES[document].items():
        block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(f"{document} has no <!-- {name} --> ... <!-- /{name} -->")
        text = block.sub(lambda m, make=make: f"{m[1]}{make()}\n{m[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    for document in TABLES:
        if document == COMPILED and compiler() != NVCC:
            print(f"{document} is left as it is: it needs nvcc {NVCC} and nvdisasm", file=sys.stderr)
            continue
        path = ROOT / document
        text = path.read_text()
        new = filled(document, text)
        if new == text:
            continue
        if "--check" in sys.argv[1:]:
            raise SystemExit(f"{document}'s tables are not up to date; run: make tables")
        path.write_text(new)


if __name__ == "__main__":
    main()
